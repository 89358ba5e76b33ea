"""The result of a bench: ours, aiortc's, the ratio, and what had to be reached."""

from __future__ import annotations

import platform
from dataclasses import dataclass, field
from typing import Any

from rich.console import Console
from rich.table import Table

Figures = dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """A figure and its limit."""

    name: str
    value: float | None
    limit: float
    at_least: bool = False
    """Whether more is better."""

    @property
    def met(self) -> bool:
        """Whether the figure is within its limit."""
        if self.value is None:
            return False
        return self.value >= self.limit if self.at_least else self.value <= self.limit

    def __str__(self) -> str:
        relation = ">=" if self.at_least else "<="
        shown = "not measured" if self.value is None else f"{self.value:.3g}"
        return f"{self.name}: {shown} (target {relation} {self.limit:g})"


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """Everything that one bench found."""

    title: str
    ours: Figures
    aiortc: Figures
    ratio: dict[str, float]
    targets: list[Target] = field(default_factory=list)

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
            "python": platform.python_version(),
        }

    def show(self, console: Console) -> None:
        """Print the report for people."""
        table = Table(title=f"{self.title} (Python {platform.python_version()})")
        table.add_column("figure")
        for column in ("ours", "aiortc", "ratio"):
            table.add_column(column, justify="right")
        for name in {**self.ours, **self.aiortc}:
            ratio = self.ratio.get(name)
            table.add_row(
                name,
                _shown(self.ours.get(name)),
                _shown(self.aiortc.get(name)),
                "" if ratio is None else f"{ratio:.1f}x",
            )
        console.print(table)
        for target in self.targets:
            style = "green" if target.met else "bold red"
            console.print(f"{'met' if target.met else 'missed'}: {target}", style=style)


def ratios(ours: Figures, aiortc: Figures, *, more_is_better: tuple[str, ...]) -> dict[str, float]:
    """Return by how much ours is better, for every figure that both have."""
    found = {}
    for name, mine in ours.items():
        theirs = aiortc.get(name)
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
