"""Where tracks end: in a file, or nowhere."""

from __future__ import annotations

import asyncio
import contextlib
from typing import Any

from warp.compat.aiortc.codec import load_av
from warp.compat.aiortc.exceptions import InvalidStateError, NotSupportedError
from warp.compat.aiortc.mediastreams import MediaStreamError, MediaStreamTrack

_CODECS = {"wav": "pcm_s16le", "alsa": "pcm_s16le", "pulse": "pcm_s16le", "mp3": "mp3",
           "ogg": "libopus", "webm": "libopus", "opus": "libopus"}  # fmt: skip


class MediaBlackhole:
    """Consumes tracks and keeps nothing."""

    def __init__(self) -> None:
        self._tasks: dict[MediaStreamTrack, asyncio.Future[None] | None] = {}

    def addTrack(self, track: MediaStreamTrack) -> None:
        """Consume this track, once started."""
        self._tasks.setdefault(track, None)

    async def start(self) -> None:
        """Begin with the tracks that are not consumed yet."""
        for track, task in self._tasks.items():
            if task is None:
                self._tasks[track] = asyncio.ensure_future(self._consume(track))

    async def stop(self) -> None:
        """End; harmless when repeated."""
        tasks, self._tasks = self._tasks, {}
        for task in tasks.values():
            if task is not None:
                task.cancel()
        await asyncio.gather(*(t for t in tasks.values() if t), return_exceptions=True)

    async def _consume(self, track: MediaStreamTrack) -> None:
        with contextlib.suppress(MediaStreamError):
            while True:
                await track.recv()


class MediaRecorder:
    """Writes the sound of tracks into a file that FFmpeg knows: wav, ogg, mp3, mp4, webm."""

    def __init__(
        self, file: Any, format: str | None = None, options: dict[str, str] | None = None
    ) -> None:
        """Open the file for writing; raises what PyAV raises when it cannot."""
        self._av = load_av()
        self._container = self._av.open(file=file, format=format, mode="w", options=options or {})
        self._streams: dict[MediaStreamTrack, Any] = {}
        self._tasks: dict[MediaStreamTrack, asyncio.Future[None]] = {}

    def addTrack(self, track: MediaStreamTrack) -> None:
        """Record this track, once started.

        Raises `NotSupportedError` for video and `InvalidStateError` once stopped.
        """
        if self._container is None:
            raise InvalidStateError("the recorder was stopped: make another")
        if track.kind != "audio":
            raise NotSupportedError("video is not supported: only audio can be recorded")
        codec = _CODECS.get(self._container.format.name, "aac")
        self._streams[track] = self._container.add_stream(codec, rate=48_000)

    async def start(self) -> None:
        """Begin with the tracks that are not recorded yet."""
        for track, stream in self._streams.items():
            if track not in self._tasks:
                self._tasks[track] = asyncio.ensure_future(self._record(track, stream))

    async def stop(self) -> None:
        """Finish the file; raises what kept it from being written. Harmless when repeated."""
        container, self._container = self._container, None
        if container is None:
            return
        for task in self._tasks.values():
            task.cancel()
        results = await asyncio.gather(*self._tasks.values(), return_exceptions=True)
        try:
            for result in results:
                if isinstance(result, Exception):
                    raise result
            for track, stream in self._streams.items():
                if track in self._tasks:
                    for packet in stream.encode(None):
                        container.mux(packet)
        finally:
            container.close()

    async def _record(self, track: MediaStreamTrack, stream: Any) -> None:
        container = self._container
        with contextlib.suppress(MediaStreamError):
            while True:
                frame = await track.recv()
                # frames follow each other in the file whatever their sources count from
                frame.pts = None
                for packet in stream.encode(frame):
                    container.mux(packet)
