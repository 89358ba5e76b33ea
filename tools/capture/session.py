"""One WebRTC transport as a capture shows it: two sides, their flows, the ladder between them.

Filled by the finder, read by the ladder and by the explanation. What grows with the length of a
call is counted, not kept: media and data that go on become one line with a number of datagrams.

    datagram ─▶ seen at another place before? ─▶ its event gets a second time
             ─▶ Event ─┬▶ checks, handshake, sources
                       └▶ events (the ladder), runs folded
"""

from __future__ import annotations

from collections import Counter
from typing import Final

from warp_tools.capture.checks import Checks
from warp_tools.capture.contents import Contents, is_check
from warp_tools.capture.events import Event
from warp_tools.capture.handshake import Handshake
from warp_tools.capture.ip import Address
from warp_tools.capture.reader import Datagram
from warp_tools.capture.sights import Place, Sights
from warp_tools.capture.sources import Sources

MAX_EVENTS: Final = 400
MAX_ADDRESSES: Final = 32
_UNFOLDED_MEDIA: Final = 2
_UNFOLDED_DATA: Final = 24
_SENT: Final = ("sent by 0", "sent by 1")

Flow = tuple[Address, Address, str]


class Session:
    """Everything between two ICE agents on one transport."""

    def __init__(self, number: int, *, limit: int = MAX_EVENTS, fold: bool = True) -> None:
        self.number = number
        self.ufrags: list[str | None] = [None, None]
        self.addresses: Final[tuple[list[Address], list[Address]]] = ([], [])
        self.events: Final[list[Event]] = []
        self.checks = Checks()
        self.handshake = Handshake()
        self.sources = Sources()
        self.owners: Final[dict[Place, int]] = {}
        """Flows by who sends on them: the side of the first address."""
        self._places: Final[dict[Place, Place]] = {}
        self.counts: Final[Counter[str]] = Counter()
        self.span: list[int] = []
        """Time of the earliest and of the latest datagram."""
        self.previous: Session | None = None
        """The session that used this flow before, with other ICE credentials."""
        self._limit: Final = limit
        self._fold = _Fold() if fold else None
        self._sights = Sights()

    def receive(self, datagram: Datagram, contents: Contents, side: int) -> Event | None:
        """Take one datagram of `side` in; return its event, or None when it was a second sight."""
        self.counts["datagrams"] += 1
        self.counts["cut"] += datagram.cut
        self.counts[_SENT[side]] += 1
        time_ns = datagram.time_ns
        times = [*self.span, time_ns]
        self.span = [min(times), max(times)]
        place = (
            datagram.source,
            datagram.destination,
            datagram.transport,
            datagram.interface,
        )
        known = self._places.get(place)
        if known is None:
            self._add_place(place, side)
        else:
            place = known  # one copy of the addresses serves all events
        event = Event(
            datagram.number, time_ns, side, place[:3], datagram.length, contents, datagram.cut
        )
        event.interface = datagram.interface
        if self._sights.is_new(datagram, event, place):
            self._tell(event)
        elif not event.marks:
            return None
        self._append(event)
        return event

    def _add_place(self, place: Place, side: int) -> None:
        if len(self._places) < MAX_ADDRESSES:
            self._places[place] = place
            self.owners[place] = side
        for address, owner in ((place[0], side), (place[1], 1 - side)):
            known = self.addresses[owner]
            if address not in known and len(known) < MAX_ADDRESSES:
                known.append(address)

    def _tell(self, event: Event) -> None:
        stun, dtls, media = event.contents.stun, event.contents.dtls, event.contents.media
        if media is not None:
            self.sources.receive(event, media)
            self.checks.sent(event)
        if stun is not None and is_check(stun):
            self.checks.receive(event, stun)
        if dtls is not None:
            self.handshake.receive(event, dtls)
        if stun is not None and stun.acks:
            self.handshake.acknowledges(event, stun.acks)

    def _append(self, event: Event) -> None:
        dtls = event.dtls
        if dtls is not None:
            lean = dtls._replace(records=tuple(record.lean() for record in dtls.records))
            event.contents = event.contents._replace(dtls=lean)
        if self._fold is not None and self._fold.takes(event):
            return
        if len(self.events) < self._limit:
            self.events.append(event)
        else:
            self.counts["dropped"] += 1

    def side_of(self, address: Address) -> int | None:
        """Return the side that sends from an address, or None when neither has."""
        return next((side for side in (0, 1) if address in self.addresses[side]), None)

    @property
    def datagrams(self) -> int:
        """Datagrams of this session, second sights included."""
        return self.counts["datagrams"]

    @property
    def sent(self) -> tuple[int, int]:
        """Datagrams by who sent them, second sights included."""
        return self.counts[_SENT[0]], self.counts[_SENT[1]]

    @property
    def moved(self) -> bool:
        """Whether checks have told later that its flow belongs to another session."""
        return bool(self.counts["moved"])

    @property
    def cut(self) -> int:
        """Datagrams of which the capture kept only the beginning."""
        return self.counts["cut"]

    @property
    def dropped(self) -> int:
        """Lines that the ladder has no room for."""
        return self.counts["dropped"]

    @property
    def sights(self) -> Sights:
        """What was seen more than once, and where."""
        return self._sights

    def absorb(self, orphan: Session, *, swapped: bool) -> None:
        """Take over what came on a flow before a check told whose it is.

        `swapped`: the orphan's sides are the other way round.
        """
        for event in orphan.events:
            event.side = 1 - event.side if swapped else event.side
            self._tell(event)
        self.events.extend(orphan.events)
        self.events.sort(key=lambda event: (event.time_ns, event.number))
        del self.events[self._limit :]
        names = dict(zip(_SENT, _SENT[::-1], strict=True)) if swapped else {}
        for what, count in orphan.counts.items():
            self.counts[names.get(what, what)] += count
        self._sights.merge(orphan._sights)
        times = self.span + orphan.span
        self.span = [min(times), max(times)]
        for place, side in orphan.owners.items():
            self._add_place(place, 1 - side if swapped else side)

    def finish(self) -> None:
        """The capture is over: mark what never arrived and what was never answered."""
        self.checks.finish()
        if self.span:
            self._sights.finish(self.events, self.span[1])


class _Fold:
    """Turns what goes on and on into one line."""

    def __init__(self) -> None:
        self._seen: dict[tuple[int, str], int] = {}
        self._runs: dict[tuple[int, str], Event] = {}

    def takes(self, event: Event) -> bool:
        """Tell whether the event went into a line that exists already."""
        kind = event.contents.kind
        key = (event.side, kind)
        if not self._folds(event, key):
            self._runs.clear()
            return False
        run = self._runs.get(key)
        if run is None:
            self._runs[key] = event
            return False
        run.count += 1
        run.until_ns = event.time_ns
        run.size += event.size
        return True

    def _folds(self, event: Event, key: tuple[int, str]) -> bool:
        contents = event.contents
        if event.marks or contents.stun is not None:
            return False
        if contents.dtls is not None:
            in_handshake = any(
                not record.protected or (record.unified and record.epoch == 2)
                for record in contents.dtls.records
            )
            if in_handshake or contents.dtls.fault is not None:
                return False
        seen = self._seen[key] = self._seen.get(key, 0) + 1
        return seen > (_UNFOLDED_DATA if contents.dtls is not None else _UNFOLDED_MEDIA)
