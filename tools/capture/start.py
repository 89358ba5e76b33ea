"""The datagrams that a start turns on: which one asked, which one brought the flight, when.

Read from a finished session by the explanation. Nothing here is estimated: a moment is a datagram
that was captured, or None when the capture does not show it.

    checks     first request ─▶ first answer ─▶ nomination
    DTLS 1.3   ClientHello ─▶ ServerHello .. Finished (epoch 2) ─▶ client's flight (epoch 2) ─▶ ACK
    DTLS 1.2   ClientHello ─▶ ServerHello .. Done ─▶ key exchange, Finished ─▶ Finished
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, NamedTuple

from warp.dtls.faults import HandshakeFault
from warp.dtls.messages import HandshakeType
from warp.dtls.suites import CipherSuite
from warp_tools.capture.events import Event, Mark
from warp_tools.capture.handshake import FLIGHT_BYTES, SAME_FLIGHT_NS, Said, Sealed
from warp_tools.capture.records import Piece
from warp_tools.capture.session import Session

OVERHEAD13: Final = 17
_ACK_ENTRY: Final = 16
_GCM, _CHACHA = 24, 16
_CHACHA_SUITES: Final = frozenset((0xCCA8, 0xCCA9, 0xCCAA))


class Hello(NamedTuple):
    """A ClientHello that is complete on the wire."""

    side: int
    message_seq: int
    length: int
    began: Event
    whole: Event
    parts: int
    """Datagrams that it takes."""


class Start:
    """The key moments of one session."""

    def __init__(self, session: Session) -> None:
        self.session: Final = session
        shake = session.handshake
        self.client: Final = shake.client
        self.is_12: Final = shake.is_12
        self.ignored: Final = None if self.client is None else _ignores(session, self.client)
        """Whether the server took no notice of what checks carried."""
        hellos = [(e, piece) for e, piece in shake.hellos if not (self.ignored and e.embedded)]
        self._hellos: Final = hellos
        self.first_hello: Final = _whole(hellos, min)
        self.hello: Final = _whole(hellos, max)
        """The ClientHello that counts: after a retry, the second one."""
        self.server_hello: Final = self._server_hello()
        self.finished12: Final = self._finished12()
        self.client_flight: Final = self._client_flight()
        self.server_flight: Final = self._server_flight()

    @property
    def server(self) -> int | None:
        """The side that is DTLS server."""
        return None if self.client is None else 1 - self.client

    @property
    def missing(self) -> bool:
        """Whether the capture began after the start: protected records, or media, and no hello."""
        shake = self.session.handshake
        if shake.hellos or self.server_hello is not None:
            return False
        return bool(shake.records or sum(self.session.sources.packets))

    @property
    def headless(self) -> bool:
        """Whether the capture began within the start: after the first checks or ClientHello."""
        if any(asker.missed for asker in self.session.checks.askers):
            return True
        hellos = self.session.handshake.hellos
        if hellos and min(piece.message_seq for _, piece in hellos) > 0:
            return True
        return self.server_hello is not None and self.first_hello is None

    @property
    def zero(self) -> Event | None:
        """The datagram that the clock starts with: the first check, else the first ClientHello."""
        if self.missing:
            return None
        if self.session.checks.first is not None:
            return self.session.checks.first
        hellos = self.session.handshake.hellos
        return hellos[0][0] if hellos else None

    @property
    def retries(self) -> int:
        """How often the server asked for another ClientHello."""
        first, last = self.first_hello, self.hello
        again = 0 if first is None or last is None else last.message_seq - first.message_seq
        return max(len(self.session.handshake.retries), min(again, 2))

    # -- hellos -----------------------------------------------------------------------------------

    def _server_hello(self) -> Said | None:
        shake = self.session.handshake
        if self.client is None:
            return None
        found = shake.find(1 - self.client, HandshakeType.SERVER_HELLO)
        if shake.server_hello is not None or found is None:
            return found
        # its body was cut off; what follows tells it from a HelloRetryRequest
        goes_on = shake.flight(1 - self.client) or shake.find(
            1 - self.client, HandshakeType.SERVER_HELLO_DONE
        )
        return found if goes_on else None

    def hello_pieces(self, hello: Hello) -> list[tuple[Event, Piece]]:
        """Return every datagram with a part of a ClientHello that the server could read."""
        return [found for found in self._hellos if found[1].message_seq == hello.message_seq]

    def hello_transmissions(self) -> list[list[Event]]:
        """Return each sending of the ClientHello that counts, as the datagrams that it took."""
        if self.hello is None:
            return []
        rounds: list[list[Event]] = []
        seen: set[int] = set()
        for event, piece in self.hello_pieces(self.hello):
            if not rounds or piece.offset in seen:
                rounds.append([])
                seen = set()
            seen.add(piece.offset)
            rounds[-1].append(event)
        return rounds

    # -- flights ----------------------------------------------------------------------------------

    def _finished12(self) -> tuple[Event | None, Event | None]:
        """The datagrams with the Finished of client and server in DTLS 1.2."""
        if self.client is None or self.is_12 is not True:
            return None, None
        shake = self.session.handshake
        both = shake.flight(self.client), shake.flight(1 - self.client)
        first, second = (found[0].event if found else None for found in both)
        return first, second

    def _client_flight(self) -> list[Event]:
        """Every datagram with a part of the client's last flight, repeats included."""
        if self.client is None:
            return []
        if self.is_12:
            shake, said = self.session.handshake, []
            for kind in (HandshakeType.CLIENT_KEY_EXCHANGE, HandshakeType.CERTIFICATE):
                found = shake.find(self.client, kind)
                said += [] if found is None else [found.whole]
            flight = said + [sealed.event for sealed in shake.flight(self.client)]
            return _in_order(flight)
        sealed = self.session.handshake.flight(self.client)
        messages = [one for one in sealed if not is_ack(one) and not is_alert(one)]
        return _in_order([one.event for one in messages])

    def _server_flight(self) -> list[Event]:
        """The server's flight as it was first sent."""
        if self.server is None or self.server_hello is None:
            return []
        if self.is_12:
            done = self.session.handshake.find(self.server, HandshakeType.SERVER_HELLO_DONE)
            events = [self.server_hello.began] + ([] if done is None else [done.whole])
            return _in_order(events)
        limit = self.client_flight[0].time_ns if self.client_flight else None
        flight = [self.server_hello.began, self.server_hello.whole]
        for record in self.session.handshake.flight(self.server):
            event = record.event
            late = not event.embedded and event.time_ns - flight[-1].time_ns > SAME_FLIGHT_NS
            late = late or (limit is not None and event.time_ns > limit)
            if event.marked(Mark.AGAIN) or late:
                break  # what follows is the same once more, perhaps in other records
            if not event.marked(Mark.COPY) and not event.marked(Mark.DUPLICATE):
                flight.append(event)
        return _in_order(flight)

    @property
    def server_ack(self) -> Event | None:
        """What shows that the server is done: its ACK (1.3), its Finished (1.2)."""
        if self.is_12:
            return self.finished12[1]
        if self.server is None or not self.client_flight:
            return None
        began = self.client_flight[0].time_ns
        for record in self.session.handshake.sealed(self.server):
            if record.event.time_ns >= began and is_ack(record) and record.epoch != 2:
                return record.event
        return None

    # -- sizes ------------------------------------------------------------------------------------

    def content_size(self, record: Sealed) -> int | None:
        """Return how many bytes a protected record holds, or None when its cipher pads."""
        if self.is_12 is False:
            return record.size - OVERHEAD13
        hello = self.session.handshake.server_hello
        if hello is None:
            return None
        if hello.suite in _CHACHA_SUITES:
            return record.size - _CHACHA
        aead = hello.suite in set(CipherSuite)
        return record.size - _GCM if aead else None

    @property
    def group(self) -> int | None:
        """The group of the key agreement."""
        shake = self.session.handshake
        if shake.group12 is not None:
            return shake.group12
        if shake.server_hello is None:
            return None
        try:
            share = shake.server_hello.key_share()
        except HandshakeFault:
            return None
        return None if share is None else share[0]

    @property
    def version(self) -> int | None:
        """The version that was chosen, or that protected records show."""
        shake = self.session.handshake
        if shake.server_hello is not None:
            try:
                return shake.server_hello.selected_version()
            except HandshakeFault:
                return None
        if shake.versions:
            return max(shake.versions, key=lambda number: -number)
        return 0xFEFC if self.is_12 is False else None


def is_ack(record: Sealed) -> bool:
    """Tell whether a protected record of DTLS 1.3 has the size of an ACK (RFC 9147 section 7)."""
    content = record.size - OVERHEAD13
    return content >= 2 and content % _ACK_ENTRY == 2 and 2 < content <= FLIGHT_BYTES


def is_alert(record: Sealed) -> bool:
    """Tell whether a protected record of DTLS 1.3 has the size of an alert (RFC 8446 section 6)."""
    return record.size - OVERHEAD13 == 2


def _in_order(events: list[Event]) -> list[Event]:
    found: list[Event] = []
    for event in sorted(events, key=lambda event: (event.time_ns, event.number)):
        if not found or found[-1] is not event:
            found.append(event)
    return found


def _ignores(session: Session, client: int) -> bool:
    """Tell whether the client's peer answers SPED without it, and never speaks it."""
    mine, theirs = (session.checks.askers[side].sped for side in (client, 1 - client))
    return mine.first is not None and theirs.first is None and theirs.silent is not None


def _whole(hellos: list[tuple[Event, Piece]], choose: Callable[[list[int]], int]) -> Hello | None:
    """Return the first or last ClientHello, by message_seq, as it became complete."""
    numbers = [piece.message_seq for _, piece in hellos]
    if not numbers:
        return None
    wanted = choose(numbers)
    began: Event | None = None
    parts: set[int] = set()
    ranges: list[tuple[int, int]] = []
    for event, piece in hellos:
        if piece.message_seq != wanted:
            continue
        began = began or event
        if not _covers(ranges, piece.offset + piece.size, piece.offset):
            ranges.append((piece.offset, piece.offset + piece.size))
            parts.add(event.number)
        if _covers(ranges, piece.length):
            return Hello(event.side, wanted, piece.length, began, event, len(parts))
    return None


def _covers(ranges: list[tuple[int, int]], end: int, at: int = 0) -> bool:
    """Tell whether everything from `at` to `end` is there."""
    for start, stop in sorted(ranges):
        if start > at:
            break
        at = max(at, stop)
    return at >= end
