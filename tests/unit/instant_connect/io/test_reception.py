"""What answers calls: functions, coroutines, and what happens when they fail or do not end."""

from __future__ import annotations

import asyncio
import gc
import weakref
from typing import Any

import pytest

from instant_connect.io import CallInfo, events_channel
from tests.unit.instant_connect.io.site import CALLS, HOST, SDP, Site, open_site
from tests.unit.io.support import play, turns
from warp.io import ClientConfig, Session, UsageError, connect


async def call(site: Site, path: str = "/whip") -> Session:
    """A client of our own, connected."""

    async def signal(offer: str) -> str:
        response = await site.client.post(path, content=offer, headers=SDP)
        assert response.status_code == 201, response.text
        return response.text

    return await connect(signal, config=ClientConfig(host=HOST, loopback=True))


def test_a_coroutine_lives_as_long_as_it_likes() -> None:
    done: list[str] = []

    async def accept(session: Session, info: CallInfo) -> None:
        done.append("begun")
        await session.closed
        done.append("ended")

    async def story() -> None:
        async with open_site(accept) as site:
            place = (await site.post()).headers["location"]
            await turns()
            assert done == ["begun"]
            await site.client.delete(place)
            await turns()
            assert done == ["begun", "ended"]

    play(story)


def test_nothing_is_kept_of_an_application_whose_call_is_over() -> None:
    async def accept(session: Session, info: CallInfo) -> None:
        await session.closed

    async def story() -> None:
        async with open_site(accept) as site:
            before = len(asyncio.all_tasks())
            kept: list[weakref.ref[asyncio.Task[Any]]] = []
            for _ in range(3):
                place = (await site.post()).headers["location"]
                kept += [weakref.ref(task) for task in asyncio.all_tasks() if attends(task)]
                await site.client.delete(place)
                await turns()
            assert len(kept) == 3
            assert len(asyncio.all_tasks()) == before
            gc.collect()
            assert [task() for task in kept] == [None] * 3

    play(story)


def attends(task: asyncio.Task[Any]) -> bool:
    return "_attend" in repr(task.get_coro())


def test_a_coroutine_that_fails_ends_its_call_alone() -> None:
    async def accept(session: Session, info: CallInfo) -> None:
        if len(reported) == 0:
            raise ZeroDivisionError("a bug")
        await session.closed

    reported: list[str] = []

    def note(_: object, context: dict[str, Any]) -> None:
        reported.append(repr(context["exception"]))

    async def story() -> None:
        async with open_site(accept) as site:
            asyncio.get_running_loop().set_exception_handler(note)
            await site.post()
            [session] = site.server.sessions
            assert await session.closed is None
            assert reported == ["ZeroDivisionError('a bug')"]
            assert (await site.post(CALLS)).status_code == 201
            await turns()
            assert len(site.server.sessions) == 1

    play(story)


def test_words_into_a_call_that_has_ended_are_no_news() -> None:
    async def accept(session: Session, info: CallInfo) -> None:
        await session.closed
        raise UsageError("the connection has ended")

    async def story() -> None:
        async with open_site(accept) as site:
            await site.client.delete((await site.post()).headers["location"])

    play(story)


@pytest.mark.slow
def test_an_application_that_does_not_end_is_ended() -> None:
    ended: list[bool] = []

    async def accept(session: Session, info: CallInfo) -> None:
        try:
            await asyncio.Event().wait()
        finally:
            ended.append(session.closed.done())

    async def story() -> None:
        async with open_site(accept) as site:
            await site.post()
            await turns()
        # the call first, then whoever still holds on to it
        assert ended == [True]

    play(story)


@pytest.mark.parametrize("path", [CALLS, f"{CALLS}?dcid=2"])
def test_events_reach_the_application_either_way(path: str) -> None:
    async def accept(session: Session, info: CallInfo) -> None:
        events = await events_channel(session, info)
        await events.opened()
        events.send("hello")
        async for message in events:
            events.send(f"heard {message!r}")

    async def story() -> None:
        async with open_site(accept) as site, await call(site, path) as session:
            if path == CALLS:
                stray = session.channel("something else")
                events = session.channel("oai-events")
            else:
                stray = None
                events = session.channel("oai-events", negotiated=True, stream_id=2)
            assert await anext(events) == "hello"
            events.send("news")
            assert await anext(events) == "heard 'news'"
            if stray is not None:
                assert [message async for message in stray] == []

    play(story)


def test_a_call_that_ends_before_its_events_begin() -> None:
    raised: list[str] = []

    async def accept(session: Session, info: CallInfo) -> None:
        try:
            await events_channel(session, info)
        except UsageError as error:
            raised.append(str(error))

    async def story() -> None:
        async with open_site(accept) as site:
            await site.client.delete((await site.post(CALLS)).headers["location"])
            await turns()

    play(story)
    assert raised == ["the call ended before it had a channel for events"]
