"""Real-time priority for the calling thread, and for it alone. Called by `loop` and `worker`."""

from __future__ import annotations

import logging
import os

_log = logging.getLogger(__name__)


def take_priority(priority: int) -> bool:
    """Run this thread under SCHED_FIFO; threads that it starts are as everybody's.

    Returns False, and logs why, where the system does not know it or does not let us.
    """
    if not hasattr(os, "sched_setscheduler"):
        _log.info("this system has no real-time priorities")
        return False
    try:
        policy = os.SCHED_FIFO | getattr(os, "SCHED_RESET_ON_FORK", 0)
        os.sched_setscheduler(0, policy, os.sched_param(priority))
    except (OSError, ValueError) as error:
        _log.info("no real-time priority %d: %s", priority, error)
        return False
    return True
