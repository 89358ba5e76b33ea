"""A call with Chromium from its middle to its end: restarts, changes, moves, goodbyes."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from interop.chromium import ChromiumConfig
from tests.interop.browsers import PageCall, page_calls, prepared, talk, we_call_page
from tests.interop.chromium import DEFAULT, WARP, Chromiums
from tests.interop.loops import END_S, run, sound
from tests.interop.on_the_wire import checked_with, generations
from warp.io import ServerConfig
from warp.peer import ConnectionState

pytestmark = [pytest.mark.interop, pytest.mark.slow]

flags_of = pytest.mark.parametrize("config", [DEFAULT, WARP], ids=["default", "warp"])
calls_of = pytest.mark.parametrize(
    ("config", "calls"),
    [(WARP, page_calls), (DEFAULT, we_call_page)],
    ids=["warp-calls", "we-call-default"],
)


async def we_offer_again(call: PageCall, *, ice_restart: bool = False) -> None:
    """We make another offer and the page answers it."""

    async def signal(offer: str) -> str:
        answer = await call.peer.answer(call.wire.through(offer, ours=True))
        return call.wire.through(answer, ours=False)

    await call.session.renegotiate(signal, ice_restart=ice_restart)


async def they_offer_again(call: PageCall, **options: Any) -> None:
    """The page makes another offer and we answer it."""
    offer = await call.peer.offer(**options)
    answer = call.session.accept_offer(call.wire.through(offer, ours=False))
    await call.peer.accept(call.wire.through(answer, ours=True))


async def hear(call: PageCall) -> None:
    """Wait for sound that arrives from now on."""
    call.session.audio_in.take()
    await sound(call.session)


@pytest.mark.parametrize(
    ("config", "lite"),
    [(DEFAULT, True), (WARP, True), (DEFAULT, False)],
    ids=["default-lite", "warp-lite", "default-full"],
)
def test_a_page_restarts_ice(chromium: Chromiums, lite: bool, config: ChromiumConfig) -> None:
    async def test() -> None:
        async with (
            chromium(config).attach() as browser,
            page_calls(
                browser, ServerConfig(lite=lite), prepare=prepared, audio="microphone"
            ) as call,
        ):
            await talk(call, "before")
            begun = call.session.stats()["milestones"]["dtls_connected"]
            for number in (2, 3):
                await call.peer.signal("/again", iceRestart=True)
                await checked_with(call.wire, number, ours=False)
                await talk(call, f"in generation {number}")
                await hear(call)
                if not lite:  # before the next generation ends this one's checks, perhaps unsent
                    await checked_with(call.wire, number, ours=True)
            assert call.session.state is ConnectionState.CONNECTED
            # one and the same DTLS association
            assert call.session.stats()["milestones"]["dtls_connected"] == begun
            assert call.page.errors == []

    run(test())


def test_both_restart_ice(chromium: Chromiums) -> None:
    async def test() -> None:
        async with (
            chromium(DEFAULT).attach() as browser,
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


@pytest.mark.parametrize("lite", [True, False], ids=["lite", "full"])
def test_chromium_moves(chromium: Chromiums, lite: bool) -> None:
    """Its NAT gives it another address in mid-call, and it does not know."""

    async def test() -> None:
        async with (
            chromium(DEFAULT).attach() as browser,
            page_calls(
                browser, ServerConfig(lite=lite), prepare=prepared, audio="microphone"
            ) as call,
        ):
            await talk(call, "before")
            await hear(call)
            before = call.session.stats()["flow"]
            call.wire.rebind(ours=False)
            async with asyncio.timeout(4):
                await talk(call, "after")
            assert call.session.stats()["flow"] != before
            await hear(call)

    run(test())


@flags_of
def test_data_comes_later(chromium: Chromiums, config: ChromiumConfig) -> None:
    async def test() -> None:
        async with (
            chromium(config).attach() as browser,
            page_calls(browser, channels=[], audio="microphone") as call,
        ):
            await call.session.connected()
            await call.peer.open_channel("late")
            await call.peer.signal("/again")
            channel = await anext(call.session.channels())
            await call.peer.happened("open:late")
            channel.send("so it works")
            assert await call.peer.receive("late") == ["so it works"]
            states = [data["new"] for _, data in call.trace.named("sctp:state_changed")]
            assert (states == ["established"]) is config.snap

    run(test())


@calls_of
def test_we_hang_up(chromium: Chromiums, calls, config: ChromiumConfig) -> None:
    async def test() -> None:
        async with (
            chromium(config).attach() as browser,
            calls(browser, prepare=prepared, audio="microphone") as call,
        ):
            await talk(call, "short")
            await hear(call)
            async with asyncio.timeout(END_S):
                await call.session.close()
                assert await call.session.closed is None
                await call.peer.happened("closed:talk")
            # Chromium's connection says nothing; what is below it has understood
            assert (await call.peer.transport())["dtlsState"] == "closed"
            assert (await call.peer.states())["connection"] == "connected"
            assert call.session.state is ConnectionState.CLOSED

    run(test())


@calls_of
def test_a_page_hangs_up(chromium: Chromiums, calls, config: ChromiumConfig) -> None:
    async def test() -> None:
        async with (
            chromium(config).attach() as browser,
            calls(browser, prepare=prepared, audio="microphone") as call,
        ):
            await talk(call, "short")
            await call.peer.close()
            async with asyncio.timeout(END_S):
                assert await call.session.closed is None
            assert call.session.state is ConnectionState.CLOSED

    run(test())


@pytest.mark.parametrize(
    ("how", "channels"),
    [("reload", True), ("leave", False)],
    ids=["reload-channels", "leave-audio-only"],
)
def test_a_page_is_left(chromium: Chromiums, how: str, channels: bool) -> None:
    """Reloaded, or another address: the old document says goodbye, and the new one calls anew."""

    async def test() -> None:
        options = {} if channels else {"channels": []}
        prepare = prepared if channels else lambda session: None
        async with (
            chromium(DEFAULT).attach() as browser,
            page_calls(browser, prepare=prepare, audio="microphone", **options) as call,
        ):
            await call.session.connected()
            await hear(call)
            url = await call.page.evaluate("location.href")
            if how == "reload":
                await call.page.reload()
            else:
                await call.page.goto("about:blank")
            async with asyncio.timeout(END_S):
                assert await call.session.closed is None
            if how == "leave":
                await call.page.goto(url)
            assert await call.page.call("open") == 0
            number = await call.page.call("connect", "/offer", {"audio": "microphone"})
            await call.page.call("happened", number, "connection:connected")

    run(test())
