"""What leaves: headers, extensions, answers to NACKs, and reports."""

from __future__ import annotations

import pytest

from warp.entropy import SeededEntropy
from warp.errors import InvalidConfig, MessageTooLarge
from warp.rtp import (
    AudioSender,
    ExtensionMap,
    SenderConfig,
    parse_extensions,
    parse_rtp,
)
from warp.rtp.media_time import ntp_from_wall, ntp_middle
from warp.rtp.rtcp import ReportBlock

IDS = ExtensionMap(mid=4, audio_level=1, transport_cc=3)


def sender(seed: int = 1, **config: object) -> AudioSender:
    return AudioSender(SenderConfig(**config), entropy=SeededEntropy(seed))


def test_numbers_count_on_from_random_origins() -> None:
    s = sender(ssrc=5)
    packets = [parse_rtp(s.packetize(b"%d" % i, 960 * i, 0.02 * i, marker=i == 0))
               for i in range(4)]  # fmt: skip
    assert [p.payload for p in packets] == [b"0", b"1", b"2", b"3"]
    assert {p.ssrc for p in packets} == {5} and {p.payload_type for p in packets} == {111}
    assert [p.marker for p in packets] == [True, False, False, False]
    assert [(p.sequence - packets[0].sequence) & 0xFFFF for p in packets] == [0, 1, 2, 3]
    assert [(p.timestamp - packets[0].timestamp) & 0xFFFFFFFF for p in packets] == [
        0, 960, 1920, 2880,
    ]  # fmt: skip


def test_origins_differ_from_sender_to_sender_and_leave_room_for_a_rollover() -> None:
    firsts = [parse_rtp(sender(seed).packetize(b"", 0, 0.0)) for seed in range(40)]
    assert len({p.ssrc for p in firsts}) == len({p.timestamp for p in firsts}) == 40
    assert len({p.sequence for p in firsts}) > 35
    assert all(p.sequence < 0x8000 for p in firsts)


def test_sequence_and_timestamp_wrap() -> None:
    s = sender()
    start = parse_rtp(s.packetize(b"", 0, 0.0)).sequence
    numbers = [parse_rtp(s.packetize(b"", 1 << 32, 0.0)).sequence for _ in range(65536)]
    assert numbers[-1] == start
    assert numbers[65535 - start - 1 : 65535 - start + 1] == [65535, 0]
    assert parse_rtp(s.packetize(b"", 960 + (7 << 32), 0.0)).timestamp == (
        parse_rtp(s.packetize(b"", 960, 0.0)).timestamp
    )


@pytest.mark.parametrize(
    ("ids", "mid"),
    [
        (ExtensionMap(), "0"), (ExtensionMap(audio_level=1), "0"), (ExtensionMap(mid=4), "0"),
        (IDS, "0"), (IDS, "audio"), (IDS, ""), (IDS, "seventeen letters"),
        (ExtensionMap(mid=4, audio_level=20), "0"),
    ],
)  # fmt: skip
@pytest.mark.parametrize("level", [None, 0, 33, 127, 0x80 | 33])
def test_extensions(ids: ExtensionMap, mid: str, level: int | None) -> None:
    s = sender(extensions=ids, mid=mid)
    packet = parse_rtp(s.packetize(b"voice", 0, 0.0, audio_level=level))
    found = parse_extensions(ids, packet.extension_profile, packet.extension)
    assert packet.payload == b"voice"
    assert found.mid == (mid if ids.mid and mid else None)
    if ids.audio_level and level is not None:
        assert (found.audio_level, found.voice) == (level & 0x7F, level > 0x7F)
    else:
        assert found.audio_level is None
    assert found.transport_sequence is None


def test_the_mid_is_left_out_once_the_peer_reports() -> None:
    s = sender(extensions=IDS, mid="audio")
    long = s.packetize(b"", 0, 0.0, audio_level=9)
    s.receive_report(ReportBlock(s.ssrc, 0, 0, 0, 0), 0.0)
    short = s.packetize(b"", 0, 0.0, audio_level=9)
    packet = parse_rtp(short)
    assert len(short) < len(long)
    assert parse_extensions(IDS, packet.extension_profile, packet.extension).mid is None
    assert parse_rtp(s.packetize(b"", 0, 0.0)).extension_profile is None


def test_a_source_goes_on_in_another_section() -> None:
    s = sender(mid="0", extensions=IDS, payload_type=111)
    before = parse_rtp(s.packetize(b"a", 0, 0.0))
    s.receive_report(ReportBlock(s.ssrc, 0, 0, 0, 0), 0.0)
    s.move(SenderConfig(mid="2", extensions=IDS, payload_type=96))
    after = parse_rtp(s.packetize(b"b", 960, 0.02))
    assert (after.ssrc, after.payload_type) == (before.ssrc, 96)
    assert (after.sequence - before.sequence) & 0xFFFF == 1
    assert after.timestamp - before.timestamp & 0xFFFFFFFF == 960
    assert parse_extensions(IDS, after.extension_profile, after.extension).mid == "2"


def test_payloads_are_bounded() -> None:
    s = sender(max_payload_bytes=100)
    s.packetize(bytes(100), 0, 0.0)
    with pytest.raises(MessageTooLarge):
        s.packetize(bytes(101), 0, 0.0)
    assert s.stats.packets == 1


def test_nacks_are_answered_from_a_bounded_memory() -> None:
    s = sender(nack_history=10)
    packets = [s.packetize(b"%d" % i, 960 * i, 0.0) for i in range(30)]
    numbers = [parse_rtp(p).sequence for p in packets]
    assert s.receive_nack([numbers[25], numbers[21], numbers[25]], 1.0) == [
        packets[21], packets[25],
    ]  # fmt: skip
    assert s.receive_nack([numbers[19], (numbers[29] + 1) & 0xFFFF, numbers[0]], 1.0) == []
    assert s.receive_nack([numbers[20], numbers[29]], 1.0) == [packets[20], packets[29]]
    assert s.stats.resent == 4


def test_a_packet_goes_out_again_a_few_times_and_not_at_once() -> None:
    s = sender(nack_history=10)
    packets = [s.packetize(b"%d" % i, 960 * i, 0.0) for i in range(10)]
    numbers = [parse_rtp(p).sequence for p in packets]
    assert s.receive_nack(numbers, 1.0) == packets
    assert s.receive_nack(numbers, 1.005) == []
    answers = [len(s.receive_nack(numbers, 1 + 0.02 * n)) for n in range(1, 12)]
    assert answers == [10] * 9 + [0] * 2
    for i in range(10, 40):
        s.receive_nack([parse_rtp(s.packetize(b"x", 960 * i, 2.0)).sequence], 2.0)
        assert len(s._repeats) <= 11


def test_nacks_across_the_wrap() -> None:
    s = sender(nack_history=100)
    packets = {}
    for _ in range(66000):
        data = s.packetize(b"", 0, 0.0)
        packets[data[2:4]] = data
        if data[2:4] == b"\x00\x10":
            break
    for number in (65500, 65535, 0, 16):
        assert s.receive_nack([number], 0.0) == [packets[number.to_bytes(2, "big")]]


def test_without_history_nothing_is_kept() -> None:
    s = sender()
    number = parse_rtp(s.packetize(b"", 0, 0.0)).sequence
    assert s.receive_nack([number], 0.0) == []
    assert sender(nack_history=5).receive_nack([1], 0.0) == []


def test_report_maps_media_time_to_wall_time() -> None:
    s = sender()
    assert s.report(0.0, 100.0) is None and s.active_since is None
    first = parse_rtp(s.packetize(b"12345", 0, 10.0))
    s.packetize(b"12345", 960, 10.02)
    report = s.report(10.52, 1000.0)
    assert report is not None
    assert (report.ssrc, report.packet_count, report.octet_count) == (s.ssrc, 2, 10)
    assert report.ntp == ntp_from_wall(1000.0)
    assert report.rtp_timestamp == (first.timestamp + 960 + 24000) & 0xFFFFFFFF
    assert s.active_since == 10.02


def test_the_peers_report_is_kept() -> None:
    s = sender()
    assert s.stats == (0, 0, 0, None, None, None, None)
    block = ReportBlock(s.ssrc, 64, 3, 9, 480, ntp_middle(ntp_from_wall(1000.0)), 0x8000)
    assert s.receive_report(block, 1000.75) == pytest.approx(0.25, abs=1e-4)
    stats = s.stats
    assert (stats.fraction_lost, stats.cumulative_lost, stats.jitter_s) == (0.25, 3, 0.01)
    assert s.rtt_s == stats.rtt_s == pytest.approx(0.25, abs=1e-4)
    assert s.receive_report(block._replace(last_sender_report=0), 1001.0) is None
    assert s.rtt_s is not None


def test_a_new_source_counts_anew() -> None:
    s = sender(nack_history=5, extensions=IDS, mid="0")
    s.packetize(b"x", 0, 0.0)
    s.receive_report(ReportBlock(s.ssrc, 0, 0, 0, 0), 0.0)
    old = s.ssrc
    s.change_source(SeededEntropy(9))
    assert s.ssrc != old and s.stats.packets == 0 and s.active_since is None
    packet = parse_rtp(s.packetize(b"x", 0, 0.0))
    assert packet.ssrc == s.ssrc and packet.extension_profile is not None


@pytest.mark.parametrize(
    "config",
    [
        {"payload_type": 128},
        {"payload_type": 95},
        {"clock_rate": 0},
        {"nack_history": -1},
        {"nack_history": 257},
        {"mid": "ä", "extensions": IDS},
    ],
)
def test_configuration_is_checked(config: dict[str, object]) -> None:
    with pytest.raises(InvalidConfig):
        sender(**config)
