"""Tracks: where sound comes from. Yours are pulled by a sender, the peer's are yours to pull.

class Tone(MediaStreamTrack):        frame = await track.recv()   av.AudioFrame
    kind = "audio"                   MediaStreamError: the track has ended
    async def recv(self): ...
"""

from __future__ import annotations

import asyncio
import uuid
from typing import Any

from warp.compat.aiortc.codec import silence
from warp.compat.aiortc.emitter import Emitter
from warp.entropy import SystemEntropy

AUDIO_PTIME = 0.020
"""Seconds of sound in one frame."""
_RATE = 8_000
_SAMPLES = int(AUDIO_PTIME * _RATE)


class MediaStreamError(Exception):
    """The track has ended: no more frames will come."""


class MediaStreamTrack(Emitter):
    """A source of frames; emits "ended" once. Subclasses set `kind` and define `recv`."""

    kind = "unknown"

    def __init__(self) -> None:
        super().__init__()
        self._ended = False
        self._id = str(uuid.UUID(bytes=SystemEntropy().random_bytes(16), version=4))

    @property
    def id(self) -> str:
        """A globally unique name."""
        return self._id

    @property
    def readyState(self) -> str:
        """Either "live" or "ended"."""
        return "ended" if self._ended else "live"

    async def recv(self) -> Any:
        """Return the next frame; raises `MediaStreamError` at the end."""
        raise NotImplementedError

    def stop(self) -> None:
        """End the track; harmless when repeated."""
        if not self._ended:
            self._ended = True
            self.emit("ended")
            self.remove_all_listeners()


class AudioStreamTrack(MediaStreamTrack):
    """Silence in real time: 20 ms frames, mono, 8 kHz."""

    kind = "audio"

    def __init__(self) -> None:
        super().__init__()
        self._began: float | None = None
        self._at = 0

    async def recv(self) -> Any:
        """Return the next frame of silence when it is due."""
        if self.readyState != "live":
            raise MediaStreamError
        loop = asyncio.get_running_loop()
        if self._began is None:
            self._began = loop.time()
        else:
            self._at += _SAMPLES
            await asyncio.sleep(self._began + self._at / _RATE - loop.time())
        frame = silence(_SAMPLES, layout="mono", rate=_RATE)
        frame.pts = self._at
        return frame
