"""Ctrl-C, and being told to end, as an event that a command waits for beside its work."""

from __future__ import annotations

import asyncio
import contextlib
import signal


def listen_for_interruption() -> asyncio.Event:
    """Return an event that SIGINT and SIGTERM set."""
    loop = asyncio.get_running_loop()
    stop = asyncio.Event()
    # signals reach the loop on Unix only; elsewhere Ctrl-C raises KeyboardInterrupt
    with contextlib.suppress(NotImplementedError):
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(number, stop.set)
    return stop
