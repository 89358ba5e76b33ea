"""A session before the first packet: signalling that never waits, and the way in without it.

    GET a bundle ─▶ client ── first datagram ──▶ entrance ─▶ sessions ─▶ warp's connections
    POST an offer ─▶ signalling ─▶ answers ──┘ (a sealed ufrag; no session)
                                    ticket · keyring · replay · tiers · admission · router · host
    io/  sockets and HTTP routes       web/  the page and its modules

    async with Client(CallerConfig(url="https://voice.example")) as client:
        await client.prepare()           # tickets, ahead of time
        call = await client.call()       # by its first datagram; call.session is connected

Raises ImportError when another distribution's `warp` (NVIDIA's `warp-lang`) is installed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

try:
    import warp.contract as _contract
except ModuleNotFoundError as error:
    raise ImportError(
        "the `warp` in this environment is not warp-rtc's: NVIDIA's warp-lang has the same import "
        "name, and the two cannot share an environment"
    ) from error

del _contract

if TYPE_CHECKING:
    from instant_connect.io.caller import CallerConfig
    from instant_connect.io.caller import InstantCaller as Client

__all__ = ["CallerConfig", "Client"]


def __getattr__(name: str) -> Any:
    # whoever uses only the rules opens no sockets, and imports none
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from instant_connect.io import caller

    return caller.InstantCaller if name == "Client" else caller.CallerConfig
