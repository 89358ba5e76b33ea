"""A datagram without its secrets: same kinds, sizes, numbers and times, other contents.

    STUN   ufrags, addresses, integrity, tie-breaker, texts renamed; FINGERPRINT made again; a
           carried DTLS datagram rewritten, and acknowledgements of it
    DTLS   hellos stay as far as they negotiate; session ids, tickets and names of servers in them,
           every other message and everything encrypted become other bytes
    SRTP   the header stays; sources that were mixed, extensions, payload and tag become other bytes

What is kept is listed; all else goes. Called by `redact` for every datagram that is kept. Any bytes
give bytes of the same length.
"""

from __future__ import annotations

import struct
import zlib
from functools import partial
from typing import Final, cast

from warp.dtls.extensions import ExtensionType
from warp.dtls.messages import HandshakeType
from warp.dtls.reassembly import FRAGMENT_HEADER_LENGTH
from warp.dtls.record13 import CONNECTION_ID, HAS_LENGTH, WIDE_SEQUENCE
from warp.dtls.records import ACK, ALERT, CHANGE_CIPHER_SPEC, PLAIN_HEADER_LENGTH
from warp.errors import Discard
from warp.peer import Kind, classify
from warp.sped import datagram_hash
from warp.stun import (
    HEADER_BYTES,
    Attribute,
    decode_xor_address,
    encode_xor_address,
    is_stun,
    split_username,
)
from warp.stun.integrity import FINGERPRINT_XOR
from warp_tools.capture.pseudonyms import Pseudonyms
from warp_tools.capture.records import Piece, Record, read_records

MAX_NESTED: Final = 3
"""Datagrams in datagrams (TURN); nobody sends more."""
_KEPT: Final = {
    Attribute.PRIORITY: 4,
    Attribute.USE_CANDIDATE: 0,
    Attribute.GOOG_NETWORK_INFO: 4,
    Attribute.CHANNEL_NUMBER: 4,
    Attribute.LIFETIME: 4,
    Attribute.REQUESTED_TRANSPORT: 4,
    Attribute.REQUESTED_ADDRESS_FAMILY: 4,
}
"""Attributes that say nothing of anybody, and how long they are."""
_ADDRESSES: Final = frozenset(
    (Attribute.XOR_MAPPED_ADDRESS, Attribute.XOR_RELAYED_ADDRESS, Attribute.XOR_PEER_ADDRESS)
)
_KEPT_MESSAGES: Final = frozenset((HandshakeType.SERVER_HELLO, HandshakeType.HELLO_VERIFY_REQUEST))
_KEPT_EXTENSIONS: Final = frozenset(
    (
        ExtensionType.SUPPORTED_GROUPS,
        ExtensionType.EC_POINT_FORMATS,
        ExtensionType.SIGNATURE_ALGORITHMS,
        ExtensionType.USE_SRTP,
        ExtensionType.PADDING,
        ExtensionType.EXTENDED_MASTER_SECRET,
        ExtensionType.SUPPORTED_VERSIONS,
        ExtensionType.COOKIE,
        ExtensionType.KEY_SHARE,
        ExtensionType.RENEGOTIATION_INFO,
    )
)
_BEFORE_SESSION_ID: Final = 34
_CHANGE: Final = b"\1"
_ACK_NUMBER: Final = 16
_CHANNEL_FIRST, _CHANNEL_LAST, _CHANNEL_HEADER = 0x40, 0x4F, 4
_RTP_HEADER, _RTCP_HEADER = 12, 8
_NAMED_CURVE, _CURVE_HEAD = 3, 4
_SIGNATURE_HEAD: Final = 4


def rewrite(data: bytes, length: int, names: Pseudonyms, depth: int = 0) -> bytes:
    """Return a datagram of `length` bytes, of which `data` was captured, without its secrets."""
    if depth > MAX_NESTED:
        return names.octets(data)
    if is_stun(data):
        return _stun(data, length, names, depth)
    if data and _CHANNEL_FIRST <= data[0] <= _CHANNEL_LAST:
        inner = data[_CHANNEL_HEADER:]
        size = int.from_bytes(data[2:4], "big")
        return data[:_CHANNEL_HEADER] + rewrite(inner, size, names, depth + 1)
    kind = classify(data)
    if kind is Kind.DTLS:
        return rewrite_dtls(data, length, names)
    if kind in (Kind.RTP, Kind.RTCP):
        return _media(data, kind is Kind.RTCP, names)
    return data[:1] + names.octets(data)[1:]  # what kind it is of is told by its first byte


# -- STUN -----------------------------------------------------------------------------------------


def _stun(data: bytes, length: int, names: Pseudonyms, depth: int) -> bytes:
    out = bytearray(data[:HEADER_BYTES])
    at = HEADER_BYTES
    message = HEADER_BYTES + int.from_bytes(data[2:4], "big")
    while at + 4 <= min(len(data), message):
        kind, size = struct.unpack_from("!HH", data, at)
        end = at + 4 + size
        if end > len(data):
            break
        value = data[at + 4 : end]
        if kind == Attribute.FINGERPRINT and size == 4 and end == len(data) == length:
            value = _fingerprint(data, at, bytes(out))
        else:
            value = _value(kind, value, data[8:20], names, depth)
        out += data[at : at + 4] + value + bytes(-size % 4)
        at = end + (-size % 4)
    # an attribute that does not fit, or was cut off in its middle, stays one
    head = 4 if at < message else 0
    out += data[at : at + head] + names.octets(data[at + head :])
    return bytes(out[: len(data)])


def _fingerprint(data: bytes, at: int, head: bytes) -> bytes:
    """Return the FINGERPRINT of the rewritten message: right if it was right."""
    was = int.from_bytes(data[at + 4 : at + 8], "big")
    right = zlib.crc32(data[:at]) ^ FINGERPRINT_XOR == was
    now = zlib.crc32(head) ^ FINGERPRINT_XOR
    return (now if right else now ^ 1).to_bytes(4, "big")


def _value(kind: int, value: bytes, transaction: bytes, names: Pseudonyms, depth: int) -> bytes:
    if _KEPT.get(cast(Attribute, kind)) == len(value):
        return value
    if kind == Attribute.USERNAME:
        if split_username(value) is None:
            # no ufrags, and being no ASCII it does not become any
            return bytes(octet | 0x80 for octet in names.octets(value))
        return b":".join(map(names.text, value.split(b":")))
    if kind in _ADDRESSES:
        return _address(value, transaction, names)
    if kind == Attribute.MAPPED_ADDRESS:
        return value[:4] + names.octets(value[4:]) if len(value) > 4 else names.octets(value)
    if kind == Attribute.ERROR_CODE:
        return value[:4] + b" " * len(value[4:])
    if kind == Attribute.META_DTLS_IN_STUN:
        return rewrite_dtls(value, len(value), names)
    if kind == Attribute.META_DTLS_IN_STUN_ACKNOWLEDGEMENT:
        return _acknowledgement(value, names)
    if kind == Attribute.DATA:
        return rewrite(value, len(value), names, depth + 1)
    if kind in (Attribute.REALM, Attribute.NONCE, Attribute.SOFTWARE):
        return names.text(value)
    return names.octets(value)


def _address(value: bytes, transaction: bytes, names: Pseudonyms) -> bytes:
    try:
        address = decode_xor_address(value, transaction)
    except Discard:
        return names.octets(value)
    return encode_xor_address(names.address(address), transaction)


def _acknowledgement(value: bytes, names: Pseudonyms) -> bytes:
    count, rest = divmod(len(value), 4)
    crcs = [int.from_bytes(value[4 * i : 4 * i + 4], "big") for i in range(count)]
    out = b"".join(names.crc(crc).to_bytes(4, "big") for crc in crcs)
    return out + names.octets(value[-rest:] if rest else b"")


# -- DTLS -----------------------------------------------------------------------------------------


def rewrite_dtls(data: bytes, length: int, names: Pseudonyms) -> bytes:
    """Return a DTLS datagram without its secrets, and note its new CRC."""
    out = bytearray()
    at = 0
    for record in read_records(data, length).records:
        header = _header_size(data, at, record)
        body = data[at + header : at + header + record.size]
        out += data[at : at + header] + _body(record, body, names)
        at += header + record.size
    out += _unread(data[at:], names)
    done = bytes(out[: len(data)])
    names.learn_crc(datagram_hash(data), datagram_hash(done))
    return done


def _unread(rest: bytes, names: Pseudonyms) -> bytes:
    """What is no whole record stays none: its first byte is kept, its length becomes too much."""
    if not rest:
        return b""
    out = bytearray(rest[:1] + names.octets(rest)[1:])
    end = PLAIN_HEADER_LENGTH
    if rest[0] >> 5 == 1:
        end = 1 + (2 if rest[0] & WIDE_SEQUENCE else 1) + 2
    if len(out) >= end:
        out[end - 2 : end] = b"\xff\xff"
    return bytes(out)


def _header_size(data: bytes, at: int, record: Record) -> int:
    if not record.unified:
        return PLAIN_HEADER_LENGTH
    first = data[at]
    # without a length, and with a connection id, the rest of the datagram is taken for content
    sized = first & HAS_LENGTH and not first & CONNECTION_ID
    return 1 + (2 if first & WIDE_SEQUENCE else 1) + (2 if sized else 0)


def _body(record: Record, body: bytes, names: Pseudonyms) -> bytes:
    if record.protected or not record.pieces:
        return body if _is_harmless(record, body) else names.octets(body)
    out = bytearray()
    at = 0
    for piece in record.pieces:
        start = at + FRAGMENT_HEADER_LENGTH
        out += body[at:start]
        out += _message(piece, body[start : start + piece.size], names)
        at = start + piece.size
    out += names.octets(body[at:])
    return bytes(out[: len(body)])


def _is_harmless(record: Record, body: bytes) -> bool:
    """Tell whether a record in the clear is an alert, an ACK or a ChangeCipherSpec, and no more."""
    if record.protected:
        return False
    if record.content_type == ACK:
        size = int.from_bytes(body[:2], "big")
        return len(body) == 2 + size and not size % _ACK_NUMBER
    if record.content_type == ALERT:
        return len(body) == 2
    return record.content_type == CHANGE_CIPHER_SPEC and body == _CHANGE


def _message(piece: Piece, content: bytes, names: Pseudonyms) -> bytes:
    """Return what a piece of a handshake message holds, as far as it may be known."""
    if piece.kind in _KEPT_MESSAGES:
        return content
    if piece.kind == HandshakeType.CLIENT_HELLO:
        hello = partial(_client_hello, names=names)
        return names.hellos.rewrite(piece, content, hello, names.octets)
    if piece.kind == HandshakeType.SERVER_KEY_EXCHANGE:
        return _key_exchange(content, piece.offset, names)
    return names.octets(content)


def _client_hello(content: bytes, names: Pseudonyms) -> bytes:
    """Rewrite the session id, and each extension that a start is not negotiated by."""
    out = bytearray(content)
    at = _BEFORE_SESSION_ID
    end = at + 1 + int.from_bytes(content[at : at + 1], "big")
    out[at + 1 : end] = names.octets(content[at + 1 : end])
    at = end
    for prefix in (1, 2, 1):  # cookie, suites, compression
        at += prefix + int.from_bytes(content[at : at + prefix], "big")
    at += 2
    while at + 4 <= len(content):
        kind, size = struct.unpack_from("!HH", content, at)
        at += 4
        if kind not in _KEPT_EXTENSIONS:
            out[at : at + size] = names.octets(content[at : at + size])
        at += size
    return bytes(out)


def _key_exchange(content: bytes, offset: int, names: Pseudonyms) -> bytes:
    """Keep the key share of a ServerKeyExchange; its signature leads to a certificate."""
    if offset or len(content) < _CURVE_HEAD or content[0] != _NAMED_CURVE:
        return names.octets(content)
    kept = _CURVE_HEAD + content[3] + _SIGNATURE_HEAD
    return content[:kept] + names.octets(content[kept:])


# -- media ----------------------------------------------------------------------------------------


def _media(data: bytes, rtcp: bool, names: Pseudonyms) -> bytes:
    if rtcp:
        return data[:_RTCP_HEADER] + names.octets(data[_RTCP_HEADER:])
    mixed = _RTP_HEADER + 4 * (data[0] & 15)
    # profile and length of the extension, not what is in it
    kept = mixed + (4 if data[0] & 0x10 else 0)
    sources = names.octets(data[_RTP_HEADER:mixed])
    return data[:_RTP_HEADER] + sources + data[mixed:kept] + names.octets(data[kept:])
