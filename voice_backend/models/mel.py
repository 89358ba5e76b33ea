"""Log-mel spectrogram as Whisper defines it: 80 bands, 25 ms windows, 10 ms apart.

    16 kHz, mean 0, variance 1 ──▶ |STFT|^2 ──▶ 80 mel bands (Slaney) ──▶ log10, clamped 8 below
    the loudest, (x + 4) / 4

What the turn model was trained on (A. Radford et al., "Robust Speech Recognition via Large-Scale
Weak Supervision", 2022, section 2.2; the mel scale is that of M. Slaney's Auditory Toolbox, 1998).
"""

from __future__ import annotations

import functools
from typing import Final

import numpy as np
from numpy.typing import NDArray

RATE: Final = 16_000
WINDOW: Final = 400
HOP: Final = 160
BANDS: Final = 80
FLOOR: Final = 1e-10
VARIANCE_FLOOR: Final = 1e-7
DYNAMIC: Final = 8.0
"""Decades below the loudest point that are told apart."""
LINEAR_HZ: Final = 200 / 3
"""Below `BREAK_HZ` a mel is so many hertz."""
BREAK_HZ: Final = 1000.0
BREAK_MEL: Final = BREAK_HZ / LINEAR_HZ
LOG_STEP: Final = float(np.log(6.4) / 27)


def log_mel(sound: NDArray[np.float32]) -> NDArray[np.float32]:
    """Return the spectrogram of samples at 16 kHz, shape (80, samples // 160)."""
    level = (sound - sound.mean()) / np.sqrt(sound.var() + VARIANCE_FLOOR)
    padded = np.pad(level, WINDOW // 2, mode="reflect")
    windows = np.lib.stride_tricks.sliding_window_view(padded, WINDOW)[::HOP]
    count = len(sound) // HOP
    spectrum = np.fft.rfft(windows[:count] * _hann(), axis=1)
    power = spectrum.real**2 + spectrum.imag**2
    bands = np.log10(np.maximum(power @ _bands(), FLOOR))
    bands = np.maximum(bands, bands.max() - DYNAMIC)
    return np.ascontiguousarray(((bands + 4) / 4).T, np.float32)


@functools.cache
def _hann() -> NDArray[np.float32]:
    return (0.5 - 0.5 * np.cos(2 * np.pi * np.arange(WINDOW) / WINDOW)).astype(np.float32)


@functools.cache
def _bands() -> NDArray[np.float32]:
    """Return triangles of equal area, evenly spaced in mel; shape (bins, bands)."""
    edges = _to_hertz(np.linspace(0, _to_mel(RATE / 2), BANDS + 2))
    bins = np.linspace(0, RATE / 2, WINDOW // 2 + 1)[:, None]
    low, centre, high = edges[:-2], edges[1:-1], edges[2:]
    rising = (bins - low) / (centre - low)
    falling = (high - bins) / (high - centre)
    bands = np.maximum(0.0, np.minimum(rising, falling)) * (2 / (high - low))
    return bands.astype(np.float32)


def _to_mel(hertz: float) -> float:
    if hertz < BREAK_HZ:
        return hertz / LINEAR_HZ
    return BREAK_MEL + float(np.log(hertz / BREAK_HZ)) / LOG_STEP


def _to_hertz(mel: NDArray[np.float64]) -> NDArray[np.float64]:
    return np.where(
        mel < BREAK_MEL, mel * LINEAR_HZ, BREAK_HZ * np.exp(LOG_STEP * (mel - BREAK_MEL))
    )
