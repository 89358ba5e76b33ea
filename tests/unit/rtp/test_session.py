"""A transport's media: two sessions over a wire that loses what we tell it to."""

from __future__ import annotations

import pytest

from warp.entropy import SeededEntropy
from warp.errors import InvalidConfig
from warp.rtp import (
    AudioReceiver,
    AudioSender,
    ExtensionMap,
    FeedbackReceived,
    ReceiverConfig,
    RtcpDiscard,
    RtpSession,
    SenderConfig,
    SessionConfig,
    SourceBegan,
    SourceEnded,
    build_rtcp,
    parse_rtcp,
    parse_rtp,
)
from warp.rtp.rtcp import (
    SDES_CNAME,
    SDES_MID,
    CongestionFeedback,
    GenericNack,
    Goodbye,
    PictureLossIndication,
    ReceiverReport,
    RtcpPacket,
    SenderReport,
    SourceDescription,
)
from warp.trace import MemoryTrace

IDS = ExtensionMap(mid=4, audio_level=1, transport_cc=3)
DELAY = 0.01


class End:
    """One session with a sender and a receiver for one section."""

    def __init__(self, seed: int, *, speaks: bool = True, **config: object) -> None:
        settings = {"extensions": IDS, "wall_offset_s": 1e9, **config}
        self.trace = MemoryTrace()
        self.session = RtpSession(
            SessionConfig(**settings), entropy=SeededEntropy(seed), trace=self.trace
        )
        self.receiver: AudioReceiver = self.session.add_receiver(
            ReceiverConfig(mid="0", nack=True, reorder_wait_s=0.2)
        )
        self.sender: AudioSender | None = None
        if speaks:
            self.sender = self.session.add_sender(
                SenderConfig(mid="0", extensions=IDS, nack_history=100)
            )
        self.rtcp: list[list[RtcpPacket]] = []
        self.session.start(0.0)


class Call:
    """Steps of 5 ms, a frame each way every 20 ms; RTCP and RTP arrive two steps later."""

    def __init__(self, a: End, b: End, lost: frozenset[int] = frozenset()) -> None:
        self.ends = (a, b)
        self.lost = lost
        self.wire: list[tuple[float, End, bool, bytes]] = []
        self.step = 0

    def run(self, seconds: float) -> Call:
        for _ in range(round(seconds / 0.005)):
            self.tick()
        return self

    def tick(self) -> None:
        now = self.step * 0.005
        for me, other in (self.ends, self.ends[::-1]):
            arrived = [w for w in self.wire if w[1] is me and w[0] <= now + 1e-9]
            self.wire = [w for w in self.wire if w not in arrived]
            for _, _, is_rtcp, data in arrived:
                if is_rtcp:
                    me.rtcp.append(parse_rtcp(data))
                    me.session.receive_rtcp(data, now)
                else:
                    me.session.receive_rtp(data, now)
            n, rest = divmod(self.step, 4)
            if rest == 0 and me.sender is not None:
                packet = me.sender.packetize(b"%d" % n, 960 * n, now, audio_level=9)
                if n not in self.lost:
                    self.wire.append((now + DELAY, other, False, packet))
            timer = me.session.get_timer()
            if timer is not None and timer <= now:
                me.session.handle_timer(now)
                later = me.session.get_timer()
                assert later is None or later > now
            for data in me.session.rtcp_to_send(now):
                self.wire.append((now + DELAY, other, True, data))
            for data in me.session.rtp_to_send():
                self.wire.append((now + DELAY, other, False, data))
        self.step += 1


def test_both_hear_each_other_and_learn_the_round_trip() -> None:
    a, b = End(1), End(2)
    Call(a, b).run(10)
    for me, other in ((a, b), (b, a)):
        assert me.sender is not None and other.sender is not None
        frames = me.receiver.frames()
        assert [f.payload for f in frames] == [b"%d" % n for n in range(len(frames))]
        assert len(frames) > 495
        assert me.session.events() == [SourceBegan("0", other.sender.ssrc, None)]
        assert me.session.rtt_s == pytest.approx(2 * DELAY, abs=0.006)
        assert me.sender.stats.fraction_lost == 0.0
        wall = me.receiver.wall_time(frames[0].timestamp)
        assert wall == pytest.approx(1e9, abs=0.001)
        assert not me.session.discards and not me.session.router.discards


def test_reports_are_compound_and_come_at_the_chosen_pace() -> None:
    a, b = End(1, extensions=ExtensionMap(4, 1, 0)), End(2)
    Call(a, b).run(30)
    assert a.sender is not None
    assert 30 / 2.5 * 0.7 < len(b.rtcp) < 30 / 2.5 * 2.2
    for packets in b.rtcp:
        report, names = packets[0], packets[1]
        assert isinstance(report, SenderReport) and isinstance(names, SourceDescription)
        assert report.ssrc == a.sender.ssrc and len(report.blocks) <= 1
        cname = names.item(a.sender.ssrc, SDES_CNAME)
        assert cname == a.session.cname.encode() and len(cname) == 16
    assert End(1).session.cname != End(2).session.cname


def test_lost_packets_come_back() -> None:
    a, b = End(1), End(2)
    Call(a, b, lost=frozenset({20, 50, 51, 52, 90})).run(5)
    frames = b.receiver.frames()
    assert [f.payload for f in frames] == [b"%d" % n for n in range(len(frames))]
    stats = b.receiver.stats
    assert (stats.repaired, stats.gaps, stats.lost) == (5, 0, 0)
    assert a.sender is not None and a.sender.stats.resent == 5
    nacks = [p for packets in a.rtcp for p in packets if isinstance(p, GenericNack)]
    assert [len(n.lost) for n in nacks] == [1, 3, 1]
    # without RFC 5506 each rides behind a report and a name
    assert all(isinstance(packets[0], SenderReport) for packets in a.rtcp)


def test_reduced_size_feedback_goes_alone() -> None:
    a, b = End(1, reduced_size=True), End(2, reduced_size=True)
    Call(a, b, lost=frozenset({20})).run(2)
    alone = [packets for packets in a.rtcp if isinstance(packets[0], GenericNack)]
    assert len(alone) == 1 and len(alone[0]) == 1


def test_transport_feedback_covers_every_arrival() -> None:
    a = End(1)
    assert a.session.get_timer() is not None
    for i in range(10):
        packet = bytes.fromhex("906f") + i.to_bytes(2, "big") + bytes(4) + b"peer"
        packet += bytes.fromhex("bede000131") + i.to_bytes(2, "big") + b"\0voice"
        a.session.receive_rtp(packet, 5.0 + 0.02 * i)
    assert a.session.router.feedback is not None
    a.session.handle_timer(4.9)
    a.session.rtcp_to_send(4.9)
    assert a.session.get_timer() == pytest.approx(5.1)
    a.session.handle_timer(5.2)
    (data,) = a.session.rtcp_to_send(5.2)
    feedback = parse_rtcp(data)[-1]
    assert isinstance(feedback, CongestionFeedback)
    assert feedback.media_ssrc == int.from_bytes(b"peer", "big")
    assert [offset for offset, _ in feedback.feedback.arrivals] == list(range(10))
    other = End(2)
    other.session.receive_rtcp(data, 5.3)
    assert other.session.events() == [FeedbackReceived(0, 10, 10)]


@pytest.mark.parametrize("reduced_size", [False, True])
@pytest.mark.parametrize("jump", [1, 5, 2000])
def test_feedback_on_anything_fits_into_datagrams(jump: int, reduced_size: bool) -> None:
    """A peer that numbers its packets as it likes; SRTP refuses what no datagram holds."""
    a = End(1, reduced_size=reduced_size)
    for i in range(500):
        number = (i * jump & 0xFFFF).to_bytes(2, "big")
        packet = bytes.fromhex("906f") + i.to_bytes(2, "big") + bytes(4) + b"peer"
        packet += bytes.fromhex("bede000131") + number + b"\0voice"
        a.session.receive_rtp(packet, 5.0 + (0.0 if i % 3 else 0.08))
    a.session.handle_timer(5.2)
    out = a.session.rtcp_to_send(5.2)
    assert all(len(data) <= 1150 for data in out)
    told = [p for data in out for p in parse_rtcp(data) if isinstance(p, CongestionFeedback)]
    assert sum(len(packet.feedback.arrivals) for packet in told) == 500
    assert all(isinstance(parse_rtcp(d)[0], ReceiverReport) for d in out[1:]) or reduced_size


def test_a_listener_reports_as_a_receiver() -> None:
    a, b = End(1), End(2, speaks=False)
    Call(a, b).run(6)
    report, names = a.rtcp[0]
    assert isinstance(report, ReceiverReport) and isinstance(names, SourceDescription)
    assert report.ssrc == names.chunks[0][0]
    assert len(report.blocks) == 1
    assert a.sender is not None and a.sender.stats.cumulative_lost == 0
    b.session.close(7.0)
    assert b.session.rtcp_to_send(7.0) == []  # RFC 3550 section 6.3.7: nothing sent, no BYE


def test_close_says_goodbye_and_reports_no_more() -> None:
    a, b = End(1), End(2)
    call = Call(a, b).run(3)
    assert a.sender is not None
    a.session.close(call.step * 0.005, "hang up")
    call.run(0.02)
    goodbye = b.rtcp[-1][-1]
    assert goodbye == Goodbye((a.sender.ssrc,), b"hang up")
    # what a still sends afterwards begins a new source
    events = b.session.events()
    assert SourceEnded("0", a.sender.ssrc, "hang up") in events
    assert a.session._schedule.deadline is None


def test_removing_a_sender_says_goodbye_for_it() -> None:
    a = End(1)
    assert a.sender is not None
    a.sender.packetize(b"", 0, 0.0)
    a.session.remove_sender(a.sender, 0.1)
    (data,) = a.session.rtcp_to_send(0.1)
    assert parse_rtcp(data)[-1] == Goodbye((a.sender.ssrc,))
    silent = End(2)
    assert silent.sender is not None
    silent.session.remove_sender(silent.sender, 0.1)
    assert silent.session.rtcp_to_send(0.1) == []


def test_collision_is_left_with_a_goodbye() -> None:
    a = End(1)
    assert a.sender is not None
    old = a.sender.ssrc
    a.sender.packetize(b"", 0, 0.0)
    theirs = bytes.fromhex("806f0001") + bytes(4) + old.to_bytes(4, "big") + b"voice"
    a.session.receive_rtp(theirs, 0.1)
    (data,) = a.session.rtcp_to_send(0.1)
    assert parse_rtcp(data)[-1] == Goodbye((old,))
    assert a.sender.ssrc != old
    assert parse_rtp(a.sender.packetize(b"", 0, 0.2)).ssrc == a.sender.ssrc
    a.session.receive_rtp(theirs, 0.3)  # it is theirs now
    assert [f.payload for f in a.receiver.frames()] == [b"voice"]
    assert a.trace.named("rtp:source_collided")
    a.session.router.collision = 12345
    assert a.session.rtcp_to_send(0.4) == []


def test_what_does_not_concern_us_changes_nothing() -> None:
    a = End(1)
    packets: list[RtcpPacket] = [
        SenderReport(99, 1 << 32, 0, 0, 0),
        GenericNack(1, 99, (1, 2)),
        PictureLossIndication(1, 99),
        Goodbye((99,)),
    ]
    a.session.receive_rtcp(build_rtcp(packets), 1.0)
    assert a.session.rtp_to_send() == [] and a.session.events() == []
    assert not a.session.discards


def test_bad_rtcp_is_counted_and_its_neighbours_are_heard() -> None:
    a = End(1)
    assert a.sender is not None
    for data in (b"", b"\x80\xc9\0\7\0\0\0\1", b"\x40\xc9\0\1\0\0\0\1"):
        a.session.receive_rtcp(data, 1.0)
    sent = a.sender.packetize(b"again", 0, 1.0)
    number = int.from_bytes(sent[2:4], "big")
    nack = GenericNack(1, a.sender.ssrc, (number,)).serialize()
    a.session.receive_rtcp(b"\x81\xc9\0\1\0\0\0\1" + nack, 1.0)
    assert a.session.rtp_to_send() == [sent]
    assert a.session.discards == {
        RtcpDiscard.TOO_SHORT: 1, RtcpDiscard.LENGTH: 1, RtcpDiscard.VERSION: 1,
        RtcpDiscard.BODY: 1,
    }  # fmt: skip
    assert len(a.trace.named("rtp:rtcp_discarded")) == 4


def test_the_mid_in_sdes_leads_a_source_home() -> None:
    session = RtpSession(entropy=SeededEntropy(1))
    first = session.add_receiver(ReceiverConfig(mid="x"))
    second = session.add_receiver(ReceiverConfig(mid="y"))
    sdes = SourceDescription(((7, ((SDES_CNAME, b"c"), (SDES_MID, b"y"))),))
    session.receive_rtcp(build_rtcp([sdes]), 0.0)
    session.receive_rtp(bytes.fromhex("806f0001") + bytes(4) + b"\0\0\0\7voice", 0.0)
    assert len(second.frames()) == 1 and first.frames() == []


def test_two_senders_share_one_compound() -> None:
    session = RtpSession(entropy=SeededEntropy(1))
    senders = [session.add_sender(SenderConfig(mid=m)) for m in "ab"]
    for s in senders:
        s.packetize(b"x", 0, 0.0)
    session.start(0.0)
    session.handle_timer(9.0)
    (data,) = session.rtcp_to_send(9.0)
    one, two, names = parse_rtcp(data)
    assert isinstance(one, SenderReport) and isinstance(two, SenderReport)
    assert isinstance(names, SourceDescription) and len(names.chunks) == 2
    with pytest.raises(InvalidConfig):
        session.add_sender(SenderConfig(ssrc=senders[0].ssrc))


def test_a_sender_that_fell_silent_reports_as_a_receiver() -> None:
    session = RtpSession(entropy=SeededEntropy(1))
    sender = session.add_sender(SenderConfig())
    sender.packetize(b"x", 0, 0.0)
    session.start(0.0)
    session.handle_timer(60.0)
    (data,) = session.rtcp_to_send(60.0)
    report = parse_rtcp(data)[0]
    assert isinstance(report, ReceiverReport) and report.ssrc == sender.ssrc


def test_nothing_is_due_before_the_start() -> None:
    session = RtpSession(entropy=SeededEntropy(1))
    session.add_receiver(ReceiverConfig())
    assert session.get_timer() is None
    session.handle_timer(100.0)
    assert session.rtcp_to_send(100.0) == []
