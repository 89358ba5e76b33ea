"""What a datagram on the shared port is, by its first byte (RFC 7983 section 7, RFC 9443).

Called by `warp.peer.connection` for every datagram: stop 4 of the eight.

    0..3 STUN · 20..63 DTLS · 128..191 RTP and RTCP · everything else is dropped
"""

from __future__ import annotations

import enum


class Kind(enum.IntEnum):
    """The protocols that share the port."""

    UNKNOWN = 0
    STUN = 1
    DTLS = 2
    RTP = 3
    RTCP = 4


def _kind_of_first_byte(first: int) -> Kind:
    if first <= 3:
        return Kind.STUN
    if 20 <= first <= 63:
        return Kind.DTLS
    if 128 <= first <= 191:
        return Kind.RTP
    return Kind.UNKNOWN


# a member of an enum costs as much as ten other names, and this is asked for every datagram
_UNKNOWN, _RTP, _RTCP = Kind.UNKNOWN, Kind.RTP, Kind.RTCP
_BY_FIRST_BYTE = tuple(_kind_of_first_byte(first) for first in range(256))


def classify(data: bytes) -> Kind:
    """Return what `data` claims to be; RTCP is told from RTP by RFC 5761 section 4."""
    if len(data) < 2:
        return _UNKNOWN
    kind = _BY_FIRST_BYTE[data[0]]
    if kind is _RTP and 192 <= data[1] <= 223:
        return _RTCP
    return kind
