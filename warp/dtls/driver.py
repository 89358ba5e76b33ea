"""Feeds the handshake machine: fragments in, whole messages to the awaiting state, ACKs out.

RFC 9147 sections 5.5, 5.8 and 7. Called by the connection with every handshake record; the
interface of the machines is described in handshake.

    record ─▶ fragments ─▶ Reassembler ─▶ awaiting.accept() ─▶ what is awaited next
      │                        └ seen before ─▶ the peer repeats its flight: resend ours
      └ kept or known ─▶ AckList ─▶ at once when we are done, after a quarter RTO while a flight
                                    is incomplete
"""

from __future__ import annotations

from typing import Final

from warp.dtls.acks import decode_ack
from warp.dtls.config import DtlsRole
from warp.dtls.context import DtlsTimer
from warp.dtls.faults import Alert, DtlsRule, HandshakeFault, misbehaved
from warp.dtls.flight import AckEffect
from warp.dtls.handshake import Awaiting, Handshake
from warp.dtls.intake import Record
from warp.dtls.messages import HandshakeType
from warp.dtls.reassembly import (
    FRAGMENT_HEADER_LENGTH,
    Fragment,
    HandshakeMessage,
    Reassembler,
    Verdict,
    split_fragments,
)
from warp.dtls.records import ACK, DtlsDiscard
from warp.dtls.suites import DtlsVersion
from warp.octets import OctetsError

MAX_FRAGMENTS: Final = 256  # in one record
ACK_DELAY: Final = 0.25  # of the RTO, as BoringSSL (RFC 9147 section 7.1 leaves it open)


class HandshakeDriver:
    """Owns what comes in: the reassembler and the awaiting state."""

    __slots__ = (
        "_answered",
        "_awaited_epoch",
        "_awaiting",
        "_flight_acked",
        "_handshake",
        "_reassembler",
        "_repeated",
    )

    def __init__(self, handshake: Handshake, awaiting: Awaiting) -> None:
        self._handshake: Final = handshake
        self._reassembler: Final = Reassembler(strict=handshake.config.strict_plaintext)
        self._repeated = False
        self._answered = False  # by a flight of ours, which acknowledges what led to it
        self._flight_acked = handshake.role is DtlsRole.CLIENT  # the peer's last: a server's part
        self._awaiting = awaiting
        self._awaited_epoch = awaiting.epoch or 0

    def expect(self, awaiting: Awaiting) -> None:
        """Hand the first message to this state."""
        self._awaiting = awaiting
        self._awaited_epoch = awaiting.epoch or 0

    def receive_record(self, record: Record, now: float) -> None:
        """Take one record of handshake fragments in. Raises HandshakeFault."""
        _, epoch, sequence, content = record
        self._answered = False
        position, left, take_whole = 0, MAX_FRAGMENTS, self._reassembler.take_whole
        while left and epoch == self._awaited_epoch:
            message = take_whole(content, position, epoch)
            if message is None:
                break
            position += FRAGMENT_HEADER_LENGTH + len(message.body)
            left -= 1
            self._hand_over(message, now)
        acceptable = 0 < position == len(content) or self._receive_rest(record, position, left, now)
        if acceptable and not self._answered and self._may_acknowledge(epoch):
            self._handshake.acks.note(epoch, sequence)

    def _receive_rest(self, record: Record, position: int, limit: int, now: float) -> bool:
        """Take in what is more than the next messages in whole; tell whether all of it is kept."""
        acceptable = True
        fragments, complete = split_fragments(record.content, record.epoch, limit, position)
        for fragment in fragments:
            verdict = self._receive_fragment(fragment, now)
            if verdict is Verdict.REFUSED:
                acceptable = False
            elif verdict is Verdict.KNOWN:
                self._note_repetition(fragment, now)
            else:
                self._note_answer(fragment)
                self._deliver(now)
        if not complete:
            self._refuse_rest(record, now)
        return acceptable

    def finish_datagram(self, now: float) -> None:
        """Answer what the records of one datagram add up to: resend, acknowledge now or soon."""
        handshake = self._handshake
        if self._repeated:
            self._repeated = False
            handshake.flight.handle_repetition(now)
        if not handshake.acks or handshake.outcome.version is not DtlsVersion.DTLS13:
            return
        like_boringssl = handshake.config.boringssl_timing
        if handshake.outcome.completed and not (like_boringssl and self._flight_acked):
            self._flight_acked = True
            self.send_ack(now)
        elif handshake.epochs.newest_write.epoch >= 2 or like_boringssl:
            timers = handshake.context.timers
            if timers.deadline(DtlsTimer.ACK) is None:
                rto_s = handshake.flight.rto_s if like_boringssl else handshake.context.rto_s
                timers.arm(DtlsTimer.ACK, now + rto_s * ACK_DELAY)

    def send_ack(self, now: float) -> None:
        """Acknowledge what is listed, in the newest epoch that we can write (section 7.1)."""
        handshake = self._handshake
        handshake.context.timers.cancel(DtlsTimer.ACK)
        if handshake.acks:
            keys = handshake.epochs.newest_write
            body = handshake.acks.take(handshake.context.mtu - keys.overhead)
            handshake.context.outbox.other.append(keys.seal(ACK, body))
            if handshake.context.trace is not None:
                handshake.context.emit(now, "ack_sent", {"records": (len(body) - 2) // 16})

    def receive_ack(self, record: Record, now: float) -> None:
        """Take the peer's ACK. Raises HandshakeFault for a protected one that does not parse."""
        handshake = self._handshake
        if handshake.outcome.version is not DtlsVersion.DTLS13:
            handshake.context.discard(DtlsDiscard.TOO_EARLY, now)
            return
        strict = handshake.config.strict_plaintext
        try:
            numbers = decode_ack(record.content)
        except HandshakeFault:
            if record.epoch or strict:
                raise
            handshake.context.discard(DtlsDiscard.UNDECODABLE_ACK, now)
            return
        # in the handshake a record cannot be acknowledged from an epoch before its own: NSS does
        # it, anyone can forge it in epoch 0, and it means nothing (RFC 9147 section 7); later
        # each side counts its own KeyUpdates, and its epochs say nothing about the other's
        believed = [number for number in numbers if number[0] <= record.epoch or record.epoch >= 3]
        if len(believed) != len(numbers) and strict:
            raise misbehaved(Alert.ILLEGAL_PARAMETER, DtlsRule.MALFORMED_ACK, "RFC 9147 section 7")
        handshake.context.emit(now, "ack_received", {"records": len(numbers)})
        effect = handshake.flight.receive_ack(believed, now)
        if effect is AckEffect.ALL and handshake.key_updater is not None:
            handshake.key_updater.handle_acknowledged(now)
            handshake.forget_idle_write_keys()

    def _note_repetition(self, fragment: Fragment, now: float) -> None:
        outcome = self._handshake.outcome
        if not outcome.completed or outcome.version is not DtlsVersion.DTLS12:
            self._repeated = True
        elif fragment.message_type == HandshakeType.FINISHED and not fragment.offset:
            # protected, and never the same record twice: the client asks for our last flight as
            # often as its own timer says, which need not be like ours (RFC 6347 section 4.2.4)
            self._handshake.flight.handle_repetition(now, proven=True)

    def _note_answer(self, fragment: Fragment) -> None:
        """A part of the peer's answer, too, says that it has all of our flight (section 7.1)."""
        handshake = self._handshake
        # in plaintext anyone can make one up, and keep us from repeating
        if (
            (fragment.epoch or handshake.config.boringssl_timing)
            and handshake.outcome.version is DtlsVersion.DTLS13
            and not handshake.outcome.completed
        ):
            handshake.flight.begin()

    def _refuse_rest(self, record: Record, now: float) -> None:
        """What follows the last fragment of a record is none."""
        if record.epoch or self._handshake.config.strict_plaintext:
            raise misbehaved(
                Alert.DECODE_ERROR, DtlsRule.MALFORMED_MESSAGE, "RFC 9147 section 5.2", "fragment"
            )
        self._handshake.context.discard(DtlsDiscard.BAD_FRAGMENT, now)

    def _receive_fragment(self, fragment: Fragment, now: float) -> Verdict:
        # a plaintext message cannot be the awaited one any more; it may still be a repetition
        if (
            fragment.epoch < self._awaited_epoch
            and fragment.epoch == 0
            and fragment.message_seq >= self._reassembler.next_seq
        ):
            if self._handshake.config.strict_plaintext:
                raise _unexpected(fragment.message_type, fragment.epoch)
            self._handshake.context.discard(DtlsDiscard.MISPLACED_MESSAGE, now)
            return Verdict.REFUSED
        verdict = self._reassembler.receive(fragment)
        if verdict is Verdict.REFUSED:
            self._handshake.context.discard(DtlsDiscard.BAD_FRAGMENT, now)
        return verdict

    def _may_acknowledge(self, epoch: int) -> bool:
        """Tell whether records of this epoch belong into an ACK.

        A ServerHello acknowledges the ClientHello, and the client's last flight the server's.
        """
        if self._handshake.config.boringssl_timing:
            return True
        if self._handshake.role is DtlsRole.SERVER:
            return epoch >= 2
        return epoch >= 3 or not self._handshake.outcome.completed

    def _deliver(self, now: float) -> None:
        while (message := self._reassembler.pop()) is not None:
            if not self._hand_over(message, now):
                return

    def _hand_over(self, message: HandshakeMessage, now: float) -> bool:
        """Give a whole message to the awaiting state; False when it was worth nothing."""
        awaiting, epoch = self._awaiting, self._awaited_epoch
        if message.epoch != epoch or message.message_type not in awaiting.awaited:
            return self._refuse(message, now)
        handshake = self._handshake
        outcome, flight = handshake.outcome, handshake.flight
        in_handshake, generation = not outcome.completed, flight.generation
        try:
            following = awaiting.accept(message, now)
        except HandshakeFault as fault:
            undecided = outcome.version is None and self._forgiving
            if undecided and fault.alert is Alert.DECODE_ERROR:
                # damaged, or forged: the real hello is still to come
                self._reassembler.wait_again()
                handshake.context.discard(DtlsDiscard.UNDECODABLE_HELLO, now)
                return False
            raise
        except OctetsError as error:
            raise misbehaved(
                Alert.DECODE_ERROR, DtlsRule.MALFORMED_MESSAGE, "RFC 8446 section 6.2", str(error)
            ) from error
        if in_handshake:
            if flight.generation != generation:
                self._answered = True
            elif flight.outstanding and outcome.version is DtlsVersion.DTLS13:
                # the first message of the answer acknowledges our flight (section 7.1); in 1.2 the
                # whole answer does, as only repetition asks for its rest (RFC 6347 section 4.2.4)
                flight.begin()
        self._awaiting = following
        awaited_epoch = following.epoch
        if awaited_epoch is None:
            awaited_epoch = handshake.epochs.newest_read
        self._awaited_epoch = awaited_epoch
        if awaited_epoch > epoch:
            self._reassembler.enter_epoch(awaited_epoch)
        return True

    def _refuse(self, message: HandshakeMessage, now: float) -> bool:
        """Raise for a message that is not awaited, or return False where anyone can forge it."""
        if message.epoch or not self._forgiving:
            raise _unexpected(message.message_type, message.epoch)
        self._reassembler.wait_again()
        self._handshake.context.discard(DtlsDiscard.MISPLACED_MESSAGE, now)
        return False

    @property
    def _forgiving(self) -> bool:
        """Tell whether absurd plaintext is dropped: DTLS 1.2 is plaintext almost to its end."""
        handshake = self._handshake
        return (
            handshake.outcome.version is not DtlsVersion.DTLS12
            and not handshake.config.strict_plaintext
        )


def _unexpected(message_type: int, epoch: int) -> HandshakeFault:
    return misbehaved(
        Alert.UNEXPECTED_MESSAGE,
        DtlsRule.UNEXPECTED_MESSAGE,
        "RFC 8446 section 4",
        f"type {message_type} in epoch {epoch}",
    )
