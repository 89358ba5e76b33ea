"""Opus by way of PyAV, which is an extra: sound in and out as `av.AudioFrame`.

av.AudioFrame, any rate and layout ─▶ OpusEncoder ─▶ payloads of 20 ms (RFC 7587)
warp.rtp.AudioFrame ─▶ OpusDecoder ─▶ av.AudioFrame: s16, stereo, 48 kHz
"""

from __future__ import annotations

import importlib
from fractions import Fraction
from typing import Any

from warp.errors import UsageError
from warp.rtp import AudioFrame

SAMPLE_RATE = 48_000
FRAME_SAMPLES = 960
TIME_BASE = Fraction(1, SAMPLE_RATE)
MAX_SILENCE_FRAMES = 5
"""100 ms: beyond that a hole stays a hole, and `pts` tells of it."""
_BITRATE = {"mono": 32_000, "stereo": 64_000}
_OPTIONS = {"application": "voip", "fec": "1", "packet_loss": "5"}


def load_av() -> Any:
    """Return PyAV; raises `UsageError` where it is not installed."""
    try:
        return importlib.import_module("av")
    except ImportError as error:
        raise UsageError("sound needs PyAV: pip install 'warp-rtc[compat]'") from error


def silence(samples: int, *, layout: str = "stereo", rate: int = SAMPLE_RATE) -> Any:
    """Return an `av.AudioFrame` of silence."""
    frame = load_av().AudioFrame(format="s16", layout=layout, samples=samples)
    for plane in frame.planes:
        plane.update(bytes(plane.buffer_size))
    frame.sample_rate = rate
    frame.time_base = Fraction(1, rate)
    return frame


class OpusEncoder:
    """Turns a track's frames into payloads; the first frame decides between mono and stereo."""

    __slots__ = ("_av", "_codec", "_resampler", "_shape")

    def __init__(self) -> None:
        self._av = load_av()
        self._codec: Any = None
        self._resampler: Any = None
        self._shape: tuple[str, str, int] | None = None

    def encode(self, frame: Any) -> list[bytes]:
        """Return the payloads that are complete with this frame, each of 20 ms."""
        shape = frame.format.name, frame.layout.name, frame.sample_rate
        if self._codec is None:
            self._codec = self._open("mono" if len(frame.layout.channels) == 1 else "stereo")
        if shape != self._shape:
            self._shape = shape
            self._resampler = self._av.AudioResampler(
                format="s16", layout=self._codec.layout.name, rate=SAMPLE_RATE,
                frame_size=FRAME_SAMPLES,
            )  # fmt: skip
        # what a track says of time does not matter: frames follow each other
        frame.pts = None
        payloads = []
        for piece in self._resampler.resample(frame):
            piece.pts = None
            payloads += [bytes(packet) for packet in self._codec.encode(piece)]
        return payloads

    def _open(self, layout: str) -> Any:
        codec = self._av.CodecContext.create("libopus", "w")
        codec.format, codec.layout, codec.sample_rate = "s16", layout, SAMPLE_RATE
        codec.bit_rate = _BITRATE[layout]
        codec.time_base = TIME_BASE
        codec.options = dict(_OPTIONS)
        return codec


class OpusDecoder:
    """Turns what a session hears into frames; `pts` counts samples from the first one."""

    __slots__ = ("_av", "_codec", "_due", "_lost", "_origin", "refused")

    def __init__(self) -> None:
        self._av = load_av()
        self._codec = self._av.CodecContext.create("libopus", "r")
        self._codec.format, self._codec.layout = "s16", "stereo"
        self._codec.sample_rate = SAMPLE_RATE
        self._origin: int | None = None
        self._due = 0
        self._lost = False
        self.refused = 0
        """Payloads that are not Opus; silence stands for them."""

    def decode(self, frame: AudioFrame) -> list[Any]:
        """Return the frames that are known with this one; none for a gap before its end.

        Up to 100 ms that were lost come back as silence, so that a recording keeps its time.
        """
        if frame.payload is None:
            self._lost = True
            return []
        if self._origin is None:
            self._origin = frame.timestamp
        at = frame.timestamp - self._origin
        out = []
        missing = (at - self._due) // FRAME_SAMPLES
        if self._lost and 0 < missing <= MAX_SILENCE_FRAMES:
            for index in range(missing):
                out.append(self._placed(silence(FRAME_SAMPLES), self._due + index * FRAME_SAMPLES))
        self._lost = False
        for decoded in self._decoded(frame.payload):
            out.append(self._placed(decoded, at))
            at += decoded.samples
        self._due = at
        return out

    def _decoded(self, payload: bytes) -> list[Any]:
        try:
            return list(self._codec.decode(self._av.Packet(payload)))
        except self._av.FFmpegError:
            self.refused += 1
            return [silence(FRAME_SAMPLES)]

    def _placed(self, frame: Any, at: int) -> Any:
        frame.pts = at
        frame.time_base = TIME_BASE
        return frame
