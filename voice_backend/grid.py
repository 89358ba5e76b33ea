"""The absolute grid of the media loop: tick k is due at `origin + k * 20 ms`, whatever happened.

    due(0)   due(1)   due(2)   due(3)          woken in time: one tick is owed
      |        |        |        |             woken 45 ms late: three are, at once
      +--------+--------+--------+──▶          asleep for longer than `MAX_OWED`: the rest is passed
                                               over and counted, so that work never piles up

Called by `loop`; pure.
"""

from __future__ import annotations

import math
from typing import Final

from voice_backend.frames import MEDIA_FRAME_MS

PERIOD_S: Final = MEDIA_FRAME_MS / 1000
MAX_OWED: Final = 25
"""Ticks that are made up for after a stall: half a second of what was heard meanwhile."""
_EPSILON: Final = 1e-6


class Grid:
    """Says when ticks are due and which are owed. Lateness cannot add up."""

    __slots__ = ("_next", "origin", "passed_over")

    def __init__(self, origin: float) -> None:
        self.origin = origin
        self.passed_over = 0
        """Ticks that were not made up for."""
        self._next = 0

    @property
    def next_due(self) -> float:
        """When the next tick is due, in the clock's seconds."""
        return self.due(self._next)

    def due(self, tick: int) -> float:
        """Return when a tick is due."""
        return self.origin + tick * PERIOD_S

    def owed(self, now: float) -> range:
        """Return the ticks that are due and not done yet; they count as done then."""
        last = math.floor((now - self.origin) / PERIOD_S + _EPSILON)
        first = self._next
        if last < first:
            return range(first, first)
        if last - first >= MAX_OWED:
            self.passed_over += last - first + 1 - MAX_OWED
            first = last + 1 - MAX_OWED
        self._next = last + 1
        return range(first, last + 1)
