"""A track as what we say: pulled, encoded, sent.

track.recv() ─▶ OpusEncoder ─▶ audio_out, paced
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from warp.compat.aiortc.codec import OpusEncoder
from warp.compat.aiortc.exceptions import InvalidAccessError
from warp.compat.aiortc.mediastreams import MediaStreamError, MediaStreamTrack
from warp.compat.aiortc.stats import RTCStatsReport, outbound
from warp.errors import WarpError

if TYPE_CHECKING:
    from warp.compat.aiortc.call import Call

AHEAD_MS = 60.0
"""A track that does not pace itself is asked for no more than this before its time."""


class RTCRtpSender:
    """The sending half of a transceiver."""

    def __init__(self, track: MediaStreamTrack | None, kind: str) -> None:
        self._track = track
        self._kind = kind
        self._call: Call | None = None
        self._task: asyncio.Task[None] | None = None
        self._changed = asyncio.Event()

    @property
    def kind(self) -> str:
        """What it sends: "audio"."""
        return self._kind

    @property
    def track(self) -> MediaStreamTrack | None:
        """The track that is sent, or None."""
        return self._track

    def replaceTrack(self, track: MediaStreamTrack | None) -> None:
        """Send another track from the next frame on, or none."""
        if track is not None and track.kind != self._kind:
            raise InvalidAccessError(f"this sender takes {self._kind} tracks, not {track.kind}")
        self._track = track
        self._changed.set()

    async def getStats(self) -> RTCStatsReport:
        """Return what is known about the stream that goes out."""
        if self._call is None:
            return RTCStatsReport()
        return outbound(self._call, self._track.id if self._track is not None else "")

    def start(self, call: Call) -> None:
        """Send from the connection on; called by the connection, any number of times."""
        self._call = call
        if self._task is None:
            self._task = call.driver.loop.create_task(self._run(call))

    def pause(self) -> None:
        """Send no more until `start`; called when a description says so."""
        task, self._task = self._task, None
        if task is not None:
            task.cancel()

    async def stop(self) -> None:
        """Send no more, and end the track."""
        task = self._task
        self.receive_end()
        if task is not None and task is not asyncio.current_task():
            await asyncio.gather(task, return_exceptions=True)

    def receive_end(self) -> None:
        """The call has ended, and with it the track; called by the connection."""
        self.pause()
        track, self._track = self._track, None
        if track is not None:
            track.stop()

    async def _run(self, call: Call) -> None:
        try:
            await call.connected()
            encoder = OpusEncoder()
            while not call.closed.done():
                await self._send_one(call, encoder)
        except (WarpError, asyncio.CancelledError) as error:
            if not call.closed.done() and isinstance(error, WarpError):
                self._report(error)
        except Exception as error:
            self._report(error)

    async def _send_one(self, call: Call, encoder: OpusEncoder) -> None:
        """Send a frame of the track, or wait for a track."""
        track = self._track
        if track is None or track.readyState != "live":
            self._changed.clear()
            await self._changed.wait()
            return
        try:
            frame = await track.recv()
        except MediaStreamError:
            track.stop()
            return
        out = call.audio_out
        for payload in encoder.encode(frame):
            out.send(payload)
        if out.queued_ms > AHEAD_MS:
            await asyncio.sleep((out.queued_ms - AHEAD_MS) / 1000)

    def _report(self, error: Exception) -> None:
        if self._track is not None:
            self._track.stop()
        text = "a track failed: nothing more is sent of it"
        context = {"message": text, "exception": error}
        asyncio.get_running_loop().call_exception_handler(context)
