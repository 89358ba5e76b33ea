"""Whose session a ufrag is: the server that its ticket names, or the one that all agree on.

    ticket ─ hint alive? ──▶ that server
           └ otherwise ────▶ rendezvous hash of the route block over the servers of the cell

Every server and every relay comes to the same answer from the ticket and the roster alone: nothing
is shared but keys, a ticket has one owner, whose replay table is the only one that counts, and a
dead hint is no dead end, since any server of the cell can open the ticket. A draining server is
asked first, because only it knows its sessions, and passes on what is new.

    network ─▶ entry ─ handed on ─▶ owner ─ a session here ───────▶ takes it
                 ▲                    └ none yet ─ its ledger notes ─┐
                 └────────────── granted: the session is entry's ────┘

Servers that share a port let a session begin where the network delivers its datagrams, with its
owner's consent, so that they need not be handed on for as long as it lives. Called by `entrance`
and by relays.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from typing import Final, NamedTuple

from instant_connect.ticket import Route

MAX_HOPS: Final = 3
"""So often a datagram is handed on: rosters may differ for a moment."""


class Journey(NamedTuple):
    """How a datagram has come to a server of its cell."""

    hops: int = 0
    """How often it was handed on."""
    entry: int | None = None
    """The server that the network gave it to, where that could take the session."""
    granted: bool = False
    """Whether the owner of its ticket says that the session is the receiver's."""

    def onward(self, own: int, *, granted: bool = False) -> Journey:
        """Return the journey of a datagram that `own` hands on."""
        return Journey(self.hops + 1, own if self.entry is None else self.entry, granted)


DIRECT: Final = Journey()


class Roster(NamedTuple):
    """The servers of a cell that are alive, as one of them (or a relay) sees it."""

    alive: frozenset[int]
    draining: frozenset[int] = frozenset()

    @classmethod
    def of(cls, *alive: int, draining: Iterable[int] = ()) -> Roster:
        """Return the roster of these servers."""
        return cls(frozenset(alive), frozenset(draining))

    @property
    def taking(self) -> frozenset[int]:
        """Those that take new sessions."""
        return self.alive - self.draining


def first_choice(route: Route, block: bytes, roster: Roster) -> int | None:
    """Return the server that has the session if there is one, or None when nobody is alive.

    `block` is the sealed route: bytes 1 to 16 of the ticket.
    """
    if route.hint in roster.alive:
        return route.hint
    return rendezvous(block, roster.alive)


def second_choice(block: bytes, roster: Roster) -> int | None:
    """Return the server that takes a new session in place of one that is draining."""
    return rendezvous(block, roster.taking)


def relay_choice(route: Route, block: bytes, roster: Roster) -> int | None:
    """Return where a relay leads a ufrag whose flow it does not know.

    A relay cannot tell a draining server's sessions from new ones: those that move to another
    address while their server drains are lost.
    """
    return route.hint if route.hint in roster.taking else second_choice(block, roster)


def rendezvous(block: bytes, servers: Iterable[int]) -> int | None:
    """Return the server with the highest hash: of a change it moves only what it must."""
    return max(servers, key=lambda server: (_score(block, server), server), default=None)


def _score(block: bytes, server: int) -> bytes:
    return hashlib.blake2b(server.to_bytes(2, "big"), key=block, digest_size=8).digest()


class Destination(NamedTuple):
    """What a server does with a ufrag that it has no session of."""

    server: int | None
    """Who gets it; None: nobody can."""
    takes: bool
    """Whether that is us."""


def settle(route: Route, block: bytes, roster: Roster, own: int, hops: int) -> Destination:
    """Return who takes a ufrag that names no session here; `hops` is how often it was handed on."""
    server = first_choice(route, block, roster)
    if server in roster.draining and (server == own or hops):
        # asked already, or just now: it has no such session
        server = second_choice(block, roster)
    if server == own:
        return Destination(own, True)
    return Destination(server if hops < MAX_HOPS else None, False)
