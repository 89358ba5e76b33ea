"""A start's cost on a machine that has other work as well: it is said, and changes no figure."""

from __future__ import annotations

import asyncio
import io
from typing import Any

import pytest
from rich.console import Console

from warp_tools.bench import Report, setup


class FakePairing:
    """Two processes that always take as long."""

    @classmethod
    async def start(cls, stack: str) -> FakePairing:
        return cls()

    async def open_many(self, sessions: list[str], kind: str) -> tuple[float, float]:
        return 0.9, 1.0

    async def close_many(self, sessions: list[str]) -> None:
        return None

    def tell_both(self, **order: Any) -> None:
        return None

    async def stop(self) -> None:
        return None


def measured(monkeypatch: pytest.MonkeyPatch, *cores: float | None) -> Report:
    """Return what comes of measuring ours, then aiortc, with so many cores kept busy by others."""
    waiting = list(cores)

    class FakeNeighbours:
        def cores(self) -> float | None:
            return waiting.pop(0)

    async def idle_memory(*_: object) -> float:
        return 40.0

    monkeypatch.setattr(setup, "Pairing", FakePairing)
    monkeypatch.setattr(setup, "Neighbours", FakeNeighbours)
    monkeypatch.setattr(setup, "idle_memory", idle_memory)
    monkeypatch.setattr(setup, "has_aiortc", lambda: len(cores) > 1)
    return asyncio.run(setup.run(quick=True))


def shown(report: Report) -> str:
    console = Console(file=io.StringIO(), width=100, record=True)
    report.show(console)
    return console.export_text()


def test_a_machine_that_others_load_is_named_in_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    report = measured(monkeypatch, 0.8, 0.04)
    line = (
        "noisy: other processes kept 0.8 cores busy while ours was measured: a start costs less on "
        "a quiet machine\n"
    )
    assert shown(report).count(line) == 1
    told = report.to_json()
    assert told["noisy"] == line.removeprefix("noisy: ").strip()
    assert (told["ours"]["noisy"], told["ours"]["neighbours_cores"]) == (True, 0.8)
    assert (told["aiortc"]["noisy"], told["aiortc"]["neighbours_cores"]) == (False, 0.04)
    assert "neighbours_cores" not in told["ratio"]


def test_so_is_one_that_they_load_while_aiortc_is_measured(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    told = measured(monkeypatch, 0.0, 1.25).to_json()["noisy"]
    assert told.startswith("other processes kept 1.2 cores busy while aiortc was measured:")


def test_both_are_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    text = shown(measured(monkeypatch, 0.5, 1.0))
    both = "0.5 cores busy while ours was measured, 1.0 cores busy while aiortc was measured:"
    assert text.count("noisy: ") == 1
    assert f"noisy: other processes kept {both}" in text


@pytest.mark.parametrize("cores", [(0.1, 0.2), (None, None), (0.0,)])
def test_of_a_quiet_machine_and_of_an_unknown_one_nothing_is_said(
    monkeypatch: pytest.MonkeyPatch, cores: tuple[float | None, ...]
) -> None:
    report = measured(monkeypatch, *cores)
    assert "noisy:" not in shown(report)
    assert report.to_json()["noisy"] is None


def test_no_figure_and_no_verdict_changes(monkeypatch: pytest.MonkeyPatch) -> None:
    quiet, loud = measured(monkeypatch, 0.0, 0.0), measured(monkeypatch, 1.9, 1.9)
    apart = ("noisy", "neighbours_cores")
    for one, other in ((quiet.ours, loud.ours), (quiet.aiortc or {}, loud.aiortc or {})):
        assert {k: v for k, v in one.items() if k not in apart} == {
            k: v for k, v in other.items() if k not in apart
        }
    assert quiet.targets == loud.targets
    assert quiet.ratio == loud.ratio
