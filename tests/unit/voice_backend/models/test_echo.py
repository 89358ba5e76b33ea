"""The echo: what it hears, so many frames later."""

from __future__ import annotations

import numpy as np
import pytest

from voice_backend.model import NoCapacity, SessionConfig, StepIn, VoiceModel
from voice_backend.models.echo import EchoModel


def frame(value: int) -> np.ndarray:
    return np.full(960, value, np.int16)


def test_it_is_a_voice_model() -> None:
    assert isinstance(EchoModel(), VoiceModel)


@pytest.mark.parametrize("delay", [0, 3])
def test_it_says_what_it_hears(delay: int) -> None:
    model = EchoModel(delay_frames=delay)
    slot = model.open(SessionConfig())
    said = [model.step([StepIn(slot, n, frame(n + 1))])[0].pcm[0] for n in range(10)]
    assert said == [0] * delay + list(range(1, 11 - delay))


def test_what_was_lost_is_silence_and_what_is_cancelled_is_gone() -> None:
    model = EchoModel(delay_frames=2)
    slot = model.open(SessionConfig())
    for n in (1, 2):
        model.step([StepIn(slot, n, frame(n))])
    model.cancel(slot, 1)
    said = [model.step([StepIn(slot, n, None if n == 4 else frame(n))])[0] for n in (3, 4, 5, 6)]
    assert [int(out.pcm[0]) for out in said] == [0, 0, 3, 0]


def test_places_are_bounded() -> None:
    model = EchoModel(max_slots=1)
    slot = model.open(SessionConfig())
    with pytest.raises(NoCapacity):
        model.open(SessionConfig())
    model.close(slot)
    model.close(slot)
    model.open(SessionConfig())
    assert model.step([StepIn(slot, 0, frame(1))])[0].error
