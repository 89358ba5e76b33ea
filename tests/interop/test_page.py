"""Our own page in a real Chromium, used by keyboard; in Firefox, by its button."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Callable
from typing import Any

import pytest

from interop.chromium import ChromiumConfig, ChromiumPage
from interop.firefox import launch as launch_firefox
from interop.instant.modes import spoil
from interop.voice_page import Look, VoicePage
from interop.voice_site import voice_site
from tests.interop.chromium import DEFAULT, WARP, Chromiums
from tests.interop.loops import run

pytestmark = [pytest.mark.interop, pytest.mark.slow]

DENIED = ChromiumConfig(flags=("--use-fake-ui-for-media-stream=deny",))
BROWSER_STEPS = ("click", "offered", "ice", "dtls", "channel")
SERVER_STEPS = ("first_check", "dtls_negotiated", "dtls_connected")
NOTHING_OPEN = {"microphones": 0, "connections": 0}
RTT_S = 0.08
CREDENTIALS = (
    "seen.connections.findLast((one) => one.signalingState !== 'closed')"
    ".currentRemoteDescription.sdp.match(/a=ice-ufrag:(.*)/)[1].trim()"
)


async def error_of_clocks(page: VoicePage) -> float:
    """Return by how many ms the page says that the two clocks may be apart, rounding included."""
    found = re.search(r"± ([\d.]+) ms", await page.text("clock-note"))
    assert found is not None
    return float(found[1]) + 1.0


async def way(page: VoicePage) -> tuple[str, str]:
    """Return the path of the last call, for machines and for people."""
    path = await page.tab.evaluate("document.getElementById('path').dataset.path")
    chip = await page.tab.evaluate("document.querySelector('#path .chip').textContent")
    return path, chip


def in_order(rows: dict[str, float], steps: list[str]) -> bool:
    times = [rows[step] for step in steps]
    return times == sorted(times)


def test_a_call_by_keyboard_alone(chromium: Chromiums) -> None:
    async def test() -> None:
        async with voice_site() as site, chromium(DEFAULT).attach() as browser:
            page = await VoicePage.open(browser, site.url)
            assert await page.text("state") == "Ready"
            await page.press("Tab")
            assert await page.tab.evaluate("document.activeElement.id") == "talk"
            await page.press("Enter")
            await page.wait_for_start()
            assert await page.text("state") == "Connected"
            assert await page.text("talk") == "End call"
            assert site.calls == 1
            await ledger_is_plausible(page)
            await page.focus("mute")
            await page.press(" ")
            assert await page.tab.evaluate("seen.tracks[0].enabled") is False
            await page.wait_until(
                "document.getElementById('meter-you').ariaValueText === 'muted'"
                " && document.getElementById('mute').ariaPressed === 'true'"
            )
            await page.focus("volume")
            await page.press("ArrowLeft")
            assert await page.tab.evaluate("document.getElementById('remote').volume") == 0.95
            await page.press_button(" ")
            await page.wait_for_state("ended")
            assert re.fullmatch(r"You ended it\. It lasted \d:\d\d\.", await page.text("hint"))
            assert await page.text("talk") == "Start talking"
            await page.wait_until(
                "seen.connections.every((one) => one.signalingState === 'closed')"
            )
            assert await page.left_open() == NOTHING_OPEN
            await until(lambda: site.calls == 0)
            # the ledger stays, and a second call starts from the same button
            assert await page.ledger()
            await page.press_button()
            await page.wait_for_state("connected")
            assert page.tab.errors == []
            assert await page.violations() == []

    run(test())


async def ledger_is_plausible(page: VoicePage) -> None:
    rows = await page.ledger()
    assert list(rows.values()) == sorted(rows.values())
    assert rows["browser:click"] == 0
    assert {f"browser:{step}" for step in BROWSER_STEPS} <= set(rows)
    # a browser tells of its connection and of its channel by different events
    assert in_order(rows, ["browser:click", "browser:offered", "browser:ice", "browser:dtls"])
    assert in_order(rows, ["browser:ice", "browser:channel"])
    assert in_order(rows, ["browser:posted", "browser:answered", "browser:applied"])
    assert in_order(rows, ["browser:offered", "browser:attempted"])
    assert in_order(rows, ["browser:click", "browser:microphone"])
    assert in_order(rows, ["browser:packet", "browser:audible"])
    assert in_order(rows, [f"server:{step}" for step in SERVER_STEPS])
    assert in_order(rows, ["server:offer_read", "server:offer_answered"])
    assert in_order(rows, ["server:first_check", "server:first_media_sent"])
    # what the server did between asking and answering lies there on the common axis as well
    apart = await error_of_clocks(page)
    assert rows["browser:posted"] - apart <= rows["server:offer_read"]
    assert rows["server:offer_answered"] <= rows["browser:answered"] + apart
    assert rows["server:first_check"] <= rows["browser:ice"] + apart
    assert rows["server:first_media_sent"] <= rows["browser:audible"] + apart
    assert await way(page) == ("attached", "Instant, attached")
    support = await page.support()
    assert support["Instant Connect"][0] == "Instant, attached"
    assert support["DTLS"][0] == "1.3"
    assert "TLS_AES" in support["DTLS"][1]
    assert support["Post-quantum keys"][0] == "Used"
    assert "X25519MLKEM768" in support["Post-quantum keys"][1]
    assert support["SPED"][0] == support["SNAP"][0] == "Not offered"
    assert "WebRTC-IceHandshakeDtls" in support["SPED"][1]
    assert support["Provisional answers"][0] == "Supported"


def test_round_trips_of_a_start_with_warp(chromium: Chromiums) -> None:
    async def test() -> None:
        async with voice_site(rtt_s=RTT_S) as site, chromium(WARP).attach() as browser:
            page = await VoicePage.open(browser, site.url, Look(dark=True))
            support = await page.support()
            assert (support["SPED"][0], support["SNAP"][0]) == ("Offered", "Offered")
            assert support["Instant Connect"][0] == "Ready"
            await page.press_button()
            await page.wait_for_start()
            support = await page.support()
            assert (support["SPED"][0], support["SNAP"][0]) == ("Used", "Used")
            rows = await page.ledger()
            # the handshake rides in the first check: no start can be faster, signalling or not
            assert rows["browser:dtls"] - rows["browser:attempted"] >= RTT_S * 1000
            figures = await page.text("figures")
            assert re.search(r"\d\.\d round trips of \d+ ms, signalling beside them", figures)
            assert await way(page) == ("attached", "Instant, attached")
            first = next(rung for rung in site.wire.rungs if not rung.ours)
            assert first.rider[:1] == b"\x16"  # a handshake record, in the very first datagram
            assert "One round trip" in await page.text("legend")
            lines = await page.tab.evaluate("document.querySelectorAll('#timeline .trip').length")
            assert lines >= 2
            alternative = await page.tab.evaluate(
                "document.querySelector('#timeline svg').getAttribute('aria-label')"
            )
            assert "Encryption (DTLS)" in alternative

    run(test())


def test_without_tickets_a_call_is_signalled(chromium: Chromiums) -> None:
    async def test() -> None:
        async with (
            voice_site(rtt_s=RTT_S, instant=False) as site,
            chromium(WARP).attach() as browser,
        ):
            page = await VoicePage.open(browser, site.url)
            assert (await page.support())["Instant Connect"][0] == "Not ready"
            await page.press_button()
            await page.wait_for_start()
            assert await way(page) == ("signalled", "Signalled")
            rows = await page.ledger()
            assert "browser:attempted" not in rows
            # one for signalling, one for the handshake
            assert rows["browser:dtls"] - rows["browser:posted"] >= 2 * RTT_S * 1000
            assert "signalling included" in await page.text("figures")

    run(test())


def test_a_ticket_that_is_not_taken(chromium: Chromiums) -> None:
    async def test() -> None:
        async with (
            voice_site(rtt_s=RTT_S, edit_bundle=spoil) as site,
            chromium(DEFAULT).attach() as browser,
        ):
            page = await VoicePage.open(browser, site.url)
            await page.press_button()
            await page.wait_for_start()
            assert await way(page) == ("stale", "Stale")
            assert site.calls == 1
            rows = await page.ledger()
            order = ["attempted", "answered", "applied", "ice", "dtls"]
            assert in_order(rows, [f"browser:{step}" for step in order])
            alternative = await page.tab.evaluate(
                "document.querySelector('#timeline svg').getAttribute('aria-label')"
            )
            assert "Ticket, not taken" in alternative
            assert page.tab.errors == []

    run(test())


def test_a_call_that_signalling_does_not_join(chromium: Chromiums) -> None:
    """The offer is under way and does not arrive: the call lives, and is hung up in its own way."""

    async def test() -> None:
        async with voice_site() as site, chromium(DEFAULT).attach() as browser:
            page = await VoicePage.open(browser, site.url)
            held = [{"urlPattern": "*/v1/realtime/calls?*"}]
            await page.tab.command("Fetch.enable", patterns=held)
            await page.press_button()
            await page.wait_for_start()
            assert await page.text("state") == "Connected"
            assert await way(page) == ("instant", "Instant")
            assert site.calls == 1
            await page.press_button()
            await page.wait_for_state("ended")
            await until(lambda: site.calls == 0)
            assert await page.left_open() == NOTHING_OPEN
            assert page.tab.errors == []

    run(test())


def test_every_control_says_what_it_is_and_nothing_overflows(chromium: Chromiums) -> None:
    async def test() -> None:
        async with voice_site() as site, chromium(DEFAULT).attach() as browser:
            page = await VoicePage.open(browser, site.url, Look(width_px=320, calm=True))
            # a double click is one start
            await page.tab.evaluate(
                "void [1, 2].forEach((detail) => document.getElementById('talk')"
                ".dispatchEvent(new MouseEvent('click', { detail, bubbles: true })))"
            )
            await page.wait_for_start()
            assert site.calls == 1
            await page.tab.evaluate(
                "void document.querySelectorAll('details').forEach((d) => d.open = true)"
            )
            assert await page.tab.evaluate("document.documentElement.scrollWidth") == 320
            tree = await page.tab.command("Accessibility.getFullAXTree")
            spoken = {(role(node), name(node)) for node in tree["nodes"] if not node["ignored"]}
            assert {
                ("button", "End call"),
                ("button", "Mute"),
                ("slider", "Volume"),
                ("meter", "Your level"),
                ("meter", "Level of the server"),
                ("heading", "How this call started"),
                ("region", "What this browser supports"),
            } <= spoken
            controls = ("button", "slider", "meter", "link", "textbox", "checkbox", "image")
            assert [pair for pair in spoken if pair[0] in controls and not pair[1]] == []
            assert any(pair[0] in ("image", "img") and "Timeline" in pair[1] for pair in spoken)

    run(test())


def role(node: dict[str, Any]) -> str:
    return str(node.get("role", {}).get("value", ""))


def name(node: dict[str, Any]) -> str:
    return str(node.get("name", {}).get("value", ""))


def test_a_microphone_that_is_denied(chromium: Chromiums) -> None:
    async def test() -> None:
        async with voice_site() as site, chromium(DENIED).attach() as browser:
            page = await VoicePage.open(browser, site.url)
            await page.press_button()
            await page.wait_for_state("failed")
            assert await page.text("failure-title") == "The microphone is blocked"
            assert "Allow" in await page.text("failure-advice")
            assert await page.text("talk") == "Start talking"
            assert await page.left_open() == NOTHING_OPEN
            assert site.calls == 0
            assert page.tab.errors == []

    run(test())


def test_a_server_that_is_full_and_one_that_goes_away(chromium: Chromiums) -> None:
    async def test() -> None:
        async with (
            voice_site(max_calls=1, instant=False) as site,
            chromium(DEFAULT).attach() as browser,
        ):
            talking = await VoicePage.open(browser, site.url)
            await talking.press_button()
            await talking.wait_for_start()
            refused = await VoicePage.open(browser, site.url)
            await refused.press_button()
            await refused.wait_for_state("failed")
            assert await refused.text("failure-title") == "The server is full"
            assert "Wait 2 seconds" in await refused.text("failure-advice")
            assert "503" in await refused.text("failure-detail")
            assert await refused.left_open() == NOTHING_OPEN
            # the server says goodbye: an end, and no failure
            site.stop.set()
            await talking.wait_for_state("ended")
            assert await talking.text("state") == "Call ended by the server"
            assert await talking.text("failure") == ""
            await talking.wait_until("seen.tracks.every((track) => track.readyState === 'ended')")
            assert await talking.left_open() == NOTHING_OPEN
            assert talking.tab.errors == []
            await wait_for_no_server(talking.tab)
            await talking.press_button()
            await talking.wait_for_state("failed")
            assert await talking.text("failure-title") == "The server cannot be reached"
            assert await talking.left_open() == NOTHING_OPEN

    run(test())


async def wait_for_no_server(tab: ChromiumPage) -> None:
    while await tab.evaluate("fetch('v1/client-config').then(() => true, () => false)"):
        await asyncio.sleep(0.05)


def test_a_call_survives_a_path_that_is_lost(chromium: Chromiums) -> None:
    """What the page shows while nothing comes through, and how it finds its way back."""

    async def test() -> None:
        async with voice_site(far=True) as site, chromium(DEFAULT).attach() as browser:
            page = await VoicePage.open(browser, site.url)
            await page.press_button()
            await page.wait_for_start()
            first = await page.tab.evaluate(CREDENTIALS)
            site.wire.rule = lambda rung: None
            await page.wait_for_state("interrupted")
            assert await page.text("state") == "Connection interrupted"
            # another offer is answered, with other credentials; still nothing comes through
            await page.wait_until(f"{CREDENTIALS} !== {json.dumps(first)}")
            assert await page.text("state") == "Connection interrupted"
            site.wire.rule = None
            await page.wait_for_state("connected")
            assert await page.text("failure") == ""
            assert site.calls == 1

    run(test())


@pytest.mark.parametrize("described", [True, False], ids=["described", "not-yet-described"])
def test_cancelled_before_it_began(chromium: Chromiums, described: bool) -> None:
    async def test() -> None:
        async with voice_site(instant=False) as site, chromium(DEFAULT).attach() as browser:
            page = await VoicePage.open(browser, site.url)
            if not described:  # as where the connection is closed before it could be
                never = "setLocalDescription = () => new Promise(() => 0)"
                await page.tab.evaluate(f"Boolean(RTCPeerConnection.prototype.{never})")
            # the offer is under way and does not arrive
            held = [{"urlPattern": "*/v1/realtime/calls*"}]
            await page.tab.command("Fetch.enable", patterns=held)
            await page.press_button()
            await page.wait_for_state("calling")
            assert await page.text("talk") == "Cancel"
            await page.press_button()
            await page.wait_for_state("ended")
            assert await page.text("state") == "Call cancelled"
            assert await page.left_open() == NOTHING_OPEN
            assert (site.calls, page.tab.errors) == (0, [])

    run(test())


def test_firefox_shows_the_same(require_peer: Callable[[str], None]) -> None:
    require_peer("firefox-esr")

    async def test() -> None:
        async with voice_site() as site, launch_firefox() as browser:
            page = await browser.open(site.url)
            # whoever calls before there is a ticket calls by signalling
            ready = "document.documentElement.dataset.ready"
            complete = "document.getElementById('ledger').dataset.complete"
            async with asyncio.timeout(20):
                while await page.evaluate(ready) != "true":
                    await asyncio.sleep(0.02)
                await page.evaluate("document.getElementById('talk').click()")
                while await page.evaluate(complete) != "true":
                    await asyncio.sleep(0.1)
            assert await page.evaluate("document.getElementById('state').innerText") == "Connected"
            steps = await page.evaluate(
                "[...document.querySelectorAll('#ledger-table tr[data-step]')]"
                ".map((row) => row.dataset.step)"
            )
            path = await page.evaluate("document.getElementById('path').dataset.path")
            assert path == "attached"
            wanted = {f"browser:{step}" for step in BROWSER_STEPS}
            assert wanted | {f"server:{step}" for step in SERVER_STEPS} <= set(steps)
            assert page.errors == []

    run(test())


# -- the parts that only count, in the browser that runs them ----------------------------------


def test_ledger_and_clock_count_as_they_should(chromium: Chromiums) -> None:
    async def test() -> None:
        async with voice_site() as site, chromium(DEFAULT).attach() as browser:
            tab = (await VoicePage.open(browser, site.url)).tab
            # the server's zero lies at 1000 on the page's clock; the second exchange is the sharper
            exchanges = [
                {"stats": {"now_ms": 130}, "asked": 1100, "answered": 1200},
                {"stats": {"now_ms": 299}, "asked": 1295, "answered": 1305},
                {"stats": {}, "asked": 0, "answered": 1},
            ]
            clock = await call(tab, "clock.js", "alignClocks", exchanges)
            assert clock == {"zero": 1001, "error": 5, "exchanges": 3}
            assert await call(tab, "clock.js", "alignClocks", []) is None
            marks = {"click": 500, "microphone": 600, "posted": 610, "answered": 710}
            marks |= {"applied": 715, "ice": 820, "dtls": 920, "channel": 930}
            facts = {
                "transport": {"rttMs": 100},
                "server": {"milestones_ms": {"first_check": 0, "first_media_received": 60}},
                "exchanges": exchanges[:2],
            }
            ledger = await call(tab, "ledger.js", "buildLedger", marks, facts)
            stages = {stage["id"]: (stage["start"], stage["end"]) for stage in ledger["stages"]}
            assert stages["signalling"] == (110, 210)
            assert stages["ice"] == (210, 320)
            assert stages["voice"] == (420, 561)
            assert ledger["trip"] == {"ms": 100, "from": 110, "how": "checks"}
            assert ledger["cut"] == 0
            trips = {row["id"]: row["trips"] for row in ledger["rows"]}
            assert (trips["answered"], trips["dtls"]) == (1, 3.1)
            # a person who thinks about the question for a minute does not flatten the rest
            late = {k: v + 60_000 if k != "click" else v for k, v in marks.items()}
            ledger = await call(tab, "ledger.js", "buildLedger", late, {**facts, "exchanges": []})
            assert 60_000 < ledger["zero"] < 60_100
            assert ledger["clock"] == {"zero": 60_265, "error": None, "exchanges": 0}
            # a call that began with its first packet, and one whose ticket was not taken
            early = {**marks, "begun": 600, "attempted": 615, "ice": 720}
            ledger = await call(
                tab, "ledger.js", "buildLedger", early, {**facts, "path": "instant"}
            )
            stages = {stage["id"]: (stage["start"], stage["end"]) for stage in ledger["stages"]}
            assert (stages["offer"], stages["ice"]) == ((100, 110), (115, 220))
            assert ledger["figures"][0]["ms"] == 115
            assert "attempt" not in stages
            ledger = await call(tab, "ledger.js", "buildLedger", early, {**facts, "path": "stale"})
            stages = {stage["id"]: (stage["start"], stage["end"]) for stage in ledger["stages"]}
            assert (stages["attempt"], stages["ice"]) == ((115, 210), (210, 220))
            # the microphone is a part of the time until the connection, or came after it
            asides = {figure["id"]: figure["aside"] for figure in ledger["figures"]}
            assert asides["click"] == "100 ms of it for the microphone"
            after = {**early, "begun": 505, "microphone": 1259, "audible": 1300}
            ledger = await call(tab, "ledger.js", "buildLedger", after, facts)
            asides = {figure["id"]: figure["aside"] for figure in ledger["figures"]}
            assert asides["click"] == "the microphone came at 759 ms"
            assert ledger["cut"] == 0
            # a browser that tells nothing, a server that tells nothing
            bare = {"transport": None, "server": None, "exchanges": []}
            ledger = await call(tab, "ledger.js", "buildLedger", marks, bare)
            assert (ledger["trip"], ledger["clock"]) == (None, None)
            assert all(stage["server"] == [] for stage in ledger["stages"])

    run(test())


def test_what_a_microphone_may_say(chromium: Chromiums) -> None:
    async def test() -> None:
        async with voice_site() as site, chromium(DEFAULT).attach() as browser:
            tab = (await VoicePage.open(browser, site.url)).tab
            titles = await tab.evaluate(
                """import('/failure.js').then(({ microphoneFailure }) =>
                ['NotAllowedError', 'NotFoundError', 'NotReadableError', 'TypeError'].map((name) =>
                  microphoneFailure(new DOMException('why', name)).title))"""
            )
            assert titles == [
                "The microphone is blocked",
                "No microphone was found",
                "The microphone cannot be opened",
                "Something unexpected happened in this page",
            ]

    run(test())


async def call(tab: ChromiumPage, module: str, function: str, *arguments: Any) -> Any:
    """Call what a module of the page exports."""
    values = json.dumps(arguments)
    return await tab.evaluate(f"import('/{module}').then((m) => m.{function}(...{values}))")


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(10):
        while not condition():
            await asyncio.sleep(0.02)
