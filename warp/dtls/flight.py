"""Our outgoing handshake messages: packed into datagrams, resent until acknowledged.

RFC 9147 sections 5.5, 5.8 and 7.2; RFC 6347 section 4.2.4. Called by the handshake desk and, for
timers and ACKs, by the connection. Messages are kept as messages: a retransmission has the same
bytes and message_seq, new record numbers, its original epoch, and whatever boundaries fit.

    PREPARING ─ send ─▶ WAITING ─ timer, or the peer repeats itself ─▶ WAITING (what is missing)
                          │ ACK of a part ─▶ WAITING (what is missing, once)
                          └ answered, or ACK of everything ─▶ empty
"""

from __future__ import annotations

import enum
import struct
from collections.abc import Iterable
from itertools import groupby
from operator import attrgetter
from typing import ClassVar, Final, TypeAlias

from warp.dtls.context import Context, DtlsTimer
from warp.dtls.epochs import EpochTable
from warp.dtls.events import FlightAcknowledged
from warp.dtls.records import CHANGE_CIPHER_SPEC, HANDSHAKE, WriteKeys

FRAGMENT_HEADER_LENGTH: Final = 12
RECORDS_A_BURST: Final = 10  # RFC 9147 section 5.8.3
REMEMBERED_RECORDS: Final = 64
MTU_STEPS: Final = ((2, 1000), (4, 548))  # after so many timeouts in a row, at most so many bytes
_MIN_PIECE: Final = 32  # a smaller piece of a message is not worth a record of its own
_HEADER: Final = struct.Struct("!IHHI")
"""Type and length, message_seq, offset and fragment length (8, 24, 16, 24 and 24 bits)."""


class AckEffect(enum.Enum):
    """What an ACK did to the flight."""

    NOTHING = "it names nothing that is outstanding"
    PART = "a part is acknowledged"
    ALL = "nothing is left outstanding"


class OutgoingMessage:
    """One handshake message, and in `missing` the ranges of it that the peer does not have.

    An empty message is one range of no bytes.
    """

    __slots__ = ("body", "epoch", "message_seq", "message_type", "missing")

    content_type: ClassVar[int] = HANDSHAKE
    header_length: ClassVar[int] = FRAGMENT_HEADER_LENGTH

    def __init__(self, epoch: int, message_type: int, message_seq: int, body: bytes) -> None:
        self.epoch: Final = epoch
        self.message_type: Final = message_type
        self.message_seq: Final = message_seq
        self.body: Final = body
        self.missing = [(0, len(body))]

    def fragment(self, start: int, end: int) -> bytes:
        """Return header and bytes of one range."""
        body = self.body
        size = len(body)
        kind_and_size = self.message_type << 24 | size
        if end - start == size:
            return _HEADER.pack(kind_and_size, self.message_seq, 0, size) + body
        place = (start & 0xFF) << 24 | (end - start)
        return _HEADER.pack(kind_and_size, self.message_seq, start >> 8, place) + body[start:end]

    def acknowledge(self, start: int, end: int) -> None:
        """Note that the peer has this range."""
        left: list[tuple[int, int]] = []
        for low, high in self.missing:
            if low < start:
                left.append((low, min(start, high)))
            if end < high:
                left.append((max(end, low), high))
        self.missing = left


class _ChangeCipherSpec(OutgoingMessage):
    """DTLS 1.2's announcement of epoch 1 (RFC 5246 section 7.1): no message, but sent as one is."""

    __slots__ = ()

    content_type: ClassVar[int] = CHANGE_CIPHER_SPEC
    header_length: ClassVar[int] = 0

    def __init__(self) -> None:
        super().__init__(0, 0, 0, b"\x01")

    def fragment(self, start: int, end: int) -> bytes:
        return self.body


_EPOCH_OF: Final = attrgetter("epoch")
_Ranges: TypeAlias = list[tuple[OutgoingMessage, int, int]]
_Sent: TypeAlias = dict[tuple[int, int], _Ranges]
"""What each record carried, by epoch and sequence number."""


class Flight:
    """The messages that the peer has not acknowledged, and when to repeat them."""

    __slots__ = (
        "_acked_in_part",
        "_backlog",
        "_context",
        "_epochs",
        "_repaired",
        "_reply_expected",
        "_rto_s",
        "_sent",
        "_sent_at",
        "_timers_alone",
        "_unsent",
        "generation",
        "next_message_seq",
        "outstanding",
        "timeouts",
    )

    def __init__(self, context: Context, epochs: EpochTable) -> None:
        self._context = context
        self._epochs = epochs
        self.outstanding: list[OutgoingMessage] = []
        """What is queued, or sent and not acknowledged."""
        self._unsent: list[OutgoingMessage] = []
        self._sent: _Sent = {}
        self._backlog: list[tuple[bytes, int]] = []  # datagrams with the number of their records
        self._timers_alone: Final = context.config.boringssl_timing
        self._reply_expected = False
        self._acked_in_part = False
        self._repaired = False  # the missing part has been resent since the last full sending
        self._rto_s = 0.0
        self._sent_at = 0.0
        self.generation = 0  # counts flights
        self.next_message_seq = 0
        self.timeouts = 0

    @property
    def awaits_reply(self) -> bool:
        """Tell whether something is outstanding that is repeated until it is answered."""
        return self._reply_expected and bool(self.outstanding)

    @property
    def rto_s(self) -> float:
        """Timeout of the present sending, backed off."""
        return self._rto_s or self._context.rto_s

    # filling ------------------------------------------------------------------------------------

    def begin(self) -> None:
        """Drop what was outstanding: the peer's answer has acknowledged it."""
        self.generation += 1
        if not self.outstanding:
            return  # nothing is kept, and no timer runs, without messages
        self.outstanding.clear()
        self._unsent.clear()
        self._sent.clear()
        self._reply_expected = self._acked_in_part = self._repaired = False
        self._rto_s = 0.0
        self.timeouts = 0
        self._context.timers.cancel(DtlsTimer.RETRANSMIT)
        if self._backlog:
            self._backlog.clear()
            self._context.timers.cancel(DtlsTimer.BURST)

    def add(self, message_type: int, body: bytes, epoch: int) -> int:
        """Queue one message and return its message_seq."""
        message_seq = self.next_message_seq
        self.next_message_seq = message_seq + 1
        message = OutgoingMessage(epoch, message_type, message_seq, body)
        self.outstanding.append(message)
        self._unsent.append(message)
        return message_seq

    def add_change_cipher_spec(self) -> None:
        """Queue the record that announces epoch 1 (RFC 5246 section 7.1)."""
        message = _ChangeCipherSpec()
        self.outstanding.append(message)
        self._unsent.append(message)

    # sending ------------------------------------------------------------------------------------

    def send(self, now: float, *, reply_expected: bool) -> None:
        """Seal what is queued and not sent yet; with `reply_expected`, repeat until answered."""
        unsent, self._unsent = self._unsent, []
        self._reply_expected = reply_expected
        self._transmit(unsent, now, together=True)
        if self._context.trace is not None:
            self._context.emit(now, "flight_sent", {"messages": len(unsent)})

    def handle_timeout(self, now: float) -> None:
        """Resend what is missing, and wait twice as long for an answer (section 5.8.1)."""
        if not self.awaits_reply:
            return
        self.timeouts += 1
        self._rto_s = min(self.rto_s * 2, self._context.config.max_rto_s)
        self._repaired = False
        for timeouts, mtu in MTU_STEPS:
            if self.timeouts == timeouts:
                self._context.mtu = min(mtu, self._context.mtu)
        self._context.emit(now, "flight_timeout", {"timeouts": self.timeouts})
        self._transmit(self.outstanding, now)

    def handle_repetition(self, now: float, *, proven: bool = False) -> None:
        """Resend because the peer repeats what came before: it has nothing of ours.

        Not once a part is acknowledged, and at most once in half a timeout (section 5.8.1), unless
        it is `proven` that the peer itself has sent its whole flight anew.
        """
        if not self.outstanding or self._acked_in_part or self._unsent:
            return
        if self._timers_alone and not proven:
            return
        if now - self._sent_at < self.rto_s / 2 and not proven:
            return
        self._context.emit(now, "flight_repeated", {})
        self._transmit(self.outstanding, now)

    def handle_burst_timer(self, now: float) -> None:
        """Let the next ten records of a long flight leave."""
        self._release(now)

    def resume(self, now: float) -> None:
        """Arm the retransmission timer again after it was suspended, or after a new RTT."""
        if self.awaits_reply and not self._context.suspended:
            self._context.timers.arm(DtlsTimer.RETRANSMIT, now + self.rto_s)

    def rtt_changed(self, now: float) -> None:
        """Take the new first timeout over, unless it was backed off already."""
        if self.timeouts == 0:
            self._rto_s = 0.0
            deadline = self._context.timers.deadline(DtlsTimer.RETRANSMIT)
            if deadline is not None:
                wanted = max(now, self._sent_at + self.rto_s)
                self._context.timers.arm(DtlsTimer.RETRANSMIT, wanted)

    def _transmit(
        self, messages: Iterable[OutgoingMessage], now: float, *, together: bool = False
    ) -> None:
        context, sent = self._context, self._sent
        dense = context.config.dense_flights
        packer = _Packer(self._epochs, context.mtu, sent, dense=dense)
        if self._backlog:
            context.timers.cancel(DtlsTimer.BURST)  # armed anew if something has to wait still
        self._backlog += packer.pack(messages, together=together or dense)
        while len(sent) > REMEMBERED_RECORDS:
            del sent[next(iter(sent))]
        self._sent_at = now
        context.outbox.new_flight = True
        self._release(now)
        self.resume(now)

    def _release(self, now: float) -> None:
        backlog, out, records = self._backlog, self._context.outbox.flight, 0
        while backlog:
            datagram, count = backlog[0]
            if records and records + count > RECORDS_A_BURST and not self._timers_alone:
                break
            records += count
            out.append(datagram)
            del backlog[0]
        if backlog:
            self._context.timers.arm(DtlsTimer.BURST, now + self.rto_s / 4)

    # acknowledgement ----------------------------------------------------------------------------

    def receive_ack(self, numbers: Iterable[tuple[int, int]], now: float) -> AckEffect:
        """Mark what these records carried; resend at once, but once only, what is missing.

        Unknown record numbers mean nothing: they may be of a flight that is long answered.
        """
        touched = False
        for number in numbers:
            for message, start, end in self._sent.pop(number, ()):
                message.acknowledge(start, end)
                touched = True
        if not touched or not self.outstanding:
            return AckEffect.NOTHING
        left = [message for message in self.outstanding if message.missing]
        if not left:
            self.begin()
            self._context.events.append(FlightAcknowledged())
            self._context.emit(now, "flight_acknowledged", {})
            return AckEffect.ALL
        self.outstanding = left
        self._acked_in_part = True
        if self._timers_alone:
            return AckEffect.PART
        self._rto_s, self.timeouts = 0.0, 0
        if not self._repaired:
            self._repaired = True
            self._transmit(self.outstanding, now)
        else:
            self.resume(now)
        return AckEffect.PART

    def stop(self) -> None:
        """Give up repeating; what is outstanding stays unanswered."""
        self.begin()


class _Packer:
    """Fills datagrams greedily, and records according to what peers are known to bear.

    A plaintext record holds one message, because some peers break on more. Protected messages
    share a record and stay in one datagram where they fit: half a flight makes NSS send an ACK
    that kills BoringSSL. When they are resent each has a record of its own: NSS drops whatever
    follows a message that it has seen before in the same record. A dense one minds neither.
    """

    __slots__ = ("_content", "_datagram", "_dense", "_epochs", "_keys", "_mtu", "_out",
                 "_ranges", "_sent", "_size")  # fmt: skip

    def __init__(self, epochs: EpochTable, mtu: int, sent: _Sent, *, dense: bool) -> None:
        self._epochs = epochs
        self._mtu = mtu
        self._sent = sent
        self._dense = dense
        self._out: list[tuple[bytes, int]] = []
        self._datagram: list[bytes] = []
        self._size = 0
        self._keys: WriteKeys = epochs.plain
        self._content: list[bytes] = []
        self._ranges: _Ranges = []

    def pack(self, queue: Iterable[OutgoingMessage], *, together: bool) -> list[tuple[bytes, int]]:
        """Return the datagrams, each with the number of its records."""
        for epoch, messages in groupby(queue, _EPOCH_OF):
            if together and epoch:
                self._pack_group(list(messages), epoch)
            else:
                for message in messages:
                    self._pack_group([message], epoch)
        self._close_datagram()
        return self._out

    def _pack_group(self, group: list[OutgoingMessage], epoch: int) -> None:
        self._keys = keys = self._epochs.write_keys(epoch)
        ranges = [(message, start, end) for message in group for start, end in message.missing]
        content = [message.fragment(start, end) for message, start, end in ranges]
        total = keys.overhead + sum(map(len, content))
        if epoch and self._mtu - self._size < total <= self._mtu and not self._dense:
            self._close_datagram()
        if total <= self._mtu - self._size:
            self._content, self._ranges = content, ranges
        else:
            for message, start, end in ranges:
                self._pack_range(message, start, end)
        self._close_record()

    def _pack_range(self, message: OutgoingMessage, start: int, end: int) -> None:
        header = self._keys.overhead + message.header_length
        least = 1 if self._dense else _MIN_PIECE
        while True:
            taken = sum(map(len, self._content))
            room = self._mtu - self._size - taken - header
            if room < min(end - start, least) and (self._size or taken):
                self._close_datagram()
                continue
            cut = min(end, start + max(room, 1))
            self._content.append(message.fragment(start, cut))
            self._ranges.append((message, start, cut))
            start = cut
            if start >= end:
                return

    def _close_record(self) -> None:
        ranges = self._ranges
        if ranges:
            keys = self._keys
            self._sent[keys.epoch, keys.next_sequence] = ranges
            record = keys.seal(ranges[0][0].content_type, b"".join(self._content))
            self._datagram.append(record)
            self._size += len(record)
            self._content, self._ranges = [], []

    def _close_datagram(self) -> None:
        self._close_record()
        datagram = self._datagram
        if datagram:
            self._out.append((b"".join(datagram), len(datagram)))
            self._datagram, self._size = [], 0
