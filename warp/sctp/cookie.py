"""The State Cookie: what a responder would have to remember, sealed (RFC 9260 section 5.1.3).

Made by `handshake` for an INIT ACK and opened when it comes back in a COOKIE ECHO. The MAC key
lives as long as the association object; the time is the machine's own `now`.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import Final

from warp.crypto import HmacSha256, constant_time_equal
from warp.errors import Discard
from warp.sctp.init_chunk import Capabilities
from warp.sctp.reasons import SctpDiscard
from warp.sctp.snap import Agreement

_MAGIC: Final = b"warp-rtc"
_LAYOUT: Final = struct.Struct("!8sdIIIIIHHBII")
_MAC_SIZE: Final = 32


@dataclass(frozen=True, slots=True)
class Cookie:
    """An agreement, and the tags of the association it would replace (0 when there is none)."""

    agreement: Agreement
    tie_local: int
    tie_peer: int


def seal_cookie(cookie: Cookie, key: HmacSha256, now: float) -> bytes:
    """Return the cookie as bytes that only this key's owner can have made."""
    agreement = cookie.agreement
    features = sum(1 << bit for bit, on in enumerate(agreement.shared) if on)
    plain = _LAYOUT.pack(
        _MAGIC,
        now,
        agreement.local_tag,
        agreement.peer_tag,
        agreement.local_tsn,
        agreement.peer_tsn,
        agreement.peer_rwnd,
        agreement.outbound_streams,
        agreement.inbound_streams,
        features,
        cookie.tie_local,
        cookie.tie_peer,
    )
    return plain + key.digest(plain)


def open_cookie(data: bytes, key: HmacSha256, now: float) -> tuple[Cookie, float]:
    """Return what was sealed, and its age in seconds. Raises Discard (BAD_COOKIE)."""
    if len(data) != _LAYOUT.size + _MAC_SIZE:
        raise Discard(SctpDiscard.BAD_COOKIE)
    plain, mac = data[: _LAYOUT.size], data[_LAYOUT.size :]
    if not constant_time_equal(key.digest(plain), mac):
        raise Discard(SctpDiscard.BAD_COOKIE)
    fields = _LAYOUT.unpack(plain)
    agreement = Agreement(
        local_tag=fields[2],
        peer_tag=fields[3],
        local_tsn=fields[4],
        peer_tsn=fields[5],
        peer_rwnd=fields[6],
        outbound_streams=fields[7],
        inbound_streams=fields[8],
        shared=Capabilities(*(bool(fields[9] >> bit & 1) for bit in range(4))),
    )
    return Cookie(agreement, tie_local=fields[10], tie_peer=fields[11]), now - fields[1]
