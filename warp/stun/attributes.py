"""STUN attribute codes and the few values that are more than bytes (RFC 8489 section 14).

Called by `warp.ice`, `warp.sped` and the gatherer; knows no message.
"""

from __future__ import annotations

import enum
import ipaddress
import struct
from functools import lru_cache

from warp.contract import Address
from warp.errors import Discard

MAGIC_COOKIE = 0x2112A442
_COOKIE_BYTES = MAGIC_COOKIE.to_bytes(4, "big")
_FAMILY_IPV4 = 1
_FAMILY_IPV6 = 2
_USERNAME_MAX_BYTES = 512  # RFC 8489 section 14.3 says fewer than 509; RFC 5389 allowed 512


class StunDiscard(enum.Enum):
    """Why a datagram is no usable STUN message."""

    NOT_STUN = "not a STUN message"
    BAD_LENGTH = "message length does not fit the datagram"
    BAD_ATTRIBUTE = "an attribute does not fit the message"
    BAD_INTEGRITY_LENGTH = "an integrity attribute has a wrong length"
    WRONG_FINGERPRINT = "FINGERPRINT does not match"
    AFTER_FINGERPRINT = "FINGERPRINT is not the last attribute"
    TOO_MANY_ATTRIBUTES = "more attributes than any real message has"
    BAD_ADDRESS = "an address attribute is malformed"
    BAD_ERROR_CODE = "an ERROR-CODE attribute is malformed"


class Attribute(enum.IntEnum):
    """Registered attribute types that this stack reads or writes (IANA "STUN Attributes")."""

    MAPPED_ADDRESS = 0x0001
    USERNAME = 0x0006
    MESSAGE_INTEGRITY = 0x0008
    ERROR_CODE = 0x0009
    UNKNOWN_ATTRIBUTES = 0x000A
    CHANNEL_NUMBER = 0x000C
    LIFETIME = 0x000D
    XOR_PEER_ADDRESS = 0x0012
    DATA = 0x0013
    REALM = 0x0014
    NONCE = 0x0015
    XOR_RELAYED_ADDRESS = 0x0016
    REQUESTED_ADDRESS_FAMILY = 0x0017
    REQUESTED_TRANSPORT = 0x0019
    MESSAGE_INTEGRITY_SHA256 = 0x001C
    XOR_MAPPED_ADDRESS = 0x0020
    PRIORITY = 0x0024
    USE_CANDIDATE = 0x0025
    SOFTWARE = 0x8022
    FINGERPRINT = 0x8028
    ICE_CONTROLLED = 0x8029
    ICE_CONTROLLING = 0x802A
    GOOG_NETWORK_INFO = 0xC057
    META_DTLS_IN_STUN = 0xC070
    META_DTLS_IN_STUN_ACKNOWLEDGEMENT = 0xC071


@lru_cache(maxsize=1024)
def _pack_host(host: str) -> bytes:
    return ipaddress.ip_address(host).packed


@lru_cache(maxsize=1024)
def _unpack_host(packed: bytes) -> str:
    return str(ipaddress.ip_address(packed))


_IPV4 = struct.Struct("!HHI")  # zero and family, port, host: both under the magic cookie


def _xored(packed: bytes, transaction_id: bytes) -> bytes:
    mask = (_COOKIE_BYTES + transaction_id)[: len(packed)]
    return (int.from_bytes(packed, "big") ^ int.from_bytes(mask, "big")).to_bytes(
        len(packed), "big"
    )


def encode_xor_address(address: Address, transaction_id: bytes) -> bytes:
    """Return the value of an XOR-…-ADDRESS attribute (RFC 8489 section 14.2).

    Raises `ValueError` when the host is not a numeric address.
    """
    packed = _pack_host(address[0])
    port = address[1] ^ (MAGIC_COOKIE >> 16)
    if len(packed) == 4:
        return _IPV4.pack(_FAMILY_IPV4, port, int.from_bytes(packed, "big") ^ MAGIC_COOKIE)
    return (_FAMILY_IPV6 << 16 | port).to_bytes(4, "big") + _xored(packed, transaction_id)


def decode_xor_address(value: bytes, transaction_id: bytes) -> Address:
    """Return host and port of an XOR-…-ADDRESS value; raises `Discard` when malformed."""
    size = len(value)
    if size == 8 and value[1] == _FAMILY_IPV4:
        _, port, host = _IPV4.unpack(value)
        return _unpack_host((host ^ MAGIC_COOKIE).to_bytes(4, "big")), port ^ (MAGIC_COOKIE >> 16)
    if size == 20 and value[1] == _FAMILY_IPV6:
        port = int.from_bytes(value[2:4], "big") ^ (MAGIC_COOKIE >> 16)
        return _unpack_host(_xored(value[4:], transaction_id)), port
    raise Discard(StunDiscard.BAD_ADDRESS)


def encode_error_code(code: int, reason: str = "") -> bytes:
    """Return the value of ERROR-CODE (RFC 8489 section 14.8); `code` is 300 to 699."""
    return bytes((0, 0, code // 100, code % 100)) + reason.encode()[:763]


def decode_error_code(value: bytes) -> tuple[int, str]:
    """Return code and reason phrase; raises `Discard` when malformed."""
    if len(value) < 4:
        raise Discard(StunDiscard.BAD_ERROR_CODE)
    hundreds, rest = value[2] & 7, value[3]
    if not 3 <= hundreds <= 6 or rest > 99:
        raise Discard(StunDiscard.BAD_ERROR_CODE)
    return hundreds * 100 + rest, value[4:].decode(errors="replace")


def split_username(value: bytes) -> tuple[str, str] | None:
    """Return (receiver's ufrag, sender's ufrag) of a check's USERNAME, or None.

    RFC 8445 section 7.2.2. A colon is no ice-char, so the first one separates.
    """
    if len(value) > _USERNAME_MAX_BYTES or not value.isascii():
        return None
    local, colon, remote = value.decode("ascii").partition(":")
    return (local, remote) if colon and local and remote else None
