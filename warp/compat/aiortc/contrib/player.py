"""A file or device as a track: read by FFmpeg beside the event loop, paced by the clock."""

from __future__ import annotations

import asyncio
from collections import deque
from typing import Any

from warp.compat.aiortc.codec import FRAME_SAMPLES, SAMPLE_RATE, TIME_BASE, load_av
from warp.compat.aiortc.exceptions import NotSupportedError
from warp.compat.aiortc.mediastreams import MediaStreamError, MediaStreamTrack

_DEVICES = ("alsa", "avfoundation", "dshow", "gdigrab", "pulse", "v4l2", "v4l2,video4linux2")
"""Formats that come at their own pace."""


class PlayerStreamTrack(MediaStreamTrack):
    """The sound of a player: 20 ms frames, s16, stereo, 48 kHz, in real time."""

    kind = "audio"

    def __init__(self, player: MediaPlayer) -> None:
        super().__init__()
        self._player = player
        self._began: float | None = None
        self._at = 0

    async def recv(self) -> Any:
        """Return the next frame when it is due; raises `MediaStreamError` at the end."""
        if self.readyState != "live":
            raise MediaStreamError
        frame = await self._player.read()
        if frame is None:
            self.stop()
            raise MediaStreamError
        frame.pts, frame.time_base = self._at, TIME_BASE
        if self._player.paced:
            loop = asyncio.get_running_loop()
            if self._began is None:
                self._began = loop.time()
            await asyncio.sleep(self._began + self._at / SAMPLE_RATE - loop.time())
        self._at += frame.samples
        return frame

    def stop(self) -> None:
        """End, and close the file."""
        super().stop()
        self._player.close()


class MediaPlayer:
    """Reads sound from whatever FFmpeg opens: a path, a URL, a device, a file object."""

    def __init__(
        self,
        file: Any,
        format: str | None = None,
        options: dict[str, str] | None = None,
        timeout: int | None = None,
        loop: bool = False,
        decode: bool = True,
    ) -> None:
        """Open it; `timeout` in seconds for opening and reading, `loop` begins again at the end.

        Raises what PyAV raises for what cannot be opened, and `NotSupportedError` with
        `decode=False`.
        """
        if not decode:
            raise NotSupportedError("decode=False is not supported: frames are always decoded")
        self._av = load_av()
        self._container = self._av.open(
            file=file, format=format, mode="r", options=options or {}, timeout=timeout
        )
        self._loop = loop
        self._stream = next(iter(self._container.streams.audio), None)
        self._frames: deque[Any] = deque()
        self._source: Any = None
        self._resampler: Any = None
        self._reading: asyncio.Future[list[Any]] | None = None
        self._closed = False
        self._track = None if self._stream is None else PlayerStreamTrack(self)
        self.paced = self._container.format.name not in _DEVICES
        """Whether the clock has to pace it: a device paces itself."""
        if self._track is None:
            self.close()

    @property
    def audio(self) -> MediaStreamTrack | None:
        """The track of its sound; None when it has none."""
        return self._track

    @property
    def video(self) -> MediaStreamTrack | None:
        """Always None: this stack carries no video."""
        return None

    async def read(self) -> Any:
        """Return the next frame, or None at the end; called by the track."""
        while not self._frames:
            if self._closed:
                return None
            if self._reading is None:
                # FFmpeg blocks: on a disk for an instant, on a network or device for longer
                work = asyncio.get_running_loop().run_in_executor(None, self._decode)
                self._reading = work
                work.add_done_callback(self._receive)
            await asyncio.wait([self._reading])
        return self._frames.popleft()

    def close(self) -> None:
        """Close the file, after a read that is under way."""
        self._closed = True
        if self._reading is None:
            self._container.close()

    def _receive(self, work: asyncio.Future[list[Any]]) -> None:
        self._reading = None
        error = None if work.cancelled() else work.exception()
        if work.cancelled() or error is not None:
            self.close()
            if error is not None:
                text = "a player cannot read on: its track ends"
                work.get_loop().call_exception_handler({"message": text, "exception": error})
            return
        pieces = work.result()
        self._frames.extend(pieces)
        if not pieces or self._closed:
            self.close()

    def _decode(self) -> list[Any]:
        """Return some frames; none at the end. Runs in a thread, never twice at once."""
        again = self._loop
        while True:
            if self._source is None:
                self._source = self._container.decode(self._stream)
                self._resampler = self._av.AudioResampler(
                    format="s16", layout="stereo", rate=SAMPLE_RATE, frame_size=FRAME_SAMPLES
                )
            frame = next(self._source, None)
            if frame is not None:
                frame.pts = None
                pieces = list(self._resampler.resample(frame))
                if pieces:
                    return pieces
                continue
            rest = [] if self._resampler is None else list(self._resampler.resample(None))
            self._resampler = None
            if again:
                self._container.seek(0)
                self._source = None
                again = bool(rest)
                if rest:
                    return rest
                continue
            return rest
