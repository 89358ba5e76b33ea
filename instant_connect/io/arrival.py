"""A call as it arrives at the server: its session, and what is known of how it came.

    first datagram ─▶ Arrival ─ greet (T1) ─ accepted (T3) ─▶ the application

Made by `instant_connect.io.server`, one for each session, for as long as that lives.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, NamedTuple

from instant_connect.sessions import InstantSession, Path
from instant_connect.tiers import Tier
from warp.io import Channel, Session


class HeldContext(NamedTuple):
    """What is held with an offer: the application's context, and its channel for events."""

    dcid: int | None
    context: object


class Arrival:
    """A call as it arrives: the session, and what is known of how it came."""

    __slots__ = ("_instant", "events", "session")

    def __init__(self, session: Session, instant: InstantSession, events: Channel | None) -> None:
        self.session: Final = session
        self.events: Final = events
        """The channel for events, where its stream id was agreed on beforehand."""
        self._instant = instant

    @property
    def ufrag(self) -> str:
        """The name of the session: what its first datagram called us. Nothing to be logged."""
        return self._instant.ufrag

    @property
    def path(self) -> Path:
        """Which way it came; an offer may still come and make it `ATTACHED`."""
        return self._instant.path

    @property
    def tier(self) -> Tier:
        """How much is proven of the client."""
        return self._instant.tier

    @property
    def policy(self) -> int:
        """What the application agreed to when it issued the ticket, in its own numbers."""
        return self._instant.policy

    @property
    def checked_at(self) -> float:
        """When its first check came, in seconds of the loop's time."""
        return self._instant.checked_at

    @property
    def context(self) -> object:
        """What the application attached to the client's offer, once that has come."""
        held = self._instant.context
        return held.context if isinstance(held, HeldContext) else None

    def __repr__(self) -> str:
        return f"<Arrival {self.path.value} {self.tier.name}>"


Greet = Callable[[Arrival], None]
"""Says something to whoever may be there: called at T1, for audio that is `non_personal`."""
