"""One transport's RTP and RTCP: where router, senders and the report schedule meet.

    RTP  in ──▶ router ──▶ receivers ──▶ frames            frames ──▶ sender.packetize ──▶ out
    RTCP in ──▶ parse ──▶ receivers, senders, router
    RTCP out ◀── reports when due, NACKs and transport-wide feedback as they arise

`warp.peer` unprotects before and protects after. The five verbs, with RTP and RTCP apart because
SRTP treats them apart (RFC 5761 section 4 tells them from each other on the wire).
"""

from __future__ import annotations

import binascii
from collections.abc import Sequence

from warp.contract import Event
from warp.entropy import Entropy, random_u32
from warp.errors import Discard, InvalidConfig
from warp.names import Counts
from warp.rtp.config import ReceiverConfig, SenderConfig, SessionConfig
from warp.rtp.events import FeedbackReceived
from warp.rtp.receiver import AudioReceiver
from warp.rtp.router import RtpRouter
from warp.rtp.rtcp import (
    SDES_CNAME,
    SDES_MID,
    CongestionFeedback,
    GenericNack,
    Goodbye,
    ReceiverReport,
    ReportBlock,
    RtcpDiscard,
    RtcpPacket,
    SenderReport,
    SourceDescription,
    UnknownRtcp,
    build_rtcp,
    parse_rtcp,
)
from warp.rtp.rtcp_schedule import RtcpSchedule
from warp.rtp.sender import AudioSender
from warp.timers import earliest
from warp.trace import Trace

_RECENT_S = 10.0
"""Who has not sent for so long reports as a receiver (RFC 3550 section 6.4)."""
_RTT_GAIN = 0.25
_MAX_BYTES = 1150
"""What one datagram of feedback holds, before SRTCP's trailer."""


def draw_cname(entropy: Entropy) -> str:
    """Return a CNAME for one session: 96 random bits (RFC 7022 section 4.2)."""
    return binascii.b2a_base64(entropy.random_bytes(12), newline=False).decode("ascii")


class RtpSession:
    """Media of one transport. Verbs come in two kinds: `..._rtp...` and `..._rtcp...`."""

    __slots__ = (
        "_entropy",
        "_events",
        "_reporter",
        "_reports",
        "_resend",
        "_schedule",
        "_trace",
        "cname",
        "config",
        "discards",
        "router",
        "rtt_s",
        "senders",
    )

    def __init__(
        self,
        config: SessionConfig | None = None,
        *,
        entropy: Entropy,
        trace: Trace | None = None,
        cname: str | None = None,
    ) -> None:
        """Make the media of one transport; without a `cname` one is drawn."""
        self.config = config = config or SessionConfig()
        self._entropy = entropy
        self._trace = trace
        self._events: list[Event] = []
        self._resend: list[bytes] = []
        self._reports: list[bytes] = []
        self._reporter = 0
        """The SSRC that speaks in RTCP while there is no sender; 0 until one is needed."""
        self._schedule = RtcpSchedule(config.report_interval_s, entropy=entropy)
        self.router = RtpRouter(config.extensions, max_sources=config.max_sources)
        self.senders: list[AudioSender] = []
        self.rtt_s: float | None = None
        """Smoothed round trip of reports; None until the peer has echoed one."""
        self.discards: Counts[RtcpDiscard] = Counts()
        self.cname = draw_cname(entropy) if cname is None else cname

    def add_receiver(self, config: ReceiverConfig) -> AudioReceiver:
        """Add a media section that we hear. Raises `InvalidConfig` when its mid is taken."""
        receiver = AudioReceiver(config, trace=self._trace)
        self.router.add_receiver(receiver)
        return receiver

    def add_sender(self, config: SenderConfig, *, ssrc: int | None = None) -> AudioSender:
        """Add a media section that we speak on. Raises `InvalidConfig` when its SSRC is taken."""
        sender = AudioSender(config, entropy=self._entropy, ssrc=ssrc)
        if sender.ssrc in self.router.own_sources:
            raise InvalidConfig(f"SSRC {sender.ssrc} has a sender already")
        self.senders.append(sender)
        self.router.own_sources.add(sender.ssrc)
        return sender

    def remove_sender(self, sender: AudioSender, now: float) -> None:
        """Stop speaking on a section; the peer hears a BYE for its source."""
        self.senders.remove(sender)
        self.router.own_sources.discard(sender.ssrc)
        if sender.active_since is not None:
            self._queue([*self._report(now), Goodbye((sender.ssrc,))])

    def start(self, now: float) -> None:
        """Begin to report: media can flow from now on. Harmless when repeated."""
        self._schedule.start(now)

    def close(self, now: float, reason: str = "") -> None:
        """Queue a BYE for everything we sent, and stop reporting (RFC 3550 section 6.3.7)."""
        spoken = tuple(s.ssrc for s in self.senders if s.active_since is not None)
        if spoken:
            text = reason.encode("utf-8")[:255]
            self._queue([*self._report(now), Goodbye(spoken[:31], text)])
        self._schedule.stop()

    # -- in ------------------------------------------------------------------------------------

    def receive_rtp(self, packet: bytes, now: float) -> None:
        """Take in an unprotected RTP packet. Never raises; hot callers bind `router.receive`."""
        self.router.receive(packet, now)

    def receive_rtcp(self, data: bytes, now: float) -> None:
        """Take in an unprotected RTCP datagram. Never raises."""
        try:
            # whether or not RFC 5506 was negotiated: a report less is no reason to lose a NACK
            packets = parse_rtcp(data)
        except Discard as discard:
            self._count(discard, now)
            return
        self._schedule.receive_datagram(len(data))
        for packet in packets:
            self._receive_packet(packet, now)

    def _receive_packet(self, packet: RtcpPacket, now: float) -> None:
        if isinstance(packet, SenderReport | ReceiverReport):
            if isinstance(packet, SenderReport):
                receiver = self.router.receiver_of(packet.ssrc)
                if receiver is not None:
                    receiver.receive_sender_report(packet, now)
            for block in packet.blocks:
                self._receive_block(block, now)
        elif isinstance(packet, GenericNack):
            sender = self._sender_of(packet.media_ssrc)
            if sender is not None:
                self._resend += sender.receive_nack(packet.lost, now)
        elif isinstance(packet, CongestionFeedback):
            feedback = packet.feedback
            self._events.append(
                FeedbackReceived(
                    feedback.base_sequence, feedback.packet_count, len(feedback.arrivals)
                )
            )
        elif isinstance(packet, SourceDescription):
            for ssrc, items in packet.chunks:
                for kind, text in items:
                    if kind == SDES_MID:
                        self.router.hint(ssrc, text.decode("ascii", "replace"))
        elif isinstance(packet, Goodbye):
            self._receive_goodbye(packet, now)
        elif isinstance(packet, UnknownRtcp) and packet.malformed:
            self._count(Discard(RtcpDiscard.BODY), now)

    def _receive_block(self, block: ReportBlock, now: float) -> None:
        sender = self._sender_of(block.ssrc)
        if sender is None:
            return
        rtt = sender.receive_report(block, now + self.config.wall_offset_s)
        if rtt is not None:
            old = rtt if self.rtt_s is None else self.rtt_s
            self.rtt_s = old + (rtt - old) * _RTT_GAIN
            for receiver in self.router.sections:
                receiver.set_rtt(self.rtt_s)

    def _receive_goodbye(self, packet: Goodbye, now: float) -> None:
        reason = packet.reason.decode("utf-8", "replace")
        for ssrc in packet.ssrcs:
            receiver = self.router.receiver_of(ssrc)
            if receiver is not None:
                receiver.end_source(reason, now)
            self.router.forget(ssrc)

    # -- out -----------------------------------------------------------------------------------

    def rtp_to_send(self) -> list[bytes]:
        """Drain the packets that go out again because the peer missed them, unprotected."""
        out = self._resend
        if out:
            self._resend = []
        return out

    def rtcp_to_send(self, now: float) -> list[bytes]:
        """Drain the RTCP datagrams that are due, unprotected."""
        router = self.router
        if router.collision is not None:
            self._leave_collision(router.collision, now)
        for receiver in router.sections:
            ssrc = receiver.ssrc
            if ssrc is not None and (lost := receiver.nacks_to_send(now)):
                self._queue_feedback([GenericNack(self._own_ssrc, ssrc, tuple(lost))], now)
        out = self._reports
        if out:
            self._reports = []
        return out

    def get_timer(self) -> float | None:
        """Return when a report, feedback, a request or a gap is due, or None. Pure."""
        deadline = self._schedule.deadline
        router = self.router
        if router.feedback is not None and router.feedback.first_at is not None:
            deadline = earliest(
                deadline, router.feedback.first_at + self.config.feedback_interval_s
            )
        for receiver in router.sections:
            # who hears nobody waits for nothing
            if receiver.ssrc is not None:
                deadline = earliest(deadline, receiver.get_timer())
        return deadline

    def handle_timer(self, now: float) -> None:
        """Let time pass: give up gaps, queue what is due."""
        for receiver in self.router.sections:
            if receiver.ssrc is not None:
                receiver.handle_timer(now)
        log = self.router.feedback
        if (
            log is not None
            and log.first_at is not None
            and log.first_at + self.config.feedback_interval_s <= now
        ):
            self._queue_feedback(
                [
                    CongestionFeedback(self._own_ssrc, self._heard_ssrc(), feedback)
                    for feedback in log.take()
                ],
                now,
            )
        due = self._schedule.deadline
        if due is not None and due <= now:
            self._queue(self._report(now))
            self._schedule.restart(now)

    def feedback_received(self) -> list[Event]:
        """Drain what the peer told of transport-wide arrivals; a part of `events`."""
        out = self._events
        if out:
            self._events = []
        return out

    def events(self) -> list[Event]:
        """Drain what has happened in the session and in its receivers, in order of section."""
        out = [*self.feedback_received()]
        for receiver in self.router.sections:
            out += receiver.events()
        return out

    def _report(self, now: float) -> list[RtcpPacket]:
        """Build SR or RR, and SDES (RFC 3550 section 6.1)."""
        blocks = [
            block
            for receiver in self.router.sections
            if (block := receiver.report_block(now)) is not None
        ][:31]
        packets: list[RtcpPacket] = []
        names: list[int] = []
        for sender in self.senders:
            active = sender.active_since
            report = sender.report(now, now + self.config.wall_offset_s)
            if report is None or active is None or now - active > _RECENT_S:
                continue
            packets.append(report._replace(blocks=() if packets else tuple(blocks)))
            names.append(sender.ssrc)
        if not packets:
            packets.append(ReceiverReport(self._own_ssrc, tuple(blocks)))
            names.append(self._own_ssrc)
        text = self.cname.encode("ascii")
        packets.append(SourceDescription(tuple((n, ((SDES_CNAME, text),)) for n in names[:31])))
        return packets

    def _queue_feedback(self, feedback: Sequence[RtcpPacket], now: float) -> None:
        if not feedback:
            return
        # RFC 4585 section 3.1: feedback rides in a compound packet, unless RFC 5506 was agreed on
        head: list[RtcpPacket] = [] if self.config.reduced_size else self._report(now)
        packets = [*head]
        size = len(build_rtcp(packets))
        for packet in feedback:
            length = len(packet.serialize())
            if packets and size + length > _MAX_BYTES:
                self._queue(packets)
                # one report is enough
                packets = [ReceiverReport(self._own_ssrc), *head[-1:]] if head else []
                size = len(build_rtcp(packets))
            packets.append(packet)
            size += length
        self._queue(packets)

    def _queue(self, packets: Sequence[RtcpPacket]) -> None:
        data = build_rtcp(packets)
        self._schedule.receive_datagram(len(data))
        self._reports.append(data)

    def _leave_collision(self, ssrc: int, now: float) -> None:
        """Another source uses our SSRC: say BYE and draw a new one (RFC 3550 section 8.2)."""
        self.router.collision = None
        sender = self._sender_of(ssrc)
        if sender is None:
            return
        self._queue([*self._report(now), Goodbye((ssrc,))])
        self.router.own_sources.discard(ssrc)
        sender.change_source(self._entropy)
        self.router.own_sources.add(sender.ssrc)
        if self._trace is not None:
            self._trace.emit(now, "rtp:source_collided", {"old": ssrc, "new": sender.ssrc})

    @property
    def _own_ssrc(self) -> int:
        if self.senders:
            return self.senders[0].ssrc
        if not self._reporter:
            self._reporter = random_u32(self._entropy, nonzero=True)
        return self._reporter

    def _heard_ssrc(self) -> int:
        """Transport-wide feedback names any media source (draft-holmer section 3.1)."""
        for receiver in self.router.sections:
            if receiver.ssrc is not None:
                return receiver.ssrc
        return 0

    def _sender_of(self, ssrc: int) -> AudioSender | None:
        for sender in self.senders:
            if sender.ssrc == ssrc:
                return sender
        return None

    def _count(self, discard: Discard, now: float) -> None:
        reason = discard.reason
        if isinstance(reason, RtcpDiscard):
            self.discards[reason] += 1
        if self._trace is not None:
            self._trace.emit(now, "rtp:rtcp_discarded", {"reason": reason.name})
