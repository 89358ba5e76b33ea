"""A clock that only the simulation moves."""

from __future__ import annotations


class VirtualClock:
    """Monotonic seconds that pass when the simulation says so. Starts at 1000 s, never at 0,
    so that a machine which confuses "no time yet" with time zero is found out."""

    __slots__ = ("_now",)

    def __init__(self, start: float = 1000.0) -> None:
        self._now = start

    @property
    def now(self) -> float:
        """The present moment."""
        return self._now

    def advance_to(self, moment: float) -> None:
        """Go forward to `moment`; going back is a bug of the simulation."""
        if moment < self._now:
            raise ValueError(f"time cannot go back from {self._now} to {moment}")
        self._now = moment
