"""A client's datagram on its way between a relay and a server, with the client's address on it.

     0        1                    2      4               8 or 20    16 or 28
    | 0x0c   | v6 1, back 1, 0 2, | port | address        | tag 8    | the datagram
    |        | key id 4           | 2    | 4 or 16        |          |

So the server sees every client at its own address: XOR-MAPPED-ADDRESS is right, limits by prefix
and by address are those of the client, and one socket serves them all. The tag is keyed BLAKE2b
(RFC 7693) over everything else, under a key that follows from the epoch's route key, which relays
and servers have and nobody else: an address in an envelope is as good as one from the network. An
envelope without a datagram asks whether the server takes sessions, and comes back with its answer.

First bytes 4 to 15 are in no use on a port of WebRTC (RFC 7983 section 7, RFC 9443). Called by
`relay` and by `io.enclosed`.
"""

from __future__ import annotations

import hashlib
import struct
from functools import lru_cache
from ipaddress import ip_address
from typing import Final, NamedTuple

from instant_connect.reasons import InstantDiscard
from instant_connect.ticket import RouteReader
from warp.contract import Address
from warp.crypto import constant_time_equal
from warp.errors import Discard

FIRST_BYTE: Final = 0x0C
OVERHEAD_BYTES: Final = 28
"""At most; 16 for IPv4."""
TAKING: Final = b"\x01"
DRAINING: Final = b"\x00"
_HEAD: Final = struct.Struct("!BBH")
_TAG_BYTES: Final = 8
_V6, _BACK, _RESERVED, _KEY_ID = 0x80, 0x40, 0x30, 0x0F


class Envelope(NamedTuple):
    """What an envelope holds. Without `data` it asks, and `client` only tells questions apart."""

    client: Address
    data: bytes
    key_id: int
    is_back: bool = False
    """From a server to a relay."""


class Way(NamedTuple):
    """By which relay a client comes, and under which key that relay is spoken to."""

    relay: Address
    key_id: int


def seal_envelope(envelope: Envelope, keys: RouteReader) -> bytes:
    """Return the bytes of an envelope. Raises `Discard` when there is no key of its id."""
    host, port = envelope.client
    packed = _packed(host)
    flags = envelope.key_id | (_BACK if envelope.is_back else 0)
    if len(packed) == 16:
        flags |= _V6
    head = _HEAD.pack(FIRST_BYTE, flags, port) + packed
    return head + _tag(keys, envelope.key_id, head, envelope.data) + envelope.data


def decode_envelope(raw: bytes, keys: RouteReader) -> Envelope:
    """Return what an envelope holds; raises `Discard`, also when it is not authentic."""
    if len(raw) < _HEAD.size or raw[0] != FIRST_BYTE or raw[1] & _RESERVED:
        raise Discard(InstantDiscard.BAD_ENVELOPE)
    flags = raw[1]
    end = _HEAD.size + (16 if flags & _V6 else 4)
    start = end + _TAG_BYTES
    if len(raw) < start:
        raise Discard(InstantDiscard.BAD_ENVELOPE)
    key_id, head, data = flags & _KEY_ID, raw[:end], raw[start:]
    if not constant_time_equal(_tag(keys, key_id, head, data), raw[end:start]):
        raise Discard(InstantDiscard.BAD_ENVELOPE)
    port = int.from_bytes(raw[2:4], "big")
    return Envelope((_host(head[_HEAD.size :]), port), data, key_id, bool(flags & _BACK))


# a client sends more than once: text and number cost more than all the rest
@lru_cache(maxsize=4_096)
def _packed(host: str) -> bytes:
    return ip_address(host).packed


@lru_cache(maxsize=4_096)
def _host(packed: bytes) -> str:
    return str(ip_address(packed))


def _tag(keys: RouteReader, key_id: int, head: bytes, data: bytes) -> bytes:
    key = keys.find_route(key_id)
    if key is None:
        raise Discard(InstantDiscard.KEY_ID)
    digest = hashlib.blake2b(head, key=key.envelope, digest_size=_TAG_BYTES)
    digest.update(data)
    return digest.digest()
