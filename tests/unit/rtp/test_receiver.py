"""The receiver: what a player sees of good, lost, doubled, reordered and restarted streams."""

from __future__ import annotations

import itertools

import pytest

from warp.rtp import (
    AudioFrame,
    AudioReceiver,
    ExtensionMap,
    PayloadKind,
    ReceiverConfig,
    RedBlock,
    RtpDiscard,
    RtpPacket,
    SourceBegan,
    SourceEnded,
    TelephoneEvent,
    ToneBegan,
    ToneEnded,
    build_red,
)
from warp.rtp.media_time import ntp_from_wall
from warp.rtp.rtcp import SenderReport
from warp.trace import MemoryTrace

KINDS = {111: PayloadKind.AUDIO, 13: PayloadKind.AUDIO, 63: PayloadKind.RED,
         110: PayloadKind.TELEPHONE_EVENT}  # fmt: skip


class Stream:
    """Feeds a receiver; packet `n` has timestamp `960 n` and arrives at `0.02 n`, unless told."""

    def __init__(self, **config: object) -> None:
        self.trace = MemoryTrace()
        settings = {"mid": "a", "payload_kinds": KINDS, **config}
        self.receiver = AudioReceiver(ReceiverConfig(**settings), trace=self.trace)
        self.receiver.begin_source(7, 0.0)
        self.receiver.events()

    def put(
        self,
        *numbers: int,
        now: float | None = None,
        payload: bytes | None = None,
        payload_type: int = 111,
        timestamp: int | None = None,
        marker: bool = False,
    ) -> Stream:
        for n in numbers:
            self.receiver.receive(
                n & 0xFFFF,
                (960 * n if timestamp is None else timestamp) & 0xFFFFFFFF,
                marker,
                payload_type,
                b"%d" % n if payload is None else payload,
                0x80 | 20,
                0.02 * n if now is None else now,
            )
        return self

    def get(self) -> list[object]:
        return [(f.sequence, f.lost) if f.gap else f.payload for f in self.receiver.frames()]


def test_frames_in_order_carry_everything() -> None:
    stream = Stream().put(1, marker=True).put(2)
    first, second = stream.receiver.frames()
    assert (first.payload, first.sequence, first.timestamp) == (b"1", 1, 960)
    assert (first.marker, second.marker) == (True, False)
    assert (first.payload_type, first.received_at, first.gap, first.lost) == (111, 0.02, False, 0)
    assert (first.audio_level, first.voice) == (20, True)
    assert (second.payload, second.sequence, second.timestamp) == (b"2", 2, 1920)
    assert stream.receiver.frames() == []
    assert "AudioFrame(1, 960, 1 bytes)" in repr(first)


def test_without_a_level_there_is_none() -> None:
    frame = AudioFrame(b"", 0, 0, False, 111, None, 0.0)
    assert frame.audio_level is None and frame.voice is False
    assert "gap of 2" in repr(AudioFrame(None, 0, 0, False, 111, None, 0.0, 2))


def test_reordered_packets_are_put_in_order() -> None:
    stream = Stream().put(1, 2, 5, 4, 3, 6)
    assert stream.get() == [b"1", b"2", b"3", b"4", b"5", b"6"]
    assert stream.receiver.get_timer() is None
    stats = stream.receiver.stats
    assert (stats.packets, stats.lost, stats.duplicates, stats.late, stats.gaps) == (6, 0, 0, 0, 0)


def test_a_lost_packet_is_marked_after_the_wait() -> None:
    stream = Stream().put(1, 3, now=1.0)
    assert stream.get() == [b"1"]
    assert stream.receiver.get_timer() == 1.04
    stream.receiver.handle_timer(1.03)
    assert stream.get() == []
    stream.receiver.handle_timer(1.04)
    assert stream.get() == [(2, 1), b"3"]
    assert stream.receiver.get_timer() is None
    stats = stream.receiver.stats
    assert (stats.gaps, stats.given_up, stats.lost) == (1, 1, 1)


def test_the_next_packet_gives_up_an_overdue_gap_without_a_timer() -> None:
    stream = Stream().put(1, 3, now=1.0).put(4, now=1.05)
    assert stream.get() == [b"1", (2, 1), b"3", b"4"]


def test_too_late_is_late_and_twice_is_a_copy() -> None:
    stream = Stream().put(1, 3, now=1.0).put(4, now=1.05).put(2, now=1.06).put(2, 4, now=1.07)
    assert stream.get() == [b"1", (2, 1), b"3", b"4"]
    assert (stream.receiver.stats.late, stream.receiver.stats.duplicates) == (1, 2)


def test_copies_of_waiting_packets() -> None:
    stream = Stream().put(1, 3, 3, 3, 2, 2, now=1.0)
    assert stream.get() == [b"1", b"2", b"3"]
    assert stream.receiver.stats.duplicates == 3


def test_sequence_and_timestamp_wrap() -> None:
    stream = Stream()
    for i in range(20):
        n = 65526 + i
        stream.put(n, timestamp=0xFFFFFFFF - 9600 + 960 * i + 1, now=0.02 * i)
    frames = stream.receiver.frames()
    assert [f.sequence for f in frames] == list(range(65526, 65546))
    steps = {b.timestamp - a.timestamp for a, b in itertools.pairwise(frames)}
    assert steps == {960} and frames[-1].timestamp > 0xFFFFFFFF


def test_reordering_across_both_wraps() -> None:
    stream = Stream().put(65534, timestamp=0xFFFFFD00, now=1.0)
    stream.put(0, timestamp=0x480, now=1.0).put(65535, timestamp=0xC0, now=1.0)
    frames = stream.receiver.frames()
    assert [f.sequence for f in frames] == [65534, 65535, 65536]
    assert [f.timestamp - 0x1_0000_0000 for f in frames] == [-0x300, 0xC0, 0x480]


def test_a_pause_is_not_a_gap() -> None:
    """DTX: sequence numbers go on, media time jumps (RFC 7587 section 3.1.3)."""
    stream = Stream().put(1).put(2, timestamp=960 * 50, now=1.0)
    assert [(f.gap, f.timestamp) for f in stream.receiver.frames()] == [
        (False, 960), (False, 48000),
    ]  # fmt: skip


def test_a_large_jump_needs_a_second_opinion() -> None:
    stream = Stream().put(1, 2)
    stream.put(30000, now=1.0)
    assert stream.get() == [b"1", b"2"]
    assert stream.receiver.discards[RtpDiscard.SEQUENCE_JUMP] == 1
    stream.put(3, now=1.01)  # a stray: the stream goes on
    assert stream.get() == [b"3"]
    stream.put(30100, 30101, now=1.02)
    frames = stream.receiver.frames()
    assert [f.payload for f in frames] == [None, b"30101"]
    assert frames[0].lost == 0  # a restart: nobody knows how much
    assert frames[1].sequence == 65536 + 30101 and frames[1].timestamp > frames[0].timestamp
    stream.put(30102, now=1.04)
    assert stream.get() == [b"30102"]
    assert stream.receiver.stats.packets == 2


def test_a_restart_hands_over_what_waited() -> None:
    stream = Stream().put(1, 3, now=1.0).put(40000, 40001, now=1.01)
    assert stream.get() == [b"1", (2, 1), b"3", (4, 0), b"40001"]


def test_another_source_starts_anew() -> None:
    stream = Stream().put(1, 2)
    stream.receiver.begin_source(8, 1.0)
    stream.put(1, 2, now=1.0)
    frames = stream.receiver.frames()
    assert [f.payload for f in frames] == [b"1", b"2", None, b"1", b"2"]
    assert [f.sequence for f in frames] == [1, 2, 3, 65537, 65538]
    assert stream.receiver.events() == [SourceBegan("a", 8, 7)]
    block = stream.receiver.report_block(2.0)
    assert block is not None and block.ssrc == 8 and block.cumulative_lost == 0


def test_goodbye_flushes_and_says_so() -> None:
    stream = Stream().put(1, 3, now=1.0)
    stream.receiver.end_source("left", 1.01)
    assert stream.get() == [b"1", (2, 1), b"3", (4, 0)]
    assert stream.receiver.events() == [SourceEnded("a", 7, "left")]
    assert stream.receiver.ssrc is None and stream.receiver.get_timer() is None
    stream.receiver.end_source("twice", 1.02)
    assert stream.receiver.events() == []
    assert [r[1] for r in stream.trace.records][-1] == "rtp:source_ended"


def test_payload_types_that_were_not_negotiated_are_ignored_but_not_a_gap() -> None:
    stream = Stream().put(1).put(2, payload_type=77).put(3)
    assert stream.get() == [b"1", b"3"]
    assert stream.receiver.discards[RtpDiscard.UNKNOWN_PAYLOAD_TYPE] == 1
    fresh = Stream().put(1, payload_type=77)
    assert fresh.get() == [] and fresh.receiver.stats.packets == 0


@pytest.mark.parametrize("payload_type", [111, 63])
def test_padding_alone_keeps_its_place_and_is_no_frame(payload_type: int) -> None:
    """libwebrtc probes a path with bursts of it, with the timestamp of the last frame."""
    stream = Stream().put(1)
    stream.put(2, 3, payload=b"", payload_type=payload_type, timestamp=960)
    stream.put(4, timestamp=1920)
    assert stream.get() == [b"1", b"4"]
    assert stream.receiver.stats.lost == 0
    assert not stream.receiver.discards
    assert stream.receiver.get_timer() is None


def test_padding_between_waiting_frames() -> None:
    stream = Stream().put(1, 4)
    stream.put(3, payload=b"", timestamp=1920)
    assert stream.get() == [b"1"]
    stream.put(2)
    assert stream.get() == [b"2", b"4"]


def test_audio_types_may_alternate() -> None:
    stream = Stream().put(1).put(2, payload_type=13).put(3).put(4, payload_type=13)
    assert [f.payload_type for f in stream.receiver.frames()] == [111, 13, 111, 13]


def red(n: int, *older: int) -> bytes:
    return build_red(
        [RedBlock(111, 960 * (n - old), b"%d" % old) for old in older]
        + [RedBlock(111, 0, b"%d" % n)]
    )


def test_redundancy_fills_gaps_at_once() -> None:
    stream = Stream().put(1)
    stream.put(4, payload=red(4, 2, 3), payload_type=63)
    frames = stream.receiver.frames()
    assert [(f.payload, f.sequence, f.timestamp) for f in frames] == [
        (b"%d" % n, n, 960 * n) for n in (1, 2, 3, 4)
    ]
    stats = stream.receiver.stats
    assert (stats.recovered, stats.lost, stats.gaps) == (2, 2, 0)
    stream.put(3)  # the original, after all
    assert stream.get() == [] and stream.receiver.stats.duplicates == 1


def test_redundancy_of_what_arrived_changes_nothing() -> None:
    stream = Stream()
    for n in range(1, 6):
        stream.put(n, payload=red(n, n - 2, n - 1), payload_type=63)
    assert stream.get() == [b"%d" % n for n in range(1, 6)]
    assert stream.receiver.stats.recovered == 0


def test_redundancy_reaches_only_so_far() -> None:
    stream = Stream().put(1, now=1.0).put(5, payload=red(5, 4), payload_type=63, now=1.0)
    assert stream.get() == [b"1"]
    stream.receiver.handle_timer(1.04)
    assert stream.get() == [(2, 2), b"4", b"5"]


def test_redundancy_does_not_take_lost_padding_for_a_frame() -> None:
    """The frame behind it repeats the frame before it, which has been heard."""
    stream = Stream().put(1)
    stream.put(4, payload=red(2, 1), payload_type=63, timestamp=2 * 960, now=0.04)
    assert stream.get() == [b"1"]
    stream.receiver.handle_timer(1.0)
    assert stream.get() == [(2, 2), b"2"]
    assert stream.receiver.stats.recovered == 0


def test_redundancy_finds_its_place_beyond_padding() -> None:
    stream = Stream().put(1, now=0.1)
    stream.put(4, 5, payload=b"", payload_type=63, timestamp=3 * 960, now=0.1)
    stream.put(6, payload=red(4, 2, 3), payload_type=63, timestamp=4 * 960, now=0.1)
    assert stream.get() == [b"1", b"2", b"3", b"4"]
    assert stream.receiver.stats.recovered == 2


def test_broken_redundancy_is_discarded() -> None:
    stream = Stream().put(1).put(2, payload=b"\xef\x00", payload_type=63)
    stream.put(2, payload=b"\x4dabc", payload_type=63)  # primary of an unknown type
    stream.put(2, payload=b"\x3fabc", payload_type=63)  # redundancy inside redundancy
    assert stream.receiver.discards == {
        RtpDiscard.REDUNDANCY: 1, RtpDiscard.UNKNOWN_PAYLOAD_TYPE: 2,
    }  # fmt: skip
    stream.put(3)
    assert stream.get() == [b"1", b"3"]


def test_primary_without_redundancy() -> None:
    stream = Stream().put(1, payload=b"\x6f1", payload_type=63)
    stream.put(2, payload=b"\x6f2", payload_type=63)
    assert stream.get() == [b"1", b"2"]


def test_digits_become_events_in_order() -> None:
    stream = Stream().put(1)
    for n, (ended, duration) in enumerate([(False, 480), (True, 960), (True, 960)], 2):
        payload = TelephoneEvent(3, ended, 10, duration).serialize()
        stream.put(n, payload=payload, payload_type=110, timestamp=1920)
    stream.put(5).put(6, payload=b"x", payload_type=110).put(7)
    assert stream.get() == [b"1", b"5", b"7"]
    assert stream.receiver.events() == [ToneBegan(3, 1920, 10), ToneEnded(3, 1920, 960)]
    assert stream.receiver.discards[RtpDiscard.EVENT] == 1


def test_a_goodbye_ends_a_tone() -> None:
    stream = Stream().put(1)
    payload = TelephoneEvent(3, False, 10, 480).serialize()
    stream.put(2, payload=payload, payload_type=110)
    stream.receiver.end_source("", 1.0)
    events = stream.receiver.events()
    assert [type(e) for e in events] == [ToneBegan, ToneEnded, SourceEnded]


def test_lost_packets_are_asked_for_and_repaired() -> None:
    stream = Stream(nack=True)
    stream.receiver.set_rtt(0.02)
    stream.put(1, 4, now=1.0)
    assert stream.receiver.get_timer() == 1.0
    assert stream.receiver.nacks_to_send(1.0) == [2, 3]
    assert stream.receiver.nacks_to_send(1.0) == []
    stream.put(2, now=1.02)
    assert stream.get() == [b"1", b"2"]
    assert stream.receiver.nacks_to_send(1.035) == [3]
    stream.put(3, now=1.039)
    assert stream.get() == [b"3", b"4"]
    stats = stream.receiver.stats
    assert (stats.repaired, stats.lost, stats.gaps) == (2, 0, 0)
    assert stream.receiver.get_timer() is None


def test_what_was_given_up_is_not_asked_for() -> None:
    stream = Stream(nack=True).put(1, 3, now=1.0)
    stream.receiver.handle_timer(1.05)
    assert stream.receiver.nacks_to_send(1.05) == []
    assert stream.receiver.get_timer() is None


def test_without_negotiation_nothing_is_asked_for() -> None:
    stream = Stream().put(1, 3, now=1.0)
    stream.receiver.set_rtt(0.1)
    assert stream.receiver.nacks_to_send(1.0) == []
    assert stream.receiver.get_timer() == 1.04


def test_what_comes_back_does_not_disturb_the_jitter() -> None:
    stream = Stream(nack=True, reorder_wait_s=0.5)
    for n in range(50):
        if n != 20:
            stream.put(n)
    before = stream.receiver.stats.jitter_s
    stream.put(20, now=1.2)
    assert stream.receiver.stats.jitter_s == before
    assert len(stream.get()) == 50


def test_sender_reports_are_echoed() -> None:
    stream = Stream().put(1)
    assert stream.receiver.wall_time(960) is None
    ntp = ntp_from_wall(1000.0)
    stream.receiver.receive_sender_report(SenderReport(7, ntp, 960, 1, 1), 2.0)
    block = stream.receiver.report_block(2.5)
    assert block is not None
    assert block.last_sender_report == (ntp >> 16) & 0xFFFFFFFF
    assert block.delay_since_report == 0x8000
    assert stream.receiver.wall_time(960 + 48000) == pytest.approx(1001.0)


def test_parsed_packets_may_be_given_too() -> None:
    receiver = AudioReceiver()
    packet = RtpPacket(111, 5, 960, 9, b"x", extension_profile=0xBEDE, extension=b"\x10\x14\0\0")
    receiver.receive_packet(packet, 1.0, ExtensionMap(audio_level=1))
    receiver.receive_packet(RtpPacket(111, 6, 1920, 9, b"y"), 1.02)
    broken = RtpPacket(111, 7, 2880, 9, b"z", extension_profile=0xBEDE, extension=b"\x1f\x14\0\0")
    receiver.receive_packet(broken, 1.04, ExtensionMap(audio_level=1))
    first, second = receiver.frames()
    assert (first.audio_level, second.audio_level, receiver.ssrc) == (20, None, 9)
    assert receiver.discards == {RtpDiscard.EXTENSION: 1}


def test_no_more_than_the_capacity_waits() -> None:
    stream = Stream(reorder_capacity=8, reorder_wait_s=100.0).put(0, now=0.0)
    for n in range(2, 500):
        stream.put(n, now=0.0)
    out = stream.get()
    assert out[:2] == [b"0", (1, 1)] and len(out) == 500
