"""Chromium's microphone over a path that loses and delays, heard by the voice's receive side."""

from __future__ import annotations

import asyncio

import numpy as np
import pytest

from tests.interop.browsers import page_calls
from tests.interop.chromium import DEFAULT, Chromiums
from tests.interop.loops import run
from tests.interop.paced import SAME, paced_likeness
from tests.interop.sound import clip
from voice_backend.audio import AudioReceiver, HeardFrame
from voice_backend.audio.resample import resampled
from warp.io import ServerConfig, Session
from warp_tools.opus import SAMPLE_RATE, Samples

pytestmark = [pytest.mark.interop, pytest.mark.slow]

RATE = 16_000
LONGEST_S = 25.0
"""A machine that is held up for a moment spoils a sentence; the next one comes."""
TRY_EACH_S = 0.5
LATEST = 8 * SAMPLE_RATE


class Ear:
    """Owes a frame each 20 ms by the clock, as a media loop does."""

    def __init__(self, session: Session) -> None:
        self.receiver = AudioReceiver(RATE)
        self.frames: list[HeardFrame] = []
        self._session = session
        self._loop = asyncio.get_running_loop()
        self._due = self._loop.time()

    async def listen(self, seconds: float) -> None:
        """Take what comes, and play what is due."""
        end = self._loop.time() + seconds
        while self._loop.time() < end:
            for frame in self._session.audio_in.take():
                self.receiver.receive_frame(frame)
            while self._due <= self._loop.time():
                self.frames.append(self.receiver.frame(self._due))
                self._due += 0.02
            await asyncio.sleep(max(self._due - self._loop.time(), 0))

    def heard(self) -> Samples:
        """Everything so far, at 48 kHz."""
        return resampled(np.concatenate([f.pcm for f in self.frames]), RATE, SAMPLE_RATE)


@pytest.mark.parametrize("loss", [0.0, 0.03])
def test_its_speech_is_whole_and_on_time(chromium: Chromiums, loss: float) -> None:
    async def test() -> None:
        async with (
            chromium(DEFAULT).attach() as browser,
            page_calls(
                browser,
                ServerConfig(audio_in_order=False),
                channels=[],
                audio="microphone",
                delay_s=0.02,
                loss=loss,
            ) as call,
        ):
            await call.session.connected()
            ear, wanted, found = Ear(call.session), clip("speech"), 0.0
            while found <= SAME and len(ear.frames) < LONGEST_S * 50:
                await ear.listen(TRY_EACH_S)
                heard = ear.heard()
                if len(heard) > len(wanted):
                    found = paced_likeness(wanted, heard[-LATEST:])
            assert found > SAME
            packets, counts = ear.receiver.packets, ear.receiver.counts
            assert packets.refused == packets.leapt == packets.restarts == 0
            assert packets.played > 100
            assert counts.frames == len(ear.frames)
            assert (packets.lost > 0) == (loss > 0) or packets.late
            # a path without jitter of its own; this machine may have some
            assert 20 <= ear.receiver.target_ms <= 200
            assert counts.concealed < 0.3 * counts.frames

    run(test(), seconds=90)
