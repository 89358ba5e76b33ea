"""A datagram without its secrets: same kinds, sizes, numbers and times, other contents.

    STUN   ufrags, addresses, integrity, tie-breaker, texts renamed; FINGERPRINT made again; a
           carried DTLS datagram rewritten, and acknowledgements of it
    DTLS   hellos stay (they hold public values only); certificates, signatures and everything
           encrypted become other bytes
    SRTP   the header stays; extensions, payload and tag become other bytes

Called by `redact` for every datagram that is kept. Any bytes give bytes of the same length.
"""

from __future__ import annotations

import struct
import zlib
from typing import Final

from warp.dtls.messages import HandshakeType
from warp.dtls.reassembly import FRAGMENT_HEADER_LENGTH
from warp.dtls.records import PLAIN_HEADER_LENGTH
from warp.errors import Discard
from warp.peer import Kind, classify
from warp.sped import datagram_hash
from warp.stun import (
    HEADER_BYTES,
    Attribute,
    decode_xor_address,
    encode_xor_address,
    is_stun,
)
from warp.stun.integrity import FINGERPRINT_XOR
from warp_tools.capture.pseudonyms import Pseudonyms
from warp_tools.capture.records import Record, read_records

_KEPT: Final = frozenset(
    (
        Attribute.PRIORITY,
        Attribute.USE_CANDIDATE,
        Attribute.GOOG_NETWORK_INFO,
        Attribute.CHANNEL_NUMBER,
        Attribute.LIFETIME,
        Attribute.REQUESTED_TRANSPORT,
        Attribute.REQUESTED_ADDRESS_FAMILY,
        Attribute.UNKNOWN_ATTRIBUTES,
    )
)
_ADDRESSES: Final = frozenset(
    (Attribute.XOR_MAPPED_ADDRESS, Attribute.XOR_RELAYED_ADDRESS, Attribute.XOR_PEER_ADDRESS)
)
_SECRET_MESSAGES: Final = frozenset(
    (HandshakeType.CERTIFICATE, HandshakeType.CERTIFICATE_VERIFY, HandshakeType.CERTIFICATE_REQUEST)
)
_CHANNEL_FIRST, _CHANNEL_LAST, _CHANNEL_HEADER = 0x40, 0x4F, 4
_RTP_HEADER, _RTCP_HEADER = 12, 8
_CURVE_HEAD: Final = 4
_SIGNATURE_HEAD: Final = 4


def rewrite(data: bytes, length: int, names: Pseudonyms) -> bytes:
    """Return a datagram of `length` bytes, of which `data` was captured, without its secrets."""
    if is_stun(data):
        return _stun(data, length, names)
    if data and _CHANNEL_FIRST <= data[0] <= _CHANNEL_LAST:
        inner = data[_CHANNEL_HEADER:]
        size = int.from_bytes(data[2:4], "big")
        return data[:_CHANNEL_HEADER] + rewrite(inner, size, names)
    kind = classify(data)
    if kind is Kind.DTLS:
        return rewrite_dtls(data, length, names)
    if kind in (Kind.RTP, Kind.RTCP):
        return _media(data, kind is Kind.RTCP, names)
    return names.octets(data)


# -- STUN -----------------------------------------------------------------------------------------


def _stun(data: bytes, length: int, names: Pseudonyms) -> bytes:
    out = bytearray(data[:HEADER_BYTES])
    at = HEADER_BYTES
    while at + 4 <= len(data):
        kind, size = struct.unpack_from("!HH", data, at)
        end = at + 4 + size
        if end > len(data):
            break
        value = data[at + 4 : end]
        if kind == Attribute.FINGERPRINT and size == 4 and end == len(data) == length:
            value = _fingerprint(data, at, bytes(out))
        else:
            value = _value(kind, value, data[8:20], names)
        out += data[at : at + 4] + value + bytes(-size % 4)
        at = end + (-size % 4)
    # what the capture cut off in the middle of an attribute says nothing
    out += bytes(max(0, len(data) - len(out)))
    return bytes(out[: len(data)])


def _fingerprint(data: bytes, at: int, head: bytes) -> bytes:
    """Return the FINGERPRINT of the rewritten message: right if it was right."""
    was = int.from_bytes(data[at + 4 : at + 8], "big")
    right = zlib.crc32(data[:at]) ^ FINGERPRINT_XOR == was
    now = zlib.crc32(head) ^ FINGERPRINT_XOR
    return (now if right else now ^ 1).to_bytes(4, "big")


def _value(kind: int, value: bytes, transaction: bytes, names: Pseudonyms) -> bytes:
    if kind in _KEPT:
        return value
    if kind == Attribute.USERNAME:
        return b":".join(map(names.text, value.split(b":")))
    if kind in _ADDRESSES:
        return _address(value, transaction, names)
    if kind == Attribute.MAPPED_ADDRESS:
        return value[:4] + names.octets(value[4:])
    if kind == Attribute.ERROR_CODE:
        return value[:4] + b" " * len(value[4:])
    if kind == Attribute.META_DTLS_IN_STUN:
        return rewrite_dtls(value, len(value), names)
    if kind == Attribute.META_DTLS_IN_STUN_ACKNOWLEDGEMENT:
        return _acknowledgement(value, names)
    if kind == Attribute.DATA:
        return rewrite(value, len(value), names)
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
    rest = data[at:]
    out += rest[:PLAIN_HEADER_LENGTH] + names.octets(rest[PLAIN_HEADER_LENGTH:])
    done = bytes(out[: len(data)])
    names.learn_crc(datagram_hash(data), datagram_hash(done))
    return done


def _header_size(data: bytes, at: int, record: Record) -> int:
    if not record.unified:
        return PLAIN_HEADER_LENGTH
    first = data[at]
    return 1 + (2 if first & 0x08 else 1) + (2 if first & 0x04 else 0)


def _body(record: Record, body: bytes, names: Pseudonyms) -> bytes:
    if record.protected:
        return names.octets(body)
    if not record.pieces:
        return body
    out = bytearray()
    at = 0
    for piece in record.pieces:
        start = at + FRAGMENT_HEADER_LENGTH
        out += body[at:start]
        content = body[start : start + piece.size]
        if piece.kind in _SECRET_MESSAGES:
            content = names.octets(content)
        elif piece.kind == HandshakeType.SERVER_KEY_EXCHANGE:
            content = _key_exchange(content, piece.offset, names)
        out += content
        at = start + piece.size
    out += names.octets(body[at:])
    return bytes(out[: len(body)])


def _key_exchange(content: bytes, offset: int, names: Pseudonyms) -> bytes:
    """Keep the key share of a ServerKeyExchange; its signature leads to a certificate."""
    if offset or len(content) < _CURVE_HEAD:
        return names.octets(content)
    kept = _CURVE_HEAD + content[3] + _SIGNATURE_HEAD
    return content[:kept] + names.octets(content[kept:])


# -- media ----------------------------------------------------------------------------------------


def _media(data: bytes, rtcp: bool, names: Pseudonyms) -> bytes:
    kept = _RTCP_HEADER
    if not rtcp:
        kept = _RTP_HEADER + 4 * (data[0] & 15)
        if data[0] & 0x10:
            kept += 4  # profile and length of the extension, not what is in it
    return data[:kept] + names.octets(data[kept:])
