"""Which tickets have been used, by which attempts: a ufrag makes one session, and never another.

    ticket id ─▶ attempts (8 bytes each), each of them new or begun        until the ticket expires

Single use is what makes a first datagram worth no more than once (the rule of RFC 8446 section 8.1
for 0-RTT data). A table that is full takes no new tickets: to forget one early would be to allow
its replay. Tickets that a signalled session has replaced are burnt. Called by `entrance`.
"""

from __future__ import annotations

import hashlib
from typing import Final

from instant_connect.ticket import CLOCK_SKEW_S
from warp.errors import InvalidConfig
from warp.names import Name

ATTEMPT_BYTES: Final = 8
_ENTRY: Final = ATTEMPT_BYTES + 1
_NEW, _BEGUN = b"\0", b"\1"
_SPAN_S: Final = 16  # tickets that expire within one span are forgotten together
_BURNT: Final = b"burnt"  # no multiple of an entry


class Use(Name):
    """What a table says of one attempt of a ticket."""

    FIRST = "not seen before"
    AGAIN = "seen, and no session has come of it yet"
    BEGUN = "a session came of it, which may have ended"
    USED_UP = "other attempts have used the ticket up"
    NO_ROOM = "the table is full"


def attempt_key(ufrag: str) -> bytes:
    """Return the few bytes that an attempt is remembered by."""
    return hashlib.blake2b(ufrag.encode("ascii"), digest_size=ATTEMPT_BYTES).digest()


class ReplayTable:
    """At most `capacity` tickets, about 200 bytes each. Times are seconds since 1970."""

    __slots__ = ("_capacity", "_first", "_spans", "_uses")

    def __init__(self, capacity: int = 65_536) -> None:
        if capacity < 1:
            raise InvalidConfig("a replay table has room for at least one ticket")
        self._capacity = capacity
        self._uses: dict[bytes, bytes] = {}
        self._spans: dict[int, list[bytes]] = {}
        self._first = 0

    def __len__(self) -> int:
        return len(self._uses)

    def look(self, ticket_id: bytes, key: bytes, max_uses: int) -> Use:
        """Return what `claim` would say of an attempt; nothing changes."""
        known = self._uses.get(ticket_id)
        if known is None:
            return Use.FIRST if len(self._uses) < self._capacity else Use.NO_ROOM
        if known is _BURNT:
            return Use.USED_UP
        for at in range(0, len(known), _ENTRY):
            if known.startswith(key, at):
                return Use.BEGUN if known[at + ATTEMPT_BYTES] else Use.AGAIN
        return Use.FIRST if len(known) < max_uses * _ENTRY else Use.USED_UP

    def claim(self, ticket_id: bytes, key: bytes, max_uses: int, expiry: int) -> Use:
        """Use a ticket for an attempt, unless it is used up. Repeated calls use it once."""
        use = self.look(ticket_id, key, max_uses)
        if use is Use.FIRST:
            self._note(ticket_id, self._uses.get(ticket_id, b"") + key + _NEW, expiry)
        return use

    def begin(self, ticket_id: bytes, key: bytes) -> None:
        """Note that a session has come of an attempt that was claimed."""
        known = self._uses.get(ticket_id, b"")
        for at in range(0, len(known), _ENTRY):
            if known.startswith(key, at):
                end = at + ATTEMPT_BYTES
                self._uses[ticket_id] = known[:end] + _BEGUN + known[end + 1 :]

    def burn(self, ticket_id: bytes, expiry: int) -> None:
        """Let nothing more come of a ticket: its client has got another session.

        Attempts that have begun are forgotten as such, and stay used up.
        """
        if ticket_id in self._uses or len(self._uses) < self._capacity:
            self._note(ticket_id, _BURNT, expiry)

    def _note(self, ticket_id: bytes, value: bytes, expiry: int) -> None:
        if ticket_id not in self._uses:
            span = (expiry + CLOCK_SKEW_S) // _SPAN_S
            self._spans.setdefault(span, []).append(ticket_id)
        self._uses[ticket_id] = value

    def forget_expired(self, wall_s: float) -> None:
        """Forget the tickets that would not open any more."""
        present = int(wall_s) // _SPAN_S
        if present == self._first:
            return
        self._first = present
        for span in [span for span in self._spans if span < present]:
            for ticket_id in self._spans.pop(span):
                del self._uses[ticket_id]
