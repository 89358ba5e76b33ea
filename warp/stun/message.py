"""STUN messages: bytes to values and back (RFC 8489 sections 5 and 14), without state.

Called by `warp.ice` for every check and by the server's router (`peek_username`). A check is
parsed and answered inside the start budget of a session, so both ways are a single pass.

     0                   1                   2                   3
    |0 0| method and class (14) |        body length (16)         |
    |                     magic cookie 0x2112A442                  |
    |                     transaction id (96)                      |
    | attributes ... | MESSAGE-INTEGRITY | [-SHA256] | FINGERPRINT |
      kept             checked on demand               checked here
"""

from __future__ import annotations

import enum
import struct
from collections.abc import Iterable
from hmac import compare_digest
from typing import Final
from zlib import crc32

from warp.errors import Discard
from warp.stun.attributes import MAGIC_COOKIE, Attribute, StunDiscard, split_username
from warp.stun.integrity import (
    FINGERPRINT_ATTRIBUTE_BYTES,
    FINGERPRINT_XOR,
    INTEGRITY_ATTRIBUTE_BYTES,
    IntegrityKey,
)

HEADER_BYTES = 20
BINDING = 0x001
_MAX_ATTRIBUTES = 64
_COOKIE: Final = MAGIC_COOKIE.to_bytes(4, "big")
_unpack_head: Final = struct.Struct("!HHI").unpack_from
_PAIR: Final = struct.Struct("!HH")  # type and length, of a message or of an attribute
_pack_pair, _unpack_pair = _PAIR.pack, _PAIR.unpack_from
_INTEGRITY: Final = int(Attribute.MESSAGE_INTEGRITY)
_INTEGRITY_SHA256: Final = int(Attribute.MESSAGE_INTEGRITY_SHA256)
_FINGERPRINT: Final = int(Attribute.FINGERPRINT)
_TAIL: Final = frozenset((_INTEGRITY, _INTEGRITY_SHA256, _FINGERPRINT))
_USERNAME: Final = int(Attribute.USERNAME)
_PADDING: Final = (b"", b"\0\0\0", b"\0\0", b"\0")
_USUAL_TAIL: Final = struct.Struct("!I20xII")  # MESSAGE-INTEGRITY, then FINGERPRINT
_INTEGRITY_HEAD: Final = _INTEGRITY << 16 | 20
_FINGERPRINT_HEAD: Final = _FINGERPRINT << 16 | 4
_pack_fingerprint: Final = struct.Struct("!II").pack


class MessageClass(enum.IntEnum):
    """The two class bits, as they stand in the message type (RFC 8489 section 5)."""

    REQUEST = 0x000
    INDICATION = 0x010
    SUCCESS = 0x100
    ERROR = 0x110


_CLASSES: Final = {int(c): c for c in MessageClass}


def _decode_type(value: int) -> tuple[int, MessageClass]:
    method = (value & 0x000F) | ((value & 0x00E0) >> 1) | ((value & 0x3E00) >> 2)
    return method, _CLASSES[value & 0x0110]


def encode_type(method: int, message_class: MessageClass) -> int:
    """Return the message type, the first two bytes of a message (RFC 8489 section 5)."""
    return (method & 0x000F) | ((method & 0x0070) << 1) | ((method & 0x0F80) << 2) | message_class


_BINDING_TYPES: Final = {encode_type(BINDING, c): (BINDING, c) for c in MessageClass}


class Message:
    """One parsed message; `attributes` holds only what MESSAGE-INTEGRITY covers.

    `values` has the first value of each type: the one that counts (RFC 8489 section 14).
    """

    __slots__ = (
        "attributes",
        "integrity_at",
        "message_class",
        "method",
        "raw",
        "sha256_at",
        "transaction_id",
        "values",
    )

    def __init__(
        self,
        method: int,
        message_class: MessageClass,
        raw: bytes,
        attributes: list[tuple[int, bytes]],
        integrity_at: int,
        sha256_at: int,
    ) -> None:
        self.method = method
        self.message_class = message_class
        self.transaction_id = raw[8:20]
        self.attributes = attributes
        self.values = dict(reversed(attributes))
        self.raw = raw
        self.integrity_at = integrity_at
        self.sha256_at = sha256_at

    @property
    def has_integrity(self) -> bool:
        """Whether a MESSAGE-INTEGRITY attribute (SHA-1) is present."""
        return self.integrity_at > 0

    def get(self, attribute_type: int) -> bytes | None:
        """Return the first value of this type (RFC 8489 section 14), or None."""
        return self.values.get(attribute_type)

    def verify_integrity(self, key: IntegrityKey) -> bool:
        """Tell whether MESSAGE-INTEGRITY is present and right (RFC 8489 section 14.5)."""
        at = self.integrity_at
        if at <= 0:
            return False
        raw = self.raw
        # the length field counts up to the end of MESSAGE-INTEGRITY, not what follows it
        covered = raw[:2] + (at + 4).to_bytes(2, "big") + raw[4:at]
        return compare_digest(key.digest(covered), raw[at + 4 : at + 24])

    def verify_integrity_sha256(self, key: IntegrityKey) -> bool:
        """Tell whether MESSAGE-INTEGRITY-SHA256 is present and right (section 14.6)."""
        at = self.sha256_at
        if at <= 0:
            return False
        raw = self.raw
        length = int.from_bytes(raw[at + 2 : at + 4], "big")
        covered = raw[:2] + (at - 16 + length).to_bytes(2, "big") + raw[4:at]
        # a sender may truncate the value to no less than 16 bytes
        return compare_digest(key.digest(covered)[:length], raw[at + 4 : at + 4 + length])

    def __repr__(self) -> str:
        names = ",".join(f"{kind:04x}/{len(value)}" for kind, value in self.attributes)
        return f"<Message {self.message_class.name} method={self.method:#x} [{names}]>"


def is_stun(data: bytes) -> bool:
    """Tell whether a datagram is STUN (RFC 7983 section 7, RFC 8489 section 6.3)."""
    return len(data) >= HEADER_BYTES and data[0] < 4 and data[4:8] == _COOKIE


def parse_message(data: bytes) -> Message:
    """Parse one datagram; raises `Discard` with a `StunDiscard` when it is worthless.

    FINGERPRINT is checked when present, integrity is not: the key depends on the USERNAME.
    """
    size = len(data)
    if size < HEADER_BYTES:
        raise Discard(StunDiscard.NOT_STUN)
    kind, length, cookie = _unpack_head(data)
    if kind > 0x3FFF or cookie != MAGIC_COOKIE:
        raise Discard(StunDiscard.NOT_STUN)
    if length & 3 or length + HEADER_BYTES != size:
        raise Discard(StunDiscard.BAD_LENGTH)
    attributes: list[tuple[int, bytes]] = []
    at = HEADER_BYTES
    integrity_at = sha256_at = 0
    # sizes are multiples of 4, so a header never straddles the end
    while at < size:
        attribute, length = _unpack_pair(data, at)
        if attribute in _TAIL:
            integrity_at, sha256_at = _parse_tail(data, at)
            break
        begin = at + 4
        end = begin + length
        attributes.append((attribute, data[begin:end]))
        at = (end + 3) & ~3
    if at > size:
        raise Discard(StunDiscard.BAD_ATTRIBUTE)
    if len(attributes) > _MAX_ATTRIBUTES:
        raise Discard(StunDiscard.TOO_MANY_ATTRIBUTES)
    method, message_class = _BINDING_TYPES.get(kind) or _decode_type(kind)
    return Message(method, message_class, data, attributes, integrity_at, sha256_at)


def _parse_tail(data: bytes, at: int) -> tuple[int, int]:
    """Walk from the first integrity attribute or FINGERPRINT to the end.

    Attributes behind MESSAGE-INTEGRITY other than -SHA256 and FINGERPRINT are ignored
    (RFC 8489 section 14.5). Returns the offsets of both integrity attributes, 0 when absent.
    """
    size = len(data)
    if size - at == _USUAL_TAIL.size:
        integrity, fingerprint, crc = _USUAL_TAIL.unpack_from(data, at)
        if integrity == _INTEGRITY_HEAD and fingerprint == _FINGERPRINT_HEAD:
            if crc32(data[:-8]) ^ FINGERPRINT_XOR != crc:
                raise Discard(StunDiscard.WRONG_FINGERPRINT)
            return at, 0
    integrity_at = sha256_at = 0
    while at < size:
        attribute, length = _unpack_pair(data, at)
        end = at + 4 + length
        if end > size:
            raise Discard(StunDiscard.BAD_ATTRIBUTE)
        if attribute == _FINGERPRINT:
            if end != size or length != 4:
                raise Discard(StunDiscard.AFTER_FINGERPRINT)
            if crc32(data[:at]) ^ FINGERPRINT_XOR != int.from_bytes(data[at + 4 :], "big"):
                raise Discard(StunDiscard.WRONG_FINGERPRINT)
        elif attribute == _INTEGRITY and not (integrity_at or sha256_at):
            if length != 20:
                raise Discard(StunDiscard.BAD_INTEGRITY_LENGTH)
            integrity_at = at
        elif attribute == _INTEGRITY_SHA256 and not sha256_at:
            if not 16 <= length <= 32 or length & 3:
                raise Discard(StunDiscard.BAD_INTEGRITY_LENGTH)
            sha256_at = at
        at = (end + 3) & ~3
    return integrity_at, sha256_at


def build_message(
    method: int,
    message_class: MessageClass,
    transaction_id: bytes,
    attributes: Iterable[tuple[int, bytes]],
    *,
    integrity_key: IntegrityKey | None,
    fingerprint: bool = True,
) -> bytes:
    """Return one message: `attributes` in their order, then integrity, then FINGERPRINT.

    `transaction_id` is 12 bytes. Values are padded here.
    """
    return seal_message(
        encode_type(method, message_class),
        transaction_id,
        encode_attributes(attributes),
        integrity_key,
        fingerprint,
    )


def encode_attributes(attributes: Iterable[tuple[int, bytes]]) -> bytes:
    """Return attributes as they stand in a message, each padded to a multiple of 4 bytes."""
    body = b""
    for kind, value in attributes:
        size = len(value)
        body += _pack_pair(kind, size) + value + _PADDING[size & 3]
    return body


def seal_message(
    message_type: int,
    transaction_id: bytes,
    body: bytes,
    integrity_key: IntegrityKey | None,
    fingerprint: bool = True,
) -> bytes:
    """Return one message: encoded attributes between its header, integrity and FINGERPRINT."""
    length = len(body)
    rest = _COOKIE + transaction_id + body
    if integrity_key is not None:
        # the length field counts up to the end of the attribute that is being made
        length += INTEGRITY_ATTRIBUTE_BYTES
        covered = _pack_pair(message_type, length) + rest
        rest += b"\x00\x08\x00\x14" + integrity_key.digest(covered)
    if not fingerprint:
        return _pack_pair(message_type, length) + rest
    head = _pack_pair(message_type, length + FINGERPRINT_ATTRIBUTE_BYTES) + rest
    return head + _pack_fingerprint(_FINGERPRINT_HEAD, crc32(head) ^ FINGERPRINT_XOR)


def peek_username(data: bytes) -> tuple[str, str] | None:
    """Return (receiver's ufrag, sender's ufrag) of a Binding request, unauthenticated.

    For routing only: nothing is verified. None when the datagram is no such request.
    """
    size = len(data)
    if size < HEADER_BYTES + 4 or data[:2] != b"\x00\x01" or data[4:8] != _COOKIE:
        return None
    at = HEADER_BYTES
    for _ in range(_MAX_ATTRIBUTES):
        kind, length = _unpack_pair(data, at)
        end = at + 4 + length
        if kind == _USERNAME:
            return split_username(data[at + 4 : end]) if end <= size else None
        at = (end + 3) & ~3
        if at + 4 > size:
            break
    return None
