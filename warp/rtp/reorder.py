"""The reorder buffer: packets leave in order, exactly once, or their place is marked.

`Unordered` stands in its place where the player has a buffer of its own (`warp.rtp.jitter`): there
packets leave as they come, still exactly once.

    in order, nothing waiting  ──────────────────────────────▶ straight to the player
    ahead of a gap             ──▶ waits ──▶ gap filled      ──▶ out
                                          └▶ waited too long ──▶ gap frame, then out

It holds nothing as long as nothing is missing: `receiver` bypasses it. Bounded by its capacity. It
adds no delay for smoothness; that is the player's business, which knows what it has in stock.
"""

from __future__ import annotations

import enum

from warp.rtp.frame import AudioFrame


class Arrival(enum.Enum):
    """What became of an inserted frame."""

    KEPT = "kept"
    DUPLICATE = "duplicate"
    LATE = "late"


class ReorderBuffer:
    """Frames behind a gap, by extended sequence number."""

    __slots__ = ("_capacity", "_given_up", "_wait_s", "deadline", "entries", "heard", "next")

    still_wanted = 0
    """How far behind what has left a packet is still worth asking for."""

    def __init__(self, wait_s: float, capacity: int) -> None:
        self._wait_s = wait_s
        self._capacity = capacity
        self._given_up: dict[int, None] | None = None
        self.entries: dict[int, AudioFrame] = {}
        self.heard = 0
        """Timestamp of the frame before `next`."""
        self.next = 0
        """Extended sequence number that leaves next. Only meaningful while `entries` has any."""
        self.deadline: float | None = None
        """When the gap at the front is given up; None while nothing waits."""

    def begin(self, next_sequence: int, previous_timestamp: int) -> None:
        """Say where the stream stands, before the first frame behind a gap is inserted."""
        self.next = next_sequence
        self.heard = previous_timestamp

    def insert(self, frame: AudioFrame) -> Arrival:
        """Keep a frame until its turn. Call `take` afterwards."""
        sequence = frame.sequence
        if sequence < self.next:
            return self.judge_late(sequence)
        if sequence in self.entries:
            return Arrival.DUPLICATE
        self.entries[sequence] = frame
        self._rearm()
        return Arrival.KEPT

    def awaits(self, sequence: int) -> bool:
        """Whether a frame may still take this place."""
        return sequence >= self.next and sequence not in self.entries

    def judge_late(self, sequence: int) -> Arrival:
        """Tell whether a frame behind `next` was given up or is a copy."""
        if self._given_up is not None and sequence in self._given_up:
            del self._given_up[sequence]
            return Arrival.LATE
        return Arrival.DUPLICATE

    def take(self, now: float) -> list[AudioFrame]:
        """Return what may leave now, in order, with a gap frame for each run given up."""
        out: list[AudioFrame] = []
        entries = self.entries
        while entries:
            frame = entries.pop(self.next, None)
            if frame is None:
                full = len(entries) >= self._capacity
                if not full and (self.deadline is None or self.deadline > now):
                    break
                frame = self._skip(out)
            out.append(frame)
            self.next = frame.sequence + 1
            self.heard = frame.timestamp
            self._rearm()
        return out

    def flush(self) -> list[AudioFrame]:
        """Return everything that waits, gaps marked, and be empty."""
        out: list[AudioFrame] = []
        while self.entries:
            frame = self.entries.pop(self.next, None) or self._skip(out)
            out.append(frame)
            self.next = frame.sequence + 1
            self.heard = frame.timestamp
        self._rearm()
        return out

    def forget(self) -> None:
        """Drop what is remembered of given-up numbers (the source restarted)."""
        self._given_up = None

    def _skip(self, out: list[AudioFrame]) -> AudioFrame:
        """Give up the gap at the front: append its gap frame, return the frame behind it."""
        sequence = min(self.entries)
        frame = self.entries.pop(sequence)
        lost = sequence - self.next
        # the missing packets share the time between their neighbours
        step = (frame.timestamp - self.heard) // (lost + 1)
        timestamp = self.heard + max(step, 0)
        out.append(AudioFrame(None, timestamp, self.next, False, frame.payload_type, None,
                              frame.received_at, lost))  # fmt: skip
        given_up = self._given_up
        if given_up is None:
            given_up = self._given_up = {}
        given_up.update(dict.fromkeys(range(max(self.next, sequence - self._capacity), sequence)))
        while len(given_up) > 2 * self._capacity:
            del given_up[next(iter(given_up))]
        return frame

    def _rearm(self) -> None:
        entries = self.entries
        if not entries or self.next in entries:
            self.deadline = None
        else:
            # every gap was known since the first packet beyond it
            self.deadline = min(f.received_at for f in entries.values()) + self._wait_s


class Unordered:
    """Hands frames out at once, in the order of their arrival; knows which numbers are missing."""

    __slots__ = ("_capacity", "_missing", "_out", "deadline", "entries", "heard", "next")

    still_wanted = 10
    """200 ms of the usual packets: what a jitter buffer may wait for."""

    def __init__(self, capacity: int) -> None:
        self._capacity = capacity
        self._missing: dict[int, None] = {}
        self._out: list[AudioFrame] = []
        self.entries: dict[int, AudioFrame] = {}
        """Always empty: nothing waits."""
        self.heard = 0
        self.next = 0
        self.deadline: float | None = None

    def begin(self, next_sequence: int, previous_timestamp: int) -> None:
        """Say where the stream stands: which number would continue it."""
        self.next = next_sequence
        self.heard = previous_timestamp

    def insert(self, frame: AudioFrame) -> Arrival:
        """Keep a frame until `take`, unless its number has been handed out."""
        sequence = frame.sequence
        if not self.awaits(sequence):
            return Arrival.DUPLICATE
        missing = self._missing
        if sequence < self.next:
            del missing[sequence]
        else:
            first = max(self.next, sequence - self._capacity)
            missing.update(dict.fromkeys(range(first, sequence)))
            while len(missing) > 2 * self._capacity:
                del missing[next(iter(missing))]
            self.next = sequence + 1
        self._out.append(frame)
        return Arrival.KEPT

    def awaits(self, sequence: int) -> bool:
        """Whether a frame may still take this place."""
        return sequence >= self.next or sequence in self._missing

    def judge_late(self, sequence: int) -> Arrival:
        """Tell whether a frame that is not awaited is a copy: it is."""
        return Arrival.DUPLICATE

    def take(self, now: float) -> list[AudioFrame]:
        """Return what was inserted."""
        out, self._out = self._out, []
        return out

    def flush(self) -> list[AudioFrame]:
        """Return what was inserted and not taken."""
        return self.take(0.0)

    def forget(self) -> None:
        """Drop what is remembered of missing numbers (the source restarted)."""
        self._missing.clear()
