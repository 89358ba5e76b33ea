"""Tones as frames, and how much of a tone is in what was heard."""

from __future__ import annotations

from collections.abc import Iterable
from fractions import Fraction
from typing import Any

import av
import numpy as np

from warp.compat.aiortc import MediaStreamError, MediaStreamTrack


def tone_frame(
    hertz: float, at: int, *, rate: int = 48_000, samples: int = 960, layout: str = "mono"
) -> Any:
    wave = 8000 * np.sin(2 * np.pi * hertz * (at + np.arange(samples)) / rate)
    channels = 1 if layout == "mono" else 2
    data = np.repeat(wave.astype(np.int16), channels).reshape(1, -1)
    frame = av.AudioFrame.from_ndarray(data, "s16", layout)
    frame.sample_rate = rate
    frame.pts = at
    frame.time_base = Fraction(1, rate)
    return frame


class Tone(MediaStreamTrack):
    """As many frames as asked for, as fast as they are taken."""

    kind = "audio"

    def __init__(self, hertz: float, frames: int = 10**9) -> None:
        super().__init__()
        self.hertz, self.frames, self.taken = hertz, frames, 0

    async def recv(self) -> Any:
        if self.readyState != "live" or self.taken >= self.frames:
            raise MediaStreamError
        self.taken += 1
        return tone_frame(self.hertz, (self.taken - 1) * 960)


def samples_of(frames: Iterable[Any]) -> np.ndarray:
    """Return the left channel of frames as they come out of a call."""
    parts = [frame.to_ndarray()[0, :: len(frame.layout.channels)] for frame in frames]
    return np.concatenate([np.zeros(0, np.int16), *parts])


def share_of(hertz: float, samples: np.ndarray, rate: int = 48_000) -> float:
    """Return which part of the power lies within 20 Hz of a tone."""
    power = np.abs(np.fft.rfft(samples.astype(float))) ** 2
    frequencies = np.fft.rfftfreq(len(samples), 1 / rate)
    return float(power[np.abs(frequencies - hertz) < 20].sum() / max(power.sum(), 1.0))
