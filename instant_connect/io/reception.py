"""Brings a new call and the application that answers it together, and sees the call out.

    Signalling ─ welcome ─▶ Reception ─▶ accept(session, info) ─ coroutine? ─▶ a task
    InstantServer ─ receive_arrival ┘
    session.closed ───────▶ Reception ─▶ Calls.remove

Called by `asgi`. What fails in the application ends its call and no other.
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import replace
from typing import Any, Final, cast

from instant_connect.calls import Call, CallInfo, Calls
from instant_connect.config import EVENTS
from instant_connect.exchange import Refusal
from warp.io import Channel, Session, UsageError

Accept = Callable[[Session, CallInfo], Awaitable[None] | None]
"""Answers a call: a function that returns soon, or a coroutine that lives as long as it likes.

It is entered before the client has our answer, so that what it sends first may leave at once; with
an `InstantServer`, when the client is proven.
"""
_GRACE_S: Final = 0.5


class Reception:
    """Runs the application of every call."""

    __slots__ = ("_accept", "_tasks", "_tidying")

    def __init__(self, accept: Accept) -> None:
        self._accept = accept
        self._tasks: set[asyncio.Task[None]] = set()
        self._tidying: set[asyncio.Task[None]] = set()

    def welcome(self, call: Call, calls: Calls) -> None:
        """Open the events channel, hand the call over; raises `Refusal` when that fails."""
        session = cast(Session, call.session)
        session.closed.add_done_callback(lambda _: calls.remove(call))
        try:
            answered = self._accept(session, _with_events(session, call.info))
        except UsageError as error:
            self._drop(session)
            raise Refusal(400, "invalid_request", str(error)) from error
        except Exception as error:
            self._report("the application that answers calls failed", error)
            self._drop(session)
            raise Refusal(500, "internal_error", "the call could not be answered") from error
        if inspect.isawaitable(answered):
            self._start(self._attend(session, answered), self._tasks)

    def receive_arrival(self, session: Session, info: CallInfo) -> None:
        """Hand over a call whose client is proven; when that fails the call ends."""
        try:
            answered = self._accept(session, info)
        except Exception as error:
            self._report("the application that answers calls failed", error)
            self._drop(session)
            return
        if inspect.isawaitable(answered):
            self._start(self._attend(session, answered), self._tasks)

    async def _attend(self, session: Session, answered: Awaitable[None]) -> None:
        try:
            await answered
        except Exception as error:
            # what a call's end does to whoever still speaks into it is no news
            if not session.closed.done():
                self._report("the application that answers a call failed", error)
                await session.close()

    def _drop(self, session: Session) -> None:
        self._start(session.close(), self._tidying)

    def _start(self, work: Coroutine[Any, Any, None], tasks: set[asyncio.Task[None]]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        tasks.add(task)
        task.add_done_callback(tasks.discard)

    def _report(self, message: str, error: Exception) -> None:
        context = {"message": message, "exception": error}
        asyncio.get_running_loop().call_exception_handler(context)

    async def close(self) -> None:
        """Wait a moment for the applications whose calls have ended, then cancel the rest."""
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=_GRACE_S)
        left = [*self._tasks, *self._tidying]
        for task in left:
            task.cancel()
        await asyncio.gather(*left, return_exceptions=True)


def _with_events(session: Session, info: CallInfo) -> CallInfo:
    """Declare the events channel that the client has declared (RFC 8832 section 2)."""
    if info.dcid is None:
        return info
    return replace(info, events=session.channel(EVENTS, negotiated=True, stream_id=info.dcid))


async def events_channel(session: Session, info: CallInfo) -> Channel:
    """Return the channel for events: the negotiated one, or the one that the client opens.

    Other channels that the client opens before it are closed. Raises `UsageError` when the call
    ends first.
    """
    if info.events is not None:
        return info.events
    async for channel in session.channels():
        if channel.label == EVENTS:
            return channel
        channel.close()
    raise UsageError("the call ended before it had a channel for events")
