"""Many sockets behind one descriptor of the event loop."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from tests.unit.io.support import play
from warp.io import readers
from warp.io.readers import Readers, watch_many

Pairs = list[tuple[socket.socket, socket.socket]]


@contextmanager
def pairs(count: int) -> Iterator[Pairs]:
    made = [socket.socketpair() for _ in range(count)]
    try:
        yield made
    finally:
        for pair in made:
            for end in pair:
                end.close()


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(5):
        while not condition():
            await asyncio.sleep(0)


def test_every_socket_with_something_to_read_is_read() -> None:
    async def story() -> None:
        with pairs(5) as made:
            watch = Readers(asyncio.get_running_loop())
            heard: list[bytes] = []
            for near, far in made:
                watch.add_reader(near.fileno(), lambda near=near: heard.append(near.recv(9)))
                far.send(b"%d" % far.fileno())
            await until(lambda: len(heard) == 5)
            assert sorted(heard) == sorted(b"%d" % far.fileno() for _, far in made)
            for near, _ in made:
                watch.remove_reader(near.fileno())
                watch.remove_reader(near.fileno())

    play(story)


def test_the_poll_goes_with_the_last_socket_and_comes_with_another() -> None:
    async def story() -> None:
        with pairs(2) as made:
            watch = Readers(asyncio.get_running_loop())
            heard: list[bytes] = []
            for near, far in made:
                watch.add_reader(near.fileno(), lambda near=near: heard.append(near.recv(9)))
                assert watch._poll is not None
                watch.remove_reader(near.fileno())
                assert watch._poll is None
                far.send(b"unheard")
            watch._wake()
            await asyncio.sleep(0)
            assert heard == []

    play(story)


def test_a_reader_may_stop_another_and_one_that_fails_stops_nobody() -> None:
    async def story() -> None:
        loop = asyncio.get_running_loop()
        reported: list[dict[str, Any]] = []
        loop.set_exception_handler(lambda _, context: reported.append(context))
        with pairs(4) as made:
            watch = Readers(loop)
            ends = [near for near, _ in made]
            heard: list[int] = []

            def read(at: int) -> None:
                ends[at].recv(9)
                heard.append(at)
                if len(heard) == 1:
                    # whichever comes first stops all but one, which fails
                    others = [other for other in range(4) if other != at]
                    for other in others[1:]:
                        watch.remove_reader(ends[other].fileno())
                else:
                    raise ValueError("no")

            for at, (near, far) in enumerate(made):
                watch.add_reader(near.fileno(), lambda at=at: read(at))
                far.send(b"x")
            await until(lambda: bool(reported))
            assert len(heard) == 2
            assert [str(context["exception"]) for context in reported] == ["no"]
            for end in ends:
                watch.remove_reader(end.fileno())

    play(story)


def test_where_there_is_no_such_poll_the_event_loop_watches(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delattr(readers.select, "epoll", raising=False)

    async def story() -> None:
        loop = asyncio.get_running_loop()
        assert watch_many(loop) is loop

    play(story)
