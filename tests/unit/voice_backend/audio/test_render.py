"""Steps become samples: what is guessed fades, what follows joins without a click."""

from __future__ import annotations

import numpy as np
import pytest

from tests.unit.voice_backend.audio.support import RATE, payloads
from voice_backend.audio.comfort import LOUDEST, Comfort
from voice_backend.audio.opus import OpusDecoder
from voice_backend.audio.render import Renderer
from warp.rtp import Action, Step

SENT = payloads()
FIRST = 40
"""In the middle of a word."""


def speaking() -> Renderer:
    renderer = Renderer(RATE)
    for payload in SENT[:FIRST]:
        renderer.render(Step(Action.PLAY, 960, payload))
    return renderer


def rms(pcm: np.ndarray) -> float:
    return float(np.sqrt(np.mean(pcm.astype(np.float64) ** 2)))


def test_a_voice_is_guessed_for_three_frames_and_gives_way_to_its_background() -> None:
    renderer = speaking()
    guessed = [renderer.render(Step(Action.CONCEAL, 960)) for _ in range(10)]
    assert all(len(pcm) == 320 for pcm in guessed)
    levels = [rms(pcm) for pcm in guessed]
    assert levels[0] > 300 and levels[2] > 1
    level = renderer.comfort.level
    assert all(abs(value - level) < 0.3 * level + 1 for value in levels[5:])
    assert abs(int(guessed[3][-1]) - int(guessed[4][0])) < 6 * level + 5


def test_what_follows_begins_softly() -> None:
    renderer = speaking()
    for _ in range(10):
        last = renderer.render(Step(Action.CONCEAL, 960))
    again = renderer.render(Step(Action.PLAY, 960, SENT[FIRST]))
    assert abs(int(last[-1]) - int(again[0])) <= 8 * renderer.comfort.level + 5
    assert len(again) == 320


def test_part_of_a_packet_and_odd_lengths() -> None:
    renderer = speaking()
    assert len(renderer.render(Step(Action.PLAY, 480, SENT[FIRST], 480))) == 160
    for ticks in (1, 7, 121, 960, 5760):
        for action in (Action.CONCEAL, Action.COMFORT):
            assert len(renderer.render(Step(action, ticks))) == -(-ticks // 3)
        assert len(renderer.render(Step(Action.RECOVER, ticks, SENT[FIRST]))) == -(-ticks // 3)


def test_what_the_decoder_refuses_is_made_up() -> None:
    renderer = speaking()
    broken = bytes((9 << 3 | 2, 251, 0))
    assert len(renderer.render(Step(Action.PLAY, 1920, broken))) == 640
    assert len(renderer.render(Step(Action.RECOVER, 960, broken))) == 320
    assert renderer.refused >= 1


def test_another_voice_begins_in_silence() -> None:
    renderer = speaking()
    renderer.reset()
    assert rms(renderer.render(Step(Action.COMFORT, 960))) <= renderer.comfort.level + 1


def test_the_background_is_followed_down_at_once_and_up_slowly() -> None:
    comfort = Comfort(RATE)
    assert not comfort.noise(320).any()
    quiet = np.random.default_rng(1).normal(0, 40, RATE).astype(np.int16)
    for at in range(0, RATE, 320):
        comfort.hear(quiet[at : at + 320])
        comfort.hear(quiet[at : at + 320])
    before = comfort.level
    assert 5 < before <= 45
    loud = (quiet.astype(np.int32) * 200).clip(-32768, 32767).astype(np.int16)
    for at in range(0, 3200, 320):
        comfort.hear(loud[at : at + 320])
    assert before < comfort.level < 3 * before
    for _ in range(5000):
        comfort.hear(loud[:320])
    assert comfort.level == LOUDEST
    comfort.hear(quiet[:320])
    assert comfort.level < 60
    assert abs(rms(comfort.noise(RATE)) - comfort.level) < 2


def test_noise_never_ends() -> None:
    comfort = Comfort(RATE)
    comfort.level = 50.0
    parts = [comfort.noise(321) for _ in range(500)]
    assert all(len(part) == 321 and part.any() for part in parts)


def test_a_hundred_voices_that_follow_each_other_are_forgotten_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Each would cost 50 microseconds, and a peer can name them by the thousand."""
    renderer, asked = speaking(), []
    forget = OpusDecoder.reset
    monkeypatch.setattr(OpusDecoder, "reset", lambda self: asked.append(forget(self)))
    for _ in range(100):
        renderer.reset()
    assert asked == []
    again = renderer.render(Step(Action.PLAY, 960, SENT[FIRST]))
    fresh = Renderer(RATE).render(Step(Action.PLAY, 960, SENT[FIRST]))
    # behind the seam, which joins it to the background
    assert np.array_equal(again[80:], fresh[80:])
    renderer.render(Step(Action.PLAY, 960, SENT[FIRST + 1]))
    assert len(asked) == 1
