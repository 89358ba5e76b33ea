"""One track for several consumers: a task reads it as long as anybody listens.

track ─▶ MediaRelay ─┬▶ proxy of one consumer
                     └▶ proxy of another
"""

from __future__ import annotations

import asyncio
from collections import deque
from typing import Any

from warp.compat.aiortc.mediastreams import MediaStreamError, MediaStreamTrack

MAX_WAITING = 512
"""Frames that a buffered proxy keeps, about ten seconds; then the oldest goes."""


class RelayStreamTrack(MediaStreamTrack):
    """What one consumer gets of a relayed track."""

    def __init__(self, relay: MediaRelay, source: MediaStreamTrack, buffered: bool) -> None:
        super().__init__()
        self.kind = source.kind
        self._relay = relay
        self._source = source
        self._frames: deque[Any] = deque(maxlen=MAX_WAITING if buffered else 1)
        self._arrived = asyncio.Event()
        self._buffered = buffered
        self._over = False

    async def recv(self) -> Any:
        """Return the next frame, unbuffered the next that comes; `MediaStreamError` at the end."""
        if self.readyState != "live":
            raise MediaStreamError
        self._relay.join(self, self._source)
        if not self._buffered:
            self._frames.clear()
        while not self._frames:
            if self._over or self.readyState != "live":
                self.stop()
                raise MediaStreamError
            self._arrived.clear()
            await self._arrived.wait()
        return self._frames.popleft()

    def put(self, frame: Any) -> None:
        """Take in a frame of the source's; None: it has ended."""
        if frame is None:
            self._over = True
        else:
            self._frames.append(frame)
        self._arrived.set()

    def stop(self) -> None:
        """Listen no more; the source goes on."""
        super().stop()
        self._relay.leave(self, self._source)
        self._arrived.set()


class MediaRelay:
    """Hands each frame of a track to all who subscribed to it."""

    def __init__(self) -> None:
        self._proxies: dict[MediaStreamTrack, set[RelayStreamTrack]] = {}
        self._tasks: dict[MediaStreamTrack, asyncio.Task[None]] = {}

    def subscribe(self, track: MediaStreamTrack, buffered: bool = True) -> MediaStreamTrack:
        """Return a track that gives what `track` gives, from its first `recv` on.

        Buffered, a slow consumer misses nothing for ten seconds; unbuffered, it always gets the
        newest frame.
        """
        return RelayStreamTrack(self, track, buffered)

    def join(self, proxy: RelayStreamTrack, source: MediaStreamTrack) -> None:
        """Begin to feed a proxy; called by itself, any number of times."""
        proxies = self._proxies.setdefault(source, set())
        proxies.add(proxy)
        if source not in self._tasks:
            self._tasks[source] = asyncio.ensure_future(self._run(source))

    def leave(self, proxy: RelayStreamTrack, source: MediaStreamTrack) -> None:
        """Feed a proxy no more; the last one lets the source be."""
        proxies = self._proxies.get(source)
        if proxies is None:
            return
        proxies.discard(proxy)
        if not proxies:
            del self._proxies[source]
            task = self._tasks.pop(source, None)
            if task is not None:
                task.cancel()

    async def _run(self, source: MediaStreamTrack) -> None:
        try:
            while True:
                frame = await source.recv()
                for proxy in list(self._proxies.get(source, ())):
                    proxy.put(frame)
        except MediaStreamError:
            pass
        finally:
            # a task that was cancelled has been replaced already, if anybody came back
            if self._tasks.get(source) is asyncio.current_task():
                del self._tasks[source]
                for proxy in self._proxies.pop(source, set()):
                    proxy.put(None)
