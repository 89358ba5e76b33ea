"""Where sessions live whose tickets name us: with servers of our cell that began them by our leave.

    owner ─ grant ─▶ host: the session begins ─ Lodging ─▶ owner: note      found from anywhere
                     roster changes, another owner ─ Lodging ─▶ that owner
                     it ends ─▶ owner: forget                       host dies ─▶ keep_only

A datagram that the network gives to some other server (its client has moved) goes to the owner of
its ticket, which knows where to. Bounded: of too many the oldest are forgotten, and are found again
only where the network delivers them. Called by `entrance`.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Final, NamedTuple

MAX_GUESTS: Final = 65_536


class Lodging(NamedTuple):
    """What an owner is told of a session that lives elsewhere: enough to allow no second one."""

    ticket_id: bytes
    key: bytes
    """The attempt (`replay.attempt_key`)."""
    expiry: int
    """Of the ticket: wall time in whole seconds since 1970."""

    def __repr__(self) -> str:
        return f"<Lodging expiry={self.expiry}>"


class Guests:
    """The servers that our tickets' sessions live with, by attempt."""

    __slots__ = ("_by_key", "_capacity")

    def __init__(self, capacity: int = MAX_GUESTS) -> None:
        self._capacity = capacity
        self._by_key: dict[bytes, int] = {}

    def __len__(self) -> int:
        return len(self._by_key)

    def find(self, key: bytes) -> int | None:
        """Return who has the session of an attempt, or None."""
        return self._by_key.get(key)

    def note(self, key: bytes, server: int) -> None:
        """Know where a session lives."""
        self._by_key.pop(key, None)
        if len(self._by_key) >= self._capacity:
            del self._by_key[next(iter(self._by_key))]
        self._by_key[key] = server

    def forget(self, keys: Iterable[bytes], server: int) -> None:
        """Forget sessions that have ended, as the server says that had them."""
        for key in keys:
            if self._by_key.get(key) == server:
                del self._by_key[key]

    def keep_only(self, servers: Collection[int]) -> None:
        """Forget what lived with servers that are gone."""
        gone = [key for key, server in self._by_key.items() if server not in servers]
        for key in gone:
            del self._by_key[key]
