"""Frames of 20 ms into windows of 32 ms, of many slots at once."""

from __future__ import annotations

from typing import Any

import numpy as np

from voice_backend.models.recent import Recent
from voice_backend.models.vad import WINDOW, Vad


class Witness:
    """Keeps what the network is shown; its likelihood is the window's first sample."""

    def __init__(self) -> None:
        self.batches: list[Any] = []

    def run(self, names: object, feed: dict[str, Any]) -> tuple[Any, Any]:
        self.batches.append(feed["input"].copy())
        return feed["input"][:, 64:65], feed["state"] + 1


def test_windows_are_seamless_and_know_where_they_begin() -> None:
    witness = Witness()
    vad = Vad(witness, 4, 320)
    ramp = np.arange(1, 320 * 16 + 1, dtype=np.float32)
    found = []
    for frame in ramp.reshape(-1, 320):
        found += vad.receive_frames([2], frame[None])
    assert [one.sample for one in found] == list(range(0, 10 * WINDOW, WINDOW))
    assert [one.value for one in found] == [one.sample + 1 for one in found]
    for number, batch in enumerate(witness.batches):
        window = batch[0, 64:]
        assert (window == ramp[number * WINDOW : (number + 1) * WINDOW]).all()
        if number:
            assert (batch[0, :64] == ramp[number * WINDOW - 64 : number * WINDOW]).all()


def test_slots_are_judged_together_and_apart() -> None:
    witness = Witness()
    vad = Vad(witness, 4, 320)
    vad.receive_frames([0], np.full((1, 320), 9, np.float32))
    found = vad.receive_frames([0, 3], np.stack([np.full(320, 9.0), np.full(320, 5.0)]))
    assert [(one.index, one.value) for one in found] == [(0, 9.0)]
    found = vad.receive_frames([0, 3], np.zeros((2, 320), np.float32))
    assert [(one.index, one.value) for one in found] == [(3, 5.0)]
    assert vad.receive_frames([], np.zeros((0, 320), np.float32)) == []


def test_whoever_sits_down_next_begins_anew() -> None:
    vad = Vad(Witness(), 2, 320)
    for _ in range(5):
        vad.receive_frames([1], np.ones((1, 320), np.float32))
    vad.reset(1)
    assert vad._state[:, 1].max() == 0
    vad.receive_frames([1], np.ones((1, 320), np.float32))
    (first,) = vad.receive_frames([1], np.ones((1, 320), np.float32))
    assert first.sample == 0


def test_the_recent_past_is_a_ring() -> None:
    recent = Recent(1000)
    for start in range(0, 3000, 300):
        recent.append(np.arange(start, start + 300, dtype=np.float32))
    assert (recent.begin, recent.end) == (2000, 3000)
    assert recent.between(2500, 2503).tolist() == [2500, 2501, 2502]
    assert recent.between(0, 2002).tolist() == [2000, 2001]
    assert recent.between(2998, 5000).tolist() == [2998, 2999]
    assert recent.between(0, 500).size == 0
    assert (recent.between(2000, 3000) == np.arange(2000, 3000)).all()
