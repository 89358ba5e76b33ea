"""Opus, concealment, stretching and rates: between RTP payloads and a model's samples.

payloads ──▶ AudioReceiver.receive      frame(now) ──▶ HeardFrame, each 20 ms ──▶ model
             JitterBuffer, OpusDecoder, Comfort, Stretcher
payloads ◀── AudioSender.encode ◀── frames of the model's
"""

from __future__ import annotations

from voice_backend.audio.expected_loss import ExpectedLoss
from voice_backend.audio.opus import (
    EncoderConfig,
    OpusDecoder,
    OpusEncoder,
    OpusError,
    OpusMissing,
)
from voice_backend.audio.receive import AudioReceiver, HeardCounts, HeardFrame
from voice_backend.audio.resample import Resampler, resampled
from voice_backend.audio.send import AudioSender
from voice_backend.audio.wsola import Stretcher

__all__ = [
    "AudioReceiver",
    "AudioSender",
    "EncoderConfig",
    "ExpectedLoss",
    "HeardCounts",
    "HeardFrame",
    "OpusDecoder",
    "OpusEncoder",
    "OpusError",
    "OpusMissing",
    "Resampler",
    "Stretcher",
    "resampled",
]
