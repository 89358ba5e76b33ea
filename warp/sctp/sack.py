"""Which TSNs have arrived, and when to say so (RFC 9260 section 6.2).

Owned by `inbound`. TSNs are kept as plain integers that never wrap; the wire's 32 bits are
extended against the cumulative point.

    DATA ──note──▶ cumulative point, ranges above it ──end_packet──▶ SACKs ready / due / delayed
"""

from __future__ import annotations

from bisect import bisect_right
from typing import Final

from warp.errors import Discard
from warp.sctp.chunks import encode_sack
from warp.sctp.reasons import SctpDiscard
from warp.serial import extend32

MASK32: Final = 0xFFFFFFFF
MAX_AHEAD: Final = 65535
"""A TSN further ahead could not be reported: gap offsets have 16 bits (section 3.3.4)."""
_MAX_REPORTED: Final = 20
_PACKETS_PER_SACK: Final = 2
_MAX_READY: Final = 4


class ReceiveTracker:
    """The receiver's half of the acknowledgement machinery.

    A SACK is fixed at every second packet, or at once when there is news that cannot wait. When a
    batch of packets comes in before the next drain, the first few SACKs are kept one by one, since
    the peer's slow start and fast retransmit count SACKs; the rest are merged into one.
    """

    __slots__ = (
        "_duplicates",
        "_ends",
        "_ready",
        "_started",
        "advertised",
        "cumulative",
        "due",
        "immediate",
        "pending",
        "pending_since",
        "starts",
    )

    def __init__(self, peer_initial_tsn: int, advertised: int) -> None:
        self.cumulative = peer_initial_tsn - 1
        self.starts: list[int] = []
        self._ends: list[int] = []
        self._duplicates: list[int] = []
        self._ready: list[bytes] = []
        self._started = False
        self.advertised = advertised
        self.pending = 0
        self.pending_since = 0.0
        self.immediate = False
        self.due = False

    def note(self, wire_tsn: int) -> int | None:
        """Record an arrival; return its TSN, or None for a duplicate. Raises Discard if too far."""
        cumulative = self.cumulative
        tsn = extend32(wire_tsn, cumulative)
        if tsn <= cumulative:
            self._note_duplicate(wire_tsn)
            return None
        if tsn - cumulative > MAX_AHEAD:
            raise Discard(SctpDiscard.TSN_TOO_FAR, f"{tsn - cumulative} ahead")
        starts, ends = self.starts, self._ends
        if tsn == cumulative + 1:
            self.cumulative = tsn
            if starts:
                self.immediate = True
                self._absorb()
            return tsn
        self.immediate = True
        after = bisect_right(starts, tsn)
        if after and tsn <= ends[after - 1]:
            self._note_duplicate(wire_tsn)
            return None
        joins_left = after > 0 and ends[after - 1] == tsn - 1
        joins_right = after < len(starts) and starts[after] == tsn + 1
        if joins_left and joins_right:
            ends[after - 1] = ends[after]
            del starts[after], ends[after]
        elif joins_left:
            ends[after - 1] = tsn
        elif joins_right:
            starts[after] = tsn
        else:
            starts.insert(after, tsn)
            ends.insert(after, tsn)
        return tsn

    def forward(self, cumulative: int) -> None:
        """Move the cumulative point because the peer will not send what is missing (RFC 3758)."""
        self.cumulative = cumulative
        keep = bisect_right(self.starts, cumulative)
        if keep and self._ends[keep - 1] > cumulative:
            self.cumulative = self._ends[keep - 1]
        del self.starts[:keep], self._ends[:keep]
        self._absorb()
        self.immediate = True

    def end_packet(self, now: float) -> bool:
        """Count one packet that carried DATA or FORWARD-TSN; tell whether a SACK is called for."""
        if not self.pending:
            self.pending_since = now
        self.pending += 1
        return self.immediate or self.pending >= _PACKETS_PER_SACK or not self._started

    def fix_sack(self, window: int) -> None:
        """Write down the SACK that `end_packet` called for."""
        self._started = True
        if len(self._ready) < _MAX_READY:
            self._ready.append(self.build(window))
        else:
            self.due = True

    def take_sacks(self, window: int) -> list[bytes]:
        """Drain the SACKs to send now: fixed ones, and one more for what came after them."""
        sacks = self._ready
        if sacks:
            self._ready = []
        if self.due or not sacks:
            sacks.append(self.build(window))
        return sacks

    @property
    def has_news(self) -> bool:
        """Whether a SACK has to leave now."""
        return self.due or bool(self._ready)

    def build(self, window: int) -> bytes:
        """Return a SACK chunk for the present state; nothing is pending after it."""
        self.pending = 0
        self.immediate = False
        self.due = False
        self.advertised = window
        cumulative = self.cumulative
        if not self.starts and not self._duplicates:
            return encode_sack(cumulative & MASK32, window)
        gaps = [
            (start - cumulative, end - cumulative)
            for start, end in zip(
                self.starts[:_MAX_REPORTED], self._ends[:_MAX_REPORTED], strict=True
            )
        ]
        duplicates, self._duplicates = self._duplicates, []
        return encode_sack(cumulative & MASK32, window, gaps, duplicates)

    def _note_duplicate(self, wire_tsn: int) -> None:
        self.immediate = True
        if len(self._duplicates) < _MAX_REPORTED:
            self._duplicates.append(wire_tsn)

    def _absorb(self) -> None:
        if self.starts and self.starts[0] == self.cumulative + 1:
            self.cumulative = self._ends[0]
            del self.starts[0], self._ends[0]
