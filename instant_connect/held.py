"""Offers that have been answered and whose client has not come yet: values, no sessions.

    offer ─ answered with a sealed ufrag ─▶ HeldOffers ─ first datagram ─▶ materialise
                                                       └ nobody came ────▶ forgotten

A ticket cannot hold all that an offer says, nor what the application has attached to it. So the
server that its ticket names holds the agreement, for as long as the ticket is good and no longer.
A full table takes no more offers; it never drops one whose answer is on its way. Called by
`sessions`.
"""

from __future__ import annotations

from typing import NamedTuple

from warp.errors import InvalidConfig, InvalidState
from warp.peer import AgreedDescriptions
from warp.sdp import SessionDescription


class HeldOffer(NamedTuple):
    """What a client's first datagram will find. Without `agreed` the profile says what was."""

    agreed: AgreedDescriptions | None
    offer: SessionDescription | None
    context: object
    """Whatever the application has to say of the session."""


class HeldOffers:
    """At most `capacity` offers by ufrag, each for `hold_s`."""

    __slots__ = ("_by_ufrag", "_capacity", "_hold_s")

    def __init__(self, capacity: int, hold_s: float) -> None:
        if capacity < 1 or not hold_s > 0:
            raise InvalidConfig("offers are held in some number, for some time")
        self._capacity = capacity
        self._hold_s = hold_s
        self._by_ufrag: dict[str, tuple[float, HeldOffer]] = {}

    def __len__(self) -> int:
        return len(self._by_ufrag)

    def __contains__(self, ufrag: str) -> bool:
        return ufrag in self._by_ufrag

    def hold(self, ufrag: str, offer: HeldOffer, now: float) -> None:
        """Hold an offer, in place of one under the same ufrag.

        Raises `InvalidState` when there is no room.
        """
        self.expire(now)
        known = self._by_ufrag.pop(ufrag, None)
        if known is None and len(self._by_ufrag) >= self._capacity:
            raise InvalidState(f"{self._capacity} offers are answered and not taken up yet")
        self._by_ufrag[ufrag] = (now + self._hold_s, offer)

    def find(self, ufrag: str) -> HeldOffer | None:
        """Return the offer that is held under a ufrag, or None."""
        held = self._by_ufrag.get(ufrag)
        return None if held is None else held[1]

    def take(self, ufrag: str) -> HeldOffer | None:
        """Return an offer whose client has come, and hold it no more."""
        held = self._by_ufrag.pop(ufrag, None)
        return None if held is None else held[1]

    def get_timer(self) -> float | None:
        """Return when the next offer is forgotten."""
        first = next(iter(self._by_ufrag.values()), None)
        return None if first is None else first[0]

    def expire(self, now: float) -> None:
        """Forget the offers that nobody has taken up."""
        while (due := self.get_timer()) is not None and due <= now:
            del self._by_ufrag[next(iter(self._by_ufrag))]
