"""Numbers of a stream without their wraps, and which of them have been played.

For `warp.rtp.jitter`, to which numbers come from the wire or extended already (RFC 3550 appendix
A.1): both are congruent, and either is extended again.
"""

from __future__ import annotations

from typing import Final, NamedTuple

_TURNED_RUN: Final = 5


class BufferedPacket(NamedTuple):
    """A packet that waits for its time; `ticks` of 48 kHz is how long it lasts."""

    sequence: int
    payload: bytes
    ticks: int


class Numbering:
    """Extends sequence numbers and timestamps, and knows what has been played."""

    __slots__ = (
        "_played",
        "_recent",
        "heard",
        "heard_at",
        "heard_to",
        "highest",
        "latest",
        "suspect",
        "turned",
    )

    def __init__(self, recent: int) -> None:
        self._played: dict[int, None] = {}
        self._recent = recent
        self.begin(0, 0)
        self.suspect: int | None = None
        """Transit of the packet that leapt last."""

    def begin(self, sequence: int, timestamp: int) -> None:
        """Say which packet is the first; nothing has been played."""
        self.highest = sequence
        self.latest = timestamp
        self.heard = sequence - 1
        """Sequence number played last."""
        self.heard_at = timestamp - (1 << 32)
        """Its timestamp: what belongs before it comes too late, however long it lasts."""
        self.heard_to = timestamp
        self.turned = 0
        """So many packets in a row have gone on in numbers and back in time."""
        self._played.clear()

    def extend(self, sequence: int, timestamp: int) -> tuple[int, int]:
        """Return both without their wraps, near to the highest so far (RFC 3550 A.1)."""
        ahead = ((sequence - self.highest + 0x8000) & 0xFFFF) - 0x8000
        later = ((timestamp - self.latest + 0x80000000) & 0xFFFFFFFF) - 0x80000000
        return self.highest + ahead, self.latest + later

    def play(self, packet: BufferedPacket, timestamp: int) -> int:
        """Remember what is played; returns how many packets before it were missing."""
        sequence = packet.sequence
        # numbers without time between them were padding
        missing = max(sequence - self.heard - 1, 0) if timestamp > self.heard_to else 0
        self.heard_to = timestamp + packet.ticks
        self.heard = max(self.heard, sequence)
        self.heard_at = timestamp
        played = self._played
        played[timestamp] = None
        if len(played) > self._recent:
            del played[next(iter(played))]
        return missing

    def turned_back(self, sequence: int, behind: bool) -> bool:
        """Whether enough packets agree, with this one, that timestamps were set back.

        `behind`: its time has been played or is taken, which RFC 3550 section 5.1 rules out for
        a packet that continues the numbers.
        """
        if sequence > self.highest:
            self.turned = self.turned + 1 if behind else 0
            if behind:
                self.highest = sequence
        return self.turned >= _TURNED_RUN

    def was_played(self, timestamp: int) -> bool:
        """Whether a packet of this time has been, as far as that is remembered."""
        return timestamp in self._played
