"""Speech as packets on a path of the test's own, and what a receiver makes of it."""

from __future__ import annotations

import functools
import random
from dataclasses import dataclass, field

import numpy as np

from voice_backend.audio import AudioReceiver, EncoderConfig, HeardFrame, OpusDecoder, OpusEncoder
from voice_backend.audio.resample import resampled
from voice_backend.frames import Frame
from warp_tools.audio import packaged_sound

RATE = 16_000

Arrival = tuple[float, bytes, int, int]
"""When a packet comes, its payload, sequence number and timestamp."""


@functools.cache
def speech(rate: int = RATE) -> Frame:
    """Five seconds of a person who talks."""
    return resampled(packaged_sound("speech"), 48_000, rate)


@functools.cache
def payloads(
    rate: int = RATE, ms: int = 20, *, loss: int = 0, dtx: bool = False, repeat: int = 1
) -> tuple[bytes, ...]:
    """The speech as Opus; `loss` is what the encoder expects."""
    config = EncoderConfig(expected_loss_percent=loss, dtx=dtx)
    encoder = OpusEncoder(rate, config, frame_ms=ms)
    pcm = np.tile(speech(rate), repeat)
    n = encoder.frame_samples
    return tuple(encoder.encode(pcm[at : at + n]) for at in range(0, len(pcm) - n + 1, n))


def path(
    sent: tuple[bytes, ...],
    *,
    ms: int = 20,
    loss: float = 0.0,
    jitter: float = 0.0,
    seed: int = 1,
    speed: float = 1.0,
) -> list[Arrival]:
    """Packets as a network brings them, in the order in which they come."""
    luck = random.Random(seed)
    arrivals = [
        (i * ms / 1000 / speed + luck.uniform(0, jitter), payload, i & 0xFFFF, i * ms * 48)
        for i, payload in enumerate(sent)
        if luck.random() >= loss
    ]
    return sorted(arrivals, key=lambda a: a[0])


@dataclass
class Heard:
    """What came out, frame by frame."""

    receiver: AudioReceiver
    frames: list[HeardFrame] = field(default_factory=list)
    delays_ms: list[float] = field(default_factory=list)

    @property
    def pcm(self) -> Frame:
        return np.concatenate([frame.pcm for frame in self.frames])


def hear(
    arrivals: list[Arrival],
    *,
    seconds: float | None = None,
    receiver: AudioReceiver | None = None,
    rate: int = RATE,
) -> Heard:
    """Play a frame at 7 ms behind each 20 ms until `seconds`, or shortly after the last packet."""
    heard = Heard(receiver or AudioReceiver(rate))
    last = arrivals[-1][0] + 0.1 if seconds is None else seconds
    samples, at, now = heard.receiver.rate // 50, 0, 0.007
    while now < last:
        while at < len(arrivals) and arrivals[at][0] <= now:
            when, payload, sequence, timestamp = arrivals[at]
            heard.receiver.receive(payload, sequence, timestamp, when)
            at += 1
        frame = heard.receiver.frame(now)
        assert frame.pcm.dtype == np.int16 and frame.pcm.shape == (samples,)
        heard.frames.append(frame)
        heard.delays_ms.append(heard.receiver.delay_ms(now) + 20)
        now += 0.02
    return heard


def decoded(sent: tuple[bytes, ...], rate: int = RATE) -> Frame:
    """What a path without faults would have brought."""
    decoder = OpusDecoder(rate)
    return np.concatenate([decoder.decode(payload) for payload in sent])


def likenesses(wanted: Frame, got: Frame, *, late_ms: int = 400, rate: int = RATE) -> np.ndarray:
    """How like its best place in `got` each 100 ms of speech in `wanted` is; one value a piece."""
    n, room = rate // 10, rate * late_ms // 1000
    out = []
    a, b = wanted.astype(np.float64), got.astype(np.float64)
    for at in range(0, len(a) - n, n):
        piece, around = a[at : at + n], b[max(at - rate // 50, 0) : at + n + room]
        if np.sqrt(np.mean(piece**2)) < 300 or len(around) < n:
            continue
        size = len(around) + n
        products = np.fft.irfft(
            np.fft.rfft(around, size) * np.conj(np.fft.rfft(piece, size)), size
        )[: len(around) - n + 1]
        sums = np.concatenate([[0.0], np.cumsum(around**2)])
        energy = (sums[n:] - sums[:-n]) * np.dot(piece, piece)
        out.append(float(np.max(products / np.sqrt(energy + 1))))
    return np.array(out)
