"""Time made longer or shorter without a change of pitch: one pitch period is doubled or left out.

    shorter:  a A|B c ...  ──▶  A cross-faded into its likeness B, what lay between has gone
    longer:   a A|B c ...  ──▶  after B, A again: B cross-faded into A

Waveform-similarity overlap-add (Verhelst and Roelands, 1993), done only where something has to
change: all other samples pass as they are, and nothing is delayed. Where in the sound it happens is
chosen by energy: pauses first, else where it is quietest; speech must be periodic there. Called by
`receive`, and by whoever has to catch up.
"""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from voice_backend.frames import Frame
from warp.errors import InvalidConfig

MOST: Final = 1.25
"""Speech stays natural up to here."""
_WINDOW_US = 7_500
_SHORTEST_US = 2_500
_LONGEST_US = 12_500
"""400 Hz down to 80 Hz: the periods of voices."""
_COARSE_RATE = 16_000
_FAINT = 30.0
"""RMS below which nothing is heard of a seam."""

_Float = NDArray[np.float32]


class _Seam(NamedTuple):
    at: int
    lag: int
    likeness: float


class Stretcher:
    """Changes the length of one stream; keeps to `most` over time."""

    __slots__ = ("_credit", "_even", "_ramp", "_rates", "_step", "longest", "shortest", "window")

    def __init__(self, rate: int, most: float = MOST) -> None:
        """`rate` in Hz; `most` is how many times as fast, or as slow, it may get (above 1)."""
        if rate < 8_000 or not 1 < most <= 2:
            raise InvalidConfig("a stretcher has 8000 Hz or more, and a factor above 1, up to 2")
        self.window, self.shortest, self.longest = (
            rate * us // 1_000_000 for us in (_WINDOW_US, _SHORTEST_US, _LONGEST_US)
        )
        """Samples of a cross-fade, and of the shortest and the longest change."""
        self._step = max(rate // _COARSE_RATE, 1)
        ramp = (np.arange(self.window, dtype=np.float32) + 0.5) / np.float32(self.window)
        self._ramp: _Float = ramp
        self._even: _Float = 2 * ramp * (1 - ramp)
        self._rates = most - 1, 1 - 1 / most
        self._credit = [0.0, 0.0]

    @property
    def needed(self) -> int:
        """Samples that a change looks at: 20 ms."""
        return self.window + self.longest

    def grant(self, samples: int) -> None:
        """Say that so many samples are played: by part of them time may change again."""
        for which, rate in enumerate(self._rates):
            self._credit[which] = min(self._credit[which] + samples * rate, float(self.longest))

    def shorten(self, pcm: Frame, most: int, *, likeness: float = 0.9, faint: float = 0.0) -> Frame:
        """Return `pcm` shorter by up to `most` samples, or as it is.

        `likeness` is how similar (0..1) speech must be on both sides of the seam; below an RMS of
        `faint` anything is. Looks at `needed` samples or more.
        """
        seam = self._find(pcm, min(most, int(self._credit[0])), likeness, faint)
        if seam is None:
            return pcm
        at, lag = seam.at, seam.lag
        self._credit[0] -= lag
        faded = self._fade(pcm, at, at + lag, seam.likeness)
        return np.concatenate([pcm[:at], faded, pcm[at + lag + self.window :]])

    def lengthen(
        self, pcm: Frame, most: int, *, likeness: float = 0.9, faint: float = 0.0
    ) -> Frame:
        """Return `pcm` longer by up to `most` samples, or as it is; see `shorten`."""
        seam = self._find(pcm, min(most, int(self._credit[1])), likeness, faint)
        if seam is None:
            return pcm
        at, lag = seam.at, seam.lag
        self._credit[1] -= lag
        faded = self._fade(pcm, at + lag, at, seam.likeness)
        return np.concatenate([pcm[: at + lag], faded, pcm[at + self.window :]])

    def _find(self, pcm: Frame, most: int, likeness: float, faint: float) -> _Seam | None:
        """Choose where, and by how much."""
        most = min(most, self.longest)
        room = len(pcm) - self.window - most
        if most < self.shortest or room < 0:
            return None
        sound = pcm.astype(np.float32)
        at = self._quietest(sound, room, self.window + most)
        part = sound[at : at + self.window + most]
        quiet = float(np.dot(part, part)) < max(faint, _FAINT) ** 2 * len(part)
        lag, alike = self._best_lag(part, most)
        if not quiet and alike < likeness:
            return None
        return _Seam(at, lag, alike)

    def _quietest(self, sound: _Float, room: int, length: int) -> int:
        """Return the beginning of the quietest stretch, in steps of the shortest change."""
        if room < self.shortest:
            return 0
        sums = np.cumsum(sound * sound, dtype=np.float64)
        starts = np.arange(0, room + 1, self.shortest)
        before = np.where(starts > 0, sums[starts - 1], 0.0)
        return int(starts[int(np.argmin(sums[starts + length - 1] - before))])

    def _best_lag(self, part: _Float, most: int) -> tuple[int, float]:
        """Return after how many samples the window is most like its beginning, and how much."""
        step = self._step
        if step == 1:
            return self._correlate(part, self.window, self.shortest, most, longest=True)
        size = len(part) // step * step
        coarse = part[:size].reshape(-1, step).mean(axis=1)
        window = self.window // step
        lag, _ = self._correlate(
            coarse, window, self.shortest // step, len(coarse) - window, longest=True
        )
        low = max(lag * step - step, self.shortest)
        return self._correlate(part, self.window, low, min(lag * step + step, most), longest=False)

    @staticmethod
    def _correlate(
        part: _Float, window: int, low: int, high: int, *, longest: bool
    ) -> tuple[int, float]:
        """Compare the first `window` samples with those at lags of `low` to `high`."""
        template, rest = part[:window], part[low : high + window]
        products = np.correlate(rest, template, "valid")
        sums = np.empty(len(rest) + 1, np.float64)
        sums[0] = 0.0
        np.cumsum(rest * rest, dtype=np.float64, out=sums[1:])
        energies = sums[window:] - sums[:-window]
        alike = products / np.sqrt(energies * float(np.dot(template, template)) + 1.0)
        best = int(np.argmax(alike))
        if longest:
            # of periods that are as good the longest: fewer seams
            best = int(np.flatnonzero(alike >= alike[best] - 0.02)[-1])
            while best + 1 < len(alike) and alike[best + 1] > alike[best]:
                best += 1
        return low + best, float(alike[best])

    def _fade(self, pcm: Frame, old: int, new: int, likeness: float) -> Frame:
        """Cross-fade from one place to another, at one level however alike they are."""
        ramp, window = self._ramp, self.window
        alike = min(max(likeness, 0.0), 1.0)
        # the power of a(1-r) + br, for a and b of power 1: 1 - 2r(1-r)(1-alike)
        level = np.sqrt(1 - self._even * np.float32(1 - alike))
        mixed = (pcm[old : old + window] * (1 - ramp) + pcm[new : new + window] * ramp) / level
        out: Frame = np.clip(np.rint(mixed), -32768, 32767).astype(np.int16)
        return out
