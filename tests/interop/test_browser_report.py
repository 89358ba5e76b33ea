"""The report on browsers' round trips: its judgement, and one quick look at each kind of start."""

from __future__ import annotations

import asyncio
import json
from dataclasses import replace

import pytest

from interop import browsers
from interop.browser import BrowserError
from interop.measure import CLIENTS, Figures, MeasureConfig, Series, judge, measure, render
from interop.measure.clients import JITTER_RTT
from interop.measure.report import ladder

RTT_S = 0.1
FAR = MeasureConfig(runs=3, rtt_s=0.2)
A_CHECK = bytes.fromhex("000100002112a442") + bytes(12)


def starts(*connected_rtt: float, channel_rtt: float = 0.1, audible_ms: float = 50.0):
    """Starts that have cost so many round trips of 200 ms."""
    return tuple(
        Figures(
            answered_ms=205.0,
            connected_ms=200 * rtt,
            channel_ms=200 * (rtt + channel_rtt),
            audible_ms=200 * rtt + audible_ms,
            ladder=((210.0, True, A_CHECK),),
        )
        for rtt in connected_rtt
    )


def series(name: str, ours, baseline) -> Series:
    return Series(
        client=CLIENTS[name], version="Browser 1", config=FAR, ours=ours, baseline=baseline
    )


def test_a_target_that_is_a_number_is_met_or_not() -> None:
    theirs = starts(9.0, 9.0, 9.0)
    met = judge(series("chromium-warp-no-pq", starts(2.0, 2.1, 9.0), theirs))
    assert met.met
    assert met.ours.connected.rtt == 2.1
    assert met.ours.channel.rtt == 2.2
    assert (met.ours.connected.least_rtt, met.ours.connected.most_rtt) == (2.0, 9.0)
    assert met.connected_limit_rtt == 2.2
    # no jitter is granted to a number, and no slow baseline excuses it
    assert not judge(series("chromium-warp-no-pq", starts(2.21, 2.21, 2.21), theirs)).met
    assert not judge(
        series("chromium-warp-no-pq", starts(2.1, 2.1, 2.1, channel_rtt=0.11), theirs)
    ).met


def test_a_target_that_is_the_baseline_grants_jitter_and_no_more() -> None:
    theirs = starts(3.1, 3.1, 3.1)
    assert judge(series("chromium", starts(3.1, 3.2, 3.2), theirs)).met
    assert not judge(series("chromium", starts(3.1, 3.21, 3.21), theirs)).met
    assert not judge(series("firefox", starts(3.1, 3.1, 3.1, channel_rtt=0.21), theirs)).met
    row = judge(series("firefox", starts(3.1), theirs)).as_json()
    assert row["target"]["connected_rtt"] == round(3.1 + JITTER_RTT, 2)
    assert row["target"]["jitter_rtt_included"] == JITTER_RTT
    assert row["baseline"] == {"connected_rtt": 3.1, "channel_rtt": 3.2}


def test_the_first_sound_is_part_of_the_target() -> None:
    theirs = starts(3.1)
    assert judge(series("chromium", starts(3.1, audible_ms=260.0), theirs)).met
    assert not judge(series("chromium", starts(3.1, audible_ms=261.0), theirs)).met
    unheard = tuple(replace(one, audible_ms=None) for one in starts(3.1))
    assert not judge(series("chromium", unheard, theirs)).met


def test_the_table_shows_measurement_target_and_baseline() -> None:
    met = judge(series("chromium", starts(3.1), starts(3.1)))
    missed = judge(series("chromium-warp", starts(3.1), starts(3.1)))
    text = render([met, missed])
    assert "Chromium, default flags" in text
    assert "3.10  620 ms  (3.10 to 3.10)" in text
    assert "<= 3.10 + 0.1" in text
    assert "<= 2.70" in text
    lines = text.splitlines()
    assert lines[1].endswith("yes")
    assert lines[4].endswith("NO")
    assert render([]).count("\n") == 0


def test_a_ladder_counts_from_the_offer() -> None:
    [line] = ladder(starts(3.1)[0], 200.0).splitlines()
    assert line.split()[:3] == ["1.050", "client", "──▶"]
    assert "Binding request" in line


@pytest.mark.parametrize("arguments", [[], ["--report", "--runs", "0"], ["--report", "--rtt", "1"]])
def test_nonsense_is_refused(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        browsers.main(arguments)
    assert ended.value.code == 2
    assert "error" in capsys.readouterr().err


@pytest.mark.parametrize(("connected", "status"), [(2.0, browsers.MET), (2.8, browsers.MISSED)])
def test_the_exit_status_says_whether_all_are_met(
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    connected: float,
    status: int,
) -> None:
    async def measured(client, config, say) -> Series:
        return Series(
            client=client,
            version="Browser 1",
            config=config,
            ours=starts(connected if client.name == "chromium-warp" else 2.0),
            baseline=starts(2.0),
        )

    monkeypatch.setattr(browsers, "measure", measured)
    assert browsers.main(["--report", "--json"]) == status
    rows = json.loads(capsys.readouterr().out)
    assert [row["client"] for row in rows] == list(CLIENTS)
    assert [row["met"] for row in rows].count(False) == (status == browsers.MISSED)
    for row in rows:
        assert {"client", "connected_rtt", "channel_rtt", "target", "met"} <= set(row)


def test_a_browser_that_is_not_there_ends_the_report(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    async def absent(client, config, say) -> Series:
        raise BrowserError("not installed: chromium (apt-get install chromium)")

    monkeypatch.setattr(browsers, "measure", absent)
    assert browsers.main(["--report"]) == browsers.UNKNOWN
    assert capsys.readouterr().err.startswith("no report: not installed: chromium")


# One start of each kind. How long it takes on a machine that does other things as well is not
# judged here; what cannot be had for less is: an answer, a path, and a handshake.
FEWEST_RTT = {
    "chromium-warp-no-pq": 2.0,
    "chromium-warp": 2.0,
    "chromium": 3.0,
    "firefox": 3.0,
}


@pytest.mark.interop
@pytest.mark.slow
@pytest.mark.parametrize("name", CLIENTS)
def test_one_start_of_each_kind(request: pytest.FixtureRequest, name: str) -> None:
    # ends the test when that browser is absent
    request.getfixturevalue(name.split("-")[0])
    config = MeasureConfig(runs=1, rtt_s=RTT_S)
    row = judge(asyncio.run(measure(CLIENTS[name], config)))
    assert row.version.split()[0].lower() in name
    for costs in (row.ours, row.baseline):
        assert costs.answered.rtt >= 1.0
        assert costs.connected.rtt >= FEWEST_RTT[name]
        assert costs.channel.rtt >= costs.connected.rtt
    assert row.ours.audible is not None
    assert row.baseline.audible is None
