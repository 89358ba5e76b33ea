"""Packets that Chromium sent: headers, extensions, and a receiver over real arrival times."""

from __future__ import annotations

from pathlib import Path

import pytest

from warp.rtp import (
    AudioReceiver,
    ExtensionMap,
    ReceiverConfig,
    RtpRouter,
    parse_extensions,
    parse_rtp,
)

IDS = ExtensionMap(mid=4, audio_level=1, transport_cc=3)
LINES = (
    (Path(__file__).parents[2] / "captures" / "rtp" / "chromium_audio.txt").read_text().split("\n")
)


def packets(end: str, *, rtcp: bool = False) -> list[tuple[float, bytes]]:
    rows = [line.split() for line in LINES if line]
    data = [(float(time), bytes.fromhex(raw)) for time, who, raw in rows if who == end]
    return [(time, raw) for time, raw in data if (192 <= raw[1] <= 223) == rtcp]


@pytest.mark.parametrize("end", ["a", "b"])
def test_headers(end: str) -> None:
    parsed = [parse_rtp(raw) for _, raw in packets(end)]
    assert len(parsed) >= 10
    assert {p.payload_type for p in parsed} == {111} and len({p.ssrc for p in parsed}) == 1
    assert [p.marker for p in parsed] == [True] + [False] * (len(parsed) - 1)
    for number, packet in enumerate(parsed):
        assert (packet.sequence - parsed[0].sequence) & 0xFFFF == number
        assert (packet.timestamp - parsed[0].timestamp) & 0xFFFFFFFF == 960 * number
        found = parse_extensions(IDS, packet.extension_profile, packet.extension)
        # its sender leaves numbers of the transport to RTCP now and then
        assert found.mid == "0" and found.transport_sequence is not None
        assert found.audio_level is not None
    assert [raw for _, raw in packets(end)] == [p.serialize() for p in parsed]


@pytest.mark.parametrize("end", ["a", "b"])
def test_a_receiver_over_them(end: str) -> None:
    router = RtpRouter(IDS)
    receiver = AudioReceiver(ReceiverConfig(mid="0"))
    router.add_receiver(receiver)
    for time, raw in packets(end):
        router.receive(raw, time)
    frames = receiver.frames()
    assert len(frames) == len(packets(end)) and not any(f.gap for f in frames)
    levels = [f.audio_level for f in frames]
    assert levels[:2] == ([127, 7] if end == "a" else [25, 31])
    assert receiver.stats.jitter_s < 0.005 and receiver.stats.lost == 0
    assert router.feedback is not None
    (feedback,) = router.feedback.take()
    assert len(feedback.arrivals) == len(frames)
    assert not router.discards


def test_its_feedback_is_padded_by_single_bytes_and_goes_alone() -> None:
    """Why `parse_rtcp` is lenient: the first eight bytes of SRTCP are in the clear."""
    first = {raw[:4].hex() for end in "ab" for _, raw in packets(end, rtcp=True)}
    assert first <= {"afcd0006", "8fcd0005", "afcd0005", "8fcd0006"} and "afcd0006" in first
