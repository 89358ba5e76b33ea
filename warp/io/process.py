"""What a process that carries calls asks of Python's garbage collector and of its memory.

Called by applications, and by our own servers, once all is loaded.

The collector looks through everything that lives as soon as a quarter of it is new. With several
hundred sessions that takes tens of milliseconds, in which no frame leaves, and it comes back as
calls come and go. It finds nothing of ours: a session goes with its last reference.

A start goes once through some megabytes, a little of each page. In pages of 4 KiB these are more
than a processor knows the places of, and it looks them up on the way.
"""

from __future__ import annotations

import ctypes
import gc
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple

_YOUNG: Final = 10_000
_MIDDLE: Final = 3
"""Half a millisecond for the young, two for the middle generation; Python's 700 and 10 look through
what lives only as long as a start."""
_OLD: Final = 50
"""Collections of the middle generation between those of everything: 1.5 million objects more."""

_HUGE: Final = 2 << 20
_MADV_COLLAPSE: Final = 25  # linux/mman.h; Linux 6.1
_SMAPS: Final = Path("/proc/self/smaps")
_MOSTLY: Final = 0.75
_LONGEST_S: Final = 1.0
"""A page takes 1 to 15 ms, the latter where a virtual machine has yet to be given the memory."""
_PIECE: Final = 4 * _HUGE


class Region(NamedTuple):
    """A stretch of anonymous memory, and how much of it is there (bytes)."""

    start: int
    end: int
    resident: int


def prepare_process() -> None:
    """Make this process fit to carry calls; once, when all is loaded and before the first call.

    The garbage collector never looks again through what exists now (`gc.freeze`). Younger objects
    are collected as ever, a millisecond or two at a time. All of them are looked through only after
    some 1.5 million have come that did not go: so much garbage in cycles, of your own or of another
    library, may wait.

    Memory in use now is moved to pages of 2 MiB where the system has them (Linux 6.1, madvise(2)
    MADV_COLLAPSE); what a fork shares becomes this process's own. It takes some tens of
    milliseconds, and of many hundreds of megabytes moves what a second suffices for; elsewhere
    memory stays where it is.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(_YOUNG, _MIDDLE, _OLD)
    use_huge_pages()


def use_huge_pages() -> int:
    """Move what is mostly there to huge pages; returns how many bytes the system has agreed to."""
    if sys.platform != "linux":
        return 0
    try:
        # what is mapped has a name of any bytes
        found = list(regions(_SMAPS.read_bytes().decode(errors="replace")))
    except OSError:
        return 0
    madvise = ctypes.CDLL(None).madvise
    madvise.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int)
    agreed = 0
    until = time.perf_counter() + _LONGEST_S
    # the small ones first: a model's weights are not what a call goes through
    for region in sorted(found, key=lambda region: region.end - region.start):
        start, end = -(-region.start // _HUGE) * _HUGE, region.end // _HUGE * _HUGE
        # of stacks and the like little is there: all of it would be made to be
        if region.resident < _MOSTLY * (region.end - region.start):
            continue
        for at in range(start, end, _PIECE):
            if time.perf_counter() >= until:
                return agreed
            size = min(_PIECE, end - at)
            if madvise(at, size, _MADV_COLLAPSE) == 0:
                agreed += size
    return agreed


def regions(smaps: str) -> Iterator[Region]:
    """Yield the heap and other anonymous memory that can be written (proc(5), /proc/PID/smaps)."""
    start = end = 0
    ours = False
    # not splitlines: a name has its line feeds escaped, and nothing else
    for line in smaps.removesuffix("\n").split("\n") if smaps else ():
        name, *fields = line.split()
        if not name.endswith(":"):
            # 7f00-7f80 rw-p 00000000 00:00 0 [heap]
            first, _, last = name.partition("-")
            start, end = int(first, 16), int(last, 16)
            ours = fields[0] == "rw-p" and fields[4:] in ([], ["[heap]"])
        elif ours and name == "Rss:":
            yield Region(start, end, int(fields[0]) << 10)
