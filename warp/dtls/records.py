"""What a record is, whatever the version: content types, reasons to drop one, the two kinds of key.

Called by the epoch table and by the flight; implemented by record13 (RFC 9147 section 4) and
record12 (RFC 6347 section 4.1). Also the one record that both versions share: the plaintext one
of epoch 0.

    DTLSPlaintext   type u8 | version u16 | epoch u16 | sequence u48 | length u16 | fragment
"""

from __future__ import annotations

import enum
import struct
from typing import Final, Protocol

from warp.errors import InvalidState

# content types (IANA registry): plain integers, because every record compares them
CHANGE_CIPHER_SPEC: Final = 20
ALERT: Final = 21
HANDSHAKE: Final = 22
APPLICATION_DATA: Final = 23
ACK: Final = 26

WARNING: Final = 1  # alert levels (RFC 8446 section 6)
FATAL: Final = 2

PLAIN_HEADER: Final = struct.Struct("!BHHHIH")
"""type, version, epoch, sequence (high 16, low 32), length."""

PLAIN_HEADER_LENGTH: Final = 13
MAX_CONTENT: Final = 1 << 14  # RFC 8446 section 5.1
MAX_EXPANSION12: Final = 2048  # of content by protection: RFC 5246 section 6.2.3
MAX_EXPANSION13: Final = 256  # RFC 8446 section 5.2
MAX_SEQUENCE: Final = (1 << 48) - 1  # RFC 9147 section 4.2.1: never wraps
DTLS10_WIRE: Final = 0xFEFF  # on a first ClientHello, before the version is known
DTLS12_WIRE: Final = 0xFEFD  # on everything else (RFC 9147 section 4)


class DtlsDiscard(enum.Enum):
    """Why one datagram, record or handshake fragment was worth nothing."""

    NOT_DTLS = "the first byte is not one of DTLS"
    TRUNCATED = "the header or the body is cut short"
    CONNECTION_ID = "a connection id, which was not negotiated"
    UNKNOWN_EPOCH = "no keys for this epoch"
    UNKNOWN_TYPE = "a content type without a meaning here"
    TOO_LONG = "more ciphertext than a record can have"
    DECRYPTION = "the record does not decrypt"
    REPLAY = "the record was seen before, or is too old to tell"
    PLAINTEXT = "a plaintext record where only protected ones count"
    UNAUTHENTICATED_ALERT = "a plaintext alert where only protected ones count"
    CHANGE_CIPHER_SPEC = "the epoch of a record says all that ChangeCipherSpec says"
    OUT_OF_WINDOW = "a handshake message too far ahead"
    BAD_FRAGMENT = "a handshake fragment that contradicts itself or others"
    BUFFER_FULL = "no room to keep what came too early"
    HELD = "not worthless: kept until its keys are known"
    OLD_MESSAGE = "a handshake message that was dealt with before"
    MISPLACED_MESSAGE = "a plaintext message that has no place now"
    UNDECODABLE_HELLO = "a plaintext message that does not parse"
    UNDECODABLE_ACK = "a plaintext ACK that does not parse"
    TOO_EARLY = "an ACK before the version is known"
    AFTER_CLOSE = "data from after the peer's close_notify"
    CLOSED = "the connection is over"


class ReadKeys(Protocol):
    """The keys of one epoch that we receive in, with its replay window."""

    @property
    def epoch(self) -> int:
        """Number of the epoch."""

    @property
    def failures(self) -> int:
        """Records that did not decrypt under these keys (RFC 9147 section 4.5.3)."""

    def open(self, data: bytes, start: int, end: int) -> tuple[int, int, bytes]:
        """Return content type, sequence number and content of the record `data[start:end]`.

        `start` is the record's first header byte. Raises Discard and leaves the window alone
        when the record does not decrypt or was seen before.
        """


class WriteKeys(Protocol):
    """The keys of one epoch that we send in, with its next sequence number."""

    @property
    def epoch(self) -> int:
        """Number of the epoch."""

    @property
    def overhead(self) -> int:
        """Bytes that a record adds to its content, header and tag included."""

    @property
    def next_sequence(self) -> int:
        """Sequence number of the record that will be sealed next."""

    def seal(self, content_type: int, content: bytes) -> bytes:
        """Return one whole record; takes the next sequence number."""


class PlainWriteKeys:
    """Epoch 0: no keys, a header of 13 bytes."""

    __slots__ = ("next_sequence", "wire_version")

    epoch: Final = 0
    overhead: Final = PLAIN_HEADER_LENGTH

    def __init__(self) -> None:
        self.next_sequence = 0
        self.wire_version = DTLS12_WIRE

    def seal(self, content_type: int, content: bytes) -> bytes:
        """Return a DTLSPlaintext record."""
        sequence = self.next_sequence
        if sequence > MAX_SEQUENCE:
            raise InvalidState("the sequence numbers of epoch 0 are used up")
        self.next_sequence = sequence + 1
        header = PLAIN_HEADER.pack(
            content_type,
            self.wire_version,
            0,
            sequence >> 32,
            sequence & 0xFFFFFFFF,
            len(content),
        )
        return header + content
