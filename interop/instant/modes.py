"""The four ways in which a start is made, and what each of them may cost."""

from __future__ import annotations

from base64 import b64decode, b64encode
from dataclasses import dataclass
from typing import Any

INSTANT_GAIN_RTT = 0.8
"""A call that begins with its first packet is connected so much earlier than a signalled one."""
STALE_COST_MS = 30.0
"""So much later at most is one whose tickets are worth nothing."""
LOST_DATAGRAMS = 3
_SEALED = 40  # a byte of a ticket that its tag covers


@dataclass(frozen=True, slots=True, kw_only=True)
class Mode:
    """One way of starting."""

    name: str
    uses_bundle: bool = True
    is_stale: bool = False
    lost: int = 0
    """How many of the page's first datagrams are lost."""
    paths: frozenset[str]
    """What the page may call the way that its call has taken."""

    def limit_ms(self, standard_ms: float, rtt_ms: float) -> float | None:
        """Return the latest median of click to connected; None where none is set."""
        if self.is_stale:
            return standard_ms + STALE_COST_MS
        if self.uses_bundle and not self.lost:
            return standard_ms - INSTANT_GAIN_RTT * rtt_ms
        return None


_JOINED = frozenset({"instant", "attached"})
MODES = {
    mode.name: mode
    for mode in (
        Mode(name="standard", uses_bundle=False, paths=frozenset({"signalled"})),
        Mode(name="instant", paths=_JOINED),
        Mode(name="stale", is_stale=True, paths=frozenset({"stale"})),
        Mode(name="lost", lost=LOST_DATAGRAMS, paths=_JOINED),
    )
}


def spoil(bundle: dict[str, Any]) -> None:
    """Make every ticket of a bundle one that no server opens."""
    for ticket in bundle["tickets"]:
        raw = bytearray(b64decode(ticket["t"]))
        raw[_SEALED] ^= 1
        ticket["t"] = b64encode(raw).decode("ascii")
