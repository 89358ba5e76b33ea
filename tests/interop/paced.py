"""How surely a recording holds a speech whose pace was changed on the way.

A browser's jitter buffer stretches and squeezes what it plays. `warp_tools.audio.likeness` lays the
two upon each other once; here every 0.4 s of the speech is looked for anew, within 0.2 s of where
the part before it was found.

Measured with what Chromium played on a busy machine: 0.89 to 1.0; other speech up to 0.45.
"""

from __future__ import annotations

import numpy as np

from warp_tools.audio.likeness import Floats, loudness
from warp_tools.opus import Samples

SAME = 0.8
"""At and above this it is the same speech."""
OTHER = 0.55
"""Below this it is another one."""
_SPAN, _STEP, _REACH = 40, 20, 20
"""Moments of 10 ms."""


def paced_likeness(speech: Samples, recording: Samples) -> float:
    """Return 0 (nothing in common) to 1 (the same); both 48 kHz mono."""
    wanted, heard = loudness(speech.astype(np.float64)), loudness(recording.astype(np.float64))
    missing = len(wanted) + 2 * _REACH - len(heard)
    heard = np.pad(heard, ((0, max(0, missing)), (0, 0)))
    offset = _first_offset(wanted, heard)
    total = weight = 0.0
    for start in range(0, len(wanted) - _SPAN + 1, _STEP):
        part = wanted[start : start + _SPAN]
        size = float(np.linalg.norm(part - part.mean(axis=0), axis=0).sum())
        found = [
            (_alike(part, heard[at + start : at + start + _SPAN]), at)
            for at in range(max(0, offset - _REACH), offset + _REACH + 1)
            if at + start + _SPAN <= len(heard)
        ]
        if found:
            best, offset = max(found)
            total += best * size
        weight += size
    return total / weight if weight else 0.0


def _first_offset(wanted: Floats, heard: Floats) -> int:
    """Return where the whole speech fits best, its pace unchanged."""
    speech = wanted - wanted.mean(axis=0)
    windows = np.lib.stride_tricks.sliding_window_view(heard, len(wanted), axis=0)
    level = windows - windows.mean(axis=2, keepdims=True)
    inner = np.einsum("nbt,tb->n", level, speech)
    return int(np.argmax(inner / (np.sqrt((level**2).sum(axis=(1, 2))) + 1e-9)))


def _alike(part: Floats, other: Floats) -> float:
    """Return the correlation of the bands' loudness, louder bands weighing more."""
    a, b = part - part.mean(axis=0), other - other.mean(axis=0)
    size = np.linalg.norm(a, axis=0)
    product = size * np.linalg.norm(b, axis=0)
    inner = (a * b).sum(axis=0)
    alike = np.divide(inner, product, out=np.zeros_like(inner), where=product > 0)
    return float((alike * size).sum() / size.sum()) if size.sum() else 0.0
