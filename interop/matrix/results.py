"""Results that are kept: interop/results.json, one row for each peer and scenario.

cells of one run or of several ─▶ Row.of ─▶ merged into what is kept ─▶ README, interop/MATRIX.md
                                            (rows of other peers and scenarios stay)
"""

from __future__ import annotations

import datetime
import json
import os
import platform
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from interop.matrix.cell import Attempt, Cell, Result
from interop.matrix.scenarios import BY_NAME
from interop.peers import KINDS

KEPT = Path(__file__).parents[1] / "results.json"
_WORST = (Result.FAIL, Result.ABSENT, Result.CANNOT, Result.PASS)


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """What a peer made of a scenario in all runs."""

    peer: str
    version: str
    scenario: str
    group: str
    result: Result
    runs: int
    passed: int
    repeated: int
    """Runs in which the first try failed."""
    rtt: float | None
    """The least of the runs: a busy machine can only add to it."""
    ms: float | None
    why: str

    @classmethod
    def of(cls, cells: Sequence[Cell]) -> Row:
        """Return the row of cells that have peer and scenario in common."""
        worst = min(cells, key=lambda cell: _WORST.index(cell.result))
        last = cells[-1]
        costs = [(cell.rtt, cell.ms) for cell in cells if cell.rtt is not None]
        rtt, ms = min(costs) if costs else (None, None)
        return cls(
            peer=last.peer,
            version=last.version,
            scenario=last.scenario,
            group=last.group,
            result=worst.result,
            runs=len(cells),
            passed=sum(cell.result is Result.PASS for cell in cells),
            repeated=sum(
                len(cell.attempts) > 1 and cell.result is Result.PASS for cell in cells
            ),
            rtt=rtt,
            ms=ms,
            why=worst.attempts[-1].why,
        )  # fmt: skip

    @classmethod
    def from_json(cls, found: dict[str, Any]) -> Row:
        """Return a row that was kept."""
        return cls(**{**found, "result": Result(found["result"])})

    def as_json(self) -> dict[str, Any]:
        """Return it for machines."""
        return {**asdict(self), "result": self.result.value}


@dataclass(frozen=True, slots=True, kw_only=True)
class Results:
    """Rows, peers and scenarios in the order of their tables."""

    date: str
    machine: str
    rows: tuple[Row, ...]

    @classmethod
    def of(cls, cells: Sequence[Cell]) -> Results:
        """Return what was played today, on this machine."""
        together: dict[tuple[str, str], list[Cell]] = {}
        for cell in cells:
            together.setdefault((cell.peer, cell.scenario), []).append(cell)
        return cls(
            date=datetime.date.today().isoformat(),
            machine=f"{platform.system()}, {os.cpu_count()} cores, "
            f"Python {platform.python_version()}",
            rows=_sorted(Row.of(cells) for cells in together.values()),
        )

    @classmethod
    def read(cls, path: Path = KEPT) -> Results:
        """Return what was kept; nothing where there is no file."""
        if not path.exists():
            return cls(date="", machine="", rows=())
        found = json.loads(path.read_text(encoding="utf-8"))
        rows = tuple(Row.from_json(row) for row in found["rows"])
        return cls(date=found["date"], machine=found["machine"], rows=rows)

    def merged_into(self, older: Results) -> Results:
        """Return these, and those rows of `older` that they do not replace."""
        ours = {(row.peer, row.scenario) for row in self.rows}
        kept = [row for row in older.rows if (row.peer, row.scenario) not in ours]
        return replace(self, rows=_sorted([*kept, *self.rows]))

    def write(self, path: Path = KEPT) -> None:
        """Keep them, one row a line."""
        rows = ",\n".join(json.dumps(row.as_json(), ensure_ascii=False) for row in self.rows)
        head = json.dumps({"date": self.date, "machine": self.machine}, ensure_ascii=False)
        path.write_text(f'{head[:-1]}, "rows": [\n{rows}\n]}}\n', encoding="utf-8")

    def of_peer(self, peer: str) -> list[Row]:
        """Return a peer's rows."""
        return [row for row in self.rows if row.peer == peer]

    @property
    def peers(self) -> list[str]:
        """Their names, in order."""
        return list(dict.fromkeys(row.peer for row in self.rows))


def _sorted(rows: Iterable[Row]) -> tuple[Row, ...]:
    peers, scenarios = list(KINDS), list(BY_NAME)
    known = [row for row in rows if row.peer in KINDS and row.scenario in BY_NAME]
    order = {row: (peers.index(row.peer), scenarios.index(row.scenario)) for row in known}
    return tuple(sorted(known, key=lambda row: order[row]))


def cells_from(path: Path) -> list[Cell]:
    """Return the cells of a file that `--json` or `--out` wrote."""
    found = json.loads(path.read_text(encoding="utf-8"))
    return [
        Cell(
            peer=cell["peer"],
            version=cell["version"],
            scenario=cell["scenario"],
            group=cell["group"],
            run=cell["run"],
            attempts=tuple(Attempt.from_json(one) for one in cell["attempts"]),
            rtt_ms=1000 * BY_NAME[cell["scenario"]].rtt_s,
        )
        for cell in found["cells"]
        if cell["scenario"] in BY_NAME
    ]
