"""The peer's sound as a track: payloads in order are decoded when somebody asks for them."""

from __future__ import annotations

import asyncio
from collections import deque
from typing import TYPE_CHECKING, Any

from warp.compat.aiortc.codec import OpusDecoder
from warp.compat.aiortc.mediastreams import MediaStreamError, MediaStreamTrack
from warp.compat.aiortc.stats import RTCStatsReport, inbound

if TYPE_CHECKING:
    from warp.compat.aiortc.call import Call


class RemoteStreamTrack(MediaStreamTrack):
    """What the peer says: 20 ms frames as a rule, s16, stereo, 48 kHz.

    What nobody reads is kept for about ten seconds; then the oldest goes.
    """

    kind = "audio"

    def __init__(self, call: Call, track_id: str) -> None:
        super().__init__()
        self._call = call
        self._id = track_id or self._id
        self._decoder: OpusDecoder | None = None
        self._frames: deque[Any] = deque()
        self._turn: asyncio.Lock | None = None

    async def recv(self) -> Any:
        """Return the next `av.AudioFrame`; raises `MediaStreamError` at the end.

        Several readers share the frames; `MediaRelay` gives each of them all.
        """
        if self.readyState != "live":
            raise MediaStreamError
        if self._decoder is None:
            self._decoder = OpusDecoder()
        if self._turn is None:
            self._turn = asyncio.Lock()
        async with self._turn:
            while not self._frames:
                try:
                    heard = await anext(self._call.audio_in)
                except StopAsyncIteration:
                    self.stop()
                    raise MediaStreamError from None
                self._frames.extend(self._decoder.decode(heard))
            return self._frames.popleft()

    def receive_end(self) -> None:
        """Nothing more will come: a reader takes what is left first."""
        if self._decoder is None:
            self.stop()


class RTCRtpReceiver:
    """The receiving half of a transceiver."""

    def __init__(self, kind: str) -> None:
        self._kind = kind
        self._track: RemoteStreamTrack | None = None
        self._call: Call | None = None

    @property
    def track(self) -> MediaStreamTrack | None:
        """The peer's track; None until a description of the peer's says that it sends."""
        return self._track

    async def getStats(self) -> RTCStatsReport:
        """Return what is known about the stream that comes in."""
        return RTCStatsReport() if self._call is None else inbound(self._call)

    def receive_track(self, call: Call, track_id: str) -> MediaStreamTrack:
        """Make the track of a peer that sends; called by the connection."""
        self._call = call
        self._track = RemoteStreamTrack(call, track_id)
        return self._track

    async def stop(self) -> None:
        """End the track for good."""
        if self._track is not None:
            self._track.stop()

    def receive_end(self) -> None:
        """The call has ended; called by the connection."""
        if self._track is not None:
            self._track.receive_end()
