"""From starts to rows with a verdict, and from those to a table or JSON."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from interop.instant.modes import MODES, Mode
from interop.instant.series import Series
from interop.instant.start import Start
from warp_tools.dissect import describe

_HEAD = ("browser", "RTT", "start", "connected", "target", "path", "sessions", "met")
_MOST_RUNGS = 40


@dataclass(frozen=True, slots=True, kw_only=True)
class Spread:
    """A median with the least and the most, in milliseconds after the click."""

    median: float
    min: float
    max: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """The starts of one mode: what they cost, what they may cost, what became of them."""

    browser: str
    version: str
    rtt_ms: float
    mode: str
    runs: int
    connected_ms: Spread
    checked_ms: Spread
    """When the first check was answered."""
    paths: tuple[str, ...]
    sessions: tuple[int, ...]
    """How many sessions the server has begun for one start: the different numbers."""
    target_ms: float | None
    met: bool

    def as_json(self) -> dict[str, Any]:
        """Return the row for machines."""
        return {
            "browser": self.browser,
            "version": self.version,
            "rtt_ms": self.rtt_ms,
            "mode": self.mode,
            "runs": self.runs,
            "connected_ms": _as_json(self.connected_ms),
            "checked_ms": _as_json(self.checked_ms),
            "paths": list(self.paths),
            "sessions": list(self.sessions),
            "target": {"connected_ms": self.target_ms, "sessions": [1]},
            "met": self.met,
        }


def _as_json(spread: Spread) -> dict[str, float]:
    return {"median": spread.median, "min": spread.min, "max": spread.max}


def judge(series: Series) -> list[Row]:
    """Compare the medians of every mode with what they may be."""
    standard = _spread([start.connected_ms for start in series.starts["standard"]])
    return [
        _row(series, MODES[name], starts, standard.median) for name, starts in series.starts.items()
    ]


def _row(series: Series, mode: Mode, starts: Sequence[Start], standard_ms: float) -> Row:
    rtt_ms = 1000 * series.rtt_s
    connected = _spread([start.connected_ms for start in starts])
    limit = mode.limit_ms(standard_ms, rtt_ms)
    paths = tuple(sorted({start.path for start in starts}))
    sessions = tuple(sorted({start.sessions for start in starts}))
    in_time = limit is None or connected.median <= limit
    return Row(
        browser=series.browser,
        version=series.version,
        rtt_ms=rtt_ms,
        mode=mode.name,
        runs=len(starts),
        connected_ms=connected,
        checked_ms=_spread([start.marks["ice"] for start in starts]),
        paths=paths,
        sessions=sessions,
        target_ms=None if limit is None else round(limit, 1),
        met=in_time and sessions == (1,) and mode.paths.issuperset(paths),
    )


def _spread(values: Sequence[float]) -> Spread:
    return Spread(
        median=round(statistics.median(values), 1),
        min=round(min(values), 1),
        max=round(max(values), 1),
    )


# -- for people -----------------------------------------------------------------------------------


def render(rows: Sequence[Row]) -> str:
    """Return the table."""
    lines = [_HEAD, *[_line(row) for row in rows]]
    widths = [max(len(line[column]) for line in lines) for column in range(len(_HEAD))]
    text = [
        "  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip()
        for line in lines
    ]
    if rows:
        text += ["", _legend(rows)]
    return "\n".join(text)


def _line(row: Row) -> tuple[str, ...]:
    took = row.connected_ms
    return (
        row.version,
        f"{row.rtt_ms:.0f} ms",
        row.mode,
        f"{took.median:.0f} ms  ({took.min:.0f} to {took.max:.0f})",
        "" if row.target_ms is None else f"<= {row.target_ms:.0f} ms",
        ", ".join(row.paths),
        ", ".join(map(str, row.sessions)),
        "yes" if row.met else "NO",
    )


def _legend(rows: Sequence[Row]) -> str:
    return (
        f"From the click to DTLS connected, at the page: median of {rows[0].runs} (least to most). "
        "Signalling takes\none round trip, on a connection that is open. Every start makes one "
        "session, or its row is not met."
    )


def ladder(start: Start) -> str:
    """Return moments and datagrams of one start, in milliseconds after the click."""
    lines = [(at, f"{at:7.1f}  page              {name}") for name, at in start.marks.items()]
    for at, from_page, data in start.ladder[:_MOST_RUNGS]:
        who = "page ──▶         " if from_page else "     ◀── server  "
        lines.append((at, f"{at:7.1f}  {who} {len(data):5}  {describe(data).text}"))
    return "\n".join(text for _, text in sorted(lines))
