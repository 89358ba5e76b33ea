"""Deadlines with a reason: the one place where a machine keeps its timers.

Used by every machine that has more than one deadline; the reasons are the machine's own enum.
"""

from __future__ import annotations

import enum
from typing import Generic, TypeVar

Reason = TypeVar("Reason", bound=enum.Enum)


def earliest(one: float | None, other: float | None) -> float | None:
    """Return the earlier of two deadlines, of which None is never."""
    if one is None:
        return other
    return one if other is None or one <= other else other


class TimerTable(Generic[Reason]):
    """A few armed deadlines (absolute, monotonic seconds), one per reason."""

    __slots__ = ("_deadlines", "due")

    def __init__(self) -> None:
        self._deadlines: dict[Reason, float] = {}
        self.due: float | None = None
        """The earliest deadline, or None."""

    def arm(self, reason: Reason, deadline: float) -> None:
        """Set the deadline of `reason`, replacing an earlier one."""
        due = self.due
        if due is None or deadline <= due:
            self.due = deadline
        elif self._deadlines.get(reason) == due:
            # the earliest is put off
            self._deadlines[reason] = deadline
            self.due = min(self._deadlines.values())
            return
        self._deadlines[reason] = deadline

    def cancel(self, reason: Reason) -> None:
        """Forget the deadline of `reason`; harmless when none is armed."""
        deadlines = self._deadlines
        if reason in deadlines and deadlines.pop(reason) == self.due:
            self.due = min(deadlines.values(), default=None)

    def cancel_all(self) -> None:
        """Forget every deadline."""
        self._deadlines.clear()
        self.due = None

    def deadline(self, reason: Reason) -> float | None:
        """Return the deadline of `reason`, or None."""
        return self._deadlines.get(reason)

    def pop_expired(self, now: float) -> list[Reason]:
        """Remove and return the reasons whose deadline is at or before `now`, earliest first."""
        expired: list[Reason] = []
        deadlines, due = self._deadlines, self.due
        while due is not None and due <= now:
            reason = min(deadlines, key=deadlines.__getitem__)
            del deadlines[reason]
            expired.append(reason)
            due = min(deadlines.values(), default=None)
        self.due = due
        return expired
