"""One wake-up of the event loop for many sockets that have something to read.

A client has sockets of its own for every call. An event loop looks a callback up, queues it and
runs it for each of them; here a poll of their own watches them, and the loop watches that.

    sockets ─▶ poll ─ something is there ─▶ event loop ─▶ the reader of every socket that has it

Called by `warp.io.driver`; where the system has no such poll, the event loop takes its place.
"""

from __future__ import annotations

import asyncio
import select
from collections.abc import Callable
from typing import Protocol

_MAX_EVENTS = 256


class Watch(Protocol):
    """Who calls back when a descriptor is ready: an event loop, or `Readers`."""

    def add_reader(self, fd: int, callback: Callable[[], object], /) -> object:
        """Call `callback` whenever there is something to read."""

    def remove_reader(self, fd: int, /) -> object:
        """Do so no more."""

    def add_writer(self, fd: int, callback: Callable[[], object], /) -> object:
        """Call `callback` whenever there is room to write."""

    def remove_writer(self, fd: int, /) -> object:
        """Do so no more."""


class Readers:
    """Watches any number of descriptors for reading through one that the event loop watches."""

    __slots__ = ("_loop", "_poll", "_readers", "add_writer", "remove_writer")

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._readers: dict[int, Callable[[], object]] = {}
        self._poll: select.epoll | None = None
        # seldom wanted: a kernel that takes no more datagrams
        self.add_writer = loop.add_writer
        self.remove_writer = loop.remove_writer

    def add_reader(self, fd: int, callback: Callable[[], object], /) -> None:
        """Call `callback` whenever there is something to read."""
        poll = self._poll
        if poll is None:
            poll = self._poll = select.epoll()
            self._loop.add_reader(poll.fileno(), self._wake)
        poll.register(fd, select.EPOLLIN)
        self._readers[fd] = callback

    def remove_reader(self, fd: int, /) -> None:
        """Do so no more; with the last one the poll is closed."""
        poll = self._poll
        if poll is None or self._readers.pop(fd, None) is None:
            return
        poll.unregister(fd)
        if not self._readers:
            self._loop.remove_reader(poll.fileno())
            poll.close()
            self._poll = None

    def _wake(self) -> None:
        if self._poll is None:
            return
        for fd, _ in self._poll.poll(0, _MAX_EVENTS):
            reader = self._readers.get(fd)
            if reader is None:
                continue  # what another one read has closed it
            try:
                reader()
            except Exception as error:
                text = "a socket's reader failed"
                self._loop.call_exception_handler({"message": text, "exception": error})


def watch_many(loop: asyncio.AbstractEventLoop) -> Watch:
    """Return what watches many sockets at the least cost."""
    return Readers(loop) if hasattr(select, "epoll") else loop
