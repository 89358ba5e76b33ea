"""Cells as JSON and as Markdown."""

from __future__ import annotations

import datetime
import os
import platform
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from interop.matrix.cell import Cell, Result
from interop.matrix.scenarios import SCENARIOS
from interop.peers import KINDS

BEGIN = "<!-- interop matrix: begin -->"
END = "<!-- interop matrix: end -->"
_MARKS = {Result.PASS: "✓", Result.FAIL: "✗", Result.CANNOT: "–", Result.ABSENT: "absent"}
_GROUPS = tuple(dict.fromkeys(scenario.group for scenario in SCENARIOS))


def as_json(cells: Sequence[Cell]) -> dict[str, Any]:
    """Return everything for machines."""
    return {
        "date": datetime.date.today().isoformat(),
        "machine": f"{platform.system()} {platform.release()}, {os.cpu_count()} cores, "
        f"Python {platform.python_version()}",
        "cells": [cell.as_json() for cell in cells],
    }


def summary(cells: Sequence[Cell]) -> str:
    """Return the table for the README: groups of scenarios and peers, between its markers."""
    peers = list(dict.fromkeys(cell.peer for cell in cells))
    lines = [
        BEGIN,
        "",
        f"Scenarios passed of those that the peer can do, {datetime.date.today().isoformat()}; in "
        "brackets what it can't do. Round trips: from the first check until the channel is open at "
        "both ends, on a path of 100 ms.",
        "",
        _row(["peer", *_GROUPS, "plain start", "WARP start"]),
        _row(["---"] * (len(_GROUPS) + 3)),
    ]
    for peer in peers:
        own = [cell for cell in cells if cell.peer == peer]
        counts = [_count([cell for cell in own if cell.group == group]) for group in _GROUPS]
        trips = [_trips(own, "plain, peer-offers"), _trips(own, "all of WARP, peer-offers")]
        version = next((cell.version for cell in own if cell.version), "absent")
        lines.append(_row([f"{KINDS[peer].title} ({version})", *counts, *trips]))
    failed = [cell for cell in cells if cell.result is Result.FAIL]
    lines += ["", *(f"- ✗ {_title(cell)}: {cell.why}" for cell in failed)]
    lines += [""] if failed else []
    return "\n".join([*lines, END])


def _count(cells: Sequence[Cell]) -> str:
    absent = [cell for cell in cells if cell.result is Result.ABSENT]
    passed = [cell for cell in cells if cell.result is Result.PASS]
    cannot = [cell for cell in cells if cell.result is Result.CANNOT]
    if absent or not cells:
        return "absent" if absent else ""
    text = f"{len(passed)}/{len(cells) - len(cannot)}" if len(cells) > len(cannot) else ""
    return f"{text} ({len(cannot)})".strip() if cannot else text


def _trips(cells: Sequence[Cell], scenario: str) -> str:
    costs = [cell.rtt for cell in cells if cell.scenario == scenario and cell.rtt is not None]
    return f"{min(costs):.1f}" if costs else "–"


def _title(cell: Cell) -> str:
    return f"{KINDS[cell.peer].title}, {cell.scenario}"


def _row(fields: Sequence[str]) -> str:
    return f"| {' | '.join(fields)} |"


def table(cells: Sequence[Cell]) -> str:
    """Return every cell: scenarios down, peers across, reasons below."""
    peers = list(dict.fromkeys(cell.peer for cell in cells))
    names = list(dict.fromkeys(cell.scenario for cell in cells))
    lines = [_row(["scenario", *(KINDS[peer].title for peer in peers)])]
    lines.append(_row(["---"] * (len(peers) + 1)))
    notes: list[str] = []
    for name in names:
        fields = [name]
        for peer in peers:
            here = [cell for cell in cells if cell.peer == peer and cell.scenario == name]
            fields.append(_field(here, notes))
        lines.append(_row(fields))
    versions = [
        f"- {KINDS[peer].title}: "
        + next((c.version for c in cells if c.peer == peer and c.version), "absent")
        for peer in peers
    ]
    numbered = [f"{number}. {note}" for number, note in enumerate(notes, 1)]
    legend = "✓ passed, ✗ failed, – the peer can't; round trips and ms until the channel is open."
    parts = [legend, "\n".join(lines), "\n".join(versions), "\n".join(numbered)]
    return "\n\n".join(part for part in parts if part)


def _field(cells: Sequence[Cell], notes: list[str]) -> str:
    if not cells:
        return ""
    marks = "".join(dict.fromkeys(_MARKS[cell.result] for cell in cells))
    costs = [(cell.rtt, cell.ms) for cell in cells if cell.rtt is not None]
    text = f"{marks} {costs[0][0]:.2f} · {costs[0][1]:.0f} ms" if costs else marks
    why = "; ".join(dict.fromkeys(cell.why for cell in cells if cell.why))
    if why:
        if why not in notes:
            notes.append(why.replace("\n", " "))
        text += f" [{notes.index(why.replace(chr(10), ' ')) + 1}]"
    return text


def put_into(path: Path, text: str) -> None:
    """Replace what is between the markers of a file; raises ValueError when it has none."""
    old = path.read_text()
    if BEGIN not in old or END not in old:
        raise ValueError(f"{path} has no {BEGIN} ... {END}")
    head, _, rest = old.partition(BEGIN)
    path.write_text(head + text + rest.partition(END)[2])
