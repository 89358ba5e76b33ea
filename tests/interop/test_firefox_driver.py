"""The driver itself: what Firefox is told, that nothing of it stays, that its faults are heard."""

from __future__ import annotations

import asyncio
import json
import os
import signal
from pathlib import Path

import pytest

from interop.browser import BrowserError, PageCrashed, PageFailed
from interop.firefox import FirefoxConfig, FirefoxProcess, start
from interop.site import Site
from tests.interop.loops import run
from tests.interop.test_chromium_driver import group_members

PNG = b"\x89PNG\r\n"


def test_the_profile_says_what_was_asked_for() -> None:
    config = FirefoxConfig(preferences={"a.switch": True, "a.number": 771, "a.text": 'quo"ted'})
    lines = config.user_preferences().splitlines()
    assert 'user_pref("a.switch", true);' in lines
    assert 'user_pref("a.number", 771);' in lines
    assert f'user_pref("a.text", {json.dumps("quo" + chr(34) + "ted")});' in lines
    assert 'user_pref("media.peerconnection.ice.loopback", true);' in lines
    assert not any("dtls" in line or "pq_hybrid" in line for line in lines)


def test_what_is_not_installed_is_named() -> None:
    with pytest.raises(BrowserError, match="firefox-of-nobody"), start(
        FirefoxConfig(binary="firefox-of-nobody")
    ):  # fmt: skip
        pass


@pytest.mark.interop
@pytest.mark.slow
def test_one_that_ends_by_itself_is_heard_and_nothing_of_it_stays(firefox: FirefoxProcess) -> None:
    async def test() -> None:
        async with process.attach() as browser, Site() as site:
            page = await browser.open(site.url)
            waiting = asyncio.ensure_future(page.evaluate("new Promise(() => {})"))
            assert await page.evaluate("1") == 1
            os.kill(process.pid, signal.SIGKILL)
            with pytest.raises(BrowserError, match="gone"):
                await waiting
            with pytest.raises(BrowserError, match="gone"):
                await page.evaluate("1")

    with start() as process:
        assert len(group_members(process.pid)) > 1
        [profile] = [one for one in command_of(process.pid) if one.endswith("/profile")]
        assert Path(profile).is_dir()
        run(test(), seconds=30)
    assert group_members(process.pid) == []
    assert not Path(profile).exists()


def command_of(pid: int) -> list[str]:
    """Return the command line of a process."""
    return Path(f"/proc/{pid}/cmdline").read_text().rstrip("\0").split("\0")


@pytest.mark.interop
@pytest.mark.slow
def test_its_faults_and_ours(firefox: FirefoxProcess) -> None:
    """The process behind a tab crashes; and somebody leaves without ending the only session."""

    async def leave() -> None:
        browser = await process.attach().__aenter__()
        await browser._connection.close()

    async def crash() -> None:
        async with process.attach() as browser, Site() as site:
            page = await browser.open(site.url)
            waiting = asyncio.ensure_future(page.evaluate("new Promise(() => {})"))
            assert await page.evaluate("1") == 1
            for pid in group_members(process.pid):
                if command_of(pid)[-1].endswith(" tab"):
                    os.kill(pid, signal.SIGKILL)
            with pytest.raises(PageCrashed):
                await waiting
            with pytest.raises(PageCrashed):
                await page.evaluate("1")
            assert await (await browser.open(site.url)).call("open") == 0

    with start() as process:
        first = process.pid
        run(leave())
        run(crash(), seconds=30)
        assert process.pid != first
        assert group_members(first) == []


@pytest.mark.interop
@pytest.mark.slow
def test_calls_into_a_page(firefox: FirefoxProcess) -> None:
    async def test() -> None:
        async with firefox.attach() as browser, Site() as site:
            assert browser.version.startswith("Firefox 1")
            page = await browser.open(site.url)
            assert await page.evaluate("({a: [1, null, 'ü'], b: undefined})") == {
                "a": [1, None, "ü"]
            }
            assert await page.evaluate("undefined") is None
            with pytest.raises(PageFailed, match="no call 7"):
                await page.call("receive", 7, "none")
            with pytest.raises(PageFailed, match="not a function"):
                await page.call("nothing of the kind")
            with pytest.raises(TimeoutError):
                await page.evaluate("new Promise(() => {})", timeout_s=0.05)
            assert (await page.screenshot()).startswith(PNG)
            assert page.errors == []
            await page.evaluate("console.error('oh', 1)")
            await page.evaluate("fetch('/nowhere')")
            await page.evaluate("void setTimeout(() => { throw new Error('late') })")
            async with asyncio.timeout(2):
                while len(page.errors) < 3:
                    await asyncio.sleep(0.01)
            assert sorted(page.errors) == [
                "console: oh 1",
                "javascript: Error: late",
                f"network: 404: {site.url}nowhere",
            ]

    run(test())


@pytest.mark.interop
@pytest.mark.slow
@pytest.mark.parametrize("how", ["reload", "close"])
def test_a_page_that_goes_away_in_mid_call(firefox: FirefoxProcess, how: str) -> None:
    async def test() -> None:
        async with firefox.attach() as browser, Site() as site:
            page = await browser.open(site.url)
            waiting = asyncio.ensure_future(page.evaluate("new Promise(() => {})"))
            # the command has left before what ends its page does
            assert await page.evaluate("1") == 1
            if how == "reload":
                await page.reload()
            else:
                await page.close()
                await page.close()
            with pytest.raises(PageCrashed):
                await waiting
            if how == "reload":
                assert await page.call("open") == 0
            else:
                with pytest.raises(PageCrashed):
                    await page.evaluate("1")
            # the others do not notice
            assert await (await browser.open(site.url)).call("open") == 0

    run(test())
