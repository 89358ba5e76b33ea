"""The DTLS 1.3 record: unified header, hidden record number, AEAD (RFC 9147 section 4).

Called by the epoch table for every protected record: this is the hot path of data channels.

    0 0 1 C S L E E | sequence (8 or 16 bits, masked) | [length u16] | encrypted record

    seal  content ‖ type ──AEAD(header with the bare sequence)──▶ ciphertext ──mask──▶ sequence
    open  ciphertext ──mask──▶ sequence ──AEAD──▶ content ‖ type ‖ zeros ──▶ replay window
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Final

from warp.crypto import TAG_LENGTH, Aead, AeadKind, DecryptError, RecordNumberMask
from warp.dtls.faults import Alert, DtlsRule, misbehaved
from warp.dtls.records import MAX_CONTENT, MAX_SEQUENCE, DtlsDiscard
from warp.errors import Discard, InvalidState

UNIFIED: Final = 0x20  # the three fixed bits, of which the third is set
CONNECTION_ID: Final = 0x10
WIDE_SEQUENCE: Final = 0x08
HAS_LENGTH: Final = 0x04
EPOCH_BITS: Final = 0x03

HEADER_LENGTH: Final = 5
OVERHEAD: Final = HEADER_LENGTH + 1 + TAG_LENGTH
WINDOW: Final = 256
MAX_FAILURES: Final = 1 << 36  # RFC 9147 section 4.5.3

_HEADER: Final = struct.Struct("!BHH")
_WINDOW_MASK: Final = (1 << WINDOW) - 1
_TYPE_BYTES: Final = tuple(bytes((value,)) for value in range(256))


class WriteKeys13:
    """Keys of one epoch that we send in. Always a 16-bit sequence and a length, as all peers do."""

    __slots__ = ("_encrypt", "_first", "_iv", "_mask", "epoch", "next_sequence")

    overhead: Final = OVERHEAD

    def __init__(self, epoch: int, kind: AeadKind, key: bytes, iv: bytes, sn_key: bytes) -> None:
        self.epoch = epoch
        self.next_sequence = 0
        self._first: Final = UNIFIED | WIDE_SEQUENCE | HAS_LENGTH | (epoch & EPOCH_BITS)
        self._iv: Final = int.from_bytes(iv, "big")
        self._encrypt: Final = Aead(kind, key).seal
        self._mask: Final = RecordNumberMask(kind, sn_key).mask

    def seal(self, content_type: int, content: bytes) -> bytes:
        """Return one record. Raises InvalidState when the sequence numbers are used up."""
        sequence = self.next_sequence
        if sequence > MAX_SEQUENCE:
            raise InvalidState("the sequence numbers of this epoch are used up")
        self.next_sequence = sequence + 1
        low = sequence & 0xFFFF
        length = len(content) + 17
        ciphertext = self._encrypt(
            (self._iv ^ sequence).to_bytes(12, "big"),
            content + _TYPE_BYTES[content_type],
            _HEADER.pack(self._first, low, length),
        )
        mask = self._mask(ciphertext[:16])
        return _HEADER.pack(self._first, low ^ (mask[0] << 8 | mask[1]), length) + ciphertext


class ReadKeys13:
    """Keys of one epoch that we receive in, with the replay window (RFC 9147 section 4.5.1)."""

    __slots__ = ("_decrypt", "_iv", "_mask", "_seen", "_top", "epoch", "failures")

    def __init__(self, epoch: int, kind: AeadKind, key: bytes, iv: bytes, sn_key: bytes) -> None:
        self.epoch = epoch
        self.failures = 0
        self._top = -1  # highest sequence number that has decrypted
        self._seen = 0  # bit n: number top - n has decrypted
        self._iv: Final = int.from_bytes(iv, "big")
        self._decrypt: Final = Aead(kind, key).open
        self._mask: Final = RecordNumberMask(kind, sn_key).mask

    @property
    def window(self) -> tuple[int, int]:
        """The replay window, for keys that take the place of these."""
        return self._top, self._seen

    @window.setter
    def window(self, window: tuple[int, int]) -> None:
        self._top, self._seen = window

    @property
    def used(self) -> bool:
        """Tell whether the peer has sent anything under these keys."""
        return self._top >= 0

    def open(self, data: bytes, start: int, end: int) -> tuple[int, int, bytes]:
        """Return content type, sequence number and content of the record `data[start:end]`.

        Raises Discard, or HandshakeFault for what only the real peer can have done wrong.
        """
        first = data[start]
        number_end = start + (3 if first & WIDE_SEQUENCE else 2)
        body = number_end + 2 if first & HAS_LENGTH else number_end
        ciphertext = data[body:end]
        if len(ciphertext) < 16:
            raise Discard(DtlsDiscard.TRUNCATED)
        mask = self._mask(ciphertext[:16])
        expected = self._top + 1
        if first & WIDE_SEQUENCE:
            low = (data[start + 1] << 8 | data[start + 2]) ^ (mask[0] << 8 | mask[1])
            header = _TYPE_BYTES[first] + low.to_bytes(2, "big") + data[number_end:body]
            sequence = expected + ((low - expected + 0x8000) & 0xFFFF) - 0x8000
            if sequence < 0:
                sequence += 0x10000
        else:
            low = data[start + 1] ^ mask[0]
            header = _TYPE_BYTES[first] + _TYPE_BYTES[low] + data[number_end:body]
            sequence = expected + ((low - expected + 0x80) & 0xFF) - 0x80
            if sequence < 0:
                sequence += 0x100
        try:
            inner = self._decrypt((self._iv ^ sequence).to_bytes(12, "big"), ciphertext, header)
        except DecryptError:
            self._count_failure()
            raise Discard(DtlsDiscard.DECRYPTION) from None
        # only after decryption: a forged number must not move the window (section 4.5.1), and
        # how long a refusal takes must not tell whether the number was known
        ahead = sequence - self._top
        if ahead > 0:
            self._seen = (self._seen << ahead | 1) & _WINDOW_MASK if ahead < WINDOW else 1
            self._top = sequence
        elif -ahead >= WINDOW or self._seen >> -ahead & 1:
            raise Discard(DtlsDiscard.REPLAY)
        else:
            self._seen |= 1 << -ahead
        content_type = inner[-1] if inner else 0
        if content_type and len(inner) <= MAX_CONTENT:
            return content_type, sequence, inner[:-1]
        return self._unpad(inner, sequence)

    def _unpad(self, inner: bytes, sequence: int) -> tuple[int, int, bytes]:
        if len(inner) > MAX_CONTENT + 1:
            raise misbehaved(
                Alert.RECORD_OVERFLOW, DtlsRule.RECORD_OVERFLOW, "RFC 9147 section 4.2"
            )
        stripped = inner.rstrip(b"\0")
        if not stripped:  # not even a content type, and yet from the peer
            raise misbehaved(
                Alert.UNEXPECTED_MESSAGE, DtlsRule.NO_CONTENT_TYPE, "RFC 8446 section 5.4"
            )
        return stripped[-1], sequence, stripped[:-1]

    def _count_failure(self) -> None:
        self.failures += 1
        if self.failures >= MAX_FAILURES:
            raise misbehaved(
                Alert.BAD_RECORD_MAC, DtlsRule.TOO_MANY_FORGERIES, "RFC 9147 section 4.5.3"
            )


class ParkedReadKeys13:
    """An epoch that the peer has most likely left: the ciphers, kilobytes of them, are made again
    only if a record of it comes. The replay window is kept all the while.
    """

    __slots__ = ("_keys", "_make", "_window", "epoch")

    def __init__(self, keys: ReadKeys13, make: Callable[[], ReadKeys13]) -> None:
        """Take the place of `keys`; `make` returns the same keys with an empty window."""
        self.epoch = keys.epoch
        self._window: Final = keys.window
        self._make: Final = make
        self._keys: ReadKeys13 | None = None

    @property
    def failures(self) -> int:
        """Records that did not decrypt since the keys were made again."""
        return 0 if self._keys is None else self._keys.failures

    def open(self, data: bytes, start: int, end: int) -> tuple[int, int, bytes]:
        """See `ReadKeys13.open`."""
        if self._keys is None:
            self._keys = self._make()
            self._keys.window = self._window
        return self._keys.open(data, start, end)
