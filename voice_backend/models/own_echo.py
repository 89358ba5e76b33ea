"""Whether what is heard is our own voice come back from the caller's loudspeaker.

    ours, 1.1 s ────┐
                    ├─▶ correlation at every lag to 800 ms ─▶ the best lag, how well it fits
    heard, 256 ms ──┘

Browsers cancel echo; what is left of it must not be taken for the user. Speech of anybody fits some
lag a little, and a voice like ours fits well for a moment; only an echo keeps to one lag. So a good
fit counts for its own moment; once the lag has been the same three times running, a fair fit at
that lag counts too. Who speaks over an echo is louder than it, and it explains little of the sum.
"""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

from voice_backend.models.recent import Recent

RATE: Final = 8_000
WINDOW: Final = RATE * 256 // 1000
FRAME: Final = RATE // 50
LAGS: Final = RATE * 800 // 1000
FLATTEN: Final = 0.6
"""Speech is strongest where it is lowest; flattened, fits tell more."""
GOOD: Final = 0.4
FAIR: Final = 0.3
SAME: Final = RATE * 2 // 1000
"""Lags so close are one lag: a jitter buffer stretches a little."""
CONFIRMED: Final = 2
"""Times that a lag has to come back."""
SILENT: Final = 1e-5
"""Energy of a window of ours (full scale 1) below which nothing can come back of it."""
FORGET: Final = 15
"""Windows without a fit after which a lag is not trusted any more."""

_SILENCE: Final = np.zeros(FRAME, np.float32)


class OwnEcho:
    """One conversation's; told of every frame of both sides, at 16 and 24 kHz, -1 to 1."""

    __slots__ = ("_candidate", "_confirmed", "_heard", "_lag", "_misses", "_ours", "_silent")

    def __init__(self) -> None:
        self._heard = Recent(WINDOW)
        self._ours = Recent(WINDOW + LAGS)
        self._silent = WINDOW + LAGS
        """Samples since ours was last audible."""
        self._candidate = -RATE
        self._confirmed = 0
        self._lag: int | None = None
        self._misses = 0

    def receive_heard(self, sound: NDArray[np.float32]) -> None:
        """Take a frame of what is heard, 16 kHz."""
        self._heard.append((sound[::2] + sound[1::2]) * np.float32(0.5))

    def receive_ours(self, sound: NDArray[np.floating] | None) -> None:
        """Take the frame that we say at the same time, 24 kHz; None: silence of 20 ms."""
        if sound is None:
            self._silent += FRAME
            self._ours.append(_SILENCE)
        else:
            self._silent = 0
            self._ours.append(sound.reshape(-1, 3).mean(axis=1, dtype=np.float32))

    def explains(self) -> bool:
        """Tell whether the sound just heard is our own."""
        end = self._heard.end
        if self._silent >= WINDOW + LAGS or end < WINDOW:
            return False
        heard = _flat(self._heard.between(end - WINDOW, end))
        if self._lag is not None and self._keeps(heard, end):
            return True
        lag, fit = self._best(heard, end, 0, LAGS)
        same = fit >= GOOD and abs(lag - self._candidate) <= SAME
        self._confirmed = self._confirmed + 1 if same else 0
        self._candidate = lag if fit >= GOOD else -RATE
        if self._confirmed >= CONFIRMED:
            self._lag, self._misses = lag, 0
        return fit >= GOOD

    def _keeps(self, heard: NDArray[np.float32], end: int) -> bool:
        """Tell whether the lag that is known fits still."""
        known = self._lag or 0
        lag, fit = self._best(heard, end, known - SAME, known + SAME)
        if fit >= FAIR:
            self._lag, self._misses = lag, 0
            return True
        self._misses += 1
        if self._misses > FORGET:
            self._lag = None
        return False

    def _best(
        self, heard: NDArray[np.float32], end: int, least: int, most: int
    ) -> tuple[int, float]:
        """Return the lag between two at which ours fits best, and how well."""
        begin = max(end - WINDOW - most, self._ours.begin)
        ours = _flat(self._ours.between(begin, end - least))
        if len(ours) < WINDOW:
            return -RATE, 0.0
        fits = _fits(heard, ours)
        best = int(fits.argmax())
        return end - WINDOW - begin - best, float(fits[best])


def _flat(sound: NDArray[np.float32]) -> NDArray[np.float32]:
    flat = sound.copy()
    flat[1:] -= FLATTEN * sound[:-1]
    return flat


def _fits(heard: NDArray[np.float32], ours: NDArray[np.float32]) -> NDArray[np.float32]:
    """Return how well each part of ours fits, the latest last: 0 not at all, 1 a copy."""
    # what wraps around falls on parts that are not looked at
    size = len(ours) + len(ours) % 2
    spectrum = np.fft.rfft(ours, size) * np.conj(np.fft.rfft(heard, size))
    product = np.fft.irfft(spectrum, size)[: len(ours) - len(heard) + 1]
    sums = np.concatenate([[0.0], np.cumsum(ours.astype(np.float64) ** 2)])
    energy = sums[len(heard) :] - sums[: -len(heard)]
    scale = np.sqrt(np.maximum(energy, SILENT) * max(float(heard @ heard), 1e-12))
    fits = np.abs(product) / scale
    fits[energy < SILENT] = 0
    return np.asarray(fits, np.float32)
