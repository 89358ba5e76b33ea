"""The calling party: speaks a recording into a session and records what comes back."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from warp_tools.hearing import Recording
from warp_tools.opus import Samples

if TYPE_CHECKING:
    from warp.io import Session

QUEUE_MS = 1000
_STEP_S = 0.2
_AUDIBLE = 150


@dataclass(frozen=True, slots=True, kw_only=True)
class CallConfig:
    """How long a caller listens."""

    quiet_s: float = 1.5
    """The call is over when the other side has been quiet for so long, after our last word."""
    longest_tail_s: float = 20.0
    """And at the latest so long after our last word."""


async def speak(
    session: Session, payloads: Sequence[bytes], *, over: Callable[[], bool] | None = None
) -> None:
    """Send Opus payloads in real time; returns when the last one is queued, or it is `over`."""
    over = over or session.closed.done
    at = 0
    while at < len(payloads) and not over():
        while at < len(payloads) and session.audio_out.queued_ms < QUEUE_MS:
            session.audio_out.send(payloads[at])
            at += 1
        await asyncio.sleep(_STEP_S)


class Listener:
    """Records a session until it is told to stop or the session ends."""

    __slots__ = ("_last_word", "_loop", "_task", "recording")

    def __init__(self, session: Session) -> None:
        self._loop = asyncio.get_running_loop()
        self.recording = Recording()
        self._last_word = self._loop.time()
        self._task = self._loop.create_task(self._listen(session))

    @property
    def quiet_s(self) -> float:
        """For how long nothing audible has come."""
        return self._loop.time() - self._last_word

    async def stop(self) -> Samples:
        """Return everything that was heard."""
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)
        return self.recording.samples()

    async def _listen(self, session: Session) -> None:
        async for frame in session.audio_in:
            heard = self.recording.add(frame)
            if len(heard) and int(np.abs(heard).max()) > _AUDIBLE:
                self._last_word = self._loop.time()


async def hold_call(
    session: Session,
    payloads: Sequence[bytes],
    config: CallConfig | None = None,
    *,
    stop: asyncio.Event | None = None,
) -> Recording:
    """Speak (payloads of 20 ms), listen until the other side is done; return what was heard.

    `stop`, when it is set, ends the call before that.
    """

    def over() -> bool:
        return session.closed.done() or (stop is not None and stop.is_set())

    config = config or CallConfig()
    loop = asyncio.get_running_loop()
    listener = Listener(session)
    await speak(session, payloads, over=over)
    while session.audio_out.queued_ms and not over():
        await asyncio.sleep(_STEP_S)
    spoken = loop.time()
    while not over():
        tail = loop.time() - spoken
        if tail > config.longest_tail_s or (
            tail > config.quiet_s and listener.quiet_s > config.quiet_s
        ):
            break
        await asyncio.sleep(_STEP_S)
    await listener.stop()
    return listener.recording
