"""Starts in a row of Firefox on a path that loses a tenth of all datagrams each way; and tabs."""

from __future__ import annotations

import asyncio

import pytest

from interop.browser import Browser
from interop.firefox import FirefoxProcess
from interop.page_peer import PagePeer
from tests.interop.browsers import TALK, Desk, open_desk, prepared
from tests.interop.loops import END_S, run
from tests.interop.test_chromium_many_starts import check_server, one_start

pytestmark = [pytest.mark.interop, pytest.mark.slow]

STARTS = 10
TABS = 5


def test_starts_in_a_row_on_a_path_that_loses(firefox: FirefoxProcess) -> None:
    async def test() -> None:
        async with firefox.attach() as browser, open_desk(prepare=prepared, seed=1) as desk:
            page = await browser.open(desk.site.url)
            for number in range(STARTS):
                await one_start(page, desk, number)
            assert await page.call("open") == 0
            assert page.errors == []
            check_server(desk.server)

    run(test(), seconds=60)


async def call_from(browser: Browser, desk: Desk, number: int) -> None:
    """Call from a new tab, exchange the tab's name, and close the tab."""
    name = f"tab {number}"
    page = await browser.open(desk.site.url)
    peer = await PagePeer.connect(page, "/offer", channels=[TALK], audio="microphone")
    await peer.happened("open:talk")
    await peer.send("talk", name)
    [channel] = [c for c in desk.channels if c is not None and await anext(c) == name]
    channel.send(f"to {name}")
    assert await peer.receive("talk") == [f"to {name}"]
    await page.close()


def test_tabs_one_after_another(firefox: FirefoxProcess) -> None:
    """Each is closed while its call goes on, and its session ends for that."""

    async def test() -> None:
        async with firefox.attach() as browser, open_desk(prepare=prepared) as desk:
            for number in range(TABS):
                await call_from(browser, desk, number)
                session = desk.sessions.pop()
                desk.channels.clear()
                async with asyncio.timeout(END_S):
                    assert await session.closed is None
            check_server(desk.server)

    run(test(), seconds=40)
