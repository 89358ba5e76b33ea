"""A session before the first packet: signalling that never waits, and the way in without it.

    GET a bundle ─▶ client ── first datagram ──▶ entrance ─▶ sessions ─▶ warp's connections
    POST an offer ─▶ signalling ─▶ answers ──┘ (a sealed ufrag; no session)
                                    ticket · keyring · replay · tiers · admission · router · host
    io/  sockets and HTTP routes       web/  the page and its modules

Raises ImportError when another distribution's `warp` (NVIDIA's `warp-lang`) is installed.
"""

from __future__ import annotations

try:
    import warp.contract as _contract
except ModuleNotFoundError as error:
    raise ImportError(
        "the `warp` in this environment is not warp-rtc's: NVIDIA's warp-lang has the same import "
        "name, and the two cannot share an environment"
    ) from error

del _contract
