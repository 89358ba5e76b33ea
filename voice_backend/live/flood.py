"""How many commands a client may send: a bucket that fills at a rate; one complaint a second."""

from __future__ import annotations


class Flood:
    """One session's bucket."""

    __slots__ = ("_burst", "_complained_at", "_filled_at", "_rate", "_tokens", "refused")

    def __init__(self, per_s: float, burst: int) -> None:
        self._rate = per_s
        self._burst = float(burst)
        self._tokens = float(burst)
        self._filled_at: float | None = None
        self._complained_at: float | None = None
        self.refused = 0

    def admit(self, now: float) -> bool:
        """Whether one more is taken."""
        if self._filled_at is not None:
            filled = self._tokens + max(0.0, now - self._filled_at) * self._rate
            self._tokens = min(self._burst, filled)
        self._filled_at = now
        if self._tokens < 1:
            self.refused += 1
            return False
        self._tokens -= 1
        return True

    def may_complain(self, now: float) -> bool:
        """Whether the client is told of it again."""
        if self._complained_at is not None and now - self._complained_at < 1.0:
            return False
        self._complained_at = now
        return True
