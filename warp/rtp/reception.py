"""Where one source stands, and how well it is received (RFC 3550 appendix A.1, A.3, A.8).

`receiver` updates the fields of a packet that is next in order in place, because a method call
costs as much as the arithmetic; everything less frequent is a method here.
"""

from __future__ import annotations

import enum
from typing import Final, NamedTuple

from warp.rtp.frame import AudioFrame
from warp.rtp.rtcp import ReportBlock
from warp.serial import extend32

MAX_DROPOUT: Final = 3000
MAX_MISORDER: Final = 100
"""RFC 3550 appendix A.1."""


class Place(enum.Enum):
    """Where a sequence number lies, seen from the highest one (appendix A.1)."""

    AHEAD = "next, or beyond a permissible gap"
    BEHIND = "overtaken, or a copy"
    JUMPED = "neither; a second packet that agrees would be a restart"
    RESTARTED = "two packets agree that the source started anew"


class ReceiverStats(NamedTuple):
    """A snapshot of the present source. `lost` per RFC 3550 A.3: below zero when copies abound."""

    packets: int
    octets: int
    lost: int
    jitter_s: float
    duplicates: int
    late: int
    gaps: int
    given_up: int
    """Packets whose place went out as a gap frame."""
    recovered: int
    """Packets that redundancy (RFC 2198) replaced."""
    repaired: int
    """Packets that arrived after we had noticed their absence."""


class Tally:
    """What happened beside the plain course of packets."""

    __slots__ = ("duplicates", "gaps", "given_up", "late", "recovered", "repaired")

    def __init__(self) -> None:
        self.duplicates = self.late = self.gaps = self.given_up = 0
        self.recovered = self.repaired = 0


class Reception:
    """Counters and extended numbers of one source. All times in ticks of the media clock."""

    __slots__ = (
        "_after_jump",
        "_expected_prior",
        "_received_prior",
        "base",
        "highest",
        "jitter",
        "octets",
        "timestamp",
        "transit",
        "unheard",
    )

    def __init__(self) -> None:
        self.unheard = 0
        """What `highest` has ahead of the number of packets: one that is next changes nothing."""
        self.octets = 0
        self.base = -1
        """First extended sequence number; -1 before there was any."""
        self.highest = 0
        """Highest extended sequence number."""
        self.timestamp = 0
        """Extended timestamp of that packet."""
        self.transit = 0.0
        """Its arrival minus its timestamp."""
        self.jitter = 0.0
        self._after_jump = -1
        self._expected_prior = self._received_prior = 0

    def begin(self, sequence: int, timestamp: int, arrival: float, *, again: bool) -> None:
        """Start at this packet, which is about to be counted (appendix A.1, init_seq).

        `again`: numbers go on upwards from those of an earlier stretch, so that frames never do
        anything else.
        """
        if again:
            sequence |= (self.highest >> 16) + 1 << 16
            timestamp = self.timestamp + ((timestamp - self.timestamp) & 0xFFFFFFFF)
        self.octets = 0
        self.base = sequence
        self.highest = self.unheard = sequence - 1
        self.timestamp = timestamp
        self.transit = arrival - timestamp
        self.jitter = 0.0
        self._after_jump = -1
        self._expected_prior = self._received_prior = 0

    def judge(self, sequence: int) -> Place:
        """Tell where a 16-bit sequence number lies (appendix A.1, update_seq)."""
        delta = (sequence - self.highest) & 0xFFFF
        if 0 < delta < MAX_DROPOUT:
            return Place.AHEAD
        if delta == 0 or delta > 0x10000 - MAX_MISORDER:
            return Place.BEHIND
        if sequence == self._after_jump:
            return Place.RESTARTED
        self._after_jump = (sequence + 1) & 0xFFFF
        return Place.JUMPED

    def count(self, frame: AudioFrame) -> None:
        """Count a packet, whatever becomes of it."""
        self.unheard -= 1
        self.octets += len(frame.payload or b"")

    def advance(self, frame: AudioFrame, arrival: float) -> None:
        """Extend the numbers of a packet that is ahead, and go on to it (appendix A.8)."""
        ahead = (frame.sequence - self.highest) & 0xFFFF
        self.highest += ahead
        self.unheard += ahead
        self.timestamp = extend32(frame.timestamp, self.timestamp)
        transit = arrival - self.timestamp
        self.jitter += (abs(transit - self.transit) - self.jitter) / 16
        self.transit = transit
        frame.sequence, frame.timestamp = self.highest, self.timestamp

    def extend(self, frame: AudioFrame) -> None:
        """Extend the numbers of a packet that was overtaken.

        It does not touch the jitter: what a NACK brings back would look like a storm.
        """
        frame.sequence = self.highest - ((self.highest - frame.sequence) & 0xFFFF)
        frame.timestamp = extend32(frame.timestamp, self.timestamp)

    @property
    def packets(self) -> int:
        """Packets received, copies included; 0 also says that nothing has begun."""
        return self.highest - self.unheard

    def end(self) -> None:
        """Nothing continues this stretch; its numbers are kept."""
        self.unheard = self.highest

    @property
    def lost(self) -> int:
        """Packets that the sequence numbers promised and that did not come (appendix A.3)."""
        return self.highest - self.base + 1 - self.packets if self.packets else 0

    def report_block(self, ssrc: int, last_report: int, delay: int) -> ReportBlock:
        """Return the block for a report; each call begins the next interval (appendix A.3)."""
        expected, received = self.highest - self.base + 1, self.packets
        in_interval = expected - self._expected_prior
        lost = in_interval - (received - self._received_prior)
        self._expected_prior, self._received_prior = expected, received
        fraction = min((lost << 8) // in_interval, 255) if in_interval > 0 and lost > 0 else 0
        return ReportBlock(
            ssrc, fraction, expected - received, self.highest & 0xFFFFFFFF,
            min(int(self.jitter), 0xFFFFFFFF), last_report, delay,
        )  # fmt: skip
