"""One start by a page, and what the server had of it in the end."""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass

from interop.browser import BrowserError, Page
from interop.instant.modes import Mode, spoil
from interop.instant.site import InstantSite
from interop.wire import Rule, Rung

_PATIENCE_S = 30.0
_AFTER_S = 0.3
"""After it is connected, and a round trip more: what came late has come by then."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Start:
    """What one start has come to; times in milliseconds after the click."""

    path: str
    marks: dict[str, float]
    sessions: int
    """How many sessions the server has begun for it."""
    ladder: tuple[tuple[float, bool, bytes], ...] = ()
    """Every datagram: milliseconds after the click, whether the page sent it, its bytes."""

    @property
    def connected_ms(self) -> float:
        """When DTLS was done, at the page."""
        return self.marks["dtls"]


async def start_call(page: Page, site: InstantSite, mode: Mode, rtt_s: float) -> Start:
    """Let the page call once. Raises PageFailed when it does not get through."""
    wire = site.far.wire
    site.far.edit_bundle = spoil if mode.is_stale else None
    options = {"offerUrl": "/v1/realtime/calls"}
    if mode.uses_bundle:
        options["bundleUrl"] = "/v1/instant"
    problem = await page.call("prepare", options)
    if mode.uses_bundle and problem:
        raise BrowserError(f"{mode.name}: the page is not ready: {problem}")
    site.begun.clear()
    wire.rungs.clear()
    wire.rule = _loses(mode.lost)
    try:
        made = await page.call("start", timeout_s=_PATIENCE_S)
        await asyncio.sleep(rtt_s + _AFTER_S)
        path = await page.call("end", timeout_s=_PATIENCE_S)
        sessions = len(site.begun)
    finally:
        wire.rule = None
    clicked = made["clicked"] / 1000 - time.time() + time.monotonic()
    ladder = tuple((1000 * at, not rung.ours, rung.data) for at, rung in wire.since(clicked))
    await _ended(site)
    return Start(path=path, marks=made["marks"], sessions=sessions, ladder=ladder)


def _loses(count: int) -> Rule:
    left = count

    def rule(rung: Rung) -> float | None:
        nonlocal left
        if rung.ours or not left:
            return 0.0
        left -= 1
        return None

    return rule


async def _ended(site: InstantSite) -> None:
    """Wait until the server has seen the end of the call."""
    async with asyncio.timeout(_PATIENCE_S):
        while site.server.server.sessions:
            await asyncio.sleep(0.01)
