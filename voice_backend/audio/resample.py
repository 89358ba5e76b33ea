"""Between a model's rate and one that Opus has; nothing at all where they agree.

    live     Resampler: soxr LQ, 2.5 ms behind (24 to 48 kHz), or QQ, not behind but duller
    offline  resampled: soxr HQ, whole recordings

Opus decodes to and encodes from 8, 12, 16, 24 and 48 kHz by itself: a model at one of these needs
no resampler. Called by `receive` and `send`; better qualities are 12 to 30 ms behind.
"""

from __future__ import annotations

from typing import Any, Final, Literal

import numpy as np

from voice_backend.audio.opus import FIX
from voice_backend.frames import RATES, Frame
from warp.errors import InvalidConfig, UsageError

LOWEST: Final = 4_000
HIGHEST: Final = 192_000


def opus_rate(rate: int) -> int:
    """Return the rate of Opus's that keeps all of `rate`: itself, or the next above."""
    if not LOWEST <= rate <= HIGHEST:
        raise InvalidConfig(f"a rate is {LOWEST} to {HIGHEST} Hz, not {rate}")
    return next((own for own in RATES if own >= rate), RATES[-1])


def _soxr() -> Any:
    try:
        import soxr
    except ImportError as error:
        raise UsageError(f"a change of sample rate needs soxr: {FIX}") from error
    return soxr


class Resampler:
    """One stream from one rate to another, frame by frame."""

    __slots__ = ("_rest", "_samples", "_stream")

    def __init__(
        self, rate: int, wanted: int, samples: int, *, quality: Literal["LQ", "QQ"] = "LQ"
    ) -> None:
        """Each frame that comes out has `samples`, at `wanted` Hz; raises UsageError, without soxr.

        Frames that go in last as long, at `rate` Hz.
        """
        soxr = _soxr()
        self._stream = soxr.ResampleStream(rate, wanted, 1, dtype="int16", quality=quality)
        self._samples = samples
        self._rest = np.zeros(0, np.int16)

    def resample(self, pcm: Frame) -> Frame:
        """Return the next frame; the first begins with as much silence as the filter is behind."""
        chunk = self._stream.resample_chunk(pcm)
        whole = np.concatenate([self._rest, chunk]) if len(self._rest) else chunk
        short = self._samples - len(whole)
        if short > 0:
            whole = np.concatenate([np.zeros(short, np.int16), whole])
        self._rest = whole[self._samples :]
        return whole[: self._samples]


def resampled(pcm: Frame, rate: int, wanted: int) -> Frame:
    """Return a whole recording at another rate (soxr HQ); not for live sound."""
    if rate == wanted:
        return pcm
    out: Frame = _soxr().resample(pcm, rate, wanted, quality="HQ")
    return out
