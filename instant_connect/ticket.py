"""Tickets: what a client must hold to start a session, sealed so that no server has to remember it.

     0        1                    17                 29                             63
    |ver 4    | route block (16)   | nonce (12)       | sealed (18) + tag (16)        |
    |key id 4 | AES-128-ECB        |                  | AES-128-GCM, AAD = bytes 0-16 |
              | cell 2, hint 2,                       | expiry 4, id 8, policy 4,
              | region 1, flags 1,                    | max uses 1, flags 1
              | random 10

A relay reads the route block with a key of its own; only servers of the cell open the rest. Whoever
opens a ticket also derives the ICE password that went with it (`keyring.Epoch.password`), which is
never on the wire. Called by `ufrag`, `router` and `bundle`. Opening raises `Discard`, nothing else.
"""

from __future__ import annotations

import struct
from typing import Final, NamedTuple, Protocol

from instant_connect.keyring import Epoch, Keyring, RouteKey
from instant_connect.reasons import InstantDiscard
from warp.crypto import DecryptError
from warp.entropy import Entropy
from warp.errors import Discard, InvalidConfig

VERSION: Final = 1
TICKET_BYTES: Final = 63
CLOCK_SKEW_S: Final = 60
"""So much later than its expiry a ticket still opens: issuers and servers differ by that much."""
OFFER_HELD: Final = 0x80
"""Flag of tickets in signalled answers: what was agreed is held by the server that it names."""
_AAD: Final = 17
_NONCE: Final = 29
_ROUTE: Final = struct.Struct("!HHBB10s")
_SEALED: Final = struct.Struct("!I8sIBB")


class Route(NamedTuple):
    """What relays and servers go by. `flags` are spare."""

    cell: int
    hint: int = 0
    """The server that should take the session."""
    region: int = 0
    flags: int = 0


class Grant(NamedTuple):
    """What a ticket grants. `expiry` is wall time in whole seconds since 1970."""

    expiry: int
    policy: int = 0
    """What the application agreed to when it issued the ticket, in its own numbers."""
    max_uses: int = 1
    flags: int = 0
    """`OFFER_HELD`, and in the low four bits the session profile less one (`profile`)."""


class Ticket(NamedTuple):
    """An opened ticket."""

    epoch: Epoch
    route: Route
    grant: Grant
    id: bytes
    raw: bytes

    @property
    def offer_is_held(self) -> bool:
        """Whether the ticket answers an offer, which then says what the session is."""
        return bool(self.grant.flags & OFFER_HELD)

    def __repr__(self) -> str:
        # whoever logs one must not thereby publish it
        return f"<Ticket cell={self.route.cell} hint={self.route.hint} policy={self.grant.policy}>"


def seal_route(epoch: Epoch, route: Route, entropy: Entropy) -> bytes:
    """Return the first 17 bytes of a ticket: they lead to a server, and grant nothing."""
    try:
        plain = _ROUTE.pack(*route, entropy.random_bytes(10))
    except struct.error as error:
        raise InvalidConfig(f"a number does not fit its field of a route: {error}") from None
    return bytes((VERSION << 4 | epoch.key_id,)) + epoch.route.encrypt(plain)


def seal_ticket(epoch: Epoch, route: Route, grant: Grant, entropy: Entropy) -> bytes:
    """Return the 63 bytes of a new ticket. Raises `InvalidConfig` for numbers that do not fit."""
    head = seal_route(epoch, route, entropy)
    nonce = entropy.random_bytes(12)
    try:
        expiry, policy, max_uses, flags = grant
        plain = _SEALED.pack(expiry, entropy.random_bytes(8), policy, max_uses, flags)
    except struct.error as error:
        raise InvalidConfig(f"a number does not fit its field of a ticket: {error}") from None
    if not max_uses:
        raise InvalidConfig("max_uses is 1..255: a ticket of no use is never issued")
    return head + nonce + epoch.aead.seal(nonce, plain, head)


class RouteReader(Protocol):
    """The keys that routes are read with: a relay's, or a server's among its others."""

    @property
    def cell(self) -> int:
        """The cell whose routes they read."""

    def find_route(self, key_id: int) -> RouteKey | Epoch | None:
        """Return what reads the routes of a key id, or None."""


def peek_route(raw: bytes, keys: RouteReader) -> Route:
    """Return the route of at least the first 17 bytes of a ticket; raises `Discard`.

    Nothing is authenticated: bytes that nobody sealed lead anywhere.
    """
    if raw[0] >> 4 != VERSION:
        raise Discard(InstantDiscard.VERSION)
    key = keys.find_route(raw[0] & 15)
    if key is None:
        raise Discard(InstantDiscard.KEY_ID)
    return Route(*_ROUTE.unpack(key.route.decrypt(raw[1:_AAD]))[:4])


def open_ticket(raw: bytes, keyring: Keyring, wall_s: float) -> Ticket:
    """Open the first 63 bytes of `raw`; raises `Discard` (`InstantDiscard`).

    `wall_s` is seconds since 1970. The route is compared first: of random bytes one block in
    65536 survives that.
    """
    route = peek_route(raw, keyring)
    epoch = keyring.find(raw[0] & 15)
    if epoch is None:
        raise Discard(InstantDiscard.KEY_ID)
    if route.cell != keyring.cell:
        raise Discard(InstantDiscard.OTHER_CELL)
    try:
        plain = epoch.aead.open(raw[_AAD:_NONCE], raw[_NONCE:TICKET_BYTES], raw[:_AAD])
    except DecryptError:
        raise Discard(InstantDiscard.FORGED) from None
    expiry, ticket_id, policy, max_uses, flags = _SEALED.unpack(plain)
    if expiry + CLOCK_SKEW_S < wall_s:
        raise Discard(InstantDiscard.EXPIRED)
    if flags & ~OFFER_HELD:
        raise Discard(InstantDiscard.PROFILE)  # the low bits: profile 1 and no other is known yet
    return Ticket(
        epoch, route, Grant(expiry, policy, max_uses, flags), ticket_id, raw[:TICKET_BYTES]
    )
