"""The driver itself: what Chromium is told, that nothing of it stays, that its faults are heard.

And what a page can do by itself: SNAP by a token of an origin trial, signed here by a key of ours
which this Chromium was told to believe.
"""

from __future__ import annotations

import asyncio
import base64
import json
import os
import time
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from interop.browser import BrowserError, PageCrashed, PageFailed
from interop.chromium import ChromiumConfig, command_line, launch, start
from interop.page_peer import PagePeer
from interop.process import find_binary
from interop.site import Site
from tests.interop.browsers import open_desk, prepared
from tests.interop.chromium import Chromiums
from tests.interop.loops import run

WARP = ChromiumConfig(
    sped=True, snap=True, pqc=False, flags=("--enable-features=A,B", "--enable-features=C")
)


def test_switches_that_chromium_would_forget_are_merged() -> None:
    command = command_line("chromium", Path("/profile"), WARP)
    names = [switch.partition("=")[0] for switch in command]
    assert len(set(names)) == len(names)
    assert "--enable-features=A,B,C" in command
    assert "--disable-features=WebRtcHideLocalIpsWithMdns,WebRtcPqcForDtls" in command
    assert (
        "--force-fieldtrials=WebRTC-IceHandshakeDtls/Enabled/WebRTC-Sctp-Snap/Enabled/" in command
    )
    assert "--user-data-dir=/profile" in command


def test_flags_of_an_untouched_chromium_name_no_trial() -> None:
    command = command_line("chromium", Path("/profile"), ChromiumConfig())
    assert not [switch for switch in command if "fieldtrials" in switch or "Pqc" in switch]


def test_a_browser_that_is_absent_is_named_with_its_package() -> None:
    with pytest.raises(BrowserError, match="apt-get install no-such-browser"):
        find_binary("no-such-browser")


def group_members(group: int) -> list[int]:
    """Return the processes of a group, zombies left out."""
    found = []
    for name in os.listdir("/proc"):
        if not name.isdigit():
            continue
        try:
            text = Path(f"/proc/{name}/stat").read_text()
        except OSError:
            # it has ended since
            continue
        state, _, owner = text.rpartition(")")[2].split()[:3]
        if int(owner) == group and state != "Z":
            found.append(int(name))
    return found


@pytest.mark.interop
@pytest.mark.slow
def test_nothing_stays_of_a_browser(chromium: Chromiums) -> None:
    with start() as process:
        folder = process.folder
        assert len(group_members(process.pid)) > 2
        assert folder.is_dir()
    assert group_members(process.pid) == []
    assert not folder.exists()


@pytest.mark.interop
@pytest.mark.slow
def test_what_goes_wrong_in_a_page_is_heard(chromium: Chromiums) -> None:
    async def test() -> None:
        async with Site() as site, chromium().attach() as browser:
            page = await browser.open(site.url)
            assert browser.version.startswith("Chromium ")
            assert await page.evaluate("Promise.resolve([1, null, 'ü'])") == [1, None, "ü"]
            with pytest.raises(PageFailed, match="no call 7 in this page"):
                await page.call("offer", 7)
            with pytest.raises(PageFailed, match="404"):
                await page.call("connect", "/nowhere", {"channels": [{"label": "x"}]})
            assert len(page.errors) == 1  # the fetch of what is not there
            await page.evaluate("console.error('said', 'so')")
            await page.evaluate("void setTimeout(() => { throw new Error('later'); })")
            while len(page.errors) < 3:
                await asyncio.sleep(0.01)
            assert page.errors[1] == "said so"
            assert "later" in page.errors[2]
            assert (await page.screenshot()).startswith(b"\x89PNG")

    run(test())


@pytest.mark.interop
@pytest.mark.slow
def test_a_page_that_crashes_or_closes_in_mid_call(chromium: Chromiums) -> None:
    async def test() -> None:
        async with Site() as site, launch() as browser:
            page = await browser.open(site.url)
            waiting = asyncio.ensure_future(page.evaluate("new Promise(() => {})"))
            await asyncio.sleep(0)
            with pytest.raises(PageCrashed):
                await page.command("Page.crash")
            with pytest.raises(PageCrashed):
                await waiting
            assert page.crashed
            other = await browser.open(site.url)
            waiting = asyncio.ensure_future(other.evaluate("new Promise(() => {})"))
            await asyncio.sleep(0)
            await other.close()
            with pytest.raises(PageCrashed):
                await waiting

    run(test())


# -- an origin trial ------------------------------------------------------------------------------

TRIAL = "WebRtcSctpSnap"
VERSION = b"\3"
LIFE_S = 3600


def token(key: Ed25519PrivateKey, origin: str, feature: str = TRIAL) -> str:
    """Return a token: version, signature of what else is here, length, and its JSON."""
    claims = {"origin": origin, "feature": feature, "expiry": int(time.time()) + LIFE_S}
    text = json.dumps(claims).encode()
    body = len(text).to_bytes(4, "big") + text
    return base64.b64encode(VERSION + key.sign(VERSION + body) + body).decode()


@pytest.mark.interop
@pytest.mark.slow
def test_snap_by_an_origin_trial(chromium: Chromiums) -> None:
    """The one part of WARP that a page can have without any flag."""
    key, other = Ed25519PrivateKey.generate(), Ed25519PrivateKey.generate()
    believed = base64.b64encode(key.public_key().public_bytes_raw()).decode()

    async def call(browser, desk, text: str) -> tuple[str, list[str]]:
        desk.site.headers["Origin-Trial"] = text
        page = await browser.open(desk.site.url)
        channels = [{"label": "talk", "negotiated": True, "id": 0}]
        begin = len(desk.trace.named("sctp:state_changed"))
        peer = await PagePeer.connect(page, "/offer", channels=channels)
        await peer.happened("open:talk")
        await peer.send("talk", "hello")
        assert await anext(desk.channels[-1]) == "hello"
        states = [data["new"] for _, data in desk.trace.named("sctp:state_changed")[begin:]]
        return desk.said[-1][0], states

    async def test() -> None:
        async with (
            launch(ChromiumConfig(origin_trial_key=believed)) as browser,
            open_desk(prepare=prepared) as desk,
        ):
            origin = desk.site.url.rstrip("/")
            offer, states = await call(browser, desk, token(key, origin))
            assert "a=sctp-init:" in offer
            assert states == ["established"]
            for worthless in (token(other, origin), token(key, "http://localhost:1"), "no token"):
                offer, states = await call(browser, desk, worthless)
                assert "a=sctp-init:" not in offer
                assert states[-1] == "established"
                assert len(states) > 1

    run(test())
