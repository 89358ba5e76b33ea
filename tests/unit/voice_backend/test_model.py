"""What a model says of itself is checked when it says it."""

from __future__ import annotations

import pytest

from voice_backend.model import (
    Context,
    Inject,
    ModelInfo,
    NotCapable,
    PlainVoice,
    Slot,
    Snapshot,
)
from warp.errors import InvalidConfig

SLOT = Slot(0, 1)


def test_frames_follow_from_rates_and_cadence() -> None:
    info = ModelInfo(name="m", in_rate=16_000, out_rate=24_000, frame_ms=80)
    assert (info.frame_samples_in, info.frame_samples_out) == (1280, 1920)


@pytest.mark.parametrize(
    "wrong",
    [{"frame_ms": 30}, {"in_rate": 0}, {"max_slots": 0}, {"caps": frozenset({"mind_reading"})}],
)
def test_a_model_that_cannot_be_is_refused(wrong: dict) -> None:
    with pytest.raises(InvalidConfig):
        ModelInfo(**{"name": "m", "in_rate": 16_000, "out_rate": 24_000, **wrong})


def test_a_plain_voice_says_which_door_it_lacks() -> None:
    plain = PlainVoice()
    snapshot = Snapshot(model="m", kind="exact", seq=0, state=b"")
    for door in (
        lambda: plain.prefill(SLOT, Context()),
        lambda: plain.snapshot(SLOT),
        lambda: plain.restore(SLOT, snapshot),
        lambda: plain.compact(Context(), 10),
        lambda: plain.inject(SLOT, Inject.THINKING, "x"),
    ):
        with pytest.raises(NotCapable):
            door()
    plain.cancel(SLOT, 1)
