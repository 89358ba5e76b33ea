"""The pump: turns socket readiness and time into the five verbs, and their output into datagrams.

    UdpSocket ──▶ Port (route by address, else by ufrag) ──▶ PeerConnection.receive_datagram
                                                              │ touched, once a batch
    UdpSocket ◀── datagrams_to_send ◀── Driver.flush ◀────────┘──▶ events ──▶ Session

One driver per event loop and server; it owns no protocol state. Timers live in one heap with lazy
invalidation: a session is woken at the earliest deadline that it ever named and not yet met.
"""

from __future__ import annotations

import asyncio
import heapq
import itertools
import socket
from typing import Protocol

from warp.contract import Address, Datagram, Flow
from warp.io.clock import MediaClock
from warp.io.udp import UdpSocket
from warp.peer import Kind, PeerConnection, classify
from warp.stun import peek_username

MAX_ROUTES = 8
MEDIA = 1
ALL = 2
RawAddress = tuple[str, int]


class Driven(Protocol):
    """What the driver needs of a session."""

    peer: PeerConnection
    deadline: float | None
    touched: int
    routes: list[tuple[Port, RawAddress]]

    def receive_events(self, now: float) -> None:
        """Drain the peer's events."""


class Port:
    """A socket with the table that leads each datagram to its session.

    A datagram from an unknown address must be a Binding request whose USERNAME names a session;
    an address enters the table only after the session has authenticated it.
    """

    __slots__ = ("_default", "_driver", "_routes", "by_ufrag", "sock", "unroutable")

    def __init__(self, driver: Driver, sock: socket.socket, local: Address | None = None) -> None:
        self._driver = driver
        self._routes: dict[RawAddress, tuple[Driven, Flow]] = {}
        self.by_ufrag: dict[str, Driven] = {}
        self._default: Driven | None = None
        self.unroutable = 0
        self.sock = UdpSocket(sock, self._receive, driver.flush_touched, driver.loop)
        if local is not None:
            self.sock.local = local

    def set_default(self, session: Driven) -> None:
        """Lead every unknown address to one session: a client's socket serves only its own."""
        self._default = session

    def _receive(self, data: bytes, address: RawAddress) -> None:
        route = self._routes.get(address)
        if route is None or (data and data[0] < 4 and self.by_ufrag):
            route = self._find(data, address, route)
            if route is None:
                self.unroutable += 1
                return
        session, flow = route
        driver = self._driver
        session.peer.receive_datagram(data, flow, driver.loop.time())
        # media changes nothing but media: most of a call needs only the short flush
        level = MEDIA if 127 < data[0] < 192 and not 191 < data[1] < 224 else ALL
        if not session.touched:
            driver.touched.append(session)
        if session.touched < level:
            session.touched = level

    def _find(
        self, data: bytes, address: RawAddress, known: tuple[Driven, Flow] | None
    ) -> tuple[Driven, Flow] | None:
        """Route by the ufrag of a Binding request; else keep what the address says."""
        session = self._default
        if self.by_ufrag and classify(data) is Kind.STUN:
            names = peek_username(data)
            if names is not None:
                session = self.by_ufrag.get(names[0], session)
        if session is None or (known is not None and session is known[0]):
            return known
        return session, Flow(self.sock.local, (address[0], address[1]))

    def add_route(self, session: Driven, flow: Flow) -> None:
        """Lead an authenticated address straight to its session; the oldest of many goes."""
        key = flow.remote
        self._routes[key] = (session, flow)
        mark = (self, key)
        if mark not in session.routes:
            session.routes.append(mark)
            if len(session.routes) > MAX_ROUTES:
                port, old = session.routes.pop(0)
                port.remove_route(session, old)

    def remove_route(self, session: Driven, key: RawAddress) -> None:
        """Forget an address, unless it belongs to another session by now."""
        route = self._routes.get(key)
        if route is not None and route[0] is session:
            del self._routes[key]


class Driver:
    """Owns the ports, the timer heap and the media clock of one server or client."""

    __slots__ = ("_handle", "_heap", "_order", "_wake_at", "clock", "loop", "ports", "touched")

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.loop = loop
        self.clock = MediaClock(loop)
        self.ports: dict[Address, Port] = {}
        self.touched: list[Driven] = []
        self._heap: list[tuple[float, int, Driven]] = []
        self._order = itertools.count()
        self._handle: asyncio.TimerHandle | None = None
        self._wake_at = float("inf")

    def add_port(self, sock: socket.socket, local: Address | None = None) -> Port:
        """Start reading a bound socket; `local` overrides the address that its flows show."""
        port = Port(self, sock, local)
        self.ports[port.sock.local] = port
        return port

    def flush_touched(self) -> None:
        """Flush every session that received something in this batch."""
        if not self.touched:
            return
        touched, self.touched = self.touched, []
        for session in touched:
            level, session.touched = session.touched, 0
            if level == MEDIA:
                self.flush_media(session)
            else:
                self.flush(session)

    def flush_soon(self, session: Driven) -> None:
        """Flush a session at the end of this turn of the loop; repeated calls cost nothing."""
        if not session.touched:
            if not self.touched:
                self.loop.call_soon(self.flush_touched)
            self.touched.append(session)
        session.touched = ALL

    def flush(self, session: Driven) -> None:
        """Send what a session has to send, hand on its events, and rearm its timer."""
        peer = session.peer
        now = self.loop.time()
        out = peer.datagrams_to_send(now)
        if out:
            self._send(out)
        session.receive_events(now)
        deadline = peer.get_timer()
        if deadline is not None and (session.deadline is None or deadline < session.deadline):
            self._wake_session(session, deadline)

    def flush_media(self, session: Driven) -> None:
        """Send the media of a session and hand on what it heard: all that media can change."""
        self.send_media(session)
        session.receive_events(self.loop.time())
        deadline = session.peer.get_media_timer()
        if deadline is not None and (session.deadline is None or deadline < session.deadline):
            self._wake_session(session, deadline)

    def send_media(self, session: Driven) -> None:
        """Send the audio that a session has queued, and nothing else."""
        for data, flow in session.peer.media_to_send():
            port = self.ports.get(flow.local)
            if port is not None:
                port.sock.send(data, flow.remote)

    def _wake_session(self, session: Driven, deadline: float) -> None:
        session.deadline = deadline
        heapq.heappush(self._heap, (deadline, next(self._order), session))
        if deadline < self._wake_at:
            self._schedule(deadline)

    def _send(self, out: list[Datagram]) -> None:
        first = out[0][1]
        if len(out) >= 4 and all(flow is first or flow == first for _, flow in out):
            port = self.ports.get(first.local)
            if port is not None:
                port.sock.send_run([data for data, _ in out], first.remote)
            return
        for data, flow in out:
            port = self.ports.get(flow.local)
            if port is not None:
                port.sock.send(data, flow.remote)

    def _schedule(self, deadline: float) -> None:
        if self._handle is not None:
            self._handle.cancel()
        self._wake_at = deadline
        self._handle = self.loop.call_at(deadline, self._wake)

    def _wake(self) -> None:
        self._handle = None
        self._wake_at = float("inf")
        now = self.loop.time()
        while self._heap and self._heap[0][0] <= now:
            deadline, _, session = heapq.heappop(self._heap)
            if session.deadline != deadline:
                continue
            session.deadline = None
            session.peer.handle_timer(now)
            self.flush(session)
        if self._heap and self._heap[0][0] < self._wake_at:
            self._schedule(self._heap[0][0])

    def forget(self, session: Driven) -> None:
        """Remove every trace of a session."""
        session.deadline = None
        for port, key in session.routes:
            port.remove_route(session, key)
        session.routes.clear()
        if len(self._heap) > 64 and len(self._heap) > 4 * sum(
            1 for d, _, s in self._heap if s.deadline == d
        ):
            self._heap = [entry for entry in self._heap if entry[2].deadline == entry[0]]
            heapq.heapify(self._heap)

    def close(self) -> None:
        """Stop timers, the clock and every socket."""
        self.clock.close()
        if self._handle is not None:
            self._handle.cancel()
        self._heap.clear()
        for port in self.ports.values():
            port.sock.close()
        self.ports.clear()
