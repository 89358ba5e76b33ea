"""What is outstanding: sending, acknowledgement, loss, retransmission (RFC 9260 section 6, 7).

The sending half of an association. TSNs are plain integers that never wrap (`& MASK32` on the
wire), kept in a dict from the cumulative point on, so a SACK costs work only for what it newly
acknowledges.

    SendQueue ──transmit──▶ IN_FLIGHT ──SACK──▶ gone
                              │    ▲ └──gap──▶ ACKED ──cumulative──▶ gone
              3 misses, T3    ▼    │ resend
                             LOST ─┴──limit, lifetime──▶ ABANDONED ──FORWARD-TSN──▶ gone
"""

from __future__ import annotations

from heapq import heappop, heappush
from typing import Final

from warp.errors import Discard
from warp.names import Name
from warp.sctp.chunks import Sack
from warp.sctp.config import SctpConfig
from warp.sctp.congestion import CongestionControl
from warp.sctp.forward_tsn import Abandonment
from warp.sctp.gaps import Range, covers, new_ranges, tidy_gaps
from warp.sctp.loss import LossDetector
from warp.sctp.outbound import ABANDONED, ACKED, IN_FLIGHT, LOST, Fragment, Message, SendQueue
from warp.sctp.packet import COMMON_HEADER_SIZE, Outbox
from warp.sctp.reasons import SctpDiscard
from warp.sctp.rto import Rto
from warp.sctp.snap import Agreement
from warp.serial import extend32
from warp.timers import TimerTable

_PROMPT_BELOW_PACKETS: Final = 10
"""Below this window every chunk asks for a prompt SACK (RFC 7053): each packet counts."""


class SctpTimer(Name):
    """Why the association wants to be woken."""

    HANDSHAKE = "T1"
    RETRANSMIT = "T3-rtx"
    SACK = "delayed acknowledgement"
    HEARTBEAT = "heartbeat"
    RECONFIG = "re-configuration"
    SHUTDOWN = "T2-shutdown"
    SHUTDOWN_GUARD = "T5-shutdown-guard"


class Transmission:
    """Everything that has a TSN and is not yet cumulatively acknowledged.

    `flight_size` is the bytes of chunks IN_FLIGHT, headers and padding included.
    """

    __slots__ = (
        "_gaps",
        "_in_flight",
        "_losses",
        "_queue",
        "_rto",
        "_timed",
        "_timers",
        "abandonment",
        "congestion",
        "cumulative_acked",
        "flight_size",
        "fragments",
        "next_tsn",
        "peer_rwnd",
    )

    def __init__(
        self,
        config: SctpConfig,
        agreement: Agreement,
        *,
        queue: SendQueue,
        rto: Rto,
        timers: TimerTable[SctpTimer],
    ) -> None:
        self.fragments: dict[int, Fragment] = {}
        self.next_tsn = agreement.local_tsn
        self.cumulative_acked = agreement.local_tsn - 1
        self.flight_size = 0
        self._in_flight = 0
        self.peer_rwnd = agreement.peer_rwnd
        self.congestion = CongestionControl(config, agreement.peer_rwnd)
        self.abandonment = (
            Abandonment(self.cumulative_acked, interleaving=queue.interleaving)
            if agreement.shared.partial_reliability
            else None
        )
        self._losses = LossDetector(self.cumulative_acked)
        self._gaps: list[Range] = []
        self._timed: tuple[int, float] | None = None
        """The TSN whose round trip is being measured, and when it left."""
        self._queue = queue
        self._rto = rto
        self._timers = timers

    @property
    def is_idle(self) -> bool:
        """Whether all that was ever accepted has been acknowledged or given up."""
        return not self.fragments and not self._queue.messages

    def unfinished_messages(self) -> list[Message]:
        """Return the messages that have left, wholly or in part, but not wholly arrived."""
        open_ones = dict.fromkeys(
            fragment.message
            for fragment in self.fragments.values()
            if fragment.state in (IN_FLIGHT, LOST)
        )
        front = self._queue.unfinished_fronts()
        return list(open_ones) + [message for message in front if message not in open_ones]

    def wants_to_send(self, now: float) -> bool:
        """Tell whether `transmit` would find something, so that a SACK can ride along."""
        if self._losses.lost or self._forward_due(now):
            return True
        congestion = self.congestion
        if not self._queue.messages:
            return False
        return not self.flight_size or (
            self.flight_size + congestion.mtu <= congestion.cwnd
            and congestion.burst > 0
            and self.peer_rwnd > self.flight_size
        )

    def transmit(self, outbox: Outbox, now: float) -> None:
        """Put everything that may leave now into the outbox, old TSNs first."""
        if self._losses.lost:
            self._resend(outbox, now)
        packets = self._send_new(outbox, now) if self._queue.messages else 0
        self.congestion.handle_sent(packets, now)
        abandonment = self.abandonment
        if abandonment is not None and not abandonment.is_empty:
            self._advance(abandonment)
            if self._forward_due(now):
                outbox.flush()  # control chunks go before DATA (section 6.10)
                outbox.add(abandonment.build(outbox.limit, now))
        if self.fragments and self._timers.deadline(SctpTimer.RETRANSMIT) is None:
            self._arm(now)

    def receive_sack(self, sack: Sack, now: float) -> bool:
        """Take in a SACK; tell whether it shows a peer that makes progress, or may not.

        Raises Discard for an absurd or outdated one, having changed nothing.
        """
        point = self.cumulative_acked
        cumulative = extend32(sack.cumulative_tsn, point)
        if cumulative < point:
            raise Discard(SctpDiscard.OLD_SACK)
        if cumulative >= self.next_tsn:
            raise Discard(SctpDiscard.BAD_SACK, "acknowledges what was never sent")
        gaps = tidy_gaps(cumulative, sack.gaps, self.next_tsn) if sack.gaps else []
        congestion = self.congestion
        flight_before = self.flight_size
        newest, acked = point, 0
        if cumulative > point:
            newest, acked = cumulative, self._ack_through(cumulative, now)
        if gaps:
            gap_newest, gap_acked = self._ack_gaps(gaps, cumulative)
            newest, acked = max(newest, gap_newest), acked + gap_acked
        self._gaps = gaps
        self.peer_rwnd = sack.a_rwnd
        moved = cumulative > point
        if newest > point and not self._losses.is_idle:
            # RFC 9260 section 7.2.4: in fast recovery a moving point counts for every hole
            all_holes = moved and congestion.recovery_exit is not None
            self._lose(self._losses.count(newest, all_holes=all_holes), now)
        if moved:
            congestion.receive_ack(acked, flight_before)
            congestion.handle_cumulative_ack(cumulative)
        congestion.receive_sack(acked)
        if self.abandonment is not None:
            self.abandonment.handle_cumulative_ack(cumulative)
            self._advance(self.abandonment)
        if not self.fragments:
            self._timers.cancel(SctpTimer.RETRANSMIT)
        elif moved:
            self._arm(now)
        # section 6.1 rule A: a peer that keeps its window shut is alive, probes are no errors
        return newest > point or sack.a_rwnd < congestion.mtu

    def handle_timeout(self, now: float) -> None:
        """T3 expired: everything in flight counts as lost (section 6.3.3, 7.2.3)."""
        self._rto.back_off()
        self._timed = None
        self._losses.forget()
        if self.abandonment is not None:
            self.abandonment.handle_timeout()
        head = self.fragments.get(self.cumulative_acked + 1)
        # the peer took back what it had reported (section 6.2.1): believe its latest SACK only
        reneged = head is not None and head.state == ACKED
        for fragment in list(self.fragments.values()):
            if reneged and fragment.state == ACKED and not covers(self._gaps, fragment.tsn):
                fragment.state = IN_FLIGHT
                self._count_in(fragment)
            if fragment.state == IN_FLIGHT:
                self._give_up_on(fragment, now)
        self.congestion.handle_timeout()
        if self.abandonment is not None:
            self._advance(self.abandonment)
        if self.fragments:
            self._arm(now)

    def abandon(self, message: Message) -> bool:
        """Give a message up; tell whether that was possible. Sent parts are FORWARD-TSN's work."""
        if self.abandonment is None and message.offset:
            return False
        queued = self._queue.drop(message)
        if not message.offset or self.abandonment is None:
            return True
        message.abandoned = True
        if queued:
            # FORWARD-TSN must not end inside a message, so its unsent end gets a TSN too
            tail = Fragment(self.next_tsn, b"", message)
            self.fragments[self.next_tsn] = tail
            message.last_tsn = self.next_tsn
            self.next_tsn += 1
            tail.state = ABANDONED
        first = max(message.first_tsn, self.cumulative_acked + 1)
        for tsn in range(first, message.last_tsn + 1):
            fragment = self.fragments[tsn]
            if fragment.message is not message:
                continue
            if fragment.state == IN_FLIGHT:
                self._count_out(fragment)
            fragment.state = ABANDONED
            fragment.chunk = b""
            self._losses.note_acked(tsn)
        self.abandonment.note(message)
        return True

    def _send_new(self, outbox: Outbox, now: float) -> int:
        """Send what the windows allow; return how many packets that made."""
        queue, congestion = self._queue, self.congestion
        if not self.flight_size:
            congestion.begin_flight(self._rto.current_s, now)
        head, cwnd = queue.header_size, congestion.cwnd
        window = self.peer_rwnd - (self.flight_size - self._in_flight * head)
        prompt = cwnd < _PROMPT_BELOW_PACKETS * congestion.mtu
        packets = outbox.packets
        before = len(packets)
        last = before + congestion.burst
        sent = 0
        while (message := queue.peek()) is not None and len(packets) < last:
            if message.expires_at is not None and now >= message.expires_at:
                if not self.abandon(message):
                    message.expires_at = None
                continue
            left = len(message.data) - message.offset
            room = (outbox.limit - outbox.size - head) & ~3
            if left > room and room << 1 < outbox.limit:
                outbox.flush()
                room = (outbox.limit - COMMON_HEADER_SIZE - head) & ~3
                if len(packets) >= last:
                    break
            length = min(left, room)
            size = (head + length + 3) & ~3
            if self.flight_size and (self.flight_size + size > cwnd or length > window):
                break
            tsn = self.next_tsn
            immediate = prompt or (left == length and queue.messages == 1)
            fragment = queue.take(tsn, length, immediate=immediate)
            self.fragments[tsn] = fragment
            self.next_tsn = tsn + 1
            self.flight_size += size
            self._in_flight += 1
            window -= length
            outbox.add(fragment.chunk)
            sent = 1
            if self._timed is None:
                self._timed = (tsn, now)
        return len(packets) - before + (sent and outbox.size > COMMON_HEADER_SIZE)

    def _resend(self, outbox: Outbox, now: float) -> None:
        lost, congestion = self._losses.lost, self.congestion
        free = congestion.mtu if congestion.free_packet else 0
        while lost:
            fragment = self.fragments.get(lost[0])
            if fragment is None or fragment.state != LOST:
                heappop(lost)
                continue
            if self._is_spent(fragment, now) and self.abandon(fragment.message):
                continue
            size = len(fragment.chunk)
            if self.flight_size and size > max(congestion.cwnd - self.flight_size, free):
                break
            free = max(free - size, 0)
            congestion.free_packet = False
            tsn = heappop(lost)
            if self._timed is not None and tsn <= self._timed[0]:
                self._timed = None  # Karn: its acknowledgement would be ambiguous
            fragment.transmissions += 1
            fragment.state = IN_FLIGHT
            self._count_in(fragment)
            self._losses.note_resent(tsn, self.next_tsn)
            outbox.add(fragment.chunk)
            if tsn == self.cumulative_acked + 1:
                self._arm(now)  # section 7.2.4: the earliest TSN restarts T3

    def _ack_through(self, cumulative: int, now: float) -> int:
        """Drop everything up to the new cumulative point; return the newly acked bytes."""
        pop = self.fragments.pop
        losses = None if self._losses.is_idle else self._losses
        freed = acked = count = 0
        for tsn in range(self.cumulative_acked + 1, cumulative + 1):
            fragment = pop(tsn)
            if fragment.state == IN_FLIGHT:
                freed += len(fragment.chunk)
                count += 1
            elif fragment.state == LOST:
                acked += len(fragment.chunk)
            if losses is not None:
                losses.note_acked(tsn)
        self.flight_size -= freed
        self._in_flight -= count
        self.cumulative_acked = cumulative
        if not self.fragments:
            self.fragments = {}
        if self._timed is not None and cumulative >= self._timed[0]:
            self._rto.measure(now - self._timed[1])
            self._timed = None
        return freed + acked

    def _ack_gaps(self, gaps: list[Range], cumulative: int) -> tuple[int, int]:
        """Mark what gap blocks newly report; return the highest such TSN and the bytes."""
        newest = acked = 0
        fragments, losses = self.fragments, self._losses
        newest = self.cumulative_acked
        for first, last in new_ranges(self._gaps, gaps):
            for tsn in range(max(first, cumulative + 1), last + 1):
                fragment = fragments[tsn]
                if fragment.state == IN_FLIGHT:
                    self._count_out(fragment)
                elif fragment.state != LOST:
                    continue
                acked += len(fragment.chunk)
                fragment.state = ACKED
                losses.note_acked(tsn)
                newest = tsn
        position = max(losses.highest, cumulative) + 1
        for first, last in gaps:
            for tsn in range(position, first):
                if fragments[tsn].state == IN_FLIGHT:
                    losses.note_hole(tsn)
            position = max(position, last + 1)
        losses.highest = position - 1
        return newest, acked

    def _lose(self, tsns: list[int], now: float) -> None:
        """Three reports in a row missed these: send them again, or give them up."""
        any_lost = False
        for tsn in tsns:
            fragment = self.fragments.get(tsn)
            if fragment is not None and fragment.state == IN_FLIGHT:
                any_lost = True
                self._give_up_on(fragment, now)
        if any_lost:
            self.congestion.handle_loss(self.next_tsn - 1)

    def _give_up_on(self, fragment: Fragment, now: float) -> None:
        """One fragment in flight is lost."""
        if self._is_spent(fragment, now) and self.abandon(fragment.message):
            return
        self._count_out(fragment)
        fragment.state = LOST
        heappush(self._losses.lost, fragment.tsn)

    def _is_spent(self, fragment: Fragment, now: float) -> bool:
        """Whether the message's limits forbid another transmission (RFC 3758, RFC 7496)."""
        message = fragment.message
        if message.transmissions is not None and fragment.transmissions >= message.transmissions:
            return True
        return message.expires_at is not None and now >= message.expires_at

    def _advance(self, abandonment: Abandonment) -> None:
        """Move the Advanced Peer Ack Point over what was abandoned (RFC 3758 section 3.5 C1)."""
        if abandonment.is_empty:
            return
        fragments = self.fragments
        position = best = max(abandonment.point, self.cumulative_acked)
        while (fragment := fragments.get(position + 1)) is not None:
            if fragment.state == ABANDONED:
                position += 1
                best = position
            elif fragment.state == ACKED and (end := self._arrived_until(fragment)):
                position = end
            else:
                break
        abandonment.advance(best)

    def _arrived_until(self, fragment: Fragment) -> int:
        """Return the TSN up to which the point may pass over what has arrived; 0 if it may not.

        A receiver drops what it holds of a message that a FORWARD-TSN cuts, so only whole messages
        may be passed over; with I-FORWARD-TSN it goes by message id, and any fragment will do.
        """
        message = fragment.message
        if self._queue.interleaving:
            return fragment.tsn
        if message.offset < len(message.data):
            return 0
        arrived = all(
            self.fragments[tsn].state == ACKED for tsn in range(fragment.tsn, message.last_tsn + 1)
        )
        return message.last_tsn if arrived else 0

    def _forward_due(self, now: float) -> bool:
        abandonment = self.abandonment
        return abandonment is not None and abandonment.is_due(
            self.cumulative_acked, self._rto.srtt_s, now
        )

    def _count_in(self, fragment: Fragment) -> None:
        self.flight_size += len(fragment.chunk)
        self._in_flight += 1

    def _count_out(self, fragment: Fragment) -> None:
        self.flight_size -= len(fragment.chunk)
        self._in_flight -= 1

    def _arm(self, now: float) -> None:
        self._timers.arm(SctpTimer.RETRANSMIT, now + self._rto.current_s)
