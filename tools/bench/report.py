"""The result of a bench: ours, aiortc's, the ratio, and what had to be reached."""

from __future__ import annotations

import platform
from dataclasses import dataclass, field
from typing import Any

from rich.console import Console
from rich.table import Table

Figures = dict[str, Any]
Ratios = dict[str, float]

WITHOUT_AIORTC = "aiortc is not installed"
INSTALL = "pip install 'warp-rtc[peers]'"
_COUNTS = frozenset({"rounds", "starts", "returned", "neighbours_cores"})
"""Figures that say how much was measured, and beside what, and not how well it went."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """A figure and its limit."""

    name: str
    value: float | None
    limit: float
    at_least: bool = False
    """Whether more is better."""
    unjudged: str = ""
    """Why there is nothing to judge it by."""

    @property
    def met(self) -> bool:
        """Whether the figure is within its limit."""
        if self.value is None:
            return False
        return self.value >= self.limit if self.at_least else self.value <= self.limit

    def __str__(self) -> str:
        relation = ">=" if self.at_least else "<="
        if self.unjudged:
            shown = f"not judged, {self.unjudged}"
        else:
            shown = "not measured" if self.value is None else f"{self.value:.3g}"
        return f"{self.name}: {shown} (target {relation} {self.limit:g})"


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """Everything that one bench found."""

    title: str
    ours: Figures
    aiortc: Figures | None
    """None where it is not installed, and then there is no ratio."""
    ratio: Ratios | None
    targets: list[Target] = field(default_factory=list)
    noisy: str = ""
    """What else went on meanwhile, if anything: no figure is changed for it."""

    @property
    def targets_met(self) -> bool:
        """Whether every target is met."""
        return all(target.met for target in self.targets)

    def to_json(self) -> dict[str, Any]:
        """Return the report for machines."""
        return {
            "ours": self.ours,
            "aiortc": self.aiortc,
            "ratio": self.ratio,
            "targets_met": self.targets_met,
            "misses": [str(target) for target in self.targets if not target.met],
            "noisy": self.noisy or None,
            "python": platform.python_version(),
        }

    def show(self, console: Console) -> None:
        """Print the report for people."""
        table = Table(title=f"{self.title} (Python {platform.python_version()})")
        table.add_column("figure")
        for column in ("ours", "aiortc", "ratio"):
            table.add_column(column, justify="right")
        theirs, ratios_found = self.aiortc or {}, self.ratio or {}
        for name in {**self.ours, **theirs}:
            ratio = ratios_found.get(name)
            table.add_row(
                name,
                _shown(self.ours.get(name)),
                _shown(theirs.get(name)),
                "" if ratio is None else f"{ratio:.1f}x",
            )
        console.print(table)
        if self.aiortc is None:
            line = f"{WITHOUT_AIORTC}, so there is no ratio: {INSTALL}"
            console.print(line, markup=False, highlight=False, soft_wrap=True)
        if self.noisy:
            console.print(f"noisy: {self.noisy}", style="yellow", highlight=False, soft_wrap=True)
        for target in self.targets:
            if target.unjudged:
                console.print(str(target), style="yellow")
                continue
            style = "green" if target.met else "bold red"
            console.print(f"{'met' if target.met else 'missed'}: {target}", style=style)


def ratio_target(name: str, ratio: Ratios | None, figure: str, limit: float) -> Target:
    """Return the target of how many times aiortc's figure ours has to be."""
    return Target(
        name=name,
        value=None if ratio is None else ratio.get(figure),
        limit=limit,
        at_least=True,
        unjudged=WITHOUT_AIORTC if ratio is None else "",
    )


def ratios(
    ours: Figures, aiortc: Figures | None, *, more_is_better: tuple[str, ...]
) -> Ratios | None:
    """Return by how much ours is better, for every figure of both that tells that.

    None where there is no aiortc.
    """
    if aiortc is None:
        return None
    found = {}
    for name, mine in ours.items():
        theirs = aiortc.get(name)
        if name in _COUNTS:
            continue
        numbers = all(
            isinstance(value, int | float) and not isinstance(value, bool) and value > 0
            for value in (mine, theirs)
        )
        if numbers:
            better = mine / theirs if name in more_is_better else theirs / mine
            found[name] = round(better, 2)
    return found


def _shown(value: object) -> str:
    if value is None:
        return "-"
    return f"{value:,.4g}" if isinstance(value, float) else str(value)
