"""Change of sample rate by a windowed sinc, evaluated phase by phase."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

ZERO_CROSSINGS = 24
"""On each side of the kernel: a stop band of some 80 dB with this window."""
KAISER_BETA = 8.0
BLOCK = 1 << 15


def resample(samples: NDArray[np.float64], rate: int, wanted: int) -> NDArray[np.float64]:
    """Return `samples` (one channel, any scale) as they would be at `wanted` Hz."""
    if rate == wanted or len(samples) == 0:
        return samples
    common = math.gcd(rate, wanted)
    up, down = wanted // common, rate // common
    # everything above half of the lower rate has to go
    cutoff = min(1.0, wanted / rate)
    half = math.ceil(ZERO_CROSSINGS / cutoff)
    kernels = _kernels(up, half, cutoff)
    count = -(-len(samples) * up // down)
    padded = np.concatenate([np.zeros(half), samples, np.zeros(half + 1)])
    windows = np.lib.stride_tricks.sliding_window_view(padded, 2 * half)
    out = np.empty(count)
    for start in range(0, count, BLOCK):
        position = np.arange(start, min(start + BLOCK, count)) * down
        at, phase = position // up, position % up
        block = np.einsum("ij,ij->i", windows[at + 1], kernels[phase])
        out[start : start + len(block)] = block
    return out


def _kernels(up: int, half: int, cutoff: float) -> NDArray[np.float64]:
    """One kernel of `2 * half` taps for each of the `up` phases."""
    offsets = np.arange(-half + 1, half + 1)[None, :] - (np.arange(up) / up)[:, None]
    inside = np.clip(1.0 - (offsets / half) ** 2, 0.0, None)
    window = np.i0(KAISER_BETA * np.sqrt(inside)) / np.i0(KAISER_BETA)
    kernels = cutoff * np.sinc(cutoff * offsets) * window
    # each phase passes a constant unchanged
    return np.asarray(kernels / kernels.sum(axis=1, keepdims=True), np.float64)
