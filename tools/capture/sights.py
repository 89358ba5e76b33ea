"""Where a capture shows the same datagram: once, at two places of its way, or twice at one place.

An organ of `session`. A datagram that shows up on a second flow or interface went through a relay
(or a NAT): its event gets a second time. The same bytes at the same place at once are one datagram
that was captured twice; later they are a repetition. What has passed one place and never comes to
the other was lost in between, if later ones came through.

    datagram ─▶ new?          ─▶ remembered
              ├ elsewhere     ─▶ its event gets a second time
              └ here, at once ─▶ DUPLICATE, and nothing more is made of it
"""

from __future__ import annotations

from collections import OrderedDict
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

Place = tuple[Address, Address, str, int]
"""A flow as its sender sees it, and the interface of the capture."""


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
        if known is not None and known[0][0].side == event.side:
            sent, where = known
            passed = event.time_ns - sent[-1].time_ns
            if where != place and passed < COPY_NS:
                # who was sent first arrives first
                arrived = next((one for one in sent if one.again_ns is None), sent[-1])
                arrived.again_ns = max(event.time_ns, arrived.again_ns or 0)
                return False
            if where == place:
                event.mark(Mark.DUPLICATE, sent[0].number)
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

    def merge(self, other: Sights) -> None:
        """Take over what the sights of another session say of cuts."""
        self._cut_from = min(self._cut_from, other._cut_from)

    def finish(self, events: list[Event], end_ns: int) -> None:
        """The capture is over: mark what was lost between the two places."""
        self._copies.clear()
        once = [event for event in events if event.number not in self._echoes]
        self._echoes.clear()
        for side in (0, 1):
            self._mark_lost([event for event in once if event.side == side], end_ns)

    def _mark_lost(self, sent: list[Event], end_ns: int) -> None:
        passed = [event for event in sent if event.again_ns is not None]
        if not passed:
            return
        near = {(event.source, event.destination) for event in passed}
        transit = max((event.again_ns or 0) - event.time_ns for event in passed)
        end = min(end_ns - 2 * transit, passed[-1].time_ns)
        for event in sent:
            here = (event.source, event.destination) in near and event.time_ns < end
            # what was cut may have been cut elsewhere at the other place
            known = event.size < self._cut_from and not _is_glued(event)
            if event.again_ns is None and event.count == 1 and here and known:
                event.mark(Mark.LOST)


def _is_glued(event: Event) -> bool:
    """Tell whether these may be several datagrams, taken apart further down (UDP_SEGMENT)."""
    sizes = [record.size for record in event.dtls.records] if event.dtls is not None else []
    equal = len(sizes) > 1 and len(set(sizes[:-1])) == 1 and sizes[-1] <= sizes[0]
    return equal or event.size > MAX_SINGLE
