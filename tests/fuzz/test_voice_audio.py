"""Anything as packets of a voice: a frame of the right length each time, and nothing grows."""

from __future__ import annotations

from contextlib import suppress

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.unit.voice_backend.audio.support import payloads
from voice_backend.audio import AudioReceiver, OpusDecoder, OpusError

SAMPLES = 320


def fuzz_opus_decoder(data: bytes) -> None:
    """Samples of a plausible length, or OpusError."""
    decoder = OpusDecoder(16_000)
    with suppress(OpusError):
        assert 0 < len(decoder.decode(data)) <= 1920
    with suppress(OpusError):
        assert len(decoder.recover(data, SAMPLES)) == SAMPLES
    assert len(decoder.conceal(SAMPLES)) == SAMPLES


def fuzz_audio_receiver(data: bytes) -> None:
    """Read as a story: each byte says what happens next, some take bytes as numbers or payloads."""
    receiver = AudioReceiver(16_000)
    now, at, sequence, timestamp = 0.0, 0, 65_500, 0xFFFFF000
    spoken = payloads()
    while at < len(data):
        what, value = data[at] & 7, data[at] >> 3
        at += 1
        if what < 2:
            now += 0.02
            frame = receiver.frame(now)
            assert frame.pcm.shape == (SAMPLES,) and frame.pcm.dtype == np.int16
        elif what < 5:
            sequence, timestamp = sequence + 1, timestamp + 960
            receiver.receive(spoken[sequence % 200], sequence & 0xFFFF, timestamp & 0xFFFFFFFF, now)
        elif what == 5:
            receiver.receive(data[at : at + value], sequence + value - 8, timestamp, now)
            at += value
        elif what == 6:
            sequence, timestamp = sequence + value * 40 - 600, timestamp + (value - 8) * 24_001
        else:
            now += value * 0.01
        assert len(receiver._jitter) <= 128 and len(receiver._held) < 2400


@given(st.one_of(st.binary(max_size=200), st.integers(0, 199).map(lambda i: payloads()[i])))
def test_any_payload(data: bytes) -> None:
    fuzz_opus_decoder(data)


@pytest.mark.slow
@settings(max_examples=60)
@given(st.binary(max_size=400))
def test_any_story(data: bytes) -> None:
    fuzz_audio_receiver(data)
