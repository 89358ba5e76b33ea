"""What becomes of a datagram that names no session: the answers of `entrance`, as values."""

from __future__ import annotations

from typing import NamedTuple, TypeAlias

from instant_connect.reasons import InstantDiscard
from instant_connect.sessions import InstantSession


class Dropped(NamedTuple):
    """Nothing: it is counted, and nobody is told."""

    reason: InstantDiscard


class Queued(NamedTuple):
    """It may be worth something in a moment, when a check comes from its address."""


class Answered(NamedTuple):
    """It is answered where it came from, and that is all for now."""

    datagram: bytes
    refused: bool = False

    def __repr__(self) -> str:
        return f"<Answered refused={self.refused}>"


class Forwarded(NamedTuple):
    """It belongs to another server of the cell, which gets it as it came, with its flow."""

    server: int
    granted: bool = False
    """Whether that server is to take the session, as we who own its ticket say."""


class Sought(NamedTuple):
    """It may be a session's that was here a moment ago, by the network's doing: others may know."""


class Arrived(NamedTuple):
    """It belongs to a session, which takes in `datagrams` in order: the last words are its own."""

    session: InstantSession
    datagrams: tuple[bytes, ...]
    is_new: bool
    """Whether the session exists because of it."""

    def __repr__(self) -> str:
        # a first datagram names its ticket
        return f"<Arrived {self.session!r} new={self.is_new} datagrams={len(self.datagrams)}>"


Decision: TypeAlias = Dropped | Queued | Answered | Forwarded | Sought | Arrived
