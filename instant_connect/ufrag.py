"""The server's ufrag as text: ticket and attempt in base64, which consists of ice-chars alone.

    bundle ─ ticket ─┐                        ┌─ open ticket ─▶ grant, route, password
    client ─ attempt ┴▶ ufrag ~ USERNAME ~~~▶ ┴─ decode ──────▶ fingerprint, payload type, SNAP

At most 220 characters: Firefox cuts at 255 in silence, Chromium drops the ClientHello from a check
of more than 1220 bytes (RFC 8839 section 5.4 allows 256). The whole text names the session, at most
one, ever. Called by `entrance` for datagrams and by `signalled` for offers.
"""

from __future__ import annotations

import binascii
from base64 import b64encode
from typing import Final, NamedTuple

from instant_connect.attempt import FIXED_BYTES, Attempt, decode_attempt, encode_attempt
from instant_connect.keyring import Epoch, Keyring
from instant_connect.reasons import InstantDiscard
from instant_connect.ticket import (
    TICKET_BYTES,
    Route,
    RouteReader,
    Ticket,
    open_ticket,
    peek_route,
    seal_route,
)
from warp.crypto import HmacSha256
from warp.entropy import Entropy, random_text
from warp.errors import Discard, InvalidConfig
from warp.ice import IceCredentials

MIN_CHARACTERS: Final = 140
MAX_CHARACTERS: Final = 220
MIN_ROUTED_CHARACTERS: Final = 24
"""So many hold the route; what is shorter names a session of the ordinary kind, or nothing."""
PASSWORD_CHARACTERS: Final = 32
_PADS: Final = ("", None, "==", "=")


class Opened(NamedTuple):
    """What a ufrag says once its ticket is open."""

    ticket: Ticket
    attempt: Attempt

    @property
    def password(self) -> str:
        """The server's ICE password; not kept, since most first datagrams do not get so far."""
        return self.ticket.epoch.password(self.ticket.raw)


def compose_ufrag(ticket: bytes, attempt: Attempt) -> str:
    """Return the server's ufrag. Raises `InvalidConfig` when it would be too long."""
    text = b64encode(ticket + encode_attempt(attempt)).decode("ascii").rstrip("=")
    if len(text) > MAX_CHARACTERS:
        raise InvalidConfig(f"a ufrag has at most {MAX_CHARACTERS} characters, not {len(text)}")
    return text


def decode_ufrag(text: str) -> bytes:
    """Return the bytes of a ufrag; raises `Discard` unless it is canonical base64 of some size."""
    size = len(text)
    if not MIN_CHARACTERS <= size <= MAX_CHARACTERS:
        raise Discard(InstantDiscard.UFRAG_LENGTH)
    return _decode(text)


def _decode(text: str) -> bytes:
    pad = _PADS[len(text) & 3]
    # padding of its own would make 24 characters less than a route (RFC 8839: no ice-char)
    if pad is None or "=" in text:
        raise Discard(InstantDiscard.BASE64)
    padded = (text + pad).encode("ascii", "replace")
    try:
        raw = binascii.a2b_base64(padded, strict_mode=True)
    except ValueError:
        raise Discard(InstantDiscard.BASE64) from None
    # spare bits must be zero, so that one attempt has one name
    if binascii.b2a_base64(raw, newline=False) != padded:
        raise Discard(InstantDiscard.BASE64)
    return raw


def open_ufrag(text: str, keyring: Keyring, wall_s: float) -> Opened:
    """Open a ufrag from the wire; raises `Discard` (`InstantDiscard`) and nothing else.

    `wall_s` is seconds since 1970. Nothing of it is proven before MESSAGE-INTEGRITY is.
    """
    raw = decode_ufrag(text)
    if len(raw) < TICKET_BYTES + FIXED_BYTES:
        raise Discard(InstantDiscard.UFRAG_LENGTH)
    return Opened(open_ticket(raw, keyring, wall_s), decode_attempt(raw[TICKET_BYTES:]))


def peek_ufrag_route(text: str, keys: RouteReader) -> tuple[Route, bytes]:
    """Return where the first 24 characters of a ufrag lead, and the sealed route itself.

    All that a relay needs. Nothing is authenticated: what nobody sealed leads anywhere. Raises
    `Discard`, also for another cell than that of the keys.
    """
    if len(text) < MIN_ROUTED_CHARACTERS:
        raise Discard(InstantDiscard.UFRAG_LENGTH)
    raw = _decode(text[:MIN_ROUTED_CHARACTERS])
    route = peek_route(raw, keys)
    if route.cell != keys.cell:
        raise Discard(InstantDiscard.OTHER_CELL)
    return route, raw[1:17]


def routed_credentials(epoch: Epoch, route: Route, entropy: Entropy) -> IceCredentials:
    """Return credentials that lead to a server and grant nothing, for sessions that have begun.

    A restart (RFC 8445 section 9) takes new credentials; those too have to be found by whichever
    server of the cell a check reaches.
    """
    head = seal_route(epoch, route, entropy) + entropy.random_bytes(1)
    ufrag = b64encode(head).decode("ascii")
    return IceCredentials(ufrag, random_text(entropy, PASSWORD_CHARACTERS))


def server_sctp(password: str, ufrag: str) -> tuple[int, int]:
    """Return the server's initiate tag and initial TSN: both ends compute them (SNAP).

    From what only they know, so that nobody else can guess the tag.
    """
    digest = HmacSha256(password.encode("ascii")).digest(b"IC1 sctp" + ufrag.encode("ascii"))
    return int.from_bytes(digest[:4], "big") or 1, int.from_bytes(digest[4:8], "big")


def attach_proof(password: str, ufrag: str) -> str:
    """Return what shows, beside an offer, that its sender holds the ticket's password.

    A ufrag travels in the clear: who has merely seen one must not learn the password from the
    answer. 32 characters of base64, of HMAC-SHA256 under the password.
    """
    digest = HmacSha256(password.encode("ascii")).digest(b"IC1 attach" + ufrag.encode("ascii"))
    return b64encode(digest[:24]).decode("ascii")
