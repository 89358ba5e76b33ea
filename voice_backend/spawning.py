"""How processes of a voice are started: deaf to Ctrl-C from their first moment.

The terminal sends it to all of them; it is for the one that started the others, and ends them. What
a process sets for itself comes too late while it still imports. Called by `worker` and
`io.inference`.
"""

from __future__ import annotations

import contextlib
import signal
from collections.abc import Iterator


@contextlib.contextmanager
def deaf_to_interrupts() -> Iterator[None]:
    """Have processes that this thread starts meanwhile hear no SIGINT: they inherit its mask."""
    if not hasattr(signal, "pthread_sigmask"):
        yield
        return
    from multiprocessing.resource_tracker import ensure_running

    # started with the first process else, and it takes the mask away that it finds
    ensure_running()
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
