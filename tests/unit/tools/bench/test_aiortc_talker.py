"""Both stacks of `warp bench media --codec` encode with the same settings."""

from __future__ import annotations

import asyncio
from typing import Any

import numpy as np
import pytest
from aiortc import codecs
from aiortc.codecs.opus import OpusEncoder
from aiortc.rtcrtpparameters import RTCRtpCodecParameters
from av import AudioFrame

from voice_backend.audio import OpusEncoder as OurEncoder
from warp_tools.audio import packaged_sound
from warp_tools.bench import aiortc_talker
from warp_tools.bench.aiortc_talker import AiortcTalker
from warp_tools.opus import FRAME_SAMPLES, SAMPLE_RATE

OPUS = RTCRtpCodecParameters(mimeType="audio/opus", clockRate=48000, channels=2, payloadType=111)


def sizes(encoder: Any, frames: int = 50) -> list[int]:
    """Bytes of each payload of the packaged speech, as aiortc's tracks have it: two channels."""
    sound, found = packaged_sound("speech"), []
    for at in range(0, frames * FRAME_SAMPLES, FRAME_SAMPLES):
        pair = np.repeat(sound[at : at + FRAME_SAMPLES], 2)[None]
        frame = AudioFrame.from_ndarray(pair, format="s16", layout="stereo")
        frame.sample_rate, frame.pts = SAMPLE_RATE, at
        payloads, _ = encoder.encode(frame)
        found += [len(payload) for payload in payloads]
    return found


def test_aiortc_is_told_what_ours_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(codecs, "OpusEncoder", OpusEncoder)  # to be put back
    monkeypatch.setattr(aiortc_talker, "keep_to_loopback", lambda: None)
    asyncio.run(AiortcTalker(as_released=True).prepare("server"))
    assert type(codecs.get_encoder(OPUS)) is OpusEncoder
    asyncio.run(AiortcTalker().prepare("server"))
    theirs = sizes(codecs.get_encoder(OPUS))
    ours, sound = OurEncoder(), packaged_sound("speech")
    mine = [len(ours.encode(sound[n : n + FRAME_SAMPLES])) for n in range(0, 50 * 960, 960)]
    assert sum(theirs) == pytest.approx(sum(mine), rel=0.05)
