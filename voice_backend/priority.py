"""Real-time priority for the threads that owe frames. Called by `loop`, `worker`, `io.inference`.

Under a policy of its own a process's other threads and children are as everybody's. Whoever starts
the whole program under SCHED_FIFO (`chrt -f 10 ...`) has chosen for all of it: then those that owe
frames stand `STEP` higher, and what computes stays where it was put.
"""

from __future__ import annotations

import logging
import os
from typing import Final

_log = logging.getLogger(__name__)
STEP: Final = 10


def take_priority(priority: int) -> bool:
    """Run this thread under SCHED_FIFO; threads that it starts are as everybody's.

    Returns False, and logs why, where the system does not know it or does not let us.
    """
    if not hasattr(os, "sched_setscheduler"):
        _log.info("this system has no real-time priorities")
        return False
    try:
        if _is_realtime():
            priority = os.sched_getparam(0).sched_priority + STEP
            policy = os.SCHED_FIFO
        else:
            policy = os.SCHED_FIFO | getattr(os, "SCHED_RESET_ON_FORK", 0)
        os.sched_setscheduler(0, policy, os.sched_param(priority))
    except (OSError, ValueError) as error:
        _log.info("no real-time priority %d: %s", priority, error)
        return False
    return True


def leave_priority() -> None:
    """Stand below those that owe frames, where a real-time priority was inherited from one."""
    if hasattr(os, "sched_setscheduler") and _is_realtime():
        priority = max(1, os.sched_getparam(0).sched_priority - STEP)
        os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(priority))


def _is_realtime() -> bool:
    flag = getattr(os, "SCHED_RESET_ON_FORK", 0)
    return bool(os.sched_getscheduler(0) & ~flag == os.SCHED_FIFO)
