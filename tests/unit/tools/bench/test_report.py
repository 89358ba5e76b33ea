from __future__ import annotations

import io
import json

from rich.console import Console

from warp_tools.bench import Report, Target
from warp_tools.bench.report import ratios


def report(value: float | None = 1.0) -> Report:
    return Report(
        title="A start",
        ours={"cpu_ms": value, "starts": 300},
        aiortc={"cpu_ms": 5.6},
        ratio={"cpu_ms": 5.6},
        targets=[Target(name="CPU ms", value=value, limit=1.2)],
    )


def test_a_target_may_be_a_ceiling_or_a_floor() -> None:
    assert Target(name="a", value=1.2, limit=1.2).met
    assert not Target(name="a", value=1.3, limit=1.2).met
    assert Target(name="a", value=7.5, limit=7.0, at_least=True).met
    assert not Target(name="a", value=6.9, limit=7.0, at_least=True).met
    assert not Target(name="a", value=None, limit=7.0).met


def test_the_json_has_the_promised_shape() -> None:
    out = json.loads(json.dumps(report(1.5).to_json()))
    assert {"ours", "aiortc", "ratio", "targets_met"} <= set(out)
    assert out["targets_met"] is False
    assert out["misses"] == ["CPU ms: 1.5 (target <= 1.2)"]
    assert report().to_json()["targets_met"] is True


def test_ratios_say_how_much_better_ours_is() -> None:
    ours = {"mb_s": 36.0, "cpu": 2.0, "noisy": False, "zero": 0.0, "starts": 64, "rounds": 5}
    theirs = {"mb_s": 12.0, "cpu": 5.0, "noisy": False, "zero": 0.0, "starts": 24, "rounds": 5}
    assert ratios(ours, theirs, more_is_better=("mb_s",)) == {"mb_s": 3.0, "cpu": 2.5}


def test_people_see_a_table() -> None:
    console = Console(file=io.StringIO(), width=100, record=True)
    report(1.5).show(console)
    text = console.export_text()
    assert "5.6x" in text
    assert "missed: CPU ms: 1.5 (target <= 1.2)" in text
