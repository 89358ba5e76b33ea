"""A socket with the table that leads each datagram to its session.

Stop 2 of the eight. A datagram from an unknown address must be a Binding request whose USERNAME
names a session; an address enters the table only after the session has authenticated it. A server
that makes sessions of first datagrams (`unknown`) is asked about all others.

    datagram ─▶ probe of gathering? ─▶ STUN: by ufrag, or by what we asked ─▶ else: by address
                                                             nobody's ─▶ unknown? ─▶ dropped

A check can be recorded, and sent again with anybody's address. So an address that a second session
authenticates is not taken from the first: both get what comes from there, and each throws away what
it has no keys for, until one of them has ended.

Called by the outlet that reads (`warp.io.udp`, or a relay) and by `warp.io.driver`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Protocol, TypeAlias

from warp.contract import Address, Flow
from warp.io.reflexive import ProbeTable
from warp.peer import Kind, PeerConnection, classify
from warp.stun import peek_username

if TYPE_CHECKING:
    from warp.io.driver import Driver

MAX_ROUTES = 8
MAX_SHARERS = 3
"""Sessions of one address, beside the first: each costs a decryption of every datagram."""
MEDIA = 1
ALL = 2
_ANSWER = 1  # first byte of a Binding success or error response (RFC 8489 section 5)
# what a socket calls an address: IPv6 has two members more
RawAddress: TypeAlias = tuple[str, int] | tuple[str, int, int, int]
Receive: TypeAlias = Callable[[bytes, RawAddress], None]


def raw_address(address: Address) -> RawAddress:
    """Return what a socket calls an address."""
    host, number = address
    return (host, number, 0, 0) if ":" in host else (host, number)


class Driven(Protocol):
    """What the driver needs of a session."""

    peer: PeerConnection
    deadline: float | None
    touched: int
    routes: list[tuple[Port, RawAddress]]

    def receive_events(self, now: float) -> None:
        """Drain the peer's events."""

    def fail(self, error: Exception) -> None:
        """End for a bug of ours."""


class Route:
    """Where an address leads: to a session, and once its media flows to the short way of that."""

    __slots__ = ("flow", "lane", "session")

    def __init__(self, session: Driven, flow: Flow) -> None:
        self.session = session
        self.flow = flow
        self.lane = session.peer.lane


Unknown: TypeAlias = Callable[["Port", bytes, Flow], Driven | None]
"""Says whose a datagram is that names no session: the session that takes it in, or None."""


class Outlet(Protocol):
    """What a port sends through: a UDP socket or a relay."""

    @property
    def local(self) -> Address:
        """The address that its flows show."""

    def send(self, data: bytes, remote: Address) -> None:
        """Send one datagram; never blocks."""

    def send_behind(self, data: bytes, remote: Address) -> None:
        """Send one datagram, behind the batch that is being read if there is one."""

    def send_run(self, datagrams: Sequence[bytes], remote: Address) -> None:
        """Send several datagrams to one peer."""

    def close(self) -> None:
        """Stop; harmless when repeated."""


class Port:
    """One outlet and its routes. `by_ufrag` may be shared with the other ports of a server."""

    __slots__ = (
        "_default",
        "_driver",
        "_routes",
        "_shared",
        "by_ufrag",
        "probes",
        "sock",
        "unknown",
        "unroutable",
    )

    def __init__(self, driver: Driver, open_outlet: Callable[[Receive], Outlet]) -> None:
        self._driver = driver
        self._routes: dict[RawAddress, Route] = {}
        self._shared: dict[RawAddress, list[Route]] = {}
        """Those who have authenticated an address that was another's; mostly empty."""
        self._default: Driven | None = None
        self.by_ufrag: Mapping[str, Driven] = {}
        self.probes = ProbeTable()
        self.unknown: Unknown | None = None
        self.unroutable = 0
        self.sock = open_outlet(self.receive)

    @property
    def local(self) -> Address:
        """The bound address."""
        return self.sock.local

    @property
    def routes(self) -> int:
        """How many addresses are known."""
        return len(self._routes)

    def knows(self, address: RawAddress) -> bool:
        """Whether an address leads to a session."""
        return address in self._routes

    def send(self, data: bytes, remote: Address) -> None:
        """Send one datagram that belongs to no session."""
        self.sock.send(data, remote)

    def set_default(self, session: Driven) -> None:
        """Lead every unknown address to one session: a client's socket serves only its own."""
        self._default = session

    def close(self) -> None:
        """Stop, and let go of the sessions; harmless when repeated."""
        self._default = None
        self._routes.clear()
        self._shared.clear()
        self.sock.close()

    def receive(self, data: bytes, address: RawAddress) -> None:
        """Lead a datagram to its session; the driver flushes it after the batch."""
        route = self._routes.get(address)
        # media changes nothing but media: most of a call needs only the short flush, or none
        # (RTP's version is 2; second bytes from 192 to 223 are RTCP's, RFC 5761 section 4)
        media = len(data) > 1 and data[0] >> 6 == 2 and data[1] >> 5 != 6
        if media and route is not None:
            if self._shared and address in self._shared:
                for sharer in self._shared[address]:
                    self._hand_on_media(data, sharer)
            self._hand_on_media(data, route)
            return
        if route is None or (data and data[0] < 4 and (self.by_ufrag or self.probes)):
            if self.probes and self.probes.receive(data, (address[0], address[1])):
                return
            found = self._find(data, address, route)
            if found is None:
                self.unroutable += 1
            elif media:
                self._hand_on_media(data, Route(*found))
            else:
                self._hand_on(data, *found)
            return
        if self._shared and address in self._shared:
            for sharer in self._shared[address]:
                self._hand_on(data, sharer.session, sharer.flow)
        self._hand_on(data, route.session, route.flow)

    def _hand_on_media(self, data: bytes, route: Route) -> None:
        """Let a session take in an SRTP datagram, by the short way when that is open."""
        lane, driver = route.lane, self._driver
        try:
            if lane is None:
                route.session.peer.receive_datagram(data, route.flow, driver.now())
            elif not lane.receive(data, route.flow, driver.now()):
                return
        except Exception as error:
            driver.fail(route.session, error)
            return
        session = route.session
        if not session.touched:
            session.touched = MEDIA
            driver.touched.append(session)

    def _hand_on(self, data: bytes, session: Driven, flow: Flow) -> None:
        """Let a session take in a datagram the long way."""
        driver = self._driver
        try:
            session.peer.receive_datagram(data, flow, driver.now())
        except Exception as error:
            driver.fail(session, error)
            return
        if not session.touched:
            driver.touched.append(session)
        session.touched = ALL

    def _find(
        self, data: bytes, address: RawAddress, known: Route | None
    ) -> tuple[Driven, Flow] | None:
        """Route by the ufrag of a Binding request; else keep what the address says."""
        session, stranger = self._default, known is None
        if self.by_ufrag and classify(data) is Kind.STUN:
            ufrag: str | None
            if data[0] == _ANSWER:
                ufrag = self._driver.take_check(data[8:20])
            else:
                names = peek_username(data)
                ufrag = names[0] if names is not None else None
            if ufrag is not None:
                session = self.by_ufrag.get(ufrag, session)
                # a NAT may have given the address to another client
                stranger |= session is None
        if session is None and stranger and self.unknown is not None:
            return self._ask(self.unknown, data, address)
        if known is not None and (session is None or session is known.session):
            return known.session, known.flow
        if session is None:
            return None
        return session, Flow(self.sock.local, (address[0], address[1]))

    def _ask(
        self, unknown: Unknown, data: bytes, address: RawAddress
    ) -> tuple[Driven, Flow] | None:
        flow = Flow(self.sock.local, (address[0], address[1]))
        try:
            session = unknown(self, data, flow)
        except Exception as error:
            self._driver.report(error)
            return None
        return None if session is None else (session, flow)

    def add_route(self, session: Driven, flow: Flow) -> None:
        """Lead an authenticated address straight to its session; the oldest of many goes.

        Where it is another session's already they share it.
        """
        key = raw_address(flow.remote)
        known = self._routes.get(key)
        if known is None or known.session is session:
            self._routes[key] = Route(session, flow)
        else:
            sharers = self._shared.setdefault(key, [])
            if all(sharer.session is not session for sharer in sharers):
                if len(sharers) == MAX_SHARERS:
                    return
                sharers.append(Route(session, flow))
        mark = (self, key)
        routes = session.routes
        if mark in routes:
            routes.remove(mark)
        routes.append(mark)
        if len(routes) > MAX_ROUTES:
            port, old = routes.pop(0)
            port.remove_route(session, old)

    def open_lane(self, session: Driven, key: RawAddress) -> None:
        """Lead media from an address of a session the short way, which its peer has opened."""
        for route in (self._routes.get(key), *self._shared.get(key, ())):
            if route is not None and route.session is session:
                route.lane = session.peer.lane

    def remove_route(self, session: Driven, key: RawAddress) -> None:
        """Forget an address of a session; another that shares it has it alone."""
        sharers = [one for one in self._shared.get(key, ()) if one.session is not session]
        route = self._routes.get(key)
        if route is not None and route.session is session:
            del self._routes[key]
            if sharers:
                self._routes[key] = sharers.pop(0)
        if sharers:
            self._shared[key] = sharers
        else:
            self._shared.pop(key, None)
