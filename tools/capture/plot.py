"""The ladder as a picture: time runs down, a slanted arrow is a datagram, stages at the margins.

matplotlib (extra `tools`) draws; nothing is shown on a screen. Called by `explain --plot`.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from warp_tools.capture.events import Event
from warp_tools.capture.facts import Facts
from warp_tools.capture.ladder import describe
from warp_tools.failure import CommandRefused, ToolFailure

if TYPE_CHECKING:
    from matplotlib.axes import Axes

FORMATS: Final = (".png", ".svg", ".pdf")
MAX_RUNGS: Final = 80
MAX_PICTURES: Final = 32
_COLOURS: Final = {"stun": "#1f77b4", "dtls": "#d62728", "rtp": "#2ca02c", "rtcp": "#98df8a"}
_CARRIER: Final = "#9467bd"
_LABEL: Final = 92
_INCHES_A_RUNG: Final = 0.24


def refused(path: Path) -> str | None:
    """Say why no picture of this name can be drawn, or None when one can."""
    if path.suffix.lower() not in FORMATS:
        return f"{path}: a picture is {', '.join(FORMATS)}, by the end of its name"
    if path.is_dir() or not path.parent.is_dir():
        return f"cannot write {path}: it is no file in a directory that exists"
    return None


def draw(measured: Iterable[Facts], path: Path, *, several: bool) -> list[Path]:
    """Draw the sessions, one file each; return the files.

    With `several`, the number of the session goes into the name: ladder-1.png, ladder-2.png.
    Raises `ToolFailure` when matplotlib is not there or the format is unknown.
    """
    if (refusal := refused(path)) is not None:
        raise CommandRefused(refusal)
    try:
        from matplotlib.figure import Figure
    except ImportError as error:
        raise CommandRefused("pictures need matplotlib: pip install 'warp-rtc[tools]'") from error
    written: list[Path] = []
    for facts in itertools.islice(measured, MAX_PICTURES):
        target = path
        if several:
            target = path.with_name(f"{path.stem}-{facts.session.number}{path.suffix}")
        rungs = _rungs(facts)
        height = max(4.0, 1.6 + _INCHES_A_RUNG * len(rungs))
        figure = Figure(figsize=(11, height), layout="constrained")
        _session(figure.add_subplot(), facts, rungs)
        try:
            figure.savefig(target, dpi=110)
        except OSError as error:
            raise ToolFailure(f"{target}: {error.strerror or error}") from error
        written.append(target)
    return written


def _rungs(facts: Facts) -> list[Event]:
    """Return the datagrams of the start: up to its last stage."""
    if not facts.stages:
        return facts.session.events[:MAX_RUNGS]
    ends = {stage.number for stage in facts.stages}
    events = facts.session.events
    last = max((at for at, event in enumerate(events) if event.number in ends), default=0)
    return events[: min(last + 1, MAX_RUNGS)]


def _session(axes: Axes, facts: Facts, rungs: list[Event]) -> None:
    """Draw one ladder. Rungs are evenly spaced: the times stand beside them."""
    session = facts.session
    began = session.span[0]
    columns = {facts.letters[0]: 0.0, facts.letters[1]: 0.0} | {"A": 0.0, "B": 1.0}
    rows = max(len(rungs), 1)
    for letter, at in columns.items():
        axes.plot([at, at], [-1, rows], color="0.3", linewidth=1.2)
        side = facts.letters.index(letter)
        axes.text(at, -1.4, _party(facts, side), ha="center", va="bottom", fontsize=9)
    for row, event in enumerate(rungs):
        start, end = columns[facts.letters[event.side]], columns[facts.letters[1 - event.side]]
        _arrow(axes, event, row, start, end)
        millis = (event.time_ns - began) / 1e6
        axes.text(-0.04, row + 0.1, f"{millis:.1f} ms", ha="right", va="center", fontsize=7)
        axes.text(1.04, row + 0.1, label(facts, event), ha="left", va="center", fontsize=7)
    marks: dict[int, list[str]] = {}
    for stage in facts.stages:
        marks.setdefault(stage.number, []).append(stage.name)
    for row, event in enumerate(rungs):
        names = ", ".join(marks.get(event.number, []))
        if names:
            axes.text(
                0.5, row - 0.25, names, ha="center", va="center", fontsize=6, color="0.35",
                bbox={"facecolor": "white", "edgecolor": "none", "pad": 0.4},
            )  # fmt: skip
    axes.set_xlim(-0.25, 2.4)
    axes.set_ylim(rows + 1.2, -3.4)
    _legend(axes, rows)
    axes.axis("off")
    axes.set_title(_title(facts), fontsize=10, loc="left")


def _legend(axes: Axes, rows: int) -> None:
    kinds = {"check": _COLOURS["stun"], "check with DTLS": _CARRIER, "DTLS": _COLOURS["dtls"]}
    kinds["SRTP"] = _COLOURS["rtp"]
    for place, (name, colour) in enumerate(kinds.items()):
        axes.text(place * 0.25, rows + 0.9, name, color=colour, fontsize=7, ha="center")


def _arrow(axes: Axes, event: Event, row: int, start: float, end: float) -> None:
    colour = _COLOURS.get(event.contents.kind, "0.4")
    if event.embedded:
        colour = _CARRIER
    stop = start + (end - start) * (0.45 if event.lost else 1.0)
    options: dict[str, Any] = {"arrowstyle": "-|>", "color": colour, "linewidth": 1.1}
    if event.count > 1:
        options["linestyle"] = "dashed"
    axes.annotate("", xy=(stop, row + 0.35), xytext=(start, row - 0.05), arrowprops=options)
    if event.lost:
        axes.plot([stop], [row + 0.2], marker="x", color="red", markersize=7)


def label(facts: Facts, event: Event) -> str:
    """Say what `show` says of a datagram: what keys have opened is named too."""
    text = f"#{event.number}  {describe(event)}"
    inside = facts.inside(event, text)
    text += f"  [{'; '.join(inside)}]" if inside else ""
    return text if len(text) <= _LABEL else text[: _LABEL - 1] + "…"


def _party(facts: Facts, side: int) -> str:
    host, port = (facts.session.addresses[side] or [("?", 0)])[0]
    role = ""
    if facts.start.client is not None:
        role = "DTLS client" if facts.is_client(side) else "DTLS server"
    return f"{facts.letters[side]}  {host}:{port}\n{role}"


def _title(facts: Facts) -> str:
    rtt = facts.vantage.rtt_ns
    text = f"session {facts.session.number}"
    if rtt is not None:
        text += f", round trip {'at most ' if facts.vantage.at_most else ''}{rtt / 1e6:.1f} ms"
    return text
