from __future__ import annotations

import numpy as np
import pytest

from voice_backend.audio import EncoderConfig, OpusDecoder, OpusEncoder
from warp_tools.audio import likeness, packaged_sound
from warp_tools.audio.likeness import SAME_SPEECH
from warp_tools.opus import Samples

SPEECH = packaged_sound("speech")
GREETING = packaged_sound("greeting")


def through_opus(samples: Samples, config: EncoderConfig | None = None, loss: float = 0) -> Samples:
    encoder, decoder = OpusEncoder(config=config), OpusDecoder()
    luck = np.random.default_rng(1)
    padded = np.concatenate([samples, np.zeros(-len(samples) % 960, np.int16)])
    payloads = [encoder.encode(padded[i : i + 960]) for i in range(0, len(padded), 960)]
    return np.concatenate(
        [decoder.conceal(960) if luck.random() < loss else decoder.decode(p) for p in payloads]
    )


def test_the_same_samples_are_the_same() -> None:
    found = likeness(SPEECH, SPEECH)
    assert found.correlation == pytest.approx(1.0)
    assert found.offset_s == 0.0


def test_an_echo_through_opus_twice_after_a_greeting_is_the_same() -> None:
    echo = through_opus(through_opus(SPEECH))
    reply = np.concatenate([GREETING, echo, np.zeros(48_000, np.int16)])
    found = likeness(SPEECH, reply)
    assert found.correlation > SAME_SPEECH
    assert found.offset_s == pytest.approx(len(GREETING) / 48_000, abs=0.02)


def test_a_short_word_late_in_a_long_recording_is_found() -> None:
    word = SPEECH[48_000:72_000]
    reply = np.concatenate([np.zeros(160_000, np.int16), word, np.zeros(9_000, np.int16)])
    found = likeness(word, reply)
    assert found.correlation == pytest.approx(1.0)
    assert found.offset_s == pytest.approx(160_000 / 48_000)


def test_a_low_bit_rate_and_some_loss_are_forgiven() -> None:
    rough = through_opus(SPEECH, EncoderConfig(bitrate_bit_s=12_000), loss=0.03)
    assert likeness(SPEECH, rough).correlation > SAME_SPEECH


@pytest.mark.parametrize(
    "other",
    [
        GREETING,
        SPEECH[::-1].copy(),
        np.zeros(100_000, np.int16),
        np.zeros(0, np.int16),
        np.random.default_rng(3).normal(0, 2_000, 200_000).astype(np.int16),
        (8_000 * np.sin(np.arange(250_000) / 50)).astype(np.int16),
        SPEECH[:80_000],
    ],
    ids=["other words", "backwards", "silence", "nothing", "noise", "tone", "a third"],
)
def test_anything_else_is_not(other: Samples) -> None:
    assert likeness(SPEECH, other).correlation < 0.5


def test_a_missing_half_is_noticed() -> None:
    assert likeness(SPEECH, SPEECH[: len(SPEECH) // 2]).correlation < 0.7
    assert likeness(SPEECH, SPEECH[len(SPEECH) // 2 :]).correlation < 0.7


def test_silent_speech_is_like_nothing() -> None:
    assert likeness(np.zeros(48_000, np.int16), SPEECH).correlation == 0.0
    assert likeness(SPEECH[:100], SPEECH).correlation == 0.0
