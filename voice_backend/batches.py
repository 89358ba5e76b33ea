"""Batches as records of a ring: sound as it is, events (few) pickled.

    batch   number, due, count | slot, seq, epoch, heard? | pcm | slot ...
    outs    number, count      | slot, seq, epoch, usage, said?, length | pcm | rest | slot ...

Both ends are this version of this program, parent and child. Called by `worker`; pure.
"""

from __future__ import annotations

import math
import pickle
import struct
from collections.abc import Sequence
from typing import Final

import numpy as np

from voice_backend.frames import Frame
from voice_backend.model import Slot, StepIn, StepOut

_BATCH: Final = struct.Struct("<QdI")
_IN: Final = struct.Struct("<IQQQB")
_OUTS: Final = struct.Struct("<QI")
_OUT: Final = struct.Struct("<IQQQfBI")
Parts = list[bytes | bytearray | memoryview]


def batch_bytes(slots: int, samples_in: int, samples_out: int) -> int:
    """Return the most bytes that a batch of so many slots takes, one way or the other."""
    return _BATCH.size + slots * (_OUT.size + 2 * max(samples_in, samples_out) + 1024)


def pack_batch(number: int, batch: Sequence[StepIn]) -> Parts:
    """Return the parts of a record."""
    parts: Parts = [_BATCH.pack(number, batch[0].due if batch else 0.0, len(batch))]
    for one in batch:
        slot, pcm = one.slot, one.pcm
        parts.append(_IN.pack(slot.index, slot.serial, one.seq, one.epoch, pcm is not None))
        if pcm is not None:
            parts.append(np.ascontiguousarray(pcm).data)
    return parts


def unpack_batch(record: bytes, samples: int) -> tuple[int, list[StepIn]]:
    """Return number and StepIns of a record; frames are views of it."""
    number, due, count = _BATCH.unpack_from(record)
    at, batch = _BATCH.size, []
    for _ in range(count):
        index, serial, seq, epoch, heard = _IN.unpack_from(record, at)
        at += _IN.size
        pcm: Frame | None = None
        if heard:
            pcm = np.frombuffer(record, np.int16, samples, at)
            at += 2 * samples
        batch.append(StepIn(Slot(index, serial), seq, pcm, epoch, due))
    return number, batch


def pack_outs(number: int, outs: Sequence[StepOut]) -> Parts:
    """Return the parts of a record; frames are of the engine's one length."""
    parts: Parts = [_OUTS.pack(number, len(outs))]
    for out in outs:
        slot, pcm = out.slot, out.pcm
        rest = pickle.dumps((tuple(out.events), out.error)) if out.events or out.error else b""
        usage = math.nan if out.usage_ratio is None else out.usage_ratio
        said = pcm is not None
        parts.append(_OUT.pack(slot.index, slot.serial, out.seq, out.epoch, usage, said, len(rest)))
        if pcm is not None:
            parts.append(np.ascontiguousarray(pcm).data)
        parts.append(rest)
    return parts


def unpack_outs(record: bytes, samples: int) -> tuple[int, list[StepOut]]:
    """Return number and StepOuts of a record; frames are views of it."""
    number, count = _OUTS.unpack_from(record)
    at, outs = _OUTS.size, []
    for _ in range(count):
        index, serial, seq, epoch, usage, said, length = _OUT.unpack_from(record, at)
        at += _OUT.size
        out = StepOut(Slot(index, serial), seq, epoch)
        if said:
            out.pcm = np.frombuffer(record, np.int16, samples, at)
            at += 2 * samples
        if length:
            out.events, out.error = pickle.loads(record[at : at + length])
            at += length
        out.usage_ratio = None if math.isnan(usage) else usage
        outs.append(out)
    return number, outs
