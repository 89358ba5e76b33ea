"""The records of a DTLS datagram as far as they stand in the clear: headers, fragments, hellos.

RFC 9147 section 4, RFC 6347 section 4.1. Called by `contents` for every DTLS datagram, direct or
carried in a check. Layouts and decoders are those of `warp.dtls`; a capture may have cut the
datagram, so every length here is what the header says, and bytes may be fewer.
"""

from __future__ import annotations

import struct
from typing import Final, NamedTuple

from warp.dtls.reassembly import FRAGMENT_HEADER_LENGTH
from warp.dtls.record13 import CONNECTION_ID, EPOCH_BITS, HAS_LENGTH, WIDE_SEQUENCE
from warp.dtls.records import (
    ACK,
    ALERT,
    APPLICATION_DATA,
    CHANGE_CIPHER_SPEC,
    HANDSHAKE,
    PLAIN_HEADER,
    PLAIN_HEADER_LENGTH,
)

MAX_RECORDS: Final = 64
MAX_PIECES: Final = 32
TYPES: Final = frozenset((CHANGE_CIPHER_SPEC, ALERT, HANDSHAKE, APPLICATION_DATA, ACK))
_VERSION_MAJOR: Final = 0xFE
_FRAGMENT: Final = struct.Struct("!IHHI")
_RANDOM: Final = slice(2, 34)


class Piece(NamedTuple):
    """A fragment of a handshake message; `data` may be cut, `size` is what the header says."""

    kind: int
    length: int
    """Of the whole message."""
    message_seq: int
    offset: int
    size: int
    data: bytes

    @property
    def whole(self) -> bool:
        """Whether this is all of its message."""
        return not self.offset and self.size == self.length

    @property
    def random(self) -> bytes | None:
        """The random of a ClientHello or ServerHello, when it is in this piece."""
        found = self.data[_RANDOM] if not self.offset else b""
        return found if len(found) == 32 else None


class Record(NamedTuple):
    """One record. A protected one of DTLS 1.3 has neither type nor number in the clear."""

    content_type: int | None
    epoch: int
    """In DTLS 1.3's unified header: the low two bits."""
    sequence: int | None
    size: int
    """Bytes behind the header."""
    unified: bool
    version: int
    """Of the record header; 0 in a unified one."""
    pieces: tuple[Piece, ...] = ()
    body: bytes = b""
    """Of an alert or ACK in the clear."""

    @property
    def protected(self) -> bool:
        """Whether its content is encrypted."""
        return self.unified or self.epoch > 0

    def lean(self) -> Record:
        """Return the record without the bytes of its messages."""
        if not self.pieces:
            return self
        return self._replace(pieces=tuple(piece._replace(data=b"") for piece in self.pieces))


class Records(NamedTuple):
    """What a DTLS datagram holds."""

    records: tuple[Record, ...]
    fault: str | None
    """Why the rest of the datagram could not be told."""


def read_records(data: bytes, length: int) -> Records:
    """Return the records of a datagram of `length` bytes, of which `data` was captured."""
    found: list[Record] = []
    at = 0
    while at < len(data):
        if len(found) >= MAX_RECORDS:
            return Records(tuple(found), "more records than any real datagram has")
        first = data[at]
        record = _unified(data, at, length) if first >> 5 == 1 else _plain(data, at)
        if record is None:
            cut = len(data) < length
            return Records(tuple(found), "cut by the capture" if cut else "a record is cut short")
        size, header = record[0].size, record[1]
        if at + header + size > length:
            return Records(tuple(found), "a record is longer than its datagram")
        found.append(record[0])
        at += header + size
    return Records(tuple(found), None)


def is_dtls(data: bytes, length: int) -> bool:
    """Tell whether a datagram of an unknown flow is DTLS beyond doubt."""
    if len(data) < PLAIN_HEADER_LENGTH or not 20 <= data[0] <= 63:
        return False
    if data[0] >> 5 == 1:
        if data[0] & CONNECTION_ID or not data[0] & HAS_LENGTH:
            return False
    elif data[0] not in TYPES or data[1] != _VERSION_MAJOR:
        return False
    found = read_records(data, length)
    return bool(found.records) and (found.fault is None or len(data) < length)


def client_random(records: tuple[Record, ...]) -> bytes | None:
    """Return the random of a first ClientHello that begins here."""
    for record in records:
        for piece in record.pieces:
            if piece.kind == 1 and piece.message_seq <= 1 and piece.random:
                return piece.random
    return None


def _unified(data: bytes, at: int, length: int) -> tuple[Record, int] | None:
    first = data[at]
    epoch = first & EPOCH_BITS
    if first & CONNECTION_ID or not first & HAS_LENGTH:
        # of unknown length, or without one: the rest of the datagram
        header = 1 + (2 if first & WIDE_SEQUENCE else 1)
        return Record(None, epoch, None, max(0, length - at - header), True, 0), header
    header = 5 if first & WIDE_SEQUENCE else 4
    if at + header > len(data):
        return None
    size = data[at + header - 2] << 8 | data[at + header - 1]
    return Record(None, epoch, None, size, True, 0), header


def _plain(data: bytes, at: int) -> tuple[Record, int] | None:
    if at + PLAIN_HEADER_LENGTH > len(data):
        return None
    kind, version, epoch, high, low, size = PLAIN_HEADER.unpack_from(data, at)
    if kind not in TYPES and kind != 25:
        return None
    content = data[at + PLAIN_HEADER_LENGTH : at + PLAIN_HEADER_LENGTH + size]
    pieces: tuple[Piece, ...] = ()
    body = b""
    if not epoch and kind == HANDSHAKE:
        pieces = _pieces(content)
    elif not epoch and kind in (ALERT, ACK):
        body = content
    record = Record(kind, epoch, high << 32 | low, size, False, version, pieces, body)
    return record, PLAIN_HEADER_LENGTH


def _pieces(content: bytes) -> tuple[Piece, ...]:
    found: list[Piece] = []
    at = 0
    while at + FRAGMENT_HEADER_LENGTH <= len(content) and len(found) < MAX_PIECES:
        head, message_seq, offset_high, tail = _FRAGMENT.unpack_from(content, at)
        at += FRAGMENT_HEADER_LENGTH
        size = tail & 0xFFFFFF
        found.append(
            Piece(
                head >> 24,
                head & 0xFFFFFF,
                message_seq,
                offset_high << 8 | tail >> 24,
                size,
                content[at : at + size],
            )
        )
        at += size
    return tuple(found)
