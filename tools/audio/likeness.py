"""How surely a recording holds a given speech, whatever a codec did to its waveform.

A voice codec keeps what an ear hears, not the phase: after two generations of Opus the samples of
one and the same speech correlate with 0.67 only. What stays is when each band of hearing is loud.
So the two are laid upon each other by cross-correlation, split into third-octave bands, and the
loudness of every band is correlated over windows of 0.4 s; louder windows weigh more.

Measured with the packaged speech: 0.99 after two generations of Opus at 32 kbit/s, 0.95 at
8 kbit/s, 0.86 with 10 % of the packets concealed in both; other sentences of the same reader and
other speakers 0.03 to 0.19, noise and silence 0.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from warp_tools.opus import SAMPLE_RATE, Samples

SAME_SPEECH = 0.9
"""At and above this the speech is the one that was sent."""

_HOP = 480
_WINDOW = 1920
_SPAN = 40
_LOWEST_HZ = 150.0
_BANDS = 15

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True, kw_only=True)
class Likeness:
    """What `likeness` found."""

    correlation: float
    """0 (nothing in common) to 1 (the same)."""
    offset_s: float
    """Where in the recording the speech begins; negative when its beginning is cut off."""


def likeness(speech: Samples, recording: Samples) -> Likeness:
    """Measure how surely `recording` holds the whole of `speech` (both 48 kHz mono)."""
    if len(speech) < _WINDOW or not np.any(speech) or not np.any(recording):
        return Likeness(correlation=0.0, offset_s=0.0)
    wanted, heard = speech.astype(np.float64), recording.astype(np.float64)
    offset = _offset(wanted, heard)
    part = np.zeros_like(wanted)
    source = heard[max(offset, 0) : offset + len(wanted)]
    part[max(-offset, 0) : max(-offset, 0) + len(source)] = source
    correlation = _band_correlation(loudness(wanted), loudness(part))
    return Likeness(correlation=max(0.0, correlation), offset_s=offset / SAMPLE_RATE)


def _offset(wanted: Floats, heard: Floats) -> int:
    """The shift at which the waveforms agree best, either way round (FFT cross-correlation)."""
    size = 1 << (len(wanted) + len(heard)).bit_length()
    spectrum = np.fft.rfft(heard, size) * np.conj(np.fft.rfft(wanted, size))
    best = int(np.argmax(np.abs(np.fft.irfft(spectrum, size))))
    # a speech that begins before the recording can do so by less than its length
    return best - size if best > size - len(wanted) else best


def loudness(sound: Floats) -> Floats:
    """Amplitude of every third-octave band every 10 ms: (moments, bands)."""
    padded = np.concatenate([sound, np.zeros(_WINDOW + _SPAN * _HOP)])
    windows = np.lib.stride_tricks.sliding_window_view(padded, _WINDOW)[::_HOP]
    power = np.abs(np.fft.rfft(windows * np.hanning(_WINDOW))) ** 2
    frequency = np.fft.rfftfreq(_WINDOW, 1 / SAMPLE_RATE)
    edges = _LOWEST_HZ * 2.0 ** (np.arange(_BANDS + 1) / 3)
    bands = [
        np.sqrt(power[:, (frequency >= low) & (frequency < high)].sum(axis=1))
        for low, high in itertools.pairwise(edges)
    ]
    return np.stack(bands, axis=1)


def _band_correlation(wanted: Floats, heard: Floats) -> float:
    """Correlation over windows of 0.4 s, every 0.2 s, weighted by how much happens in each."""
    total = weight = 0.0
    for start in range(0, len(wanted) - _SPAN + 1, _SPAN // 2):
        a = wanted[start : start + _SPAN]
        b = heard[start : start + _SPAN]
        a = a - a.mean(axis=0)
        b = b - b.mean(axis=0)
        size_a, size_b = np.linalg.norm(a, axis=0), np.linalg.norm(b, axis=0)
        product = size_a * size_b
        inner = (a * b).sum(axis=0)
        alike = np.divide(inner, product, out=np.zeros_like(inner), where=product > 0)
        total += float((alike * size_a).sum())
        weight += float(size_a.sum())
    return total / weight if weight else 0.0
