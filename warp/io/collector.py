"""The garbage collector of a process that carries calls.

CPython looks through everything that lives as soon as a quarter of it is new. With several hundred
sessions that takes tens of milliseconds, in which no frame leaves, and it comes back as calls come
and go. It finds nothing of ours: a session goes with its last reference.
Called by applications, and by our own servers.
"""

from __future__ import annotations

import gc

_YOUNG = 700
_MIDDLE = 10
"""As Python has them: a few milliseconds at most for the young."""
_OLD = 200
"""Collections of the middle generation between those of everything: 1.5 million objects more."""


def avoid_gc_pauses() -> None:
    """Keep the garbage collector from holding up calls; once a process, when all is loaded.

    What exists now is never looked through again (`gc.freeze`). Young objects are collected as
    ever, a millisecond at a time. All of them are looked through only after some 1.5 million have
    come that did not go: so much garbage in cycles, of your own or of another library, may wait.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(_YOUNG, _MIDDLE, _OLD)
