"""Frames: how many samples, what is wrong with one, and 20 ms against a model's longer cadence."""

from __future__ import annotations

import numpy as np
import pytest

from voice_backend.frames import Gatherer, Slicer, fault_of, frame_samples, ratio_of, silence
from warp.errors import InvalidConfig


def ramp(samples: int, start: int = 0) -> np.ndarray:
    return (np.arange(samples) + start).astype(np.int16)


@pytest.mark.parametrize(
    ("rate", "ms", "samples"), [(48_000, 20, 960), (16_000, 20, 320), (24_000, 80, 1920)]
)
def test_a_frame_is_a_number_of_samples(rate: int, ms: int, samples: int) -> None:
    assert frame_samples(rate, ms) == samples


@pytest.mark.parametrize(("rate", "ms"), [(11_025, 10), (16_000, 0), (0, 20)])
def test_a_frame_that_is_no_whole_number_is_refused(rate: int, ms: int) -> None:
    with pytest.raises(InvalidConfig):
        frame_samples(rate, ms)


@pytest.mark.parametrize("ms", [0, 10, 30, -20])
def test_a_models_cadence_is_a_multiple_of_the_medias(ms: int) -> None:
    with pytest.raises(InvalidConfig, match="multiple of 20"):
        ratio_of(ms)


def test_what_is_wrong_with_a_frame_is_said() -> None:
    assert fault_of(silence(320), 320) is None
    assert "float64" in str(fault_of(np.zeros(320), 320))
    assert "(320,)" in str(fault_of(silence(319), 320))
    assert "(320,)" in str(fault_of(np.zeros((320, 2), np.int16), 320))
    assert "bytes" in str(fault_of(b"", 320))


def test_four_media_frames_are_one_of_the_models_and_back() -> None:
    gatherer, slicer = Gatherer(16_000, 80), Slicer(16_000, 80)
    parts = [ramp(320, 320 * at) for at in range(4)]
    found = [gatherer.add(part) for part in parts]
    assert [full for full, _ in found] == [False, False, False, True]
    whole = found[-1][1]
    assert whole is not None
    assert (whole == ramp(1280)).all()
    assert all((a == b).all() for a, b in zip(slicer.cut(whole), parts, strict=True))


def test_what_was_lost_within_a_frame_is_silence_and_a_lost_frame_is_none() -> None:
    gatherer = Gatherer(8_000, 40)
    gatherer.add(ramp(160, 5))
    _, whole = gatherer.add(None)
    assert whole is not None
    assert not whole[160:].any()
    gatherer.add(None)
    assert gatherer.add(None) == (True, None)


def test_a_gathered_frame_is_nobody_elses_to_change() -> None:
    gatherer = Gatherer(8_000, 40)
    gatherer.add(ramp(160, 5))
    _, first = gatherer.add(ramp(160, 5))
    gatherer.add(silence(160))
    assert first is not None
    assert first[0] == 5


def test_one_to_one_passes_through() -> None:
    part = ramp(320)
    full, whole = Gatherer(16_000, 20).add(part)
    assert full
    assert whole is part
