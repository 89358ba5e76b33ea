"""Any bytes as an Opus payload: a shape or Discard, and both readers agree on the duration."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from warp.errors import Discard
from warp.rtp.opus import (
    MAX_SAMPLES,
    OpusDiscard,
    has_fec,
    has_voice,
    packet_samples,
    parse_opus,
)


def fuzz_opus(data: bytes) -> None:
    assert 0 <= packet_samples(data) <= MAX_SAMPLES
    has_fec(data)
    has_voice(data)
    try:
        packet = parse_opus(data)
    except Discard as discard:
        assert isinstance(discard.reason, OpusDiscard)
        return
    assert packet.samples == packet_samples(data)
    assert 1 <= len(packet.frames) <= 48
    at = packet.frames[0][0]
    for start, end in packet.frames:
        assert at == start <= end <= len(data)
        at = end


@given(st.binary(max_size=300))
def test_any_bytes(data: bytes) -> None:
    fuzz_opus(data)


@given(st.integers(0, 255), st.integers(0, 255), st.binary(max_size=30))
def test_many_frames(toc: int, count: int, rest: bytes) -> None:
    fuzz_opus(bytes((toc | 3, count)) + rest)
