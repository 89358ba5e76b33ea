"""Where a capture shows the same datagram: once, at two places of its way, or twice at one place.

An organ of `session`. A datagram that shows up on a second flow or interface went through a relay
(or a NAT), or was captured at both ends: its event gets a second time. The same bytes at the same
place at once are one datagram that was captured twice; later they are a repetition. What has passed
the first place and never comes to the second was lost in between, or missed there, if later ones
came through; what comes to the second alone was missed at the first.

    datagram ─▶ new?          ─▶ remembered
              ├ elsewhere     ─▶ its event gets a second time
              └ here, at once ─▶ DUPLICATE, and nothing more is made of it
"""

from __future__ import annotations

from collections import Counter, OrderedDict
from typing import Final

from warp_tools.capture.events import Event, Mark
from warp_tools.capture.ip import Address
from warp_tools.capture.reader import Datagram

MAX_COPIES: Final = 64
MAX_COPIES_MANY: Final = 1024
MAX_REPEATS: Final = 8
MAX_ECHOES: Final = 4096
"""More than a ladder has lines."""
COPY_NS: Final = 5_000_000_000
ECHO_NS: Final = 10_000_000
TELLING_BYTES: Final = 20
"""Of a datagram that was cut: the transaction of a check, the numbers of a record or of media."""
MAX_SINGLE: Final = 1500
_UNCUT: Final = 1 << 16

MAX_WAYS: Final = 64
MERGED_TOLD: Final = 3
"""Datagrams of each side that are enough to judge by."""

Place = tuple[Address, Address, str, int]
"""A flow as its sender sees it, and the interface of the capture."""
Spot = tuple[Address, Address, str, int]
"""A place whichever way a datagram goes: the smaller address first."""


class Sights:
    """What was seen of late, and where."""

    def __init__(self) -> None:
        self._copies: OrderedDict[int, tuple[list[Event], Place]] = OrderedDict()
        """Each sending of the same bytes at one place."""
        self._places: set[Place] = set()
        self._echoes: set[int] = set()
        """Numbers of datagrams that were captured twice at once."""
        self._cut_from = _UNCUT
        """Size of the smallest datagram that was cut."""
        self._ways: Counter[tuple[int, Spot, Spot]] = Counter()
        """How often a side's datagrams were seen at one place and then at the other."""
        self._transits: list[int | None] = [None, None]
        """The shortest time between both places, by side."""
        self._told = [0, 0]
        """Datagrams by side."""
        self._repeated = [0, 0]
        """Those of them that came to the same place once more, and not at once."""
        self._numbered = [0, 0]
        """Records and media, whose numbers no sender uses twice: all, and those repeated."""
        self._crossed = 0
        """Checks that seem to have been answered before they came to the second place."""
        self.untold_ns: int | None = None
        """How far the clock differs of another place, of which nothing is told."""
        self.missed = 0
        """Datagrams that only the second place shows."""

    def is_new(self, datagram: Datagram, event: Event, place: Place) -> bool:
        """Take a datagram in; False when it is one that was captured already, anywhere."""
        if len(self._places) <= 2:
            self._places.add(place)
        if datagram.cut:
            self._cut_from = min(self._cut_from, datagram.length)
            if len(datagram.payload) < TELLING_BYTES:
                return True
        key = hash((datagram.length, datagram.payload))
        known = self._copies.get(key)
        self._told[event.side] += 1
        self._numbered[0] += event.contents.stun is None
        if known is not None and known[0][0].side == event.side:
            sent, where = known
            passed = event.time_ns - sent[-1].time_ns
            if where != place and passed < COPY_NS:
                if passed <= ECHO_NS or not self._is_backwards(event.side, where, place):
                    self._arrives(sent, event, where, place)
                    return False
                event.mark(Mark.DUPLICATE, sent[0].number)  # whose first sending was missed here
            elif where == place:
                event.mark(Mark.DUPLICATE, sent[0].number)
                if ECHO_NS < passed < COPY_NS:
                    self._repeated[event.side] += 1
                    self._numbered[1] += event.contents.stun is None
                if passed <= ECHO_NS:
                    if len(self._echoes) < MAX_ECHOES:
                        self._echoes.add(event.number)
                    return False
                if len(sent) < MAX_REPEATS:
                    sent.append(event)
                return True
        self._copies[key] = ([event], place)
        if len(self._copies) > (MAX_COPIES if len(self._places) <= 2 else MAX_COPIES_MANY):
            self._copies.popitem(last=False)
        return True

    def _is_backwards(self, side: int, where: Place, place: Place) -> bool:
        """Tell whether a side's datagrams have gone the other way so far."""
        way = side, _spot(where), _spot(place)
        return self._ways[side, way[2], way[1]] > self._ways[way]

    def _arrives(self, sent: list[Event], event: Event, where: Place, place: Place) -> None:
        """One of the sendings of these bytes has come to the second place."""
        side, usual = event.side, self._transits[event.side]
        waiting = [one for one in sent if one.again_ns is None] or sent[-1:]
        arrived = waiting[0]  # who was sent first arrives first, unless it was lost
        if usual is not None:
            arrived = min(waiting, key=lambda one: abs(event.time_ns - one.time_ns - usual))
        arrived.again_ns = max(event.time_ns, arrived.last_ns)
        passed = event.time_ns - arrived.time_ns
        self._transits[side] = passed if usual is None else min(usual, passed)
        way = side, _spot(where), _spot(place)
        if way in self._ways or len(self._ways) < MAX_WAYS:
            self._ways[way] += 1

    def merge(self, other: Sights) -> None:
        """Take over what the sights of another session say of cuts."""
        self._cut_from = min(self._cut_from, other._cut_from)

    @property
    def is_merged(self) -> bool:
        """Whether so much of both sides came twice that the file was merged from two captures."""
        told, again = self._numbered
        pairs = [*zip(self._repeated, self._told, strict=True), (again, told)]
        return again > 0 and all(3 * again >= told > MERGED_TOLD for again, told in pairs)

    @property
    def skew_ns(self) -> int | None:
        """How far apart the clocks of the two places are, when datagrams show that they differ.

        Both sides' datagrams cannot be at the same place first, and nothing is answered before it
        has arrived. None: nothing is wrong.
        """
        ways = [transit or 0 for transit in self._transits]
        if min(ways) <= ECHO_NS:
            return None
        crossed = self._crossed > 0
        for (side, first, second), count in self._ways.items():
            back = self._ways[0, second, first] + self._ways[1, second, first]
            crossed |= side == 0 and min(count, self._ways[1, first, second]) > back
        return sum(ways) // 2 if crossed else None

    @property
    def transits_ns(self) -> tuple[int | None, int | None]:
        """The shortest time between both places, by who sent."""
        return self._transits[0], self._transits[1]

    def finish(self, events: list[Event], end_ns: int) -> None:
        """The capture is over: mark what was lost between the two places."""
        self._copies.clear()
        once = [event for event in events if event.number not in self._echoes]
        self._echoes.clear()
        arrived = {
            marked.number
            for event in events
            for marked in event.marks
            if marked.mark in (Mark.ACKNOWLEDGES, Mark.ANSWERS)
        }
        self._crossed = _crossed(events)
        for side in (0, 1):
            mine = [event for event in once if event.side == side]
            self._mark_lost(mine, end_ns, arrived)

    def _mark_lost(self, sent: list[Event], end_ns: int, arrived: set[int]) -> None:
        passed = [event for event in sent if event.again_ns is not None]
        if not passed:
            return
        near = {_place(event) for event in passed}
        side = passed[0].side
        seconds = {second for who, _, second in self._ways if who == side}
        transit = max((event.again_ns or 0) - event.time_ns for event in passed)
        end = min(end_ns - 2 * transit, passed[-1].time_ns)
        for event in sent:
            if event.again_ns is not None or event.count > 1:
                continue
            place = _place(event)
            if place not in near:
                self.missed += _spot(place) in seconds
                continue
            # what was cut may have been cut elsewhere at the other place
            known = event.size < self._cut_from and not _is_glued(event)
            if event.time_ns < end and known and event.number not in arrived:
                event.mark(Mark.LOST)


def _crossed(events: list[Event]) -> int:
    """Count checks that were answered too soon, less those that were not."""
    arrivals = {event.number: event.again_ns for event in events if event.again_ns is not None}
    found = 0
    for event in events:
        for marked in event.marks:
            arrival = arrivals.get(marked.number) if marked.mark is Mark.ANSWERS else None
            if arrival is not None and event.again_ns is not None:
                found += 1 if event.time_ns < arrival - ECHO_NS else -1
    return found


def _place(event: Event) -> Place:
    return event.source, event.destination, event.transport, event.interface


def _spot(place: Place) -> Spot:
    source, destination, transport, interface = place
    if destination < source:
        source, destination = destination, source
    return source, destination, transport, interface


def _is_glued(event: Event) -> bool:
    """Tell whether these may be several datagrams, taken apart further down (UDP_SEGMENT)."""
    sizes = [record.size for record in event.dtls.records] if event.dtls is not None else []
    equal = len(sizes) > 1 and len(set(sizes[:-1])) == 1 and sizes[-1] <= sizes[0]
    return equal or event.size > MAX_SINGLE
