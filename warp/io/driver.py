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
from collections.abc import Callable

from warp.contract import Address, Datagram
from warp.io.clock import MediaClock, clock_of
from warp.io.port import ALL, MEDIA, Driven, Outlet, Port, Receive
from warp.io.readers import Watch
from warp.io.udp import UdpSocket

_MAX_CHECKS = 16_384


class Driver:
    """Owns the ports, the timer heap and the media clock of one server or client."""

    __slots__ = (
        "_checks",
        "_handle",
        "_heap",
        "_order",
        "_stale",
        "_wake_at",
        "_watch",
        "clock",
        "loop",
        "now",
        "ports",
        "touched",
    )

    def __init__(self, loop: asyncio.AbstractEventLoop, *, watch: Watch | None = None) -> None:
        """`watch` tells when sockets can be read; the loop itself unless given."""
        self.loop = loop
        self.now = clock_of(loop)
        """The loop's time."""
        self._watch: Watch = watch or loop
        self.clock = MediaClock(loop)
        self.ports: dict[Address, Port] = {}
        self.touched: list[Driven] = []
        self._heap: list[tuple[float, int, Driven]] = []
        self._order = itertools.count()
        self._handle: asyncio.TimerHandle | None = None
        self._wake_at = float("inf")
        self._stale = 0
        self._checks: dict[bytes, str] | None = None

    def add_port(self, sock: socket.socket) -> Port:
        """Start reading a bound socket."""
        return self.add_outlet(
            lambda receive: UdpSocket(sock, receive, self.flush_touched, self._watch)
        )

    def add_outlet(self, open_outlet: Callable[[Receive], Outlet]) -> Port:
        """Add a port on whatever can send; sessions use it by its `local` address."""
        port = Port(self, open_outlet)
        self.ports[port.local] = port
        return port

    def remove_port(self, port: Port) -> None:
        """Close a port; what sessions still send from its address is dropped."""
        if self.ports.get(port.local) is port:
            del self.ports[port.local]
        port.close()

    def expect_answers(self) -> None:
        """Remember who asks what: sessions share a port and send checks of their own.

        The answer to a check names nobody, and may be the first that comes from its address.
        """
        self._checks = {}

    def take_check(self, transaction_id: bytes) -> str | None:
        """Return the ufrag of the session that sent this check, once."""
        return self._checks.pop(transaction_id, None) if self._checks else None

    def _note_checks(self, out: list[Datagram], ufrag: str, checks: dict[bytes, str]) -> None:
        for data, _ in out:
            if data[:2] == b"\x00\x01":
                checks[data[8:20]] = ufrag
                if len(checks) > _MAX_CHECKS:
                    del checks[next(iter(checks))]

    def report(self, error: Exception) -> None:
        """Report a bug of ours."""
        self.loop.call_exception_handler(
            {"message": "a session of warp broke an invariant", "exception": error}
        )

    def fail(self, session: Driven, error: Exception) -> None:
        """Report a bug of ours, and end the session that met it: the others go on."""
        self.report(error)
        session.fail(error)

    def flush_touched(self) -> None:
        """Flush every session that received something in this batch."""
        if not self.touched:
            return
        touched, self.touched = self.touched, []
        for session in touched:
            level, session.touched = session.touched, 0
            try:
                if level == MEDIA:
                    self.flush_media(session)
                else:
                    self.flush(session)
            except Exception as error:
                self.fail(session, error)

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
        now = self.now()
        out = peer.datagrams_to_send(now)
        if out:
            if self._checks is not None:
                self._note_checks(out, peer.local_ufrag, self._checks)
            self._send(out)
        session.receive_events(now)
        deadline = peer.get_timer()
        if deadline is not None and (session.deadline is None or deadline < session.deadline):
            self._wake_session(session, deadline)

    def flush_media(self, session: Driven) -> None:
        """Hand on what a session heard: receiving media makes nothing leave at once."""
        session.receive_events(self.now())
        deadline = session.peer.get_media_timer()
        if deadline is not None and (session.deadline is None or deadline < session.deadline):
            self._wake_session(session, deadline)

    def send_datagram(self, item: Datagram) -> None:
        """Send one datagram of a session, behind the batch that is being read if there is one."""
        data, flow = item
        port = self.ports.get(flow.local)
        if port is not None:
            port.sock.send_behind(data, flow.remote)

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
        now = self.now()
        while self._heap and self._heap[0][0] <= now:
            deadline, _, session = heapq.heappop(self._heap)
            if session.deadline != deadline:
                continue
            session.deadline = None
            try:
                session.peer.handle_timer(now)
                self.flush(session)
            except Exception as error:
                self.fail(session, error)
        if self._heap and self._heap[0][0] < self._wake_at:
            self._schedule(self._heap[0][0])

    def forget(self, session: Driven) -> None:
        """Remove every trace of a session."""
        session.deadline = None
        for port, key in session.routes:
            port.remove_route(session, key)
        session.routes.clear()
        # what stays in the heap keeps its session alive: half of it at most
        self._stale += 1
        if 2 * self._stale >= len(self._heap):
            self._stale = 0
            self._heap = [entry for entry in self._heap if entry[2].deadline == entry[0]]
            heapq.heapify(self._heap)

    def close(self) -> None:
        """Stop timers, the clock and every socket."""
        self.clock.close()
        if self._handle is not None:
            self._handle.cancel()
        self._heap.clear()
        for port in self.ports.values():
            port.close()
        self.ports.clear()
