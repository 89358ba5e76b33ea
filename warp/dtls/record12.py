"""Protected records of DTLS 1.2 with an AEAD (RFC 6347 section 4.1, RFC 5288, RFC 7905).

    type u8 | version u16 | epoch u16 | sequence u48 | length u16 | [nonce u64] | ciphertext | tag

AES-GCM shows eight bytes of its nonce on the wire and has four in its salt; ChaCha20-Poly1305
derives all twelve from epoch and sequence. Called by the epoch table and by the flight.
"""

from __future__ import annotations

import struct
from typing import Final

from warp.crypto import TAG_LENGTH, Aead, AeadKind, DecryptError
from warp.dtls.faults import Alert, DtlsRule, misbehaved
from warp.dtls.records import (
    DTLS12_WIRE,
    MAX_CONTENT,
    MAX_SEQUENCE,
    PLAIN_HEADER,
    PLAIN_HEADER_LENGTH,
    DtlsDiscard,
)
from warp.errors import Discard, InvalidState

EPOCH: Final = 1  # the only protected one: there is no renegotiation here
_EPOCH_BITS: Final = EPOCH << 48
_EXPLICIT_LENGTH: Final = 8
_AAD: Final = struct.Struct("!QBHH")  # epoch and sequence, type, version, length (RFC 5246 6.2.3.3)
_WINDOW: Final = 256
_WINDOW_MASK: Final = (1 << _WINDOW) - 1


def iv_length(kind: AeadKind) -> int:
    """Return how many bytes of the key block are one side's implicit nonce."""
    return 12 if kind is AeadKind.CHACHA20_POLY1305 else 4


class WriteKeys12:
    """The keys that we send under. The nonce is epoch and sequence, so it never repeats."""

    __slots__ = ("_explicit", "_iv", "_iv_number", "_seal", "next_sequence", "overhead")

    epoch: Final = EPOCH

    def __init__(self, kind: AeadKind, key: bytes, iv: bytes) -> None:
        self._seal: Final = Aead(kind, key).seal
        self._iv: Final = iv
        self._iv_number: Final = int.from_bytes(iv, "big")
        self._explicit: Final = _EXPLICIT_LENGTH if len(iv) == 4 else 0
        self.overhead: Final = PLAIN_HEADER_LENGTH + self._explicit + TAG_LENGTH
        self.next_sequence = 0

    def seal(self, content_type: int, content: bytes) -> bytes:
        """Return one whole record; takes the next sequence number."""
        sequence = self.next_sequence
        if sequence > MAX_SEQUENCE:
            raise InvalidState("the sequence numbers of this epoch are used up")
        self.next_sequence = sequence + 1
        number = _EPOCH_BITS | sequence
        length = len(content)
        aad = _AAD.pack(number, content_type, DTLS12_WIRE, length)
        header = PLAIN_HEADER.pack(
            content_type,
            DTLS12_WIRE,
            EPOCH,
            sequence >> 32,
            sequence & 0xFFFFFFFF,
            length + self._explicit + TAG_LENGTH,
        )
        if self._explicit:
            explicit = number.to_bytes(8, "big")
            return header + explicit + self._seal(self._iv + explicit, content, aad)
        nonce = (self._iv_number ^ number).to_bytes(12, "big")
        return header + self._seal(nonce, content, aad)


class ReadKeys12:
    """The keys that we receive under, with the replay window (RFC 6347 section 4.1.2.6)."""

    __slots__ = ("_explicit", "_iv", "_iv_number", "_open", "_seen", "_top", "failures")

    epoch: Final = EPOCH

    def __init__(self, kind: AeadKind, key: bytes, iv: bytes) -> None:
        self._open: Final = Aead(kind, key).open
        self._iv: Final = iv
        self._iv_number: Final = int.from_bytes(iv, "big")
        self._explicit: Final = _EXPLICIT_LENGTH if len(iv) == 4 else 0
        self._top = -1  # highest sequence number that has opened
        self._seen = 0  # bit n: number top - n has opened
        self.failures = 0

    def open(self, data: bytes, start: int, end: int) -> tuple[int, int, bytes]:
        """Return content type, sequence number and content of the record `data[start:end]`."""
        body = start + PLAIN_HEADER_LENGTH
        explicit = self._explicit
        length = end - body - explicit - TAG_LENGTH
        if length < 0:
            raise Discard(DtlsDiscard.TRUNCATED)
        content_type = data[start]
        number = int.from_bytes(data[start + 3 : start + 11], "big")
        if explicit:
            nonce = self._iv + data[body : body + explicit]
        else:
            nonce = (self._iv_number ^ number).to_bytes(12, "big")
        version = data[start + 1] << 8 | data[start + 2]
        aad = _AAD.pack(number, content_type, version, length & 0xFFFF)
        try:
            content = self._open(nonce, data[body + explicit : end], aad)
        except DecryptError:
            self.failures += 1
            raise Discard(DtlsDiscard.DECRYPTION) from None
        sequence = number & MAX_SEQUENCE
        self._admit(sequence)
        if length > MAX_CONTENT:
            raise misbehaved(
                Alert.RECORD_OVERFLOW, DtlsRule.RECORD_OVERFLOW, "RFC 5246 section 6.2.3"
            )
        return content_type, sequence, content

    def _admit(self, sequence: int) -> None:
        """Move the window, only now that the record is known to be the peer's."""
        behind = self._top - sequence
        if behind < 0:
            self._seen = (self._seen << -behind | 1) & _WINDOW_MASK if behind > -_WINDOW else 1
            self._top = sequence
        elif behind >= _WINDOW or self._seen >> behind & 1:
            raise Discard(DtlsDiscard.REPLAY)
        else:
            self._seen |= 1 << behind
