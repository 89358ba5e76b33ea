"""The client's part of the server's ufrag: who it is, and this one attempt of its ticket.

     63      64             65          73                 105               113
    | flags | payload type | nonce (8) | SHA-256 of the   | SCTP tag 4,     | length 1, client's
    |       | of Opus      |           | certificate (32) | TSN 4 (if SNAP) | ICE password (if said)

The client writes it, and MESSAGE-INTEGRITY of its first check covers it (RFC 8489 section 14.5:
USERNAME is below it), so that only who holds the ticket's password can have written it. DTLS then
accepts no other certificate. Called by `ufrag`.
"""

from __future__ import annotations

import struct
from typing import Final, NamedTuple

from instant_connect.reasons import InstantDiscard
from warp.entropy import Entropy
from warp.errors import Discard, InvalidConfig

NONCE_BYTES: Final = 8
FINGERPRINT_BYTES: Final = 32
FIXED_BYTES: Final = 42
SNAP: Final = 0x01
PASSWORD: Final = 0x02
PAYLOAD_TYPES: Final = range(96, 128)
"""Dynamic payload types (RFC 3551 section 6)."""
_FIXED: Final = struct.Struct("!BB8s32s")
_INIT: Final = struct.Struct("!II")
_PASSWORDS: Final = range(22, 257)  # RFC 8839 section 5.4


class Attempt(NamedTuple):
    """What one client says of itself in one attempt."""

    fingerprint: bytes
    """SHA-256 of its certificate."""
    payload_type: int
    """Of Opus, in its offer."""
    nonce: bytes
    sctp: tuple[int, int] | None = None
    """Initiate tag and initial TSN of its INIT chunk, where it has said one (SNAP)."""
    password: str = ""
    """Its own ICE password, for servers that are no lite agents."""

    def __repr__(self) -> str:
        return f"<Attempt payload_type={self.payload_type} snap={self.sctp is not None}>"


def make_attempt(
    fingerprint: bytes, payload_type: int, entropy: Entropy, *, sctp: tuple[int, int] | None = None
) -> Attempt:
    """Return a fresh attempt: its nonce makes its ufrag unlike any other."""
    return Attempt(fingerprint, payload_type, entropy.random_bytes(NONCE_BYTES), sctp)


def encode_attempt(attempt: Attempt) -> bytes:
    """Return the bytes behind the ticket. Raises `InvalidConfig` for what no server would read."""
    fingerprint, payload_type, nonce, sctp, password = attempt
    if len(fingerprint) != FINGERPRINT_BYTES or len(nonce) != NONCE_BYTES:
        raise InvalidConfig("an attempt has a SHA-256 fingerprint and a nonce of 8 bytes")
    if payload_type not in PAYLOAD_TYPES:
        raise InvalidConfig(f"Opus needs a dynamic payload type (96..127), not {payload_type}")
    flags = (SNAP if sctp is not None else 0) | (PASSWORD if password else 0)
    out = _FIXED.pack(flags, payload_type, nonce, fingerprint)
    if sctp is not None:
        out += _INIT.pack(*sctp)
    if password:
        out += bytes((len(password),)) + password.encode("ascii")
    return out


def decode_attempt(data: bytes) -> Attempt:
    """Read the bytes behind the ticket; raises `Discard` (`InstantDiscard`)."""
    if len(data) < FIXED_BYTES:
        raise Discard(InstantDiscard.UFRAG_LENGTH)
    flags, payload_type, nonce, fingerprint = _FIXED.unpack_from(data)
    at = FIXED_BYTES
    sctp: tuple[int, int] | None = None
    password = ""
    if flags & SNAP:
        if len(data) < at + _INIT.size:
            raise Discard(InstantDiscard.ATTEMPT)
        tag, tsn = _INIT.unpack_from(data, at)
        sctp = (tag, tsn)
        at += _INIT.size
        if not tag:  # RFC 9260 section 3.3.2
            raise Discard(InstantDiscard.ATTEMPT)
    if flags & PASSWORD:
        size = data[at] if at < len(data) else 0
        text = data[at + 1 : at + 1 + size]
        at += 1 + size
        if len(text) not in _PASSWORDS or not text.isascii():
            raise Discard(InstantDiscard.ATTEMPT)
        password = text.decode("ascii")
    if flags & ~(SNAP | PASSWORD) or at != len(data):
        raise Discard(InstantDiscard.ATTEMPT)
    if payload_type not in PAYLOAD_TYPES:
        raise Discard(InstantDiscard.PAYLOAD_TYPE)
    return Attempt(fingerprint, payload_type, nonce, sctp, password)
