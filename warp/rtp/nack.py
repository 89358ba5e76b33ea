"""Which missing packets to ask for again, and when (RFC 4585 section 6.2.1).

`receiver` notes gaps here; a packet is asked for once when its gap is seen and again after a round
trip, while it can still be used.
"""

from __future__ import annotations

from typing import Final

_RETRY_MARGIN_S: Final = 0.01


class NackList:
    """Missing extended sequence numbers with their next request. Bounded."""

    __slots__ = ("_asked", "_capacity", "_limit", "_missing", "deadline", "rtt_s")

    def __init__(self, capacity: int, limit: int) -> None:
        self._capacity = capacity
        self._limit = limit
        self._missing: dict[int, tuple[float, int]] = {}
        """Sequence number to (when to ask next, how often we asked)."""
        self._asked: list[int] = []
        self.deadline: float | None = None
        self.rtt_s = 0.05
        """Round trip that paces repeated requests; a guess until somebody measures it."""

    def add_gap(self, first: int, end: int, now: float) -> None:
        """Note that `first` up to `end` (not included) did not arrive. A long gap is ignored."""
        if end - first > self._capacity:
            self.clear()
            return
        for sequence in range(first, end):
            self._missing[sequence] = (now, 0)
        while len(self._missing) > self._capacity:
            del self._missing[next(iter(self._missing))]
        self._rearm()

    def receive(self, sequence: int) -> bool:
        """Note that a packet came after all; tell whether it was being missed."""
        if self._missing.pop(sequence, None) is None:
            return False
        self._rearm()
        return True

    def forget_before(self, sequence: int) -> None:
        """Stop asking for what nobody waits for any more."""
        stale = [number for number in self._missing if number < sequence]
        for number in stale:
            del self._missing[number]
        if stale:
            self._rearm()

    def clear(self) -> None:
        """Forget everything."""
        self._missing.clear()
        self._asked.clear()
        self.deadline = None

    def handle_timer(self, now: float) -> None:
        """Queue the requests that are due."""
        if self.deadline is None or self.deadline > now:
            return
        for sequence, (due, count) in list(self._missing.items()):
            if due > now:
                continue
            self._asked.append(sequence)
            if count + 1 >= self._limit:
                # no more requests, but an answer still counts as a repair
                self._missing[sequence] = (float("inf"), count + 1)
            else:
                self._missing[sequence] = (now + self.rtt_s + _RETRY_MARGIN_S, count + 1)
        self._rearm()

    def take(self, now: float) -> list[int]:
        """Return the 16-bit numbers to ask for now, in order."""
        if self.deadline is not None:
            self.handle_timer(now)
        if not self._asked:
            return []
        asked = sorted(number for number in set(self._asked) if number in self._missing)
        self._asked.clear()
        return [number & 0xFFFF for number in asked]

    def _rearm(self) -> None:
        due = min((when for when, _ in self._missing.values()), default=float("inf"))
        self.deadline = None if due == float("inf") else due
