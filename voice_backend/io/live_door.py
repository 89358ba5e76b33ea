"""A client's connection to a live session, on its way out: bounded, and one writer each.

    LiveRun ─ send(text), sound(text) ─▶ Door ─ queue ─▶ writer task ─▶ WebSocket | data channel

Sound that a slow client does not fetch is dropped first; a client that does not even fetch events
is let go.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections import deque
from collections.abc import Awaitable, Callable
from typing import Final

MAX_SOUND: Final = 100
"""Pieces of sound that wait: 2 s."""
MAX_EVENTS: Final = 2_000
FLUSH_S: Final = 5.0
Write = Callable[[str], Awaitable[None]]


class Door:
    """One connection. `write` sends a text and waits as long as the client makes it wait."""

    __slots__ = (
        "_flush_s", "_is_over", "_queue", "_sound", "_task", "_wake", "_write", "dropped", "ended",
    )  # fmt: skip

    def __init__(self, write: Write, flush_s: float = FLUSH_S) -> None:
        """`flush_s` is how long `close` waits for the client."""
        self._write = write
        self._flush_s = flush_s
        self._queue: deque[tuple[bool, str]] = deque()
        self._sound = 0
        self._is_over = False
        self._wake = asyncio.Event()
        self.dropped = 0
        """Pieces of sound that the client did not fetch in time."""
        self.ended: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        """Done when nothing more can be sent."""
        self._task = asyncio.get_running_loop().create_task(self._run())

    def send(self, text: str) -> None:
        """Have an event sent."""
        if not self._is_over and len(self._queue) < MAX_EVENTS:
            self._queue.append((False, text))
            self._wake.set()
        elif not self._is_over:
            self._end()

    def sound(self, text: str) -> None:
        """Have a piece of sound sent, or dropped."""
        if self._is_over:
            return
        if self._sound >= MAX_SOUND:
            self.dropped += 1
            return
        self._sound += 1
        self._queue.append((True, text))
        self._wake.set()

    def flush_sound(self) -> None:
        """Drop the sound that waits: it is taken back."""
        self._queue = deque(item for item in self._queue if not item[0])
        self._sound = 0

    async def close(self) -> None:
        """Send what waits, for a moment at the most, and be over."""
        self._is_over = True
        self._wake.set()
        await asyncio.wait([self._task], timeout=self._flush_s)
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)
        self._end()

    async def _run(self) -> None:
        # whatever a write ends by, the connection is of no use any more
        with contextlib.suppress(Exception):
            while True:
                while self._queue:
                    is_sound, text = self._queue.popleft()
                    self._sound -= is_sound
                    await self._write(text)
                if self._is_over:
                    break
                self._wake.clear()
                await self._wake.wait()
        self._end()

    def _end(self) -> None:
        self._is_over = True
        self._queue.clear()
        self._wake.set()
        if not self.ended.done():
            self.ended.set_result(None)
