"""A queue with an end: what a session's asynchronous iterators are made of."""

from __future__ import annotations

import asyncio
from collections import deque
from typing import Generic, TypeVar

T = TypeVar("T")


class Inbox(Generic[T]):
    """Filled by the machines, read by `async for`; ends once it is closed and empty.

    Any number of tasks may read; each item goes to one of them. Costs no task while it waits.
    """

    __slots__ = ("_closed", "_items", "_waiters")

    def __init__(self) -> None:
        self._items: deque[T] = deque()
        self._waiters: deque[asyncio.Future[None]] = deque()
        self._closed = False

    @property
    def unread(self) -> int:
        """How many items wait for a reader."""
        return len(self._items)

    def __aiter__(self) -> Inbox[T]:
        return self

    async def __anext__(self) -> T:
        while not self._items:
            if self._closed:
                raise StopAsyncIteration
            waiter = asyncio.get_running_loop().create_future()
            self._waiters.append(waiter)
            try:
                await waiter
            except asyncio.CancelledError:
                # what woke this reader may be for another one
                if waiter.done() and not waiter.cancelled():
                    self._wake_one()
                elif waiter in self._waiters:
                    self._waiters.remove(waiter)
                raise
        return self._items.popleft()

    def put(self, item: T) -> None:
        """Add an item; after the end it is forgotten."""
        if not self._closed:
            self._items.append(item)
            self._wake_one()

    def close(self) -> None:
        """End the iteration after what is still here; harmless when repeated."""
        self._closed = True
        while self._waiters:
            self._wake_one()

    def _wake_one(self) -> None:
        while self._waiters:
            waiter = self._waiters.popleft()
            if not waiter.done():
                waiter.set_result(None)
                return
