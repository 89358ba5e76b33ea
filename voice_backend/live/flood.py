"""How many events a client may send: a bucket that fills at a rate; one complaint a second."""

from __future__ import annotations

from typing import Final

from voice_backend.live.client_events import ClientEvent, InputAudioAppend, SessionClose
from voice_backend.live.faults import LiveFault

TOO_MANY: Final = "rate_limited"
PIECE_OF_SOUND: Final = 0.25
"""What a piece of sound counts: speech comes in fifty pieces a second, or a hundred."""


def cost_of(event: ClientEvent) -> float:
    """Return what an event counts; nothing if it ends the session, so that it always can be."""
    if isinstance(event, SessionClose):
        return 0.0
    return PIECE_OF_SOUND if isinstance(event, InputAudioAppend) else 1.0


def too_many(client_event_id: str | None) -> LiveFault:
    """Return what whoever sends too many is told."""
    message = "too many events: send fewer"
    return LiveFault(TOO_MANY, message, client_event_id=client_event_id)


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

    def admit(self, now: float, cost: float = 1.0) -> bool:
        """Whether one more is taken."""
        if self._filled_at is not None:
            filled = self._tokens + max(0.0, now - self._filled_at) * self._rate
            self._tokens = min(self._burst, filled)
        self._filled_at = now
        if self._tokens < cost:
            self.refused += 1
            return False
        self._tokens -= cost
        return True

    def may_complain(self, now: float) -> bool:
        """Whether the client is told of it again."""
        if self._complained_at is not None and now - self._complained_at < 1.0:
            return False
        self._complained_at = now
        return True
