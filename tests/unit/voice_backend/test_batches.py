"""Batches across a ring: sound to the sample, events as they were."""

from __future__ import annotations

import numpy as np

from voice_backend.batches import batch_bytes, pack_batch, pack_outs, unpack_batch, unpack_outs
from voice_backend.model import Delegate, OutText, Slot, StepIn, StepOut


def sound(seed: int, samples: int) -> np.ndarray:
    return np.random.default_rng(seed).integers(-32768, 32767, samples).astype(np.int16)


def test_a_batch_arrives_as_it_was() -> None:
    batch = [
        StepIn(Slot(1, 5), 7, sound(1, 320), 2, 12.5),
        StepIn(Slot(2, 1 << 40), 9, None, 0, 12.5),
        StepIn(Slot(3, 6), 0, sound(2, 640)[::2], 0, 12.5),
    ]
    record = b"".join(bytes(part) for part in pack_batch(77, batch))
    assert len(record) <= batch_bytes(3, 320, 480)
    number, found = unpack_batch(record, 320)
    assert number == 77
    for a, b in zip(batch, found, strict=True):
        assert (a.slot, a.seq, a.epoch, a.due) == (b.slot, b.seq, b.epoch, b.due)
        assert (a.pcm is None and b.pcm is None) or (a.pcm == b.pcm).all()
    assert unpack_batch(b"".join(bytes(p) for p in pack_batch(1, [])), 320) == (1, [])


def test_outs_arrive_as_they_were() -> None:
    events = [OutText(delta="é", start_ms=1, end_ms=2), Delegate(delegation_id="d", offset_ms=3)]
    outs = [
        StepOut(Slot(1, 5), 7, 2, sound(3, 480), events, 0.5),
        StepOut(Slot(2, 6), 8, 0, error="gone"),
        StepOut(Slot(3, 6), 8, 0, sound(4, 480)),
    ]
    number, found = unpack_outs(b"".join(bytes(part) for part in pack_outs(3, outs)), 480)
    assert number == 3
    for a, b in zip(outs, found, strict=True):
        assert (a.slot, a.seq, a.epoch, a.error) == (b.slot, b.seq, b.epoch, b.error)
        assert list(a.events) == list(b.events)
        assert a.usage_ratio == b.usage_ratio
        assert (a.pcm is None and b.pcm is None) or (a.pcm == b.pcm).all()
