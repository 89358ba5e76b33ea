"""Lateness without the neighbours: half-second slices, without those that had foreign load.

Other processes on the same core make frames late that a quiet machine would have delivered. Where
the system tells how busy the core was (/proc/stat), a slice with much foreign work does not count.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

SLICE_S = 0.5
FOREIGN_LIMIT = 0.15
LEAST_QUIET = 0.4
LATE_S = 0.020
_TICKS_S = os.sysconf("SC_CLK_TCK") if hasattr(os, "sysconf") else 100


class Slice(NamedTuple):
    """A stretch of time, the CPU this process used in it, and what others used (seconds)."""

    began: float
    ended: float
    own: float
    foreign: float


class Slices:
    """Samples a run."""

    __slots__ = ("_core", "found")

    def __init__(self, found: Iterable[Sequence[float]] = ()) -> None:
        self._core = own_core()
        self.found = [Slice(*one) for one in found]

    async def sample(self, seconds: float) -> None:
        """Sample for so long."""
        end = time.monotonic() + seconds
        before = (time.monotonic(), time.process_time(), busy_s(self._core))
        while before[0] < end - SLICE_S / 2:
            await asyncio.sleep(min(SLICE_S, max(0.0, end - time.monotonic())))
            after = (time.monotonic(), time.process_time(), busy_s(self._core))
            own, busy = after[1] - before[1], after[2] - before[2]
            self.found.append(Slice(before[0], after[0], own, max(0.0, busy - own)))
            before = after

    def judge(
        self, lateness: Iterable[tuple[float, float]], other: Slices | None = None
    ) -> dict[str, Any]:
        """Return share of late frames, percentiles and CPU, over the quiet slices.

        With `other`, those of the process at the other end, a slice is quiet when both are.
        """
        loud = [s for s in other.found if _is_loud(s)] if other is not None else []
        quiet = [
            s
            for s in self.found
            if not _is_loud(s) and not any(o.began < s.ended and s.began < o.ended for o in loud)
        ]
        noisy = len(quiet) < LEAST_QUIET * len(self.found)
        chosen = self.found if noisy else quiet
        behind = sorted(
            late for at, late in lateness if any(s.began <= at < s.ended for s in chosen)
        )
        seconds = sum(s.ended - s.began for s in chosen)
        return {
            "seconds": seconds,
            "noisy": noisy,
            "frames": len(behind),
            "cpu": sum(s.own for s in chosen),
            "cpu_whole": sum(s.own for s in self.found),
            "late": sum(late > LATE_S for late in behind) / len(behind) if behind else 1.0,
            "p50_ms": percentile(behind, 0.5) * 1000,
            "p99_ms": percentile(behind, 0.99) * 1000,
        }


def _is_loud(one: Slice) -> bool:
    return one.foreign > FOREIGN_LIMIT * (one.ended - one.began)


def percentile(ordered: list[float], share: float) -> float:
    """Return the value below which `share` of an ordered list lies; 0 of an empty one."""
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))] if ordered else 0.0


def own_core() -> int | None:
    """Return the one core that this process is pinned to, if it is."""
    if not hasattr(os, "sched_getaffinity"):
        return None
    cores = os.sched_getaffinity(0)
    return next(iter(cores)) if len(cores) == 1 else None


def busy_s(core: int | None) -> float:
    """Return for how long a core has been busy since the system started; 0 when unknown."""
    if core is None:
        return 0.0
    try:
        lines = Path("/proc/stat").read_text().splitlines()
    except OSError:
        return 0.0
    for line in lines:
        fields = line.split()
        if fields and fields[0] == f"cpu{core}":
            user, nice, system, _, _, hard, soft, *_ = (int(x) for x in fields[1:])
            return (user + nice + system + hard + soft) / _TICKS_S
    return 0.0
