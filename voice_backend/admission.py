"""Whether one session more can be served in time, by what the present ones cost.

    seconds of each tick (media: CPU), of each batch (engine elsewhere) ─▶ Load: p99, smoothed
    p99 * (n + 1) / n  <=  70 % of the period ─▶ room          else refused at once, never queued

Called by `io.voices`; pure.
"""

from __future__ import annotations

from typing import Final

SHARE: Final = 0.7
"""Of a period, so much may be spent: the rest is for what nobody foresees."""
_WINDOW: Final = 50
_FEW: Final = 4
"""With fewer sessions, what each costs cannot be told from what is there anyway."""
_WEIGHT: Final = 0.3


class Load:
    """What periods cost, lately."""

    __slots__ = ("_costs", "_smoothed")

    def __init__(self) -> None:
        self._costs: list[float] = []
        self._smoothed = 0.0

    @property
    def p99(self) -> float:
        """Seconds; 0 before the first window is full."""
        return self._smoothed

    def note(self, seconds: float) -> None:
        """Count the cost of one period."""
        self._costs.append(seconds)
        if len(self._costs) < _WINDOW:
            return
        # of 50 the last but one: a single stroke of bad luck is no load
        found = sorted(self._costs)[-2]
        self._costs.clear()
        self._smoothed += (found - self._smoothed) * (_WEIGHT if self._smoothed else 1.0)

    def admits(self, sessions: int, period_s: float, share: float = SHARE) -> bool:
        """Return whether a session beside so many would still be in time."""
        if not sessions:
            return True
        return self._smoothed * (1 + 1 / max(sessions, _FEW)) <= share * period_s
