"""What aiortc says and hears, as sound."""

from __future__ import annotations

import asyncio
import contextlib
import fractions
from typing import TYPE_CHECKING, Any

import av
import numpy as np

from warp_tools.audio import packaged_sound
from warp_tools.opus import FRAME_SAMPLES, SAMPLE_RATE, Samples, frames_of

if TYPE_CHECKING:
    from aiortc import MediaStreamTrack, RTCPeerConnection

CLIP_S = 2.4
_TIME_BASE = fractions.Fraction(1, SAMPLE_RATE)
_FRAME_S = FRAME_SAMPLES / SAMPLE_RATE


def clip(name: str, *, start_s: float = 0.3) -> Samples:
    """Return a part of a packaged recording, followed by a silence that flushes buffers."""
    sound = packaged_sound(name)
    at = int(start_s * SAMPLE_RATE)
    return sound[at : at + int(CLIP_S * SAMPLE_RATE)]


def speaker(sound: Samples) -> MediaStreamTrack:
    """Return a track that says `sound` in real time and is silent afterwards."""
    from aiortc import MediaStreamTrack

    class Speaker(MediaStreamTrack):
        kind = "audio"

        def __init__(self) -> None:
            super().__init__()
            self._frames = frames_of(sound)
            self._count = 0
            self._began = 0.0

        async def recv(self) -> Any:
            loop = asyncio.get_running_loop()
            self._began = self._began or loop.time()
            await asyncio.sleep(self._began + self._count * _FRAME_S - loop.time())
            silence = np.zeros(FRAME_SAMPLES, np.int16)
            samples = self._frames[self._count] if self._count < len(self._frames) else silence
            frame = av.AudioFrame.from_ndarray(samples.reshape(1, -1), "s16", "mono")
            frame.sample_rate = SAMPLE_RATE
            frame.time_base = _TIME_BASE
            frame.pts = self._count * FRAME_SAMPLES
            self._count += 1
            return frame

    return Speaker()


class Ear:
    """Records the track that aiortc receives."""

    def __init__(self, peer: RTCPeerConnection) -> None:
        self._parts: list[Samples] = []
        self._tasks: list[asyncio.Task[None]] = []
        self.ended = asyncio.Event()
        peer.on("track", self._listen)

    def _listen(self, track: MediaStreamTrack) -> None:
        track.on("ended", self.ended.set)
        self._tasks.append(asyncio.ensure_future(self._record(track)))

    async def _record(self, track: MediaStreamTrack) -> None:
        from aiortc.mediastreams import MediaStreamError

        with contextlib.suppress(MediaStreamError):
            while True:
                frame = await track.recv()
                # interleaved stereo: both channels carry the same voice
                self._parts.append(frame.to_ndarray()[0, ::2].astype(np.int16))

    @property
    def seconds(self) -> float:
        """How much was heard."""
        return sum(len(part) for part in self._parts) / SAMPLE_RATE

    def samples(self) -> Samples:
        """Return everything heard."""
        return np.concatenate([np.zeros(0, np.int16), *self._parts])
