"""Takes datagrams apart into records and opens them (RFC 9147 sections 4.1, 4.2 and 4.5.2).

Called by the connection with every datagram off the hot path. A record that is worth nothing is
counted and skipped; the ones around it in the datagram are kept.

    datagram ─▶ record ─▶ epoch 0: as it stands, once
                       ├▶ keys known: decrypt, replay window ─▶ (type, epoch, sequence, content)
                       └▶ keys not known yet: held, and opened when they are
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, NamedTuple, NoReturn

from warp.dtls.context import Context
from warp.dtls.epochs import EpochTable
from warp.dtls.faults import Alert, DtlsRule, misbehaved
from warp.dtls.record13 import CONNECTION_ID, HAS_LENGTH, HEADER_LENGTH, WIDE_SEQUENCE
from warp.dtls.records import (
    ACK,
    ALERT,
    APPLICATION_DATA,
    CHANGE_CIPHER_SPEC,
    HANDSHAKE,
    MAX_CONTENT,
    MAX_EXPANSION12,
    MAX_EXPANSION13,
    PLAIN_HEADER,
    PLAIN_HEADER_LENGTH,
    DtlsDiscard,
)
from warp.dtls.suites import DtlsVersion
from warp.errors import Discard

MIN_DATAGRAM: Final = 13  # as libwebrtc: nothing shorter is DTLS
HELD_RECORDS: Final = 64
HELD_BYTES: Final = 64 * 1024
MAX_RECORD: Final = HEADER_LENGTH + MAX_CONTENT + MAX_EXPANSION13  # of 1.3, protected
_REMEMBERED: Final = 64
_TELLS_LENGTH: Final = CONNECTION_ID | HAS_LENGTH
_PLAIN_TYPES: Final = (CHANGE_CIPHER_SPEC, ALERT, HANDSHAKE, APPLICATION_DATA, ACK)


class Record(NamedTuple):
    """One opened record."""

    content_type: int
    epoch: int
    sequence: int
    content: bytes


class Intake:
    """Splits, opens, holds back."""

    __slots__ = ("_context", "_epochs", "_held", "_held_bytes", "_seen", "holding", "version")

    def __init__(self, context: Context, epochs: EpochTable) -> None:
        self._context = context
        self._epochs = epochs
        self._held: list[bytes] = []
        self._held_bytes = 0
        # Epoch 0 has no replay window: a forged number would shut the real peer out. The same
        # record twice (sent directly and inside a connectivity check) is told by its bytes.
        self._seen: list[int] = []
        self.holding = True
        self.version: DtlsVersion | None = None

    def receive(self, data: bytes, now: float) -> Iterator[Record]:
        """Yield the records of one datagram, in order. Raises only HandshakeFault."""
        if len(data) < MIN_DATAGRAM or not 20 <= data[0] <= 63:
            self._context.discard(DtlsDiscard.NOT_DTLS, now)
            return
        position, size = 0, len(data)
        while position < size:
            end = self._record_end(data, position)
            if end is None:
                self._context.discard(DtlsDiscard.TRUNCATED, now)
                return
            try:
                yield self._open(data, position, end)
            except Discard as discard:
                self.count(discard, now)
            position = end

    def release(self, now: float) -> list[Record]:
        """Return the records that were held and can be opened by now."""
        opened: list[Record] = []
        if not self._held:
            return opened
        held, self._held, self._held_bytes = self._held, [], 0
        for data in held:
            try:
                opened.append(self._open(data, 0, len(data)))
            except Discard as discard:
                self.count(discard, now)
        return opened

    def stop_holding(self) -> None:
        """Let records without keys be dropped from now on: all keys are known."""
        self.holding = False
        self._held.clear()
        self._held_bytes = 0
        self._seen.clear()

    def count(self, discard: Discard, now: float) -> None:
        """Count a record that was worth nothing."""
        if isinstance(discard.reason, DtlsDiscard):
            self._context.discard(discard.reason, now)

    @staticmethod
    def _record_end(data: bytes, start: int) -> int | None:
        """Return where the record ends, or None when that cannot be told."""
        first = data[start]
        if first >> 5 == 1:
            if first & _TELLS_LENGTH != HAS_LENGTH:
                return len(data)  # nor can what follows a connection id, of unknown length, be told
            body = start + (5 if first & WIDE_SEQUENCE else 4)
        else:
            body = start + PLAIN_HEADER_LENGTH
        if body > len(data):
            return None
        end = body + (data[body - 2] << 8 | data[body - 1])
        return end if end <= len(data) else None

    def _open(self, data: bytes, start: int, end: int) -> Record:
        first = data[start]
        if first >> 5 != 1:
            return self._open_plain_header(data, start, end)
        if first & CONNECTION_ID:
            raise Discard(DtlsDiscard.CONNECTION_ID)
        if self.version is DtlsVersion.DTLS12:
            raise Discard(DtlsDiscard.UNKNOWN_TYPE)
        if end - start > MAX_RECORD:  # before it costs a decryption
            raise Discard(DtlsDiscard.TOO_LONG)
        keys = self._epochs.read_by_bits(first & 3)
        if keys is None:
            if (first & 3) < 2:  # a first epoch of the handshake is 2 or 3
                raise Discard(DtlsDiscard.UNKNOWN_EPOCH)
            self._hold(data[start:end])
        content_type, sequence, content = keys.open(data, start, end)
        return Record(content_type, keys.epoch, sequence, content)

    def _open_plain_header(self, data: bytes, start: int, end: int) -> Record:
        content_type, _, epoch, high, low, length = PLAIN_HEADER.unpack_from(data, start)
        if content_type not in _PLAIN_TYPES:
            raise Discard(DtlsDiscard.UNKNOWN_TYPE)
        if epoch:
            return self._open_sealed(data, start, end, epoch)
        if not self.holding:
            raise Discard(DtlsDiscard.PLAINTEXT)
        strict = self._context.config.strict_plaintext
        if content_type == APPLICATION_DATA and strict:
            raise misbehaved(
                Alert.UNEXPECTED_MESSAGE, DtlsRule.UNEXPECTED_RECORD, "RFC 9147 section 4.1"
            )
        if content_type == APPLICATION_DATA or not length or length > MAX_CONTENT:
            raise Discard(DtlsDiscard.PLAINTEXT)
        seen, mark = self._seen, hash(data[start:end])
        if mark in seen:
            raise Discard(DtlsDiscard.REPLAY)
        seen.append(mark)
        if len(seen) > _REMEMBERED:
            del seen[0]
        content = data[start + PLAIN_HEADER_LENGTH : end]
        if content_type == CHANGE_CIPHER_SPEC and content != b"\1" and strict:
            raise misbehaved(
                Alert.ILLEGAL_PARAMETER, DtlsRule.UNEXPECTED_RECORD, "RFC 5246 section 7.1"
            )
        return Record(content_type, 0, high << 32 | low, content)

    def _open_sealed(self, data: bytes, start: int, end: int, epoch: int) -> Record:
        """Open a record of DTLS 1.2's epoch 1, whose header is the plain one."""
        if self.version is DtlsVersion.DTLS13:
            raise Discard(DtlsDiscard.PLAINTEXT)
        if end - start - PLAIN_HEADER_LENGTH > MAX_CONTENT + MAX_EXPANSION12:
            raise Discard(DtlsDiscard.TOO_LONG)
        keys = self._epochs.read_keys(epoch)
        if keys is None:
            if epoch != 1:
                raise Discard(DtlsDiscard.UNKNOWN_EPOCH)
            self._hold(data[start:end])
        content_type, sequence, content = keys.open(data, start, end)
        return Record(content_type, keys.epoch, sequence, content)

    def _hold(self, record: bytes) -> NoReturn:
        """Keep a record whose keys may still come, if there is room. Raises Discard either way."""
        if not self.holding:
            raise Discard(DtlsDiscard.UNKNOWN_EPOCH)
        if len(self._held) >= HELD_RECORDS or self._held_bytes + len(record) > HELD_BYTES:
            raise Discard(DtlsDiscard.BUFFER_FULL)
        self._held.append(record)
        self._held_bytes += len(record)
        raise Discard(DtlsDiscard.HELD)
