"""Datagrams by time, where a capture has them in another order.

Several queues of one interface, merged files and clocks that are set back put packets into a file
before older ones; who asked first is then told wrong. Sorted within a window, so that a capture of
any length is still read as a stream. Called by `run`; what is shown live is shown as it comes.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Iterator
from typing import Final

from warp_tools.capture.reader import Datagram

WINDOW: Final = 4096


def in_order(datagrams: Iterable[Datagram], window: int = WINDOW) -> Iterator[Datagram]:
    """Yield datagrams by time, each overtaken by `window` others at most; ties as they came."""
    waiting: list[tuple[int, int, Datagram]] = []
    for count, datagram in enumerate(datagrams):
        entry = (datagram.time_ns, count, datagram)
        if len(waiting) < window:
            heapq.heappush(waiting, entry)
        else:
            yield heapq.heappushpop(waiting, entry)[2]
    while waiting:
        yield heapq.heappop(waiting)[2]
