"""Calls that begin with their first packet, from unmodified browsers: one session each, always.

How fast they are is the report's business (`python -m interop.instant --report`); here its parts
are tested, and one start of each mode.
"""

from __future__ import annotations

import asyncio
import json

import pytest

from interop.browser import Browser, BrowserError
from interop.firefox import FirefoxProcess
from interop.instant import (
    MODES,
    InstantMeasureConfig,
    InstantSite,
    Series,
    Start,
    __main__,
    instant_site,
    judge,
    measure,
    render,
    start_call,
)
from interop.instant.report import ladder
from interop.wire import Rung
from tests.interop.chromium import DEFAULT, WARP, WARP_NO_PQC, Chromiums
from tests.interop.loops import run

RTT_S = 0.05
FAR = {"offerUrl": "/v1/realtime/calls", "bundleUrl": "/v1/instant"}
A_CHECK = bytes.fromhex("000100002112a442") + bytes(12)


# -- the report, without browsers ---------------------------------------------------------------


def starts(path: str, *connected_ms: float, sessions: int = 1) -> tuple[Start, ...]:
    return tuple(
        Start(
            path=path,
            marks={"ice": at - 50, "dtls": at},
            sessions=sessions,
            ladder=((1.0, True, A_CHECK),),
        )
        for at in connected_ms
    )


def series(**changes: tuple[Start, ...]) -> Series:
    made = {
        "standard": starts("signalled", 200.0, 210.0, 300.0),
        "instant": starts("attached", 100.0, 170.0, 400.0),
        "stale": starts("stale", 210.0, 240.0, 250.0),
        "lost": starts("attached", 900.0, 901.0, 902.0),
    }
    return Series(browser="chromium", version="Browser 1", rtt_s=RTT_S, starts={**made, **changes})


def verdicts(made: Series) -> dict[str, bool]:
    return {row.mode: row.met for row in judge(made)}


def test_medians_are_compared_with_those_of_the_standard_start() -> None:
    assert verdicts(series()) == dict.fromkeys(MODES, True)
    targets = {row.mode: row.target_ms for row in judge(series())}
    assert targets == {"standard": None, "instant": 170.0, "stale": 240.0, "lost": None}
    late = series(instant=starts("attached", 171.0, 171.0, 171.0))
    assert verdicts(late)["instant"] is False
    later = series(stale=starts("stale", 241.0, 241.0, 241.0))
    assert verdicts(later)["stale"] is False


@pytest.mark.parametrize("mode", MODES)
def test_every_start_makes_one_session(mode: str) -> None:
    path = next(iter(MODES[mode].paths))
    for sessions in (0, 2):
        made = series(**{mode: (*starts(path, 1.0), *starts(path, 1.0, sessions=sessions))})
        assert verdicts(made)[mode] is False


def test_a_start_that_went_another_way_does_not_count() -> None:
    assert verdicts(series(instant=starts("stale", 100.0)))["instant"] is False
    assert verdicts(series(stale=starts("attached", 100.0)))["stale"] is False
    assert verdicts(series(standard=starts("attached", 200.0)))["standard"] is False


def test_rows_are_for_people_and_for_machines() -> None:
    rows = judge(series())
    text = render(rows)
    assert "170 ms  (100 to 400)" in text
    assert "<= 170 ms" in text
    assert render([]).count("\n") == 0
    row = rows[1].as_json()
    assert row["connected_ms"] == {"median": 170.0, "min": 100.0, "max": 400.0}
    assert row["target"] == {"connected_ms": 170.0, "sessions": [1]}
    assert {"browser", "rtt_ms", "mode", "sessions", "met", "paths"} <= set(row)
    lines = ladder(series().starts["lost"][0]).splitlines()
    assert ["page" in line for line in lines] == [True] * 3
    assert "Binding request" in lines[0]


@pytest.mark.parametrize(
    "arguments",
    [[], ["--report", "--runs", "0"], ["--report", "--rtt", "1"], ["--report", "--rtt", "x"]],
)
def test_nonsense_is_refused(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        __main__.main(arguments)
    assert ended.value.code == 2
    assert "error" in capsys.readouterr().err


@pytest.mark.parametrize(("late", "status"), [(0.0, 0), (100.0, 1)])
def test_the_exit_status_says_whether_all_are_met(
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    late: float,
    status: int,
) -> None:
    async def measured(names, config) -> list[Series]:
        return [series(instant=starts("attached", 170.0 + late))]

    monkeypatch.setattr(__main__, "_measure_all", measured)
    assert __main__.main(["--report", "--json"]) == status
    rows = json.loads(capsys.readouterr().out)
    assert [row["mode"] for row in rows] == list(MODES)
    assert __main__.main(["--report", "--ladder"]) == status


def test_a_browser_that_is_not_there_ends_the_report(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    async def absent(names, config) -> list[Series]:
        raise BrowserError("not installed: chromium (apt-get install chromium)")

    monkeypatch.setattr(__main__, "_measure_all", absent)
    assert __main__.main(["--report"]) == __main__.UNKNOWN
    assert capsys.readouterr().err.startswith("no report: not installed: chromium")


# -- one start of each mode ---------------------------------------------------------------------


async def each_mode_once(browser: Browser, name: str) -> None:
    config = InstantMeasureConfig(runs=1, rtts_s=(RTT_S,))
    [made] = await measure(browser, name, config)
    for row in judge(made):
        assert (row.mode, row.sessions) == (row.mode, (1,))
        assert MODES[row.mode].paths.issuperset(row.paths)
    rtt_ms = 1000 * RTT_S
    # what cannot be had for less: signalling (if it is waited for), a check, a handshake
    assert made.starts["standard"][0].connected_ms >= 3 * rtt_ms
    assert made.starts["stale"][0].connected_ms >= 3 * rtt_ms
    [instant] = made.starts["instant"]
    assert instant.connected_ms >= 2 * rtt_ms
    # the first check does not wait for signalling
    assert next(at for at, from_page, _ in instant.ladder if from_page) < instant.marks["answered"]


@pytest.mark.interop
@pytest.mark.slow
def test_chromium_once_in_each_mode(chromium: Chromiums) -> None:
    async def test() -> None:
        async with chromium(DEFAULT).attach() as browser:
            await each_mode_once(browser, "chromium")

    run(test(), seconds=40)


@pytest.mark.interop
@pytest.mark.slow
def test_firefox_once_in_each_mode(firefox: FirefoxProcess) -> None:
    async def test() -> None:
        async with firefox.attach() as browser:
            await each_mode_once(browser, "firefox")

    run(test(), seconds=40)


@pytest.mark.interop
@pytest.mark.slow
@pytest.mark.parametrize("hybrid", [False, True], ids=["X25519", "X25519MLKEM768"])
def test_chromium_with_warp_begins_with_one_packet(chromium: Chromiums, hybrid: bool) -> None:
    """ClientHello and ticket in the first datagram, the INIT of either side in what both know."""

    async def test() -> None:
        async with (
            chromium(WARP if hybrid else WARP_NO_PQC).attach() as browser,
            instant_site(rtt_s=RTT_S) as site,
        ):
            page = await browser.open(site.page)
            made = await start_call(page, site, MODES["instant"], RTT_S)
            assert made.sessions == 1
            assert made.path in MODES["instant"].paths
            checks = [Rung(at, not mine, data) for at, mine, data in made.ladder if mine]
            assert checks[0].is_check
            assert checks[0].rider[0] == 22
            assert len(checks[0].data) <= 1220
            first = next(at for at, from_page, _ in made.ladder if from_page)
            assert made.connected_ms - first >= 1000 * RTT_S
            assert page.errors == []

    run(test())


# -- a whole call ---------------------------------------------------------------------------------


async def lives_and_ends(browser: Browser, site: InstantSite, mode: str) -> None:
    """Sound both ways and events, whichever way the call came; hung up, nothing is left."""
    page = await browser.open(site.page)
    site.far.edit_bundle = None
    options = FAR if mode == "instant" else {"offerUrl": FAR["offerUrl"]}
    problem = await page.call("prepare", options)
    assert problem == ("" if mode == "instant" else "the server offers no tickets")
    await page.call("start")
    async with asyncio.timeout(10):
        while True:
            found = await page.call("look")
            flows = found["received"] and found["sent"] and found["events"] == "open"
            if flows and found["path"] != "instant":
                break
            await asyncio.sleep(0.05)
    assert found["path"] == ("attached" if mode == "instant" else "signalled")
    assert found["location"].startswith(site.url)
    assert (found["connection"], found["signaling"]) == ("connected", "stable")
    assert await page.call("open") == 1
    await page.call("end")
    async with asyncio.timeout(5):
        while site.server.server.sessions:
            await asyncio.sleep(0.02)
    assert await page.call("open") == 0
    assert page.errors == []


@pytest.mark.interop
@pytest.mark.slow
@pytest.mark.parametrize("mode", ["instant", "standard"])
def test_chromium_talks(chromium: Chromiums, mode: str) -> None:
    async def test() -> None:
        async with chromium(DEFAULT).attach() as browser, instant_site() as site:
            await lives_and_ends(browser, site, mode)

    run(test())


@pytest.mark.interop
@pytest.mark.slow
@pytest.mark.parametrize("mode", ["instant", "standard"])
def test_firefox_talks(firefox: FirefoxProcess, mode: str) -> None:
    async def test() -> None:
        async with firefox.attach() as browser, instant_site() as site:
            await lives_and_ends(browser, site, mode)

    run(test())
