"""Whether the machine itself stood still: `python -m warp_tools.bench.standstill`.

    a thread a core, before everything else there ─ sleeps 4 ms, against the clock ─▶ woken late?

What hosts a virtual machine may take its cores away for tens of milliseconds, and no priority in
here helps against that. The watch says for how long that was at the most, when its standard input
ends; where the system gives nobody a priority it knows nothing, and says so at once. Run by `voice`
through `Standstill`.
"""

from __future__ import annotations

import asyncio
import os
import sys
import threading
import time
from typing import Final

from warp_tools.failure import ToolFailure

STEP_S: Final = 0.004
PRIORITY: Final = 80
"""Above the threads that owe frames (`warp_tools.backends`)."""
_MODULE: Final = "warp_tools.bench.standstill"
_UNKNOWN: Final = b"unknown\n"
_JOIN_S: Final = 1.0


class Watch:
    """Notes how late a thread of one core was woken at the most."""

    def __init__(self, core: int) -> None:
        self.longest_s = 0.0
        self._core = core
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def stop(self) -> float:
        """End it; returns the longest standstill, in seconds."""
        self._ended.set()
        self._thread.join(_JOIN_S)
        return self.longest_s

    def _run(self) -> None:
        os.sched_setaffinity(0, {self._core})
        os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(PRIORITY))
        due = time.monotonic()
        while not self._ended.is_set():
            due += STEP_S
            time.sleep(max(0.0, due - time.monotonic()))
            late = time.monotonic() - due
            self.longest_s = max(self.longest_s, late)
            if late > STEP_S:
                due = time.monotonic()


class Standstill:
    """The watch in a process of its own, whose interpreter nobody else holds."""

    def __init__(self, process: asyncio.subprocess.Process, knows: bool) -> None:
        self._process = process
        self._knows = knows

    @classmethod
    async def begin(cls) -> Standstill:
        """Start it. Raises ToolFailure when it does not start."""
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", _MODULE),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
        )
        made = cls(process, knows=True)
        line = await made._read()
        if not line:
            raise ToolFailure("the watch for standstills did not start")
        made._knows = line != _UNKNOWN
        return made

    async def end(self) -> float | None:
        """End it; returns the longest standstill in milliseconds, None where nobody can know."""
        if self._process.stdin is not None:
            self._process.stdin.close()
        line = await self._read()
        await self._process.wait()
        return float(line) if self._knows and line else None

    async def _read(self) -> bytes:
        out = self._process.stdout
        return b"" if out is None else await out.readline()


def _may() -> bool:
    """Tell whether this system lets us stand before everything else."""
    try:
        os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(PRIORITY))
        os.sched_setscheduler(0, os.SCHED_OTHER, os.sched_param(0))
    except (AttributeError, OSError):
        return False
    return True


def main() -> None:
    """Watch every core until standard input ends."""
    if not _may():
        sys.stdout.write(_UNKNOWN.decode())
        sys.stdout.flush()
        return
    watches = [Watch(core) for core in sorted(os.sched_getaffinity(0))]
    sys.stdout.write("watching\n")
    sys.stdout.flush()
    sys.stdin.read()
    sys.stdout.write(f"{max(one.stop() for one in watches) * 1000:.1f}\n")


if __name__ == "__main__":
    main()
