"""How much of the machine others used while something was measured: a noisy neighbour is named.

    busy cores (/proc/stat, what the hypervisor took included) - our processes' = the neighbours'

Linux only; elsewhere nothing is known of neighbours. Our processes are this one and whatever stems
from it. Called by `voice` and `setup`.
"""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Final

NOISY_CORES: Final = 0.25
"""Others who used more than a quarter of a core all the time may have made frames late."""
_TICKS_S: Final = os.sysconf("SC_CLK_TCK") if hasattr(os, "sysconf") else 100
_IDLE: Final = (3, 4)
"""Places of idle and iowait in the first line of /proc/stat."""
_FIELDS: Final = 8
"""user nice system idle iowait irq softirq steal: what follows is part of these."""


class Neighbours:
    """Watches from when it is made."""

    def __init__(self, proc: Path = Path("/proc")) -> None:
        self._proc = proc
        self._began = time.monotonic()
        self._busy = self._busy_s()
        self._ours = self._ours_s()

    def cores(self) -> float | None:
        """Return how many cores others kept busy since; None where nobody can know.

        Call it while our processes still run.
        """
        busy, passed = self._busy_s(), time.monotonic() - self._began
        if busy is None or self._busy is None or passed <= 0:
            return None
        ours = self._ours_s() - self._ours
        return max(0.0, busy - self._busy - ours) / passed

    def _busy_s(self) -> float | None:
        try:
            fields = (self._proc / "stat").read_text().splitlines()[0].split()[1:]
        except (OSError, IndexError):
            return None
        counted = enumerate(fields[:_FIELDS])
        return sum(int(field) for at, field in counted if at not in _IDLE) / _TICKS_S

    def _ours_s(self) -> float:
        """Return the CPU time of this process and of all that stem from it."""
        parents: dict[int, int] = {}
        used: dict[int, float] = {}
        for path in self._proc.glob("[0-9]*/stat"):
            try:
                # the name, in brackets, may hold spaces
                fields = path.read_text().rpartition(")")[2].split()
            except OSError:
                continue  # it has just ended
            pid = int(path.parent.name)
            parents[pid] = int(fields[1])
            # its own, and that of its children that have ended
            used[pid] = sum(int(field) for field in fields[11:15]) / _TICKS_S
        return sum(spent for pid, spent in used.items() if _stems(pid, os.getpid(), parents))


def _stems(pid: int, ancestor: int, parents: dict[int, int]) -> bool:
    while pid and pid != ancestor:
        pid = parents.get(pid, 0)
    return pid == ancestor
