"""The matrix goes on whatever a peer does: absent, unable, refusing, crashing, hanging."""

from __future__ import annotations

import asyncio
import importlib.metadata
import json
import os
import re
import subprocess
import sys
import time
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest

from interop.matrix import Cell, Matrix, Result
from interop.matrix.__main__ import chosen, main, run, status
from interop.matrix.call import Cost
from interop.matrix.cell import Attempt
from interop.matrix.evidence import write_pcap
from interop.matrix.report import (
    BEGIN,
    END,
    README,
    WHOLE,
    as_json,
    put_into,
    region,
    summary,
    table,
    whole,
)
from interop.matrix.results import Results
from interop.matrix.scenarios import BY_NAME, SCENARIOS
from interop.peers import KINDS, OURS, Capability, Lack, PeerAbsent, Wants
from interop.peers.lines import LineProcess
from interop.wire import Rung
from tests.interop.loops import open_files, other_tasks_end
from warp_tools.capture.reader import open_capture

START = BY_NAME["peer-offers, lite, passive"]
PROGRAM = """
import json, os, subprocess, sys, time
child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
open(sys.argv[2], "w").write(str(child.pid))
for line in sys.stdin:
    command = json.loads(line)
    if command["cmd"] == "offer":
        {"crash": lambda: os._exit(3), "hang": lambda: time.sleep(600)}.get(sys.argv[1], int)()
    answer = {"re": command["id"], "value": "v=0"}
    if command["cmd"] == "offer" and sys.argv[1] == "refuse":
        answer = {"re": command["id"], "error": "no offers today"}
    print(json.dumps(answer), flush=True)
"""


@dataclass(frozen=True)
class Broken:
    """A peer that does as it likes."""

    how: str
    folder: Path
    name: str = "broken"
    title: str = "Broken"
    plays_out: bool = False
    lacks: dict[Capability, Lack] = field(default_factory=dict)

    def version(self) -> str:
        if self.how == "absent":
            raise PeerAbsent("broken is not installed: mend it")
        return "broken 0"

    def prepare(self) -> None:
        pass

    def key(self, wants: Wants) -> object:
        return None

    def run(self, wants: Wants) -> AbstractAsyncContextManager[LineProcess]:
        program = self.folder / "program.py"
        program.write_text(PROGRAM)
        command = [sys.executable, str(program), self.how, str(self.folder / "child")]
        return LineProcess.run(command, opus=True)


def play(kind: Broken, out: Path, **changes: object) -> Cell:
    """Play one scenario with a broken peer, and then a good one with ours."""

    async def both() -> Cell:
        async with Matrix(out) as matrix:
            cell = await matrix.cell(kind, replace(START, **changes))
            after = await matrix.cell(OURS, START)
        await other_tasks_end()
        assert after.result is Result.PASS, after.why
        return cell

    before = open_files()
    cell = asyncio.run(both())
    assert open_files() == before
    return cell


def is_alive(pid: int) -> bool:
    """Whether a process exists and is not a zombie."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


@pytest.mark.slow
@pytest.mark.parametrize(
    ("how", "why"),
    [
        ("crash", "the process has ended"),
        ("refuse", "no offers today"),
        ("hang", "not done within 2 s"),
    ],
)
def test_a_peer_that_fails_says_so_and_leaves_nothing(how: str, why: str, tmp_path: Path) -> None:
    cell = play(Broken(how, tmp_path), tmp_path / "out", limit_s=2.0)
    assert cell.result is Result.FAIL
    assert len(cell.attempts) == 2, "it was repeated once"
    assert why in cell.why
    assert "the first try failed" in cell.why
    for attempt in cell.attempts:
        assert why in (Path(attempt.evidence) / "why.txt").read_text()
    child = int((tmp_path / "child").read_text())
    end = time.monotonic() + 5
    while is_alive(child) and time.monotonic() < end:
        time.sleep(0.02)
    assert not is_alive(child)


@pytest.mark.slow
def test_a_peer_that_is_absent_says_how_to_get_it(tmp_path: Path) -> None:
    cell = play(Broken("absent", tmp_path), tmp_path / "out")
    assert (cell.result, cell.why) == (Result.ABSENT, "broken is not installed: mend it")
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("name", ["aiortc", "libwebrtc"])
def test_a_package_that_is_too_old_says_what_is_needed(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(importlib.metadata, "version", lambda _: "0.0.9")
    [cell] = asyncio.run(run([KINDS[name]], [START], 1, None))
    assert cell.result is Result.ABSENT
    assert re.search(r"0\.0\.9 is too old, [\d.]+ is needed: pip install", cell.why)


@pytest.mark.parametrize("name", ["chromium", "firefox"])
def test_a_browser_that_is_too_old_says_what_is_needed(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for binary in KINDS[name].binaries:
        program = tmp_path / binary
        program.write_text(f"#!/bin/sh\necho 'Mozilla {binary} 78.15.0esr'\n")
        program.chmod(0o700)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
    [cell] = asyncio.run(run([KINDS[name]], [START], 1, None))
    assert cell.result is Result.ABSENT
    assert "78.15.0esr is too old, 140 is needed: apt-get install" in cell.why


def test_what_a_peer_cannot_do_is_not_tried(tmp_path: Path) -> None:
    lacks = {Capability.SNAP: Lack("it has none", "its manual, page 7")}
    kind = Broken("crash", tmp_path, lacks=lacks)

    async def test() -> Cell:
        async with Matrix(tmp_path / "out") as matrix:
            return await matrix.cell(kind, BY_NAME["only SNAP"])

    cell = asyncio.run(test())
    assert (cell.result, cell.why) == (Result.CANNOT, "it has none (its manual, page 7)")
    assert not (tmp_path / "child").exists()


@pytest.mark.slow
def test_the_command_writes_both_reports(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    readme = tmp_path / "README.md"
    readme.write_text(f"# Before\n\n{BEGIN}\nold\n{END}\n\nafter\n")
    out = tmp_path / "out"
    arguments = ["--peer", "ours", "--scenario", START.name, "--repeat", "2", "--json"]
    assert main([*arguments, "--out", str(out), "--markdown", str(readme)]) == 0
    [first, second] = json.loads(capsys.readouterr().out)["cells"]
    assert (first["run"], second["run"]) == (1, 2)
    assert {"peer", "version", "scenario", "result", "rtt", "ms", "why"} <= first.keys()
    assert first["result"] == "pass"
    assert first["ms"] == pytest.approx(first["rtt"] * 40, abs=0.5)
    assert json.loads((out / "matrix.json").read_text())["cells"] == [first, second]
    assert sorted(path.name for path in out.iterdir()) == ["matrix.json", "matrix.md"]
    text = readme.read_text()
    assert text.startswith("# Before\n\n" + BEGIN)
    assert text.endswith(END + "\n\nafter\n")
    assert "old" not in text
    assert KINDS["ours"].title in text


@pytest.mark.slow
def test_captures_of_what_passed_are_kept_when_asked_for(tmp_path: Path) -> None:
    arguments = ["--peer", "ours", "--scenario", START.name, "--keep", "--out", str(tmp_path)]
    assert main(arguments) == 0
    (folder,) = (tmp_path / "ours").iterdir()
    with open_capture(folder / "call-1.pcap") as reader:
        assert len(list(reader)) > 4
    assert "EXPORTER_SECRET" in (folder / "keys.log").read_text()
    with pytest.raises(SystemExit):
        main(arguments[:-2])


def test_its_help_can_be_read(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["--help"])
    assert "10 % loss" in capsys.readouterr().out


def test_a_file_without_markers_is_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "README.md"
    path.write_text("nothing")
    with pytest.raises(ValueError, match="<!-- matrix -->"):
        put_into(path, "new")
    assert path.read_text() == "nothing"


def test_scenarios_are_chosen_by_parts_of_their_names() -> None:
    assert chosen(["200 starts"], fast=True) == []
    assert [one.name for one in chosen(["200 starts"], fast=False)] == ["200 starts at 10 % loss"]
    assert len(chosen(None, fast=True)) == len(SCENARIOS) - 2
    with pytest.raises(SystemExit):
        main(["--scenario", "no such thing"])


def test_names_are_unique_and_plays_exist() -> None:
    from interop.matrix.runner import play_of

    assert len(BY_NAME) == len(SCENARIOS)
    for scenario in SCENARIOS:
        assert play_of(scenario).__doc__
        assert scenario.not_above is None or scenario.not_above in BY_NAME


@pytest.mark.slow
def test_reports_of_every_result(tmp_path: Path) -> None:
    good = asyncio.run(_one(OURS))
    bad = replace(good, scenario="1 MB message each way", attempts=(_failed("too | slow"),) * 2)
    results = Results.of([good, bad, replace(good, run=2)])
    text, short = table(results), summary(results)
    assert "| ✓ " in text and ", 2/2 |" in text
    assert "✗ [1]" in text
    assert "1. too \\| slow" in text
    assert "| warp-rtc | " in short and " | 1 of 2 | 0 | " in short
    assert "- ✗ warp-rtc, 1 MB message each way: too \\| slow" in short
    assert status([good]) == 0
    assert status([good, bad]) == 1
    assert json.dumps(as_json([good, bad]))


def cell(peer: str, scenario: str, *results: Result, run: int = 1) -> Cell:
    """A cell that went like this, try by try."""
    cost = Cost(peer_connected=1, peer_open=2, we_connected=1, we_open=1.5)
    attempts = tuple(
        Attempt(result=one, why=f"{one}!", cost=cost if one is Result.PASS else None)
        for one in results
    )
    return Cell(
        peer=peer,
        version=f"{peer} 1",
        scenario=scenario,
        group=BY_NAME[scenario].group,
        run=run,
        attempts=attempts,
        rtt_ms=40,
    )


def test_rows_hold_all_runs() -> None:
    first = cell("pion", START.name, Result.FAIL, Result.PASS)
    second = cell("pion", START.name, Result.PASS, run=2)
    third = cell("pion", START.name, Result.FAIL, Result.FAIL, run=3)
    [row] = Results.of([first, second]).rows
    assert (row.result, row.runs, row.passed, row.repeated) == (Result.PASS, 2, 2, 1)
    assert (row.rtt, row.ms) == (2, 80)
    [row] = Results.of([first, second, third]).rows
    assert (row.result, row.passed, row.why) == (Result.FAIL, 2, "fail!")


def test_new_rows_replace_their_own_and_no_others(tmp_path: Path) -> None:
    path = tmp_path / "results.json"
    assert Results.read(path).rows == ()
    older = Results.of(
        [
            cell("werift", START.name, Result.PASS),
            cell("pion", "only SNAP", Result.PASS),
            cell("pion", START.name, Result.FAIL, Result.FAIL),
        ]
    )
    older.write(path)
    newer = Results.of([cell("pion", START.name, Result.PASS)])
    newer.merged_into(Results.read(path)).write(path)
    rows = Results.read(path).rows
    assert [(row.peer, row.scenario, row.result.value) for row in rows] == [
        ("pion", START.name, "pass"),
        ("pion", "only SNAP", "pass"),
        ("werift", START.name, "pass"),
    ]


def test_cells_of_a_file_are_reported_without_playing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "cells.json"
    cells = [cell("pion", START.name, Result.FAIL, Result.PASS)]
    path.write_text(json.dumps(as_json(cells)))
    assert main(["--cells", str(path), "--cells", str(path)]) == 0
    assert "✓ 2.00, 2/2, 2 again" in capsys.readouterr().out


def test_the_tables_are_what_the_kept_results_make() -> None:
    """`python -m interop.matrix --publish` has written them, and nobody has by hand."""
    kept = Results.read()
    assert {row.peer for row in kept.rows} == set(KINDS)
    assert region(README) == summary(kept)
    assert WHOLE.read_text(encoding="utf-8") == whole(kept)


async def _one(kind: object) -> Cell:
    async with Matrix() as matrix:
        return await matrix.cell(kind, START)  # type: ignore[arg-type]


def _failed(why: str) -> Attempt:
    return Attempt(result=Result.FAIL, why=why)


def test_a_capture_can_be_read_again(tmp_path: Path) -> None:
    path = tmp_path / "call.pcap"
    write_pcap(path, [Rung(1.5, True, b"\x16\xfe\xfd" + bytes(40)), Rung(1.75, False, bytes(5))])
    with open_capture(path) as reader:
        first, second = reader
    assert first.source == second.destination == ("192.0.2.1", 10_001)
    assert first.destination == second.source == ("192.0.2.2", 10_002)
    assert (first.payload[:3], len(second.payload)) == (b"\x16\xfe\xfd", 5)
    assert second.time_ns - first.time_ns == 250_000_000


@pytest.mark.slow
def test_a_run_that_is_stopped_leaves_no_peer(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "interop.matrix", "--peer", "ours", "--json"]
    environment = {**os.environ, "TMPDIR": str(tmp_path)}
    streams = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    process = subprocess.Popen(
        [*command, "--scenario", START.name, "--scenario", "30 s idle"], env=environment, **streams
    )
    try:
        assert START.name in process.stderr.readline()  # and now it is idle
        children = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
        assert children
        process.terminate()
        output, _ = process.communicate(timeout=30)
    finally:
        process.kill()
        process.wait()
    assert process.returncode == 130
    assert [cell["scenario"] for cell in json.loads(output)["cells"]] == [START.name]
    assert not any(is_alive(int(child)) for child in children)
    assert list(tmp_path.iterdir()) == []


def test_the_programs_answer_who_they_are() -> None:
    """A program that can't start says why, to whoever runs it by hand as well."""
    done = subprocess.run(
        [sys.executable, "-m", "interop.peers.programs.ours"],
        input='{"id": 1, "cmd": "hello"}\n{"id": 2, "cmd": "offer", "pc": 9}\n',
        capture_output=True,
        text=True,
        timeout=30,
        env={**os.environ, "PYTHONUNBUFFERED": "1"},
        check=False,
    )
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    assert lines[0] == {"re": 1, "value": {"version": "ours"}}
    assert [line["re"] for line in lines] in ([1], [1, 2])
