"""The DTLS 1.3 record: unified header, hidden record number, AEAD (RFC 9147 section 4).

Called by the epoch table for every protected record: this is the hot path of data channels.

    0 0 1 C S L E E | sequence (8 or 16 bits, masked) | [length u16] | encrypted record

    seal  content ‖ type ──AEAD(header with the bare sequence)──▶ ciphertext ──mask──▶ sequence
    open  ciphertext ──mask──▶ sequence ──AEAD──▶ content ‖ type ‖ zeros ──▶ replay window
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from typing import Final, TypeAlias

from warp.crypto import TAG_LENGTH, Aead, AeadKind, DecryptError, RecordNumberMask
from warp.dtls.faults import Alert, DtlsRule, misbehaved
from warp.dtls.records import MAX_CONTENT, MAX_SEQUENCE, DtlsDiscard
from warp.errors import Discard, InternalError, InvalidState

UNIFIED: Final = 0x20  # the three fixed bits, of which the third is set
CONNECTION_ID: Final = 0x10
WIDE_SEQUENCE: Final = 0x08
HAS_LENGTH: Final = 0x04
EPOCH_BITS: Final = 0x03

HEADER_LENGTH: Final = 5
OVERHEAD: Final = HEADER_LENGTH + 1 + TAG_LENGTH
WINDOW: Final = 256
MAX_FAILURES: Final = 1 << 36  # RFC 9147 section 4.5.3

HANDSHAKE_EPOCH: Final = 2  # RFC 9147 section 6.1
_HEADER: Final = struct.Struct("!BHH")
_WINDOW_MASK: Final = (1 << WINDOW) - 1
_TYPE_BYTES: Final = tuple(bytes((value,)) for value in range(256))


_Operation: TypeAlias = Callable[[bytes, bytes, bytes], bytes]
_Ciphers: TypeAlias = tuple[_Operation, Callable[[bytes], bytes], int]
"""The AEAD in one direction, the mask of the record numbers, the IV as a number."""

_Derive: TypeAlias = Callable[[], Sequence[bytes]]
"""Returns key, IV and record number key. Called when a record needs them: the ciphers are
kilobytes, and many an epoch has no record in one direction, or never any more."""


def _spent() -> Sequence[bytes]:
    """Stand in place of what knew the secret: it goes with its use (RFC 8446 section 7.2)."""
    raise InternalError("keys are derived once")


class WriteKeys13:
    """Keys of one epoch that we send in. Always a 16-bit sequence and a length, as all peers do."""

    __slots__ = ("_ciphers", "_derive", "_first", "_kind", "epoch", "next_sequence")

    overhead: Final = OVERHEAD

    def __init__(self, epoch: int, kind: AeadKind, derive: _Derive) -> None:
        self.epoch = epoch
        self.next_sequence = 0
        self._first: Final = UNIFIED | WIDE_SEQUENCE | HAS_LENGTH | (epoch & EPOCH_BITS)
        self._kind: Final = kind
        self._derive = derive
        self._ciphers: _Ciphers | None = None

    def seal(self, content_type: int, content: bytes) -> bytes:
        """Return one record. Raises InvalidState when the sequence numbers are used up."""
        sequence = self.next_sequence
        if sequence > MAX_SEQUENCE:
            raise InvalidState("the sequence numbers of this epoch are used up")
        self.next_sequence = sequence + 1
        encrypt, mask, iv = self._ciphers or self._make_ciphers()
        first, low, length = self._first, sequence & 0xFFFF, len(content) + 17
        ciphertext = encrypt(
            (iv ^ sequence).to_bytes(12),
            content + _TYPE_BYTES[content_type],
            _HEADER.pack(first, low, length),
        )
        hidden = mask(ciphertext[:16])
        return _HEADER.pack(first, low ^ (hidden[0] << 8 | hidden[1]), length) + ciphertext

    def _make_ciphers(self) -> _Ciphers:
        key, iv, sn_key = self._derive()
        self._derive = _spent
        seal, mask = Aead(self._kind, key).seal, RecordNumberMask(self._kind, sn_key).mask
        self._ciphers = made = (seal, mask, int.from_bytes(iv))
        return made


class ReadKeys13:
    """Keys of one epoch that we receive in, with the replay window (RFC 9147 section 4.5.1)."""

    __slots__ = ("_ciphers", "_derive", "_kind", "_seen", "_top", "epoch", "failures")

    def __init__(self, epoch: int, kind: AeadKind, derive: _Derive) -> None:
        self.epoch = epoch
        self.failures = 0
        self._top = -1  # highest sequence number that has decrypted
        self._seen = 0  # bit n: number top - n has decrypted
        self._kind: Final = kind
        self._derive = derive
        self._ciphers: _Ciphers | None = None

    def park(self) -> None:
        """Let go of the ciphers, not of the window: the peer has most likely left the epoch.

        Only those of the handshake can be made again.
        """
        self._ciphers = None

    @property
    def used(self) -> bool:
        """Tell whether the peer has sent anything under these keys."""
        return self._top >= 0

    def open(self, data: bytes, start: int, end: int) -> tuple[int, int, bytes]:
        """Return content type, sequence number and content of the record `data[start:end]`.

        Raises Discard, or HandshakeFault for what only the real peer can have done wrong.
        """
        first = data[start]
        wide = first & WIDE_SEQUENCE
        number_end = start + (3 if wide else 2)
        body = number_end + 2 if first & HAS_LENGTH else number_end
        ciphertext = data[body:end]
        if len(ciphertext) < 16:
            raise Discard(DtlsDiscard.TRUNCATED)
        decrypt, mask, iv = self._ciphers or self._make_ciphers()
        hidden = mask(ciphertext[:16])
        top = self._top
        expected = top + 1
        if wide:
            low = (data[start + 1] << 8 | data[start + 2]) ^ (hidden[0] << 8 | hidden[1])
            header = _TYPE_BYTES[first] + low.to_bytes(2) + data[number_end:body]
            sequence = expected + ((low - expected + 0x8000) & 0xFFFF) - 0x8000
            if sequence < 0:
                sequence += 0x10000
        else:
            low = data[start + 1] ^ hidden[0]
            header = _TYPE_BYTES[first] + _TYPE_BYTES[low] + data[number_end:body]
            sequence = expected + ((low - expected + 0x80) & 0xFF) - 0x80
            if sequence < 0:
                sequence += 0x100
        try:
            inner = decrypt((iv ^ sequence).to_bytes(12), ciphertext, header)
        except DecryptError:
            self._count_failure()
            raise Discard(DtlsDiscard.DECRYPTION) from None
        # only after decryption: a forged number must not move the window (section 4.5.1), and
        # how long a refusal takes must not tell whether the number was known
        ahead = sequence - top
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

    def _make_ciphers(self) -> _Ciphers:
        key, iv, sn_key = self._derive()
        if self.epoch != HANDSHAKE_EPOCH:
            self._derive = _spent
        open_, mask = Aead(self._kind, key).open, RecordNumberMask(self._kind, sn_key).mask
        self._ciphers = made = (open_, mask, int.from_bytes(iv))
        return made

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
