"""Frames of a model's become payloads, or nothing in a pause."""

from __future__ import annotations

import numpy as np
import pytest

from tests.unit.voice_backend.audio.support import decoded, likenesses, speech
from voice_backend.audio import AudioReceiver, AudioSender, EncoderConfig
from warp.errors import InvalidConfig, UsageError
from warp.rtp import has_fec, is_dtx, packet_samples


def sent(sender: AudioSender, pcm: np.ndarray, samples: int) -> list[bytes | None]:
    return [
        sender.encode(pcm[at : at + samples]) for at in range(0, len(pcm) - samples + 1, samples)
    ]


@pytest.mark.parametrize("rate", [16_000, 22_050, 24_000, 44_100, 48_000])
def test_any_rate_of_a_models(rate: int) -> None:
    n = rate // 50
    payloads = sent(AudioSender(rate), speech(rate), n)
    spoken = tuple(payload for payload in payloads if payload is not None)
    assert {packet_samples(payload) for payload in spoken} == {960}
    assert likenesses(decoded(spoken[:100]), speech()[:33_000])[1:].mean() > 0.8


def test_silence_is_not_sent() -> None:
    sender = AudioSender(24_000)
    quiet = sent(sender, np.zeros(5 * 24_000, np.int16), 480)
    at = next(i for i, payload in enumerate(quiet) if payload is None)
    # the one before says that a pause begins; what comes later refreshes it each 400 ms
    assert quiet[at - 1] is not None and is_dtx(quiet[at - 1])
    assert 10 < sum(payload is not None for payload in quiet[at:]) < 30
    assert sender.unsent == quiet.count(None) > 150
    assert sender.frames == 250
    # the first word goes out at once
    assert sender.encode(speech(24_000)[24_000:24_480]) is not None


def test_without_dtx_every_frame_is_sent() -> None:
    sender = AudioSender(16_000, config=EncoderConfig(dtx=False))
    assert None not in sent(sender, np.zeros(16_000, np.int16), 320)


def test_loss_that_the_peer_reports_brings_redundancy() -> None:
    sender = AudioSender(16_000, config=EncoderConfig(expected_loss_percent=0))
    before = sent(sender, speech(), 320)
    sender.set_expected_loss(300)
    sender.set_bitrate(24_000)
    after = sent(sender, speech(), 320)
    assert sum(has_fec(p or b"") for p in before) == 0
    assert sum(has_fec(p or b"") for p in after) > 100


def test_what_is_no_frame_is_refused() -> None:
    sender = AudioSender(16_000)
    for wrong in (np.zeros(300, np.int16), np.zeros(320, np.float32), b"x" * 640):
        with pytest.raises(UsageError, match="frame"):
            sender.encode(wrong)  # type: ignore[arg-type]
    with pytest.raises(InvalidConfig):
        AudioSender(100)


def test_there_and_back() -> None:
    sender, receiver = AudioSender(24_000), AudioReceiver(16_000)
    heard = []
    for i, payload in enumerate(sent(sender, speech(24_000), 480)):
        if payload is not None:
            receiver.receive(payload, i, 960 * i, 0.02 * i)
        heard.append(receiver.frame(0.02 * i + 0.01).pcm)
    assert likenesses(speech(), np.concatenate(heard)).mean() > 0.7
