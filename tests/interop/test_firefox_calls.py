"""A call with Firefox from its middle to its end: restarts, changes, moves, goodbyes."""

from __future__ import annotations

import asyncio

import pytest

from interop.browser import Browser
from interop.firefox import FirefoxProcess
from tests.interop.browsers import page_calls, prepared, talk, we_call_page
from tests.interop.loops import END_S, run
from tests.interop.on_the_wire import checked_with, generations
from tests.interop.test_chromium_calls import hear, they_offer_again, we_offer_again
from warp.io import ServerConfig
from warp.peer import ConnectionState

pytestmark = [pytest.mark.interop, pytest.mark.slow]

calls_of = pytest.mark.parametrize(
    "calls", [page_calls, we_call_page], ids=["firefox-calls", "we-call"]
)
lite_and_full = pytest.mark.parametrize("lite", [True, False], ids=["lite", "full"])


@lite_and_full
def test_a_page_restarts_ice(firefox: FirefoxProcess, lite: bool) -> None:
    async def test() -> None:
        server = ServerConfig(lite=lite)
        async with (
            firefox.attach() as browser,
            page_calls(browser, server, prepare=prepared, audio="microphone") as call,
        ):
            await talk(call, "before")
            begun = call.session.stats()["milestones"]["dtls_connected"]
            for number in (2, 3):
                await call.peer.signal("/again", iceRestart=True)
                await checked_with(call.wire, number, ours=False)
                await talk(call, f"in generation {number}")
                await hear(call)
            if not lite:
                await checked_with(call.wire, 3, ours=True)
            assert call.session.state is ConnectionState.CONNECTED
            # one and the same DTLS association
            assert call.session.stats()["milestones"]["dtls_connected"] == begun
            assert call.page.errors == []

    run(test())


def test_both_restart_ice(firefox: FirefoxProcess) -> None:
    async def test() -> None:
        async with (
            firefox.attach() as browser,
            we_call_page(browser, prepare=prepared, audio="microphone") as call,
        ):
            await talk(call, "before")
            await we_offer_again(call, ice_restart=True)
            await checked_with(call.wire, 2, ours=True)
            await talk(call, "after ours")
            await they_offer_again(call, iceRestart=True)
            await checked_with(call.wire, 3, ours=True)
            await talk(call, "after theirs")
            await we_offer_again(call)
            await talk(call, "after a change of nothing")
            assert len(generations(call.wire, ours=True)) == 3
            await hear(call)

    run(test())


async def move(browser: Browser, *, lite: bool) -> None:
    """Change the address of a page in mid-call."""
    server = ServerConfig(lite=lite)
    async with page_calls(browser, server, prepare=prepared, audio="microphone") as call:
        await talk(call, "before")
        await hear(call)
        before = call.session.stats()["flow"]
        call.wire.rebind(ours=False)
        # what was said meanwhile is repeated by SCTP, after 1, 2 and 3 s
        async with asyncio.timeout(6 + 3 + 1):
            await talk(call, "after")
        assert call.session.stats()["flow"] != before
        await hear(call)


def test_firefox_moves(firefox: FirefoxProcess) -> None:
    """Its NAT gives it another address in mid-call, and it does not know.

    It asks for consent every 4 to 6 s and nominates no more: that it asks from elsewhere has to do.
    """

    async def test() -> None:
        async with firefox.attach() as browser, asyncio.TaskGroup() as group:
            for lite in (True, False):
                group.create_task(move(browser, lite=lite))

    run(test(), seconds=40)


def test_data_comes_later(firefox: FirefoxProcess) -> None:
    async def test() -> None:
        async with (
            firefox.attach() as browser,
            page_calls(browser, channels=[], audio="microphone") as call,
        ):
            await call.session.connected()
            await call.peer.open_channel("late")
            await call.peer.signal("/again")
            channel = await anext(call.session.channels())
            await call.peer.happened("open:late")
            channel.send("so it works")
            assert await call.peer.receive("late") == ["so it works"]

    run(test())


def test_audio_comes_later_and_goes_again(firefox: FirefoxProcess) -> None:
    async def test() -> None:
        async with firefox.attach() as browser, page_calls(browser, prepare=prepared) as call:
            await talk(call, "data only")
            await call.peer.add_audio("microphone")
            await call.peer.signal("/again")
            await hear(call)
            await talk(call, "with audio")
            await call.peer.remove_audio()
            await call.peer.signal("/again")
            await talk(call, "without")
            await call.peer.add_audio("microphone")
            await call.peer.signal("/again")
            await hear(call)
            assert call.page.errors == []

    run(test())


@calls_of
def test_we_hang_up(firefox: FirefoxProcess, calls) -> None:
    async def test() -> None:
        async with (
            firefox.attach() as browser,
            calls(browser, prepare=prepared, audio="microphone") as call,
        ):
            await talk(call, "short")
            await hear(call)
            async with asyncio.timeout(END_S):
                await call.session.close()
                assert await call.session.closed is None
                await call.peer.happened("closed:talk")
            # Firefox's connection says nothing; what is below it has understood
            assert (await call.peer.transport())["dtlsState"] == "closed"
            assert (await call.peer.states())["connection"] == "connected"
            assert call.session.state is ConnectionState.CLOSED

    run(test())


@calls_of
def test_a_page_hangs_up(firefox: FirefoxProcess, calls) -> None:
    async def test() -> None:
        async with (
            firefox.attach() as browser,
            calls(browser, prepare=prepared, audio="microphone") as call,
        ):
            await talk(call, "short")
            await call.peer.close()
            async with asyncio.timeout(END_S):
                assert await call.session.closed is None
            assert call.session.state is ConnectionState.CLOSED

    run(test())


@pytest.mark.parametrize("channels", [True, False], ids=["channels", "audio-only"])
@pytest.mark.parametrize("how", ["reload", "leave", "close"])
def test_a_page_is_left(firefox: FirefoxProcess, how: str, channels: bool) -> None:
    """Reloaded, another address, or its tab closed: the old document says goodbye."""

    async def test() -> None:
        options = {} if channels else {"channels": []}
        prepare = prepared if channels else lambda session: None
        async with (
            firefox.attach() as browser,
            page_calls(browser, prepare=prepare, audio="microphone", **options) as call,
        ):
            await call.session.connected()
            await hear(call)
            url = await call.page.evaluate("location.href")
            if how == "reload":
                await call.page.reload()
            elif how == "leave":
                await call.page.goto("about:blank")
            else:
                await call.page.close()
            async with asyncio.timeout(END_S):
                assert await call.session.closed is None
            if how == "close":
                return
            if how == "leave":
                await call.page.goto(url)
            assert await call.page.call("open") == 0
            number = await call.page.call("connect", "/offer", {"audio": "microphone"})
            await call.page.call("happened", number, "connection:connected")

    run(test())
