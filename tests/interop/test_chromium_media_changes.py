"""Audio that comes, changes and goes in mid-call, heard on both ends each time."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator

import numpy as np
import pytest

from tests.interop.browsers import PageCall, page_calls, prepared, talk, we_call_page
from tests.interop.chromium import DEFAULT, WARP, Chromiums
from tests.interop.loops import END_S, run, sound
from tests.interop.sound import clip
from warp.io import Session
from warp_tools.audio import likeness
from warp_tools.audio.likeness import SAME_SPEECH
from warp_tools.caller import Listener, speak
from warp_tools.opus import encoded

pytestmark = [pytest.mark.interop, pytest.mark.slow]

LOUD = 1000
POLL_S = 0.05
VOICE = np.tile(clip("greeting"), 8)


@contextlib.asynccontextmanager
async def speaking(session: Session) -> AsyncIterator[None]:
    """Speak into a session for as long as the block lasts."""
    task = asyncio.ensure_future(speak(session, encoded(VOICE)))
    try:
        yield
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def page_hears(call: PageCall, index: int) -> None:
    """Wait until the page hears us, from now on, in its track of this number."""
    await call.peer.record(index)
    begin = len((await call.peer.heard(index)).samples)
    async with asyncio.timeout(5):
        while True:
            heard = (await call.peer.heard(index)).samples[begin:]
            if len(heard) and np.abs(heard).max() > LOUD:
                return
            await asyncio.sleep(POLL_S)


async def we_hear(call: PageCall) -> None:
    """Wait until audio arrives from now on."""
    call.session.audio_in.take()
    async with asyncio.timeout(5):
        for _ in range(5):
            await sound(call.session)


async def we_hear_nothing(call: PageCall) -> None:
    """Wait until no packet has come for a while."""
    async with asyncio.timeout(5):
        while call.session.audio_in.take():
            await asyncio.sleep(0.3)


def test_audio_comes_later(chromium: Chromiums) -> None:
    """And it is the speech that the microphone hears."""

    async def test() -> None:
        async with (
            chromium(DEFAULT).attach() as browser,
            page_calls(browser, prepare=prepared) as call,
        ):
            await talk(call, "before")
            await call.peer.add_audio("microphone")
            await call.peer.signal("/again")
            listener = Listener(call.session)
            async with speaking(call.session):
                await page_hears(call, 0)
            wanted = clip("speech")
            while listener.recording.seconds < 8 and (
                likeness(wanted, listener.recording.samples()).correlation < SAME_SPEECH
            ):
                await asyncio.sleep(0.5)
            heard = await listener.stop()
            assert likeness(wanted, heard).correlation > SAME_SPEECH
            await talk(call, "after")

    run(test(), seconds=30)


@pytest.mark.parametrize("how", ["remove", "stop"])
def test_audio_goes_and_comes_again(chromium: Chromiums, how: str) -> None:
    """A track that was taken away leaves its section listening; one that was stopped gives it up.

    Either way the next track has a section of its own, and both ends hear each other again.
    """

    async def test() -> None:
        async with (
            chromium(DEFAULT).attach() as browser,
            page_calls(browser, prepare=prepared) as call,
            speaking(call.session),
        ):
            await talk(call, "before")
            await call.peer.add_audio("microphone")
            await call.peer.signal("/again")
            await we_hear(call)
            await page_hears(call, 0)
            for turn in (1, 2):
                if how == "remove":
                    await call.peer.remove_audio()
                else:
                    await call.peer.stop_audio()
                await call.peer.signal("/again")
                await we_hear_nothing(call)
                await call.peer.add_audio("microphone")
                await call.peer.signal("/again")
                await we_hear(call)
                # our voice stays where it was, or moves with the section
                await page_hears(call, 0 if how == "remove" else turn)
            sent = call.session.stats()["audio"]["sent"]
            assert len(sent) == 1
            await talk(call, "after")
            assert call.page.errors == []

    run(test(), seconds=40)


def test_a_second_voice_at_the_same_time_is_refused(chromium: Chromiums) -> None:
    """A session hears one voice; the first goes on, and the page is told by a port of 0."""

    async def test() -> None:
        async with (
            chromium(DEFAULT).attach() as browser,
            page_calls(browser, prepare=prepared, audio="microphone") as call,
        ):
            await talk(call, "before")
            await we_hear(call)
            await call.peer.add_audio("microphone")
            await call.peer.signal("/again")
            remote = str((await call.peer.states())["remote"])
            assert remote.count("\r\nm=audio 0 ") == 1
            await we_hear(call)
            assert len(call.session.stats()["audio"]["received"]) == 1
            await talk(call, "after")

    run(test())


def test_we_offer_again_while_the_page_speaks_in_another_section(chromium: Chromiums) -> None:
    async def test() -> None:
        async with (
            chromium(DEFAULT).attach() as browser,
            we_call_page(browser, prepare=prepared, audio="microphone") as call,
        ):

            async def signal(offer: str) -> str:
                answer = await call.peer.answer(call.wire.through(offer, ours=True))
                return call.wire.through(answer, ours=False)

            await talk(call, "before")
            await we_hear(call)
            await call.peer.remove_audio()
            await call.peer.add_audio("microphone")
            offer = await call.peer.offer()
            answer = call.session.accept_offer(call.wire.through(offer, ours=False))
            await call.peer.accept(call.wire.through(answer, ours=True))
            await we_hear(call)
            await call.session.renegotiate(signal)
            async with speaking(call.session):
                await we_hear(call)
                await page_hears(call, 0)
            await talk(call, "after")

    run(test(), seconds=30)


def test_a_page_that_stops_what_leads_the_bundle_has_hung_up(chromium: Chromiums) -> None:
    """Chromium gives up the whole transport then, with a goodbye: the session ends, in time."""

    async def test() -> None:
        async with (
            chromium(DEFAULT).attach() as browser,
            page_calls(browser, prepare=prepared, audio="microphone") as call,
        ):
            await talk(call, "before")
            assert call.offer.index("m=audio") < call.offer.index("m=application")
            await call.peer.stop_audio()
            await call.peer.signal("/again")
            async with asyncio.timeout(END_S):
                assert await call.session.closed is None

    run(test())


def test_a_page_that_only_listens(chromium: Chromiums) -> None:
    async def test() -> None:
        async with (
            chromium(WARP).attach() as browser,
            page_calls(browser, prepare=prepared, audio="receive") as call,
        ):
            await talk(call)
            async with speaking(call.session):
                await page_hears(call, 0)
            assert call.session.stats()["audio"]["received"] == {}
            [report] = await call.peer.stats("inbound-rtp")
            assert report["packetsLost"] == 0
            assert report["packetsReceived"] > 0

    run(test())
