"""The browsers that are measured, and what each of them is to be given."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass

from interop import chromium, firefox
from interop.browser import Browser
from interop.chromium import ChromiumConfig

JITTER_RTT = 0.1
"""By how much a start towards us may seem longer than one between two of the same browser.

That is what two medians of nine of the very same start differ by on a machine that does other
things as well (20 ms at 200 ms). It is not granted to targets that are numbers.
"""
AUDIBLE_RTT = 1.0
AUDIBLE_MS = 60.0
"""The first sound of the server's can be heard this long after the client is connected, at most."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """The most that a start may cost, in round trips from the offer; None: as the baseline."""

    connected_rtt: float | None = None
    channel_rtt: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Client:
    """A browser as somebody has set it up."""

    name: str
    title: str
    launch: Callable[[], AbstractAsyncContextManager[Browser]]
    target: Target


def _chromium(config: ChromiumConfig) -> Callable[[], AbstractAsyncContextManager[Browser]]:
    return lambda: chromium.launch(config)


CLIENTS = {
    client.name: client
    for client in (
        Client(
            name="chromium-warp-no-pq",
            title="Chromium, trials SPED + SNAP, PQ off",
            launch=_chromium(ChromiumConfig(sped=True, snap=True, pqc=False)),
            target=Target(connected_rtt=2.2, channel_rtt=2.2),
        ),
        Client(
            name="chromium-warp",
            title="Chromium, trials SPED + SNAP, PQ on",
            launch=_chromium(ChromiumConfig(sped=True, snap=True)),
            target=Target(connected_rtt=2.7, channel_rtt=2.7),
        ),
        Client(
            name="chromium",
            title="Chromium, default flags",
            launch=_chromium(ChromiumConfig()),
            target=Target(),
        ),
        Client(
            name="firefox",
            title="Firefox, default",
            launch=lambda: firefox.launch(),
            target=Target(),
        ),
    )
}
