"""`python -m interop.matrix`: status 0 when every cell that the peer can do has passed, 1 when
one has failed, 2 when a peer was absent or nothing was asked for that exists, 130 when stopped.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import signal
import sys
from collections.abc import Sequence
from pathlib import Path

from interop.matrix.cell import Cell, Result
from interop.matrix.report import README, WHOLE, as_json, put_into, summary, table, whole
from interop.matrix.results import Results, cells_from
from interop.matrix.runner import Matrix
from interop.matrix.scenario import Scenario
from interop.matrix.scenarios import SCENARIOS, SLOW
from interop.peers import KINDS, PeerAbsent, PeerKind

PASSED, FAILED, ABSENT, INTERRUPTED = 0, 1, 2, 130
_SLOW = " and ".join(SLOW).replace("%", "%%")  # argparse formats its help


class Interrupted(Exception):
    """The run was told to stop; `cells` are those that were played."""

    def __init__(self, cells: list[Cell]) -> None:
        super().__init__(f"stopped after {len(cells)} cells")
        self.cells = cells


def main(arguments: Sequence[str] | None = None) -> int:
    """Run what was asked for; returns the exit status."""
    parser = _parser()
    wanted = parser.parse_args(arguments)
    kinds = [KINDS[name] for name in wanted.peer or KINDS]
    scenarios = chosen(wanted.scenario, fast=wanted.fast)
    if not scenarios:
        parser.error(f"no scenario is named like {wanted.scenario}; --list shows them")
    if wanted.list:
        print("\n".join(f"{one.group}: {one.name}" for one in scenarios))
        return PASSED
    if wanted.prepare:
        return prepare(kinds)
    if wanted.keep and wanted.out is None:
        parser.error("--keep needs a folder: --out")
    if wanted.cells:
        cells = [cell for path in wanted.cells for cell in cells_from(path)]
    else:
        try:
            cells = asyncio.run(run(kinds, scenarios, wanted.repeat, wanted.out, keep=wanted.keep))
        except Interrupted as stopped:
            report(stopped.cells, wanted)
            return INTERRUPTED
    report(cells, wanted)
    return status(cells)


def report(cells: Sequence[Cell], wanted: argparse.Namespace) -> None:
    """Write and print what was asked for."""
    results = Results.of(cells)
    if wanted.out is not None:
        wanted.out.mkdir(parents=True, exist_ok=True)
        (wanted.out / "matrix.json").write_text(json.dumps(as_json(cells), indent=1) + "\n")
        (wanted.out / "matrix.md").write_text(f"{summary(results)}\n\n{table(results)}\n")
    if wanted.markdown is not None:
        put_into(wanted.markdown, summary(results))
    if wanted.publish:
        publish(results)
    print(json.dumps(as_json(cells), indent=1) if wanted.json else table(results))


def publish(results: Results) -> None:
    """Keep results in place of those of the same cells; write README's table and the whole one."""
    kept = results.merged_into(Results.read())
    kept.write()
    WHOLE.write_text(whole(kept), encoding="utf-8")
    put_into(README, summary(kept))


def status(cells: Sequence[Cell]) -> int:
    """Return what the run ends with."""
    results = {cell.result for cell in cells}
    if Result.FAIL in results:
        return FAILED
    return ABSENT if Result.ABSENT in results else PASSED


def prepare(kinds: Sequence[PeerKind]) -> int:
    """Build and install what peers need, and print their versions."""
    absent = 0
    for kind in kinds:
        try:
            kind.prepare()
            print(f"{kind.name:16} {kind.version()}", flush=True)
        except PeerAbsent as error:
            absent += 1
            print(f"{kind.name:16} absent: {error}", flush=True)
    return ABSENT if absent else PASSED


def chosen(names: Sequence[str] | None, *, fast: bool) -> list[Scenario]:
    """Return scenarios by parts of their names; `fast` leaves out what takes long."""
    found = [s for s in SCENARIOS if not names or any(part in s.name for part in names)]
    return [s for s in found if not fast or s.name not in SLOW]


async def run(
    kinds: Sequence[PeerKind],
    scenarios: Sequence[Scenario],
    repeat: int,
    out: Path | None,
    *,
    keep: bool = False,
) -> list[Cell]:
    """Play everything, peer by peer; says on standard error how each cell went.

    Raises `Interrupted` when it is told to stop; no peer is left then.
    """
    cells: list[Cell] = []
    task = asyncio.current_task()
    if task is not None:
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, task.cancel)
    try:
        async with Matrix(out, keep=keep) as matrix:
            for number in range(1, repeat + 1):
                for kind in kinds:
                    for scenario in scenarios:
                        cells.append(await matrix.cell(kind, scenario, number))
                        _say(cells[-1])
    except asyncio.CancelledError:
        raise Interrupted(cells) from None
    return cells


def _say(cell: Cell) -> None:
    trips = "" if cell.rtt is None else f"{cell.rtt:5.2f} RTT {cell.ms:6.0f} ms"
    line = f"{cell.peer:16} {cell.scenario:42} {cell.result.value:11} {trips:20} {cell.why}"
    print(line.rstrip(), file=sys.stderr, flush=True)
    for attempt in cell.attempts:
        if attempt.evidence:
            print(f"{'':16} see {attempt.evidence}", file=sys.stderr)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m interop.matrix", description=__doc__)
    parser.add_argument("--fast", action="store_true", help=f"without {_SLOW}")
    parser.add_argument(
        "--peer", action="append", choices=list(KINDS), help="only this one; may be repeated"
    )
    parser.add_argument(
        "--scenario", action="append", help="only those with this in their name; may be repeated"
    )
    parser.add_argument("--repeat", type=int, default=1, help="how often everything is played")
    parser.add_argument("--json", action="store_true", help="cells for machines instead")
    parser.add_argument("--out", type=Path, help="folder for matrix.json, matrix.md and failures")
    parser.add_argument(
        "--keep", action="store_true", help="captures and keys of what passed there, too"
    )
    parser.add_argument(
        "--markdown", type=Path, metavar="FILE", help="replace the table between its markers there"
    )
    parser.add_argument(
        "--cells", action="append", type=Path, metavar="FILE",
        help="play nothing: take the cells that --json or --out wrote; may be repeated",
    )  # fmt: skip
    parser.add_argument(
        "--publish",
        action="store_true",
        help="keep the results in interop/results.json and write README's table from them",
    )
    parser.add_argument(
        "--prepare", action="store_true", help="build and install peers, print their versions"
    )
    parser.add_argument("--list", action="store_true", help="print the scenarios and do nothing")
    return parser


if __name__ == "__main__":
    sys.exit(main())
