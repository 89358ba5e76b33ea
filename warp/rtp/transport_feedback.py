"""Transport-wide feedback (draft-holmer-rmcat-transport-wide-cc-extensions-01 section 3.1).

    base sequence number | packet status count | reference time (64 ms, 24 bits) | feedback count
    chunks of packet status: run length, 14 one-bit or 7 two-bit symbols
    receive deltas of 250 us: one byte, or two bytes signed

`rtcp` frames these; `FeedbackLog` collects arrivals for the peer's congestion controller.
"""

from __future__ import annotations

import enum
import struct
from typing import Final, NamedTuple

from warp.errors import Discard
from warp.serial import extend16

DELTA_S: Final = 0.00025
_REFERENCE_DELTAS: Final = 256
"""A reference time unit is 64 ms: 256 deltas of 250 us."""
_SMALL, _LARGE = 1, 2
_MAX_SPAN: Final = 1024
_MAX_ARRIVALS: Final = 256
"""Two symbols of 7 bits a span and two bytes an arrival make less than 850 bytes."""


class FeedbackDiscard(enum.Enum):
    """Why a transport-wide feedback body is worthless."""

    TOO_SHORT = "status chunks or deltas are missing"
    SYMBOL = "reserved packet status symbol"


class TransportFeedback(NamedTuple):
    """Which of `packet_count` packets, from `base_sequence` on, arrived when.

    `arrivals` holds offset from the base and arrival time in units of 250 us, counted like
    `reference_time` (64 ms units) from an epoch of the peer's choice, in order of sequence.
    """

    base_sequence: int
    packet_count: int
    reference_time: int
    feedback_count: int
    arrivals: tuple[tuple[int, int], ...]


def parse_feedback(body: bytes) -> TransportFeedback:
    """Return the feedback after the two SSRCs. Raises `Discard(FeedbackDiscard)`.

    Only packets that arrived are kept, so that memory is bounded by the datagram.
    """
    if len(body) < 8:
        raise Discard(FeedbackDiscard.TOO_SHORT)
    base, count, clock = struct.unpack_from("!HHI", body)
    reference = clock >> 8
    reference -= reference >> 23 << 24
    received, at = _parse_statuses(body, count)
    arrivals = []
    time = reference * _REFERENCE_DELTAS
    for offset, symbol in received:
        if at + symbol > len(body):
            raise Discard(FeedbackDiscard.TOO_SHORT)
        if symbol == _SMALL:
            time += body[at]
        else:
            time += int.from_bytes(body[at : at + 2], "big", signed=True)
        at += symbol  # a small delta takes one byte, a large one two
        arrivals.append((offset, time))
    return TransportFeedback(base, count, reference, clock & 0xFF, tuple(arrivals))


def _parse_statuses(body: bytes, count: int) -> tuple[list[tuple[int, int]], int]:
    received: list[tuple[int, int]] = []
    at, offset, size = 8, 0, len(body)
    while offset < count:
        if at + 2 > size:
            raise Discard(FeedbackDiscard.TOO_SHORT)
        chunk = int.from_bytes(body[at : at + 2], "big")
        at += 2
        if not chunk & 0x8000:  # run length
            symbol, run = chunk >> 13 & 3, min(chunk & 0x1FFF, count - offset)
            if symbol == 3:
                raise Discard(FeedbackDiscard.SYMBOL)
            if symbol:
                # each takes a delta: more than the body holds cannot be true
                if run > size:
                    raise Discard(FeedbackDiscard.TOO_SHORT)
                received += [(offset + i, symbol) for i in range(run)]
            elif run == 0:
                raise Discard(FeedbackDiscard.SYMBOL)
            offset += run
            continue
        bits, symbols = (2, 7) if chunk & 0x4000 else (1, 14)
        for i in range(min(symbols, count - offset)):
            symbol = chunk >> (bits * (symbols - 1 - i)) & (3 if bits == 2 else 1)
            if symbol == 3:
                raise Discard(FeedbackDiscard.SYMBOL)
            if symbol:
                received.append((offset + i, symbol))
        offset += symbols
    return received, at


def build_feedback(feedback: TransportFeedback) -> bytes:
    """Return the feedback after the two SSRCs, padded to a word.

    Arrivals have to be in order of sequence, each within 8.19 s of the one before.
    """
    symbols = [0] * feedback.packet_count
    deltas = b""
    time = feedback.reference_time * _REFERENCE_DELTAS
    for offset, arrival in feedback.arrivals:
        delta = arrival - time
        time = arrival
        if 0 <= delta <= 0xFF:
            symbols[offset] = _SMALL
            deltas += bytes((delta,))
        else:
            symbols[offset] = _LARGE
            deltas += struct.pack("!h", delta)
    clock = (feedback.reference_time & 0xFFFFFF) << 8 | feedback.feedback_count & 0xFF
    out = struct.pack("!HHI", feedback.base_sequence, feedback.packet_count, clock)
    out += _build_statuses(symbols) + deltas
    return out + bytes(-len(out) % 4)


def _build_statuses(symbols: list[int]) -> bytes:
    out = b""
    at, count = 0, len(symbols)
    while at < count:
        run = 1
        while at + run < count and symbols[at + run] == symbols[at] and run < 0x1FFF:
            run += 1
        if run >= 14 or at + run == count:
            out += struct.pack("!H", symbols[at] << 13 | run)
            at += run
            continue
        one_bit = _LARGE not in symbols[at : at + 14]
        width, bits = (14, 1) if one_bit else (7, 2)
        window = symbols[at : at + width]
        window += [0] * (width - len(window))
        chunk = 0x8000 if one_bit else 0xC000
        for i, symbol in enumerate(window):
            chunk |= symbol << (bits * (width - 1 - i))
        out += struct.pack("!H", chunk)
        at += width
    return out


class FeedbackLog:
    """Arrival times of transport-wide sequence numbers, until they are reported. Bounded."""

    __slots__ = ("_arrivals", "_count", "_highest", "_reported", "capacity", "first_at")

    def __init__(self, capacity: int = 512) -> None:
        self.capacity = capacity
        self._arrivals: list[tuple[int, float]] = []
        self._highest = 0
        self._reported: int | None = None
        """The next extended sequence number that no feedback has covered yet."""
        self._count = 0
        self.first_at: float | None = None
        """When the oldest arrival that awaits its report came; None when there is none."""

    def add(self, sequence: int, now: float) -> bool:
        """Note that a packet with this 16-bit number arrived. Beyond capacity, forgotten.

        Returns whether it is the first that awaits its report: `first_at` has moved.
        """
        arrivals = self._arrivals
        if not arrivals:
            self.first_at = now
            arrivals.append((sequence, now))
            return True
        if len(arrivals) < self.capacity:
            arrivals.append((sequence, now))
        return False

    def take(self) -> list[TransportFeedback]:
        """Return feedback on what arrived since the last call; usually one, or none."""
        arrived: dict[int, float] = {}
        for sequence, now in self._arrivals:
            if self._reported is None:
                self._highest = sequence + 0x10000
                self._reported = self._highest
            extended = extend16(sequence, self._highest)
            self._highest = max(self._highest, extended)
            arrived.setdefault(extended, now)
        self._arrivals.clear()
        self.first_at = None
        out: list[TransportFeedback] = []
        pending = sorted(arrived.items())
        while pending:
            feedback, pending = self._encode(pending)
            out.append(feedback)
        return out

    def _encode(
        self, pending: list[tuple[int, float]]
    ) -> tuple[TransportFeedback, list[tuple[int, float]]]:
        first = pending[0][0]
        base = first if self._reported is None else self._reported
        # a late packet restarts below what was reported; a jump leaves out what lies between
        if not 0 <= first - base < 512:
            base = first
        reference = int(pending[0][1] / (DELTA_S * _REFERENCE_DELTAS))
        time = reference * _REFERENCE_DELTAS
        arrivals: list[tuple[int, int]] = []
        for sequence, now in pending[:_MAX_ARRIVALS]:
            arrival = round(now / DELTA_S)
            if not -0x8000 <= arrival - time <= 0x7FFF or sequence - base >= _MAX_SPAN:
                break
            arrivals.append((sequence - base, arrival))
            time = arrival
        count = arrivals[-1][0] + 1
        # the 24-bit reference time wraps (every 12.4 days); deltas are relative to it
        wrapped = (reference + 0x800000 & 0xFFFFFF) - 0x800000
        shift = (wrapped - reference) * _REFERENCE_DELTAS
        feedback = TransportFeedback(
            base & 0xFFFF, count, wrapped, self._count,
            tuple((offset, arrival + shift) for offset, arrival in arrivals),
        )  # fmt: skip
        self._count = self._count + 1 & 0xFF
        self._reported = max(self._reported or 0, base + count)
        return feedback, pending[len(arrivals) :]
