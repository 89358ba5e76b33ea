"""Payloads in, at any time; one frame of samples at the model's rate out, every time.

    receive ──▶ JitterBuffer ──▶ Renderer ───────────────────▶ Stretcher ──▶ frame(now)
    whenever    (warp.rtp)       decode · recover · conceal    shorter,      each 20 ms
                                 · comfort                     longer

One per session, in the media loop. It never blocks, never raises for what a peer sent, and holds no
more than the jitter buffer's ceiling (0.3 s) and one packet's samples.

Over a session of `warp.io`: let it hand frames out as they come (`audio_in_order=False`), and give
all that have come to `receive_frame` before each `frame`. Then there is one delay, this one. A
session that puts frames in order works as well, but holds what is behind a gap for up to 40 ms
(`reorder_wait_s`): this delay grows by as much, or each loss costs concealment.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from voice_backend.audio.render import Renderer
from voice_backend.audio.resample import Resampler, opus_rate
from voice_backend.audio.wsola import Stretcher
from voice_backend.frames import MEDIA_FRAME_MS, Frame, frame_samples
from warp.rtp import Action, AudioFrame, JitterBuffer, JitterConfig, JitterCounts, Placing

_CLOCK_RATE = 48_000
_OVERSHOOT_S = 0.005
_LIKENESS = ((0.03, 0.9), (0.08, 0.75))
"""Excess of delay in seconds, and how alike the sound must be on both sides of a seam up to it."""
_ANY_LIKENESS = 0.5
_BACKGROUND = 2.0
"""So many times the background's level is still a pause."""


@dataclass(slots=True)
class HeardFrame:
    """One frame for the model, and what it is made of."""

    pcm: Frame
    """int16, one channel, always `rate * frame_ms / 1000` samples."""
    concealed: bool = False
    """Part of it stands in for speech that was lost or is late."""
    recovered: bool = False
    """Part of it comes from a later packet's redundancy."""
    comfort: bool = False
    """All of it is a pause of the sender's (DTX), or nobody has said anything yet."""
    stretched_ms: float = 0.0
    """By how much time was made longer here (negative: shorter) to keep the delay."""


@dataclass(slots=True)
class HeardCounts:
    """What was played; the jitter buffer's counts tell of packets."""

    frames: int = 0
    concealed: int = 0
    recovered: int = 0
    comfort: int = 0
    stretched: int = 0
    shortened_ms: float = 0.0
    lengthened_ms: float = 0.0


class AudioReceiver:
    """One peer's speech, made continuous."""

    __slots__ = (
        "_held",
        "_jitter",
        "_rate",
        "_ratio",
        "_renderer",
        "_resampler",
        "_samples",
        "_stretcher",
        "_tail",
        "counts",
        "rate",
    )

    def __init__(
        self, rate: int, frame_ms: int = MEDIA_FRAME_MS, config: JitterConfig | None = None
    ) -> None:
        """`rate` is what the model hears at; raises InvalidConfig, OpusMissing.

        `config` defaults to delays of 20 to 200 ms, and frames of `frame_ms`.
        """
        self.rate = rate
        self.counts = HeardCounts()
        self._rate = opus_rate(rate)
        self._ratio = _CLOCK_RATE // self._rate
        self._samples = frame_samples(self._rate, frame_ms)
        self._jitter = JitterBuffer(config or JitterConfig(frame_s=frame_ms / 1000))
        self._renderer = Renderer(self._rate)
        self._stretcher = Stretcher(self._rate)
        self._resampler = None
        if self._rate != rate:
            self._resampler = Resampler(self._rate, rate, frame_samples(rate, frame_ms))
        self._held = np.zeros(0, np.int16)
        self._tail = Action.COMFORT
        """What the samples held are made of."""

    # -- in ------------------------------------------------------------------------------------

    def receive(
        self, payload: bytes | None, sequence: int, timestamp: int, now: float
    ) -> Placing | None:
        """Take in one packet; numbers as on the wire, or extended. `now`: when it came.

        None stands for a packet that will not come, which the numbers of the next tell as well.
        """
        if payload is None:
            return None
        return self._jitter.insert(payload, sequence, timestamp, now)

    def receive_frame(self, frame: AudioFrame) -> None:
        """Take in what `session.audio_in` yields, gaps included."""
        if frame.payload is not None:
            self._jitter.insert(frame.payload, frame.sequence, frame.timestamp, frame.received_at)
        elif not frame.lost:
            self.restart()

    def restart(self) -> None:
        """Another source follows, or the same one after a break: numbers start anew."""
        self._jitter.restart()
        self._renderer.reset()

    # -- out -----------------------------------------------------------------------------------

    def frame(self, now: float) -> HeardFrame:
        """Return the next frame; call it once each `frame_ms`, whatever has come."""
        advice = self._jitter.advise(now, self._held_ticks)
        out = HeardFrame(self._held)
        plain = self._fill(out, now)
        self._stretcher.grant(self._samples)
        if advice and plain:
            self._stretch(out, advice, now)
        held = self._held
        out.pcm, self._held = held[: self._samples], held[self._samples :]
        self._count(out)
        if self._resampler is not None:
            out.pcm = self._resampler.resample(out.pcm)
        return out

    def _fill(self, out: HeardFrame, now: float) -> bool:
        """Take steps until a frame is full; whether it holds nothing that was made up."""
        missing = self._samples - len(self._held)
        held = self._held_ticks
        parts = [self._held] if held else []
        plain = not parts or self._tail is Action.PLAY
        out.comfort = not parts or self._tail is Action.COMFORT
        out.concealed = bool(parts) and self._tail is Action.CONCEAL
        out.recovered = bool(parts) and self._tail is Action.RECOVER
        if missing <= 0:
            return plain
        while missing > 0:
            step = self._jitter.take(missing * self._ratio, now, held)
            part = self._renderer.render(step)
            parts.append(part)
            missing -= len(part)
            held += step.ticks
            self._tail = action = step.action
            if action is not Action.PLAY:
                plain = False
                out.concealed = out.concealed or action is Action.CONCEAL
                out.recovered = out.recovered or action is Action.RECOVER
            out.comfort = out.comfort and action is Action.COMFORT
        self._held = parts[0] if len(parts) == 1 else np.concatenate(parts)
        return plain

    def _stretch(self, out: HeardFrame, advice: int, now: float) -> None:
        """Bring the delay nearer to what is wanted, by one period of the voice at most."""
        stretcher, before = self._stretcher, self._held
        excess_s = abs(advice) / _CLOCK_RATE
        most = abs(advice) // self._ratio + int(_OVERSHOOT_S * self._rate)
        alike = next((alike for upto, alike in _LIKENESS if excess_s < upto), _ANY_LIKENESS)
        faint = self._renderer.comfort.level * _BACKGROUND
        if advice < 0:
            self._held = stretcher.lengthen(before, most, likeness=alike, faint=faint)
        else:
            room = self._samples + stretcher.longest
            while len(self._held) < room and self._jitter.ready:
                step = self._jitter.take(1, now)
                self._held = np.concatenate([self._held, self._renderer.render(step)])
            # what is left must be a frame, or the next would be made up
            most = min(most, len(self._held) - self._samples)
            before = self._held
            self._held = stretcher.shorten(before, most, likeness=alike, faint=faint)
        out.stretched_ms = (len(self._held) - len(before)) * 1000 / self._rate

    def _count(self, out: HeardFrame) -> None:
        counts = self.counts
        counts.frames += 1
        counts.concealed += out.concealed
        counts.recovered += out.recovered
        counts.comfort += out.comfort
        if out.stretched_ms:
            counts.stretched += 1
            if out.stretched_ms > 0:
                counts.lengthened_ms += out.stretched_ms
            else:
                counts.shortened_ms -= out.stretched_ms

    @property
    def _held_ticks(self) -> int:
        return len(self._held) * self._ratio

    # -- figures -------------------------------------------------------------------------------

    @property
    def packets(self) -> JitterCounts:
        """What became of packets."""
        return self._jitter.counts

    @property
    def refused(self) -> int:
        """Payloads that are not Opus: seen at once, or by the decoder."""
        return self._jitter.counts.refused + self._renderer.refused

    @property
    def target_ms(self) -> float:
        """The wanted delay."""
        return self._jitter.target_s * 1000

    @property
    def drift_ppm(self) -> float | None:
        """By how much the peer's clock runs fast (negative: slow), or None so far."""
        return self._jitter.drift_ppm

    def delay_ms(self, now: float) -> float:
        """Return by how much what is played next is behind the fastest packets."""
        return self._jitter.delay(now, self._held_ticks) * 1000 / _CLOCK_RATE
