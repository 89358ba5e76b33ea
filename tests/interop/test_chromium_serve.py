"""A page of somebody else's in Chromium calls `warp serve`, which runs as a process."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import re
import signal
import sys
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from interop.browser import Browser, PageFailed
from interop.page_peer import PagePeer
from interop.site import Site
from tests.interop.browsers import SPEECH
from tests.interop.chromium import DEFAULT, WARP, Chromiums
from tests.interop.loops import run
from tests.interop.paced import SAME, paced_likeness
from tests.interop.sound import clip
from warp_tools.audio import packaged_sound
from warp_tools.audio.resample import resample
from warp_tools.audio.wav import to_int16, write_wav
from warp_tools.opus import SAMPLE_RATE, Samples

pytestmark = [pytest.mark.interop, pytest.mark.slow]

START_S = 20.0
ECHO_S = 30.0
POLL_S = 0.5
EVENTS = {"label": "oai-events", "negotiated": True, "id": 0}


@dataclass
class Served:
    """A running `warp serve`."""

    process: asyncio.subprocess.Process
    url: str
    udp_port: int

    async def line(self, pattern: str) -> str:
        """Wait for a line that it prints."""
        stream = self.process.stdout
        assert stream is not None
        async with asyncio.timeout(START_S):
            while (line := (await stream.readline()).decode()) and not re.search(pattern, line):
                continue
        assert line, f"warp serve has ended without {pattern!r}"
        return line

    async def end(self, how: signal.Signals = signal.SIGINT) -> int:
        """End the process and return its exit status."""
        if self.process.returncode is None:
            self.process.send_signal(how)
        async with asyncio.timeout(START_S):
            # what it prints meanwhile must not fill the pipe
            await self.process.communicate()
        assert self.process.returncode is not None
        return self.process.returncode


@contextlib.asynccontextmanager
async def warp_serve(*arguments: str) -> AsyncIterator[Served]:
    """Run the command; it is gone afterwards."""
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "warp_tools.main",
        "serve",
        "--backend",
        "echo",
        *(arguments if "--port" in arguments else ("--port", "0", *arguments)),
        stdout=asyncio.subprocess.PIPE,
        env={**os.environ, "PYTHONUNBUFFERED": "1"},
    )
    served = Served(process, "", 0)
    try:
        found = re.search(
            r"echo at (http\S+?)/? \(calls on UDP (\d+)", await served.line("echo at")
        )
        assert found is not None
        served.url, served.udp_port = found[1], int(found[2])
        yield served
    finally:
        if process.returncode is None:
            process.kill()
        await process.communicate()


@contextlib.asynccontextmanager
async def elsewhere(
    browser: Browser, *arguments: str, said: Path = SPEECH
) -> AsyncIterator[tuple[Served, PagePeer]]:
    """A `warp serve`, and a page of another origin that it lets call; speaks when told to."""
    async with Site(files={"/speech.wav": said}) as site:
        origin = site.url.rstrip("/")
        async with warp_serve("--cors-origin", origin, *arguments) as served:
            page = await browser.open(site.url)
            audio = {"play": "/speech.wav"}
            peer = await PagePeer.create(page, channels=[EVENTS], audio=audio, record=True)
            yield served, peer


async def heard(peer: PagePeer, wanted: Samples) -> None:
    """Wait until the page has heard a speech."""
    best = 0.0
    async with asyncio.timeout(ECHO_S):
        while best < SAME:
            await asyncio.sleep(POLL_S)
            found = await peer.heard()
            if len(found.samples) > len(wanted):
                samples = to_int16(resample(found.samples / 32768.0, found.rate, SAMPLE_RATE))
                best = paced_likeness(wanted, samples)


def test_the_echo_says_what_was_said(chromium: Chromiums, tmp_path: Path) -> None:
    """WHIP: created, heard by content, deleted. What is said meanwhile waits for the greeting."""
    said = tmp_path / "said.wav"
    write_wav(said, clip("speech"))

    async def test() -> None:
        async with (
            chromium(WARP).attach() as browser,
            elsewhere(browser, said=said) as (served, peer),
        ):
            await peer.signal(f"{served.url}/whip")
            await peer.happened("connection:connected")
            await peer.say()
            await heard(peer, packaged_sound("greeting"))
            await heard(peer, clip("speech"))
            ended = await peer.page.call("hangUp", peer.number)
            assert ended["status"] == 200
            assert ended["resource"].startswith(f"{served.url}/whip/")
            await peer.happened("closed:oai-events")
            assert await served.line("call 1 has ended") == "call 1 has ended: hung up\n"
            assert peer.page.errors == []
            assert await served.end() == 0

    run(test(), seconds=60)


def test_events_of_a_realtime_call(chromium: Chromiums) -> None:
    async def test() -> None:
        async with chromium(DEFAULT).attach() as browser, elsewhere(browser) as (served, peer):
            await peer.signal(f"{served.url}/v1/realtime/calls?dcid=0")
            await peer.happened("open:oai-events")
            created = json.loads(str((await peer.receive("oai-events"))[0]))
            assert created["type"] == "session.created"
            await peer.send("oai-events", json.dumps({"type": "a.new.one", "event_id": "mine"}))
            error = json.loads(str((await peer.receive("oai-events"))[0]))
            assert error["error"]["code"] == "unknown_event"
            assert error["error"]["event_id"] == "mine"
            ended = await peer.page.call("hangUp", peer.number)
            assert ended["status"] in (200, 204)
            await peer.happened("closed:oai-events")

    run(test(), seconds=40)


def test_a_page_that_is_not_let_in(chromium: Chromiums) -> None:
    """Another origin, a token that is missing: the page is told, and the server goes on."""

    async def test() -> None:
        async with (
            chromium(DEFAULT).attach() as browser,
            elsewhere(browser, "--token", "sesame") as (served, peer),
            Site() as other,
        ):
            with pytest.raises(PageFailed, match="says 401"):
                await peer.signal(f"{served.url}/whip")
            page = await browser.open(other.url)
            with pytest.raises(PageFailed, match="Failed to fetch"):
                await page.call("connect", f"{served.url}/whip", {"channels": [EVENTS]})
            assert served.process.returncode is None

    run(test(), seconds=40)


def test_the_process_is_killed_and_started_again(chromium: Chromiums) -> None:
    """On the same ports: the page loses its call by ICE alone, and its next call works."""

    async def test() -> None:
        async with chromium(DEFAULT).attach() as browser, elsewhere(browser) as (served, peer):
            await peer.signal(f"{served.url}/whip")
            await peer.happened("open:oai-events")
            port = served.url.rpartition(":")[2]
            await served.end(signal.SIGKILL)
            origin = await peer.page.evaluate("location.origin")
            async with warp_serve(
                "--port", port, "--udp-port", str(served.udp_port), "--cors-origin", origin
            ) as again:
                assert (again.url, again.udp_port) == (served.url, served.udp_port)
                await peer.happened("connection:disconnected", within_s=10)
                number = await peer.page.call(
                    "connect", f"{again.url}/whip", {"channels": [EVENTS]}
                )
                after = PagePeer(peer.page, number)
                await after.happened("open:oai-events")
                await peer.close()
                await after.close()
                assert await again.line("call 1 has ended") == "call 1 has ended: hung up\n"
                assert await again.end(signal.SIGTERM) == 0

    run(test(), seconds=60)
