"""Where speech without a pause is cut."""

from __future__ import annotations

import numpy as np
import pytest

from voice_backend.models.cut import least_loud


def test_it_is_cut_in_the_middle_of_the_gap_between_two_words() -> None:
    sound = np.random.default_rng(1).standard_normal(32_000).astype(np.float32)
    sound[8_000:8_400] *= 0.01  # a stop within a word: 25 ms
    sound[16_000:17_280] *= 0.1
    assert 1000 < least_loud(sound) < 1080


@pytest.mark.parametrize(("samples", "at_ms"), [(0, 0), (160, 10), (16_000, 30)])
def test_what_is_short_or_all_alike_is_cut_all_the_same(samples: int, at_ms: int) -> None:
    assert least_loud(np.ones(samples, np.float32)) == at_ms
