"""Captures that were merged from two places: which of both a datagram was seen at.

Two files of one kind that were merged may have become one with a single interface, so that every
datagram stands in it twice, a transit apart. A session that looks like that is read once more, and
what its one side sent first and the other side's second sights are given an interface of their own;
from there `sights` makes one event with two times of both. Where the clocks of two places differ by
more than a transit, one of them alone is told. Called by `run`.

    first reading ─▶ sessions that are merged, or whose clocks differ ─▶ Places ─▶ second reading
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Iterator
from typing import Final

from warp_tools.capture.ip import Address
from warp_tools.capture.reader import Datagram
from warp_tools.capture.session import Session

SECOND: Final = 1 << 16
"""Added to the interface of what was seen at the larger address; files have fewer interfaces."""
MAX_WAITING: Final = 8192
MAX_FLOWS: Final = 20_000
TRANSIT_NS: Final = 5_000_000_000

Ends = tuple[Address, Address]


class Places:
    """Tells the places of merged captures apart, from what a first reading has shown."""

    def __init__(self) -> None:
        self._merged: Final[set[Ends]] = set()
        self._only: Final[dict[Ends, tuple[int, int]]] = {}
        """The interface that is told, where clocks differ, and by how much they do."""
        self._waiting: Final[OrderedDict[int, Datagram]] = OrderedDict()
        self._hops: Final[dict[Ends, tuple[int, int]]] = {}
        """TTL at the first and at the second place, by who sends."""

    def learn(self, sessions: Iterable[Session]) -> bool:
        """Look at what a reading has found; tell whether another one will show more."""
        before = len(self._merged), len(self._only)
        for session in sessions:
            skew_ns = session.sights.skew_ns
            if session.sights.is_merged:
                self._merged.update(_both_ways(session))
            elif skew_ns is not None:
                one = min(interface for _, _, _, interface in session.owners)
                self._only.update(dict.fromkeys(_both_ways(session), (one, skew_ns)))
        return (len(self._merged), len(self._only)) != before

    def mark(self, sessions: Iterable[Session]) -> None:
        """Note of which sessions only one place is told."""
        for session in sessions:
            known = [self._only[ends] for ends in _both_ways(session) if ends in self._only]
            session.sights.untold_ns = max((skew_ns for _, skew_ns in known), default=None)

    def tell(self, datagrams: Iterable[Datagram]) -> Iterator[Datagram]:
        """Yield datagrams, those of the second place with another interface."""
        for datagram in datagrams:
            ends = datagram.source, datagram.destination
            skewed = self._only.get(ends)
            if ends in self._merged:
                again = self._is_again(datagram, ends)
                if skewed is None:
                    yield _at_larger(datagram) if again != (ends[1] < ends[0]) else datagram
                elif not again:
                    yield datagram
            elif skewed is None or skewed[0] == datagram.interface:
                yield datagram

    def _is_again(self, datagram: Datagram, ends: Ends) -> bool:
        """Tell whether a datagram was seen at the second place of its way."""
        key = hash((ends, datagram.length, datagram.payload))
        first = self._waiting.pop(key, None)
        if first is not None and datagram.time_ns - first.time_ns < TRANSIT_NS:
            if first.hops == datagram.hops:
                self._hops.pop(ends, None)
            elif len(self._hops) < MAX_FLOWS:
                self._hops[ends] = first.hops, datagram.hops
            return True
        hops = self._hops.get(ends)
        if hops is not None and datagram.hops == hops[1]:
            return True  # missed at the first
        self._waiting[key] = datagram
        if len(self._waiting) > MAX_WAITING:
            self._waiting.popitem(last=False)
        return False


def _both_ways(session: Session) -> set[Ends]:
    found = {(source, destination) for source, destination, _, _ in session.owners}
    return found | {(destination, source) for source, destination in found}


def _at_larger(datagram: Datagram) -> Datagram:
    return datagram._replace(interface=datagram.interface + SECOND)
