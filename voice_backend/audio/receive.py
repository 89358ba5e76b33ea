"""Payloads in, at any time; one frame of samples at the model's rate out, every time.

    receive ──▶ JitterBuffer ──▶ decode · recover · conceal · comfort ──▶ stretch ──▶ frame(now)
    whenever    (warp.rtp)       OpusDecoder             Comfort          Stretcher   each 20 ms

One per session, in the media loop; it never blocks, never raises for what a peer sent, and holds
no more than the jitter buffer's bound and one packet's samples.

Over a session of `warp.io`: let the session hand frames out as they come, give their
`received_at` as `now`, and there is one delay, this one. Frames that the session has put in order
work as well, but what is behind a gap has been held there already (`reorder_wait_s`).
"""

from __future__ import annotations

from dataclasses import dataclass

from voice_backend.audio.opus import OpusDecoder
from voice_backend.frames import MEDIA_FRAME_MS, Frame, frame_samples, silence


@dataclass(slots=True)
class HeardFrame:
    """One frame for the model, and what it is made of; times are milliseconds of this frame."""

    pcm: Frame
    """int16, one channel, always `rate * frame_ms / 1000` samples."""
    concealed: bool = False
    """Part of it stands in for speech that was lost or is late."""
    recovered: bool = False
    """Part of it comes from a later packet's redundancy."""
    comfort: bool = False
    """All of it is a pause of the sender's (DTX), or nobody has said anything yet."""
    stretched_ms: float = 0.0
    """By how much it was made longer (negative: shorter) to keep the delay."""


class AudioReceiver:
    """One peer's speech, made continuous."""

    def __init__(self, rate: int, frame_ms: int = MEDIA_FRAME_MS) -> None:
        """`rate` is what the model hears at; raises InvalidConfig, OpusMissing."""
        self.rate = rate
        self._samples = frame_samples(rate, frame_ms)
        self._decoder = OpusDecoder(rate)

    def receive(self, payload: bytes | None, sequence: int, timestamp: int, now: float) -> None:
        """Take in one packet; numbers as on the wire, or extended. `now`: when it came.

        None stands for a packet that never will come.
        """

    def restart(self, now: float) -> None:
        """Another source follows, or the same one after a break: numbers start anew."""

    def frame(self, now: float) -> HeardFrame:
        """Return the next frame; call it once each `frame_ms`."""
        return HeardFrame(silence(self._samples), comfort=True)
