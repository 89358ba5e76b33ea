"""Payload rules of Opus: RFC 6716 section 3 by hand, and libopus's own opinion."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from warp.errors import Discard
from warp.rtp.opus import (
    FRAME_SAMPLES,
    OpusDiscard,
    OpusMode,
    has_fec,
    has_voice,
    is_dtx,
    packet_samples,
    parse_opus,
)

VECTORS: list[dict[str, Any]] = json.loads(
    (Path(__file__).parents[2] / "vectors" / "opus_packets.json").read_text()
)


def reason(payload: bytes) -> OpusDiscard:
    with pytest.raises(Discard) as caught:
        parse_opus(payload)
    assert isinstance(caught.value.reason, OpusDiscard)
    return caught.value.reason


def toc(config: int, code: int, *, stereo: bool = False) -> int:
    return config << 3 | (4 if stereo else 0) | code


@pytest.mark.parametrize(
    ("configs", "mode", "bandwidth", "milliseconds"),
    [
        (range(0, 4), OpusMode.SILK, 8000, (10, 20, 40, 60)),
        (range(4, 8), OpusMode.SILK, 12000, (10, 20, 40, 60)),
        (range(8, 12), OpusMode.SILK, 16000, (10, 20, 40, 60)),
        (range(12, 14), OpusMode.HYBRID, 24000, (10, 20)),
        (range(14, 16), OpusMode.HYBRID, 48000, (10, 20)),
        (range(16, 20), OpusMode.CELT, 8000, (2.5, 5, 10, 20)),
        (range(20, 24), OpusMode.CELT, 16000, (2.5, 5, 10, 20)),
        (range(24, 28), OpusMode.CELT, 24000, (2.5, 5, 10, 20)),
        (range(28, 32), OpusMode.CELT, 48000, (2.5, 5, 10, 20)),
    ],
)
def test_configurations_of_table_2(
    configs: range, mode: OpusMode, bandwidth: int, milliseconds: tuple[float, ...]
) -> None:
    for config, ms in zip(configs, milliseconds, strict=True):
        packet = parse_opus(bytes([toc(config, 0)]) + b"frame")
        assert (packet.mode, packet.bandwidth_hz) == (mode, bandwidth)
        assert packet.samples == FRAME_SAMPLES[config] == ms * 48


def test_code_0_is_one_frame() -> None:
    assert parse_opus(b"\x00abc").frames == ((1, 4),)
    assert parse_opus(b"\x00").frames == ((1, 1),)


def test_code_1_is_two_equal_frames() -> None:
    packet = parse_opus(bytes([toc(1, 1, stereo=True)]) + b"aabb")
    assert packet.frames == ((1, 3), (3, 5))
    assert (packet.channels, packet.samples) == (2, 1920)
    assert reason(bytes([toc(1, 1)]) + b"aab") is OpusDiscard.UNEVEN


def test_code_2_is_two_frames_with_a_length() -> None:
    assert parse_opus(bytes([toc(1, 2), 2]) + b"aabbb").frames == ((2, 4), (4, 7))
    long = bytes([toc(1, 2), 252, 1]) + bytes(256 + 3)
    assert parse_opus(long).frames == ((3, 259), (259, 262))
    assert reason(bytes([toc(1, 2)])) is OpusDiscard.TRUNCATED
    assert reason(bytes([toc(1, 2), 255])) is OpusDiscard.TRUNCATED
    assert reason(bytes([toc(1, 2), 9]) + b"short") is OpusDiscard.TRUNCATED


def test_code_3_constant_and_variable_with_padding() -> None:
    assert parse_opus(bytes([toc(1, 3), 3]) + b"aabbcc").frames == ((2, 4), (4, 6), (6, 8))
    assert reason(bytes([toc(1, 3), 3]) + b"aabbc") is OpusDiscard.UNEVEN
    variable = bytes([toc(1, 3), 0x80 | 2, 1]) + b"abb"
    assert parse_opus(variable).frames == ((3, 4), (4, 6))
    padded = bytes([toc(1, 3), 0x40 | 1, 2]) + b"aaa" + bytes(2)
    assert parse_opus(padded).frames == ((3, 6),)
    very_padded = bytes([toc(1, 3), 0x40 | 1, 255, 1]) + b"aaa" + bytes(255)
    assert parse_opus(very_padded).frames == ((4, 7),)
    assert reason(bytes([toc(1, 3), 0x40 | 1, 9]) + b"a") is OpusDiscard.TRUNCATED
    assert reason(bytes([toc(1, 3), 0x40 | 1, 255])) is OpusDiscard.TRUNCATED
    assert reason(bytes([toc(1, 3), 0xC0 | 2, 3, 4]) + b"abc") is OpusDiscard.TRUNCATED


def test_durations_beyond_120_ms_and_no_frames() -> None:
    assert parse_opus(bytes([toc(3, 3), 2])).samples == 5760
    assert reason(bytes([toc(3, 3), 3])) is OpusDiscard.DURATION
    assert reason(bytes([toc(3, 3), 0])) is OpusDiscard.DURATION
    assert reason(bytes([toc(3, 3)])) is OpusDiscard.TRUNCATED
    assert reason(b"") is OpusDiscard.EMPTY
    assert packet_samples(b"") == packet_samples(bytes([toc(3, 3), 3])) == 0
    assert packet_samples(bytes([toc(3, 3)])) == 0


def test_a_frame_has_at_most_1275_bytes() -> None:
    assert parse_opus(b"\x00" + bytes(1275)).frames == ((1, 1276),)
    assert reason(b"\x00" + bytes(1276)) is OpusDiscard.FRAME_TOO_LONG


def test_discontinuous_transmission_is_a_packet_of_two_bytes_at_most() -> None:
    assert is_dtx(b"\x08") and is_dtx(b"\x08\x00") and not is_dtx(b"\x08\x00\x00")


def test_flags_of_the_silk_layer() -> None:
    mono = toc(1, 0)
    assert has_voice(bytes([mono, 0x80, 0])) is True and not has_fec(bytes([mono, 0x80, 0]))
    assert has_voice(bytes([mono, 0x40, 0])) is False and has_fec(bytes([mono, 0x40, 0]))
    stereo = toc(1, 0, stereo=True)
    assert has_fec(bytes([stereo, 0x10, 0])) and has_voice(bytes([stereo, 0x20, 0]))
    sixty = toc(3, 0)  # three VAD flags, then LBRR
    assert has_fec(bytes([sixty, 0x10, 0])) and has_voice(bytes([sixty, 0x20, 0]))
    celt = toc(31, 0)
    assert has_voice(bytes([celt, 0xFF])) is None and not has_fec(bytes([celt, 0xFF]))
    assert not has_fec(b"") and not has_fec(b"\x08") and not has_fec(b"\x0b\x00")


@pytest.mark.parametrize("number", range(len(VECTORS)))
def test_libopus_agrees(number: int) -> None:
    vector = VECTORS[number]
    payload = bytes.fromhex(vector["payload"])
    if vector["what"] == "random":
        frames = vector["frames_at"]
        if frames is None:
            assert isinstance(reason(payload), OpusDiscard)
        else:
            found = parse_opus(payload).frames
            assert [[start, end - start] for start, end in found] == frames
        return
    packet = parse_opus(payload)
    assert packet.samples == packet_samples(payload) == vector["samples"]
    assert (len(packet.frames), packet.channels) == (vector["frames"], vector["channels"])
    assert has_fec(payload) == vector["fec"]
    assert is_dtx(payload) == (vector["what"] == "dtx" and len(payload) < 3)
