"""The noise behind the voice, for times when nothing comes: silence would sound like a broken line.

    some frames heard ──▶ hear ──▶ floor of its level          fade: sound ──▶ into the noise
    nothing to play   ◀── noise ◀── a table of noise, as loud    join: noise ──▶ into the sound

Used by `render` once concealment has faded (RFC 6716 section 4.4 leaves it to the player).
"""

from __future__ import annotations

import functools
from typing import Final

import numpy as np
from numpy.typing import NDArray

from voice_backend.frames import Frame

LOUDEST: Final = 300.0
"""-41 dBFS: what is louder is no background."""
_RISE = 1.08
_STEP = 0.4
"""How the level rises each time: 2.6 times in a second, and a little."""
_SEED = 20


@functools.cache
def _table(rate: int) -> NDArray[np.float32]:
    """One second of noise of power 1, a little darker than white."""
    white = np.random.default_rng(_SEED).standard_normal(rate + 2)
    dark = np.convolve(white, [0.25, 0.5, 0.25], "valid")
    return np.asarray(dark / np.sqrt(np.mean(dark * dark)), np.float32)


class Comfort:
    """The background of one speaker."""

    __slots__ = ("_at", "_table", "level")

    def __init__(self, rate: int) -> None:
        self._table = _table(rate)
        self._at = 0
        self.level = 0.0
        """RMS of the background, in steps of int16."""

    def hear(self, pcm: Frame) -> None:
        """Follow the level, each 80 ms: down at once, up slowly, since voices come and go."""
        sound = pcm.astype(np.float32)
        power = float(np.dot(sound, sound)) / max(len(sound), 1)
        self.level = min(power**0.5, self.level * _RISE + _STEP, LOUDEST)

    def noise(self, samples: int) -> Frame:
        """Return the next stretch of it (up to a second)."""
        if self.level < 1:
            return np.zeros(samples, np.int16)
        table = self._table
        if self._at + samples > len(table):
            self._at = 0
        out = table[self._at : self._at + samples] * np.float32(self.level)
        self._at += samples
        return out.astype(np.int16)

    def fade(self, pcm: Frame) -> Frame:
        """Return `pcm` as it gives way to the noise."""
        ramp = np.linspace(0, 1, len(pcm), dtype=np.float32)
        return (pcm * (1 - ramp) + self.noise(len(pcm)) * ramp).astype(np.int16)

    def join(self, pcm: Frame, samples: int) -> Frame:
        """Return `pcm` as the noise gives way to it within `samples`."""
        samples = min(samples, len(pcm))
        ramp = np.linspace(0, 1, samples, dtype=np.float32)
        out = pcm.copy()
        out[:samples] = pcm[:samples] * ramp + self.noise(samples) * (1 - ramp)
        return out
