"""Frames of sound: int16, one channel, a fixed number of samples; time is counted in them.

    media, 20 ms:  f0 f1 f2 f3 | f4 ...        Gatherer ─▶ one frame of 80 ms for the model
    model, 80 ms:  F0          | F1 ...        Slicer   ─▶ 20 ms frames for the media loop

Called by `loop` and by models; pure.
"""

from __future__ import annotations

from typing import Final

try:
    import numpy as np
    from numpy.typing import NDArray
except ModuleNotFoundError as error:
    raise ImportError("voices need numpy: pip install 'warp-rtc[voice]'") from error

from warp.errors import InvalidConfig

Frame = NDArray[np.int16]
"""Shape (samples,), int16, one channel. Whoever is handed one does not write into it."""

MEDIA_FRAME_MS: Final = 20
"""What the media loop lives on: one Opus packet (RFC 7587 section 4.2)."""
RATES: Final = (8_000, 12_000, 16_000, 24_000, 48_000)
"""Samples a second that Opus decodes to and encodes from (RFC 6716 section 2.1.3)."""


def frame_samples(rate: int, frame_ms: int = MEDIA_FRAME_MS) -> int:
    """Return the samples of a frame; raises InvalidConfig when that is not a whole number."""
    samples, rest = divmod(rate * frame_ms, 1000)
    if rest or samples <= 0:
        raise InvalidConfig(f"{frame_ms} ms at {rate} Hz is not a whole number of samples")
    return samples


def silence(samples: int) -> Frame:
    """Return a frame of zeros."""
    return np.zeros(samples, np.int16)


def fault_of(pcm: object, samples: int) -> str | None:
    """Return what is wrong with a frame that should hold so many samples; None if it is right."""
    if not isinstance(pcm, np.ndarray):
        return f"a frame is an array, not {type(pcm).__name__}"
    if pcm.dtype != np.int16:
        return f"a frame is int16, not {pcm.dtype}"
    if pcm.shape != (samples,):
        return f"a frame has shape ({samples},), not {pcm.shape}"
    return None


class Gatherer:
    """Collects media frames until a frame of the model's is full.

    What was lost within it is silence; a frame that was lost as a whole is None.
    """

    __slots__ = ("_buffer", "_count", "_heard", "_part", "ratio")

    def __init__(self, rate: int, frame_ms: int) -> None:
        self.ratio = ratio_of(frame_ms)
        self._part = frame_samples(rate)
        self._buffer = silence(self._part * self.ratio)
        self._count = 0
        self._heard = False

    @property
    def pending(self) -> int:
        """Media frames collected towards the next frame."""
        return self._count

    def add(self, pcm: Frame | None) -> tuple[bool, Frame | None]:
        """Take in 20 ms; returns whether a frame is full, and the frame."""
        if self.ratio == 1:
            return True, pcm
        at = self._count * self._part
        if pcm is None:
            self._buffer[at : at + self._part] = 0
        else:
            self._buffer[at : at + self._part] = pcm
            self._heard = True
        self._count += 1
        if self._count < self.ratio:
            return False, None
        full = self._buffer.copy() if self._heard else None
        self._count = 0
        self._heard = False
        return True, full


class Slicer:
    """Cuts a frame of the model's into media frames."""

    __slots__ = ("_part", "ratio")

    def __init__(self, rate: int, frame_ms: int) -> None:
        self.ratio = ratio_of(frame_ms)
        self._part = frame_samples(rate)

    def cut(self, pcm: Frame) -> list[Frame]:
        """Return the frame's 20 ms parts, in order, as views."""
        part = self._part
        return [pcm[at * part : (at + 1) * part] for at in range(self.ratio)]


def ratio_of(frame_ms: int) -> int:
    """Return how many media frames a model's frame holds; raises InvalidConfig if not whole."""
    ratio, rest = divmod(frame_ms, MEDIA_FRAME_MS)
    if rest or ratio < 1:
        raise InvalidConfig(f"a model's frame is a multiple of {MEDIA_FRAME_MS} ms, not {frame_ms}")
    return ratio
