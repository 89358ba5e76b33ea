"""How the ears' networks are fed."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from voice_backend.models.ears import BEGIN, END, Ears
from voice_backend.models.jobs import finish

STRIDE = 384


class Encoder:
    """A state for every 384 samples, but for the last few: its windows have no padding."""

    def run(self, names: object, feed: dict[str, Any]) -> tuple[Any]:
        samples = feed["input_values"].shape[1]
        assert feed["attention_mask"].shape == (1, samples)
        count = (((samples - 127) // 64 + 1 - 7) // 3 + 1 - 3) // 2 + 1
        return (np.zeros((1, count, 288), np.float32),)


class Decoder:
    """Says "hi", where its mask is of the samples; as the exported graph does, it takes every
    384th of the mask and puts that on the states.
    """

    def get_inputs(self) -> list[Any]:
        return [SimpleNamespace(name="input_ids")]

    def get_outputs(self) -> list[Any]:
        return [SimpleNamespace(name="logits")]

    def run(self, wanted: object, feed: dict[str, Any]) -> list[Any]:
        states = feed["encoder_hidden_states"].shape[1]
        mask = feed["encoder_attention_mask"][:, ::STRIDE][:, :states]
        assert mask.shape == (1, states)
        logits = np.zeros((1, 1, 5), np.float32)
        logits[0, 0, 3 if feed["input_ids"][0, 0] == BEGIN else END] = 1
        return [logits]


@pytest.mark.parametrize("seconds", [0.1, 1.0, 9.2, 9.3, 13.4, 20.0])
def test_sound_of_any_length_has_a_mask_that_fits(seconds: float) -> None:
    ears = Ears(Encoder(), Decoder(), [b"", b"", b"", b"hi", b""])
    assert finish(ears.hear(np.zeros(int(seconds * 16_000), np.float32))) == "hi"
