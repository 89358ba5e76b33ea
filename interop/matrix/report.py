"""Results as JSON and as Markdown: the README's table, and the whole one in interop/MATRIX.md."""

from __future__ import annotations

import datetime
import os
import platform
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from interop.matrix.cell import Cell, Result
from interop.matrix.results import Results, Row
from interop.peers import KINDS

BEGIN = "<!-- matrix -->"
END = "<!-- /matrix -->"
ROOT = Path(__file__).parents[2]
README = ROOT / "README.md"
WHOLE = ROOT / "interop" / "MATRIX.md"
STARTS = "200 starts at 10 % loss"
_MARKS = {Result.PASS: "✓", Result.FAIL: "✗", Result.CANNOT: "–", Result.ABSENT: "absent"}


def as_json(cells: Sequence[Cell]) -> dict[str, Any]:
    """Return everything of one run for machines."""
    return {
        "date": datetime.date.today().isoformat(),
        "machine": f"{platform.system()} {platform.release()}, {os.cpu_count()} cores, "
        f"Python {platform.python_version()}",
        "cells": [cell.as_json() for cell in cells],
    }


def summary(results: Results) -> str:
    """Return the table for the README, between its markers: a row for each peer."""
    lines = [
        BEGIN,
        "| peer | version | passed | can't | plain start | WARP start | 200 starts at 10 % loss |",
        "|---|---|---|---|---|---|---|",
    ]
    failed: list[str] = []
    for peer in results.peers:
        rows = results.of_peer(peer)
        able = [row for row in rows if row.result is not Result.CANNOT]
        passed = [row for row in able if row.result is Result.PASS]
        failed += [f"- ✗ {KINDS[peer].title}, {row.scenario}: {row.why}" for row in able
                   if row.result is not Result.PASS]  # fmt: skip
        fields = [
            KINDS[peer].title,
            _version(rows),
            f"{len(passed)} of {len(able)}",
            str(len(rows) - len(able)),
            _trips(rows, "plain, peer-offers"),
            _trips(rows, "all of WARP, peer-offers"),
            _starts(rows),
        ]
        lines.append(_row(fields))
    if failed:
        lines += ["", *(_flat(one) for one in failed)]
    lines += ["", f"{results.date}, {results.machine}; {_runs(results)}.", END]
    return "\n".join(lines)


def _runs(results: Results) -> str:
    counts = [row.runs for row in results.rows if row.scenario != STARTS and row.passed]
    least = min(counts, default=0)
    return f"every scenario {least} times running" if least > 1 else "every scenario once"


def _version(rows: Sequence[Row]) -> str:
    text = next((row.version for row in rows if row.version), "absent")
    # the title says the rest
    return re.sub(r"^(warp-rtc|Chromium|Firefox|pion/webrtc/v\d+|aiortc|werift|str0m) v?", "", text)


def _trips(rows: Sequence[Row], scenario: str) -> str:
    costs = [row.rtt for row in rows if row.scenario == scenario and row.rtt is not None]
    return f"{costs[0]:.1f}" if costs else "–"


def _starts(rows: Sequence[Row]) -> str:
    found = next((row for row in rows if row.scenario == STARTS), None)
    if found is None:
        return ""
    count = re.match(r"\d+ of \d+", found.why) if found.result is Result.PASS else None
    return count[0].split()[0] if count is not None else _MARKS[found.result]


def table(results: Results) -> str:
    """Return every cell: scenarios down, peers across, reasons below."""
    peers = results.peers
    lines = [_row(["scenario", *(KINDS[peer].title for peer in peers)])]
    lines.append(_row(["---"] * (len(peers) + 1)))
    rows = {(row.peer, row.scenario): row for row in results.rows}
    notes: list[str] = []
    for scenario in dict.fromkeys(row.scenario for row in results.rows):
        cells = (_field(rows.get((peer, scenario)), notes) for peer in peers)
        lines.append(_row([scenario, *cells]))
    versions = [f"- {KINDS[p].title}: {_full_version(results.of_peer(p))}" for p in peers]
    numbered = [f"{number}. {note}" for number, note in enumerate(notes, 1)]
    legend = (
        "✓ passed, ✗ failed, – the peer can't, with the reason below; behind it the least round "
        "trips until the channel is open at both ends, from the first check; of how many runs, "
        "and in how many of them a second try was needed."
    )
    parts = [legend, "\n".join(lines), "\n".join(versions), "\n".join(numbered)]
    return "\n\n".join(part for part in parts if part)


def _full_version(rows: Sequence[Row]) -> str:
    return next((row.version for row in rows if row.version), "absent")


def _field(row: Row | None, notes: list[str]) -> str:
    if row is None:
        return ""
    text = _MARKS[row.result]
    if row.rtt is not None:
        text += f" {row.rtt:.2f}"
    if row.result in (Result.PASS, Result.FAIL) and row.runs > 1:
        text += f", {row.passed}/{row.runs}"
    if row.repeated:
        text += f", {row.repeated} again"
    why = _flat(row.why)
    if why and row.result is not Result.PASS:
        if why not in notes:
            notes.append(why)
        text += f" [{notes.index(why) + 1}]"
    return text


def _flat(text: str) -> str:
    return " ".join(text.replace("|", "\\|").split())


def _row(fields: Sequence[str]) -> str:
    return f"| {' | '.join(fields)} |"


def whole(results: Results) -> str:
    """Return interop/MATRIX.md."""
    return (
        "# Real peers x scenarios\n\n"
        "Made by `python -m interop.matrix --publish` from interop/results.json; what the peers "
        "get wrong is in drafts/notes/peers.md.\n\n"
        f"{results.date}, {results.machine}.\n\n{table(results)}\n"
    )


def put_into(path: Path, text: str) -> None:
    """Replace what is between the markers of a file; raises ValueError when it has none."""
    old = path.read_text(encoding="utf-8")
    if BEGIN not in old or END not in old:
        raise ValueError(f"{path} has no {BEGIN} ... {END}")
    head, _, rest = old.partition(BEGIN)
    path.write_text(head + text + rest.partition(END)[2], encoding="utf-8")


def region(path: Path) -> str:
    """Return what is between the markers of a file, with them; raises ValueError without."""
    found = re.search(
        f"{re.escape(BEGIN)}.*?{re.escape(END)}", path.read_text(encoding="utf-8"), re.S
    )
    if found is None:
        raise ValueError(f"{path} has no {BEGIN} ... {END}")
    return found[0]
