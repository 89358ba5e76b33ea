"""Between a model's rate and one that Opus has; nothing at all where they agree.

    live     Resampler: soxr LQ where it is less than 3 ms behind, else QQ, not behind but duller
    offline  resampled: soxr HQ, whole recordings

Opus decodes to and encodes from 8, 12, 16, 24 and 48 kHz by itself: a model at one of these needs
no resampler. soxr's better qualities are 12 to 30 ms behind, and so is LQ where it works in blocks.
Called by `receive` and `send`.
"""

from __future__ import annotations

import functools
from typing import Any, Final, Literal

import numpy as np

from voice_backend.audio.opus import FIX
from voice_backend.frames import RATES, Frame
from warp.errors import InvalidConfig, UsageError

LOWEST: Final = 4_000
HIGHEST: Final = 192_000
_NEAR_S = 0.003
_TRIAL_FRAMES = 100


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


@functools.cache
def _shortage(rate: int, wanted: int, samples: int, quality: str) -> int:
    """Measure by how many samples a stream is behind at worst, from frame to frame."""
    stream = _soxr().ResampleStream(rate, wanted, 1, dtype="int16", quality=quality)
    frame = np.zeros(samples * rate // wanted, np.int16)
    made = worst = 0
    for count in range(1, _TRIAL_FRAMES + 1):
        made += len(stream.resample_chunk(frame))
        worst = max(worst, count * samples - made)
    return worst


class Resampler:
    """One stream from one rate to another, frame by frame."""

    __slots__ = ("_rest", "_samples", "_stream", "behind")

    def __init__(
        self, rate: int, wanted: int, samples: int, *, quality: Literal["LQ", "QQ"] | None = None
    ) -> None:
        """Each frame that comes out has `samples`, at `wanted` Hz; raises UsageError, without soxr.

        Frames that go in last as long, at `rate` Hz. None: the quality that is near enough.
        """
        soxr = _soxr()
        if quality is None:
            near = _shortage(rate, wanted, samples, "LQ") < _NEAR_S * wanted
            quality = "LQ" if near else "QQ"
        self._stream = soxr.ResampleStream(rate, wanted, 1, dtype="int16", quality=quality)
        self._samples = samples
        self.behind = _shortage(rate, wanted, samples, quality)
        """Samples by which what comes out is behind."""
        self._rest = np.zeros(self.behind, np.int16)

    def resample(self, pcm: Frame) -> Frame:
        """Return the next frame; the first begins with as much silence as it is behind."""
        whole = np.concatenate([self._rest, self._stream.resample_chunk(pcm)])
        short = self._samples - len(whole)
        if short > 0:
            # a frame of another length came in: the next is as long as it has to be all the same
            whole = np.concatenate([np.zeros(short, np.int16), whole])
        self._rest = whole[self._samples :][-self._samples :]
        return whole[: self._samples]


def resampled(pcm: Frame, rate: int, wanted: int) -> Frame:
    """Return a whole recording at another rate (soxr HQ); not for live sound."""
    if rate == wanted:
        return pcm
    out: Frame = _soxr().resample(pcm, rate, wanted, quality="HQ")
    return out
