"""What takes tens of seconds: a tab that is closed, a laptop asleep, a server that vanishes.

The stories are told at the same time, each with a server, a wire and a page of its own.
"""

from __future__ import annotations

import asyncio

import pytest

from interop.browser import Browser
from tests.interop.browsers import PageCall, page_calls, prepared, talk
from tests.interop.chromium import DEFAULT, Chromiums
from tests.interop.loops import run, sound
from warp.errors import ConsentLost
from warp.io import ServerConfig
from warp.peer import ConnectionState

pytestmark = [pytest.mark.interop, pytest.mark.slow]

SLEEP_S = 20.0
NAP_S = 12.0
"""Shorter than the 15 s after which Chromium gives a path up."""
CONSENT_S = 30.0
MARGIN_S = 6.0
WAKE_S = 6.0
TOGETHER_S = 60.0


async def fall_asleep(call: PageCall, seconds: float) -> None:
    """Both ends say something, and nothing arrives anywhere for a while."""
    await talk(call, "before")
    assert call.channel is not None
    call.wire.rule = lambda rung: None
    call.channel.send("from us into the dark")
    await call.peer.send("talk", "from it into the dark")
    await asyncio.sleep(seconds)
    call.wire.rule = None


async def wake_up(call: PageCall) -> None:
    """Nothing that was said is lost; voice and channel are there again."""
    assert call.channel is not None
    async with asyncio.timeout(WAKE_S):
        assert await anext(call.channel) == "from it into the dark"
        assert await call.peer.receive("talk") == ["from us into the dark"]
        call.session.audio_in.take()
        await sound(call.session)
        await talk(call, "after")
    assert call.session.state is ConnectionState.CONNECTED


async def a_nap(browser: Browser) -> None:
    """Chromium has been disconnected, not failed: it finds back by itself."""
    async with page_calls(browser, prepare=prepared, audio="microphone") as call:
        await fall_asleep(call, NAP_S)
        await wake_up(call)
        marks = await call.peer.marks()
        assert "connection:disconnected" in marks
        assert "connection:failed" not in marks


async def asleep_with_a_full_server(browser: Browser) -> None:
    """Chromium has given up; our own checks bring it back."""
    server = ServerConfig(lite=False)
    async with page_calls(browser, server, prepare=prepared, audio="microphone") as call:
        await fall_asleep(call, SLEEP_S)
        await wake_up(call)
        assert "connection:failed" in await call.peer.marks()


async def asleep_with_a_lite_server(browser: Browser) -> None:
    """Chromium has given up and asks no more; its page restarts ICE, and the call goes on."""
    async with page_calls(browser, prepare=prepared, audio="microphone") as call:
        await fall_asleep(call, SLEEP_S)
        await call.peer.happened("connection:failed")
        await call.peer.signal("/again", iceRestart=True)
        await wake_up(call)


async def a_tab_is_closed(browser: Browser) -> None:
    """Chromium ends the page without a word; consent tells, and in time."""
    async with page_calls(browser, prepare=prepared, audio="microphone") as call:
        await talk(call, "before")
        loop = asyncio.get_running_loop()
        begin = loop.time()
        await call.page.close()
        error = await call.session.closed
        assert isinstance(error, ConsentLost)
        assert CONSENT_S - MARGIN_S < loop.time() - begin < CONSENT_S + MARGIN_S


async def a_server_vanishes(browser: Browser) -> None:
    """No goodbye: the page is told by ICE, and a new call from the same page works."""
    async with page_calls(browser, prepare=prepared, audio="microphone") as call:
        await talk(call, "before")
        call.wire.rule = lambda rung: None
        loop = asyncio.get_running_loop()
        begin = loop.time()
        await call.peer.happened("connection:disconnected", within_s=10)
        await call.peer.happened("connection:failed", within_s=30)
        assert loop.time() - begin < 25
        call.wire.rule = None
        number = await call.page.call("connect", "/offer", {"audio": "microphone"})
        await call.page.call("happened", number, "connection:connected")


def test_absences(chromium: Chromiums) -> None:
    async def test() -> None:
        async with chromium(DEFAULT).attach() as browser, asyncio.TaskGroup() as group:
            for story in (
                a_nap,
                asleep_with_a_full_server,
                asleep_with_a_lite_server,
                a_tab_is_closed,
                a_server_vanishes,
            ):
                group.create_task(story(browser), name=story.__name__)

    run(test(), seconds=TOGETHER_S)
