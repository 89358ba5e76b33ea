"""What a process holds: tasks, threads, files, sockets, shared memory, children; and how it grows.

count(...) before ─▶ the work ─▶ count(...) after: `beyond` is what was left
memory after each piece of it ─▶ slope: KiB a session, by least squares, with its standard error
"""

from __future__ import annotations

import asyncio
import math
import os
import threading
from collections.abc import Sequence
from dataclasses import astuple, dataclass
from pathlib import Path
from typing import Final

_PROC: Final = Path("/proc/self")
_SHARED: Final = "/dev/shm/"


@dataclass(slots=True)
class Left:
    """What there is, or what is left."""

    tasks: int = 0
    threads: int = 0
    files: int = 0
    """Open ones, sockets included."""
    sockets: int = 0
    segments: int = 0
    """Of shared memory, that are mapped."""
    children: int = 0
    slots: int = 0
    sessions: int = 0

    @property
    def is_nothing(self) -> bool:
        """Whether nothing is left."""
        return not any(astuple(self))

    def beyond(self, before: Left) -> Left:
        """Return what there is more of than before."""
        pairs = zip(astuple(self), astuple(before), strict=True)
        return Left(*(max(0, now - then) for now, then in pairs))


def count(*, slots: int = 0, sessions: int = 0) -> Left:
    """Count what this process holds; slots and sessions are the caller's to know."""
    files = _targets()
    try:
        tasks = len(asyncio.all_tasks())
    except RuntimeError:  # no loop runs: there is none
        tasks = 0
    return Left(
        tasks=tasks,
        threads=threading.active_count(),
        files=len(files),
        sockets=sum(target.startswith("socket:") for target in files),
        segments=len(segments()),
        children=_children(),
        slots=slots,
        sessions=sessions,
    )


def segments() -> set[str]:
    """Return the files of shared memory that this process has mapped."""
    try:
        lines = (_PROC / "maps").read_text().splitlines()
    except OSError:
        return set()
    return {line[line.index(_SHARED) :] for line in lines if _SHARED in line}


def _targets() -> list[str]:
    found = []
    try:
        names = os.listdir(_PROC / "fd")
    except OSError:
        return []
    for name in names:
        try:
            found.append(os.readlink(_PROC / "fd" / name))
        except FileNotFoundError:
            continue  # it was the listing's own
    return found


def _children() -> int:
    total = 0
    for task in _PROC.glob("task/*/children"):
        try:
            total += len(task.read_text().split())
        except OSError:
            continue  # the thread has ended
    return total


def slope(points: Sequence[tuple[float, float]]) -> tuple[float, float]:
    """Return the slope of a line through points, by least squares, and its standard error."""
    n = len(points)
    if n < 3:
        return 0.0, math.inf
    mean_x = sum(x for x, _ in points) / n
    mean_y = sum(y for _, y in points) / n
    spread = sum((x - mean_x) ** 2 for x, _ in points)
    if not spread:
        return 0.0, math.inf
    found = sum((x - mean_x) * (y - mean_y) for x, y in points) / spread
    rest = sum((y - mean_y - found * (x - mean_x)) ** 2 for x, y in points)
    return found, math.sqrt(rest / (n - 2) / spread)
