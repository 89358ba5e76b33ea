"""What the benches come to where there is no aiortc: our figures, and what could not be judged."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from typing import Any

import pytest
from typer.testing import CliRunner

from warp_tools.bench import Report, channel, codec, media, setup
from warp_tools.bench.pairing import has_aiortc
from warp_tools.cli import app

OURS = {
    "client_cpu_ms": 0.9,
    "server_cpu_ms": 0.9,
    "idle_session_kib": 40.0,
    "starts": 64,
    "mb_s": 90.0,
    "packet_us": 9.0,
    "late": 0.0,
}


@pytest.fixture
def alone(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """No aiortc; and nothing but these figures. Which stacks were asked for is kept."""
    asked: list[str] = []

    async def measure(stack: str, *_: Any, **__: Any) -> dict[str, Any]:
        asked.append(stack)
        return dict(OURS)

    monkeypatch.setitem(sys.modules, "aiortc", None)
    for module, name in ((setup, "measure"), (channel, "measure")):
        monkeypatch.setattr(module, name, measure)
    for either in (media, codec):
        monkeypatch.setattr(either, "trial", measure)
    return asked


@pytest.mark.parametrize("bench", [setup, media, channel, codec])
def test_ours_is_measured_alone(bench: Any, alone: list[str]) -> None:
    assert not has_aiortc()
    report: Report = asyncio.run(bench.run(quick=True))
    assert not any("aiortc" in stack for stack in alone)
    told = report.to_json()
    assert told["ours"]["packet_us"] == 9.0
    assert told["aiortc"] is told["ratio"] is None
    # what is no ratio is judged all the same
    assert told["targets_met"] is (bench is setup)
    if bench is not setup:
        (miss,) = told["misses"]
        assert "times aiortc's: not judged, aiortc is not installed (target >= " in miss


@pytest.mark.usefixtures("alone")
def test_one_line_says_how_to_have_both() -> None:
    done = CliRunner().invoke(app, ["bench", "channel", "--quick"])
    assert done.exit_code == 1
    assert "aiortc is not installed, so there is no ratio: pip install 'warp-rtc[peers]'\n" in (
        done.output
    )
    assert "missed" not in done.output
    assert CliRunner().invoke(app, ["bench", "setup", "--quick"]).exit_code == 0
    told = CliRunner().invoke(app, ["bench", "channel", "--quick", "--json"])
    assert json.loads(told.output)["ratio"] is None


@pytest.mark.slow
def test_our_parties_know_nothing_of_aiortc() -> None:
    modules = ", ".join(f"warp_tools.bench.{name}" for name in ("child", "load", "ours", "talkers"))
    blocked = f"import sys; sys.modules['aiortc'] = None; import {modules}"
    subprocess.run([sys.executable, "-c", blocked], check=True)
