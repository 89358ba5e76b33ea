"""A call's own sockets with a tap: every datagram noted, some lost on purpose, all of them delayed.

    PeerConnection ─▶ note ─ lost? ─ delay ─▶ UdpSocket ─▶ server
    PeerConnection ◀─ delay ─ lost? ─ note ◀── UdpSocket ◀─ server

The delay is not there to be slow: with 50 ms each way a round trip to a server next door lasts 100
ms as well, and then its number can be read off a clock. Called by `attempt`.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
from typing import Final, NamedTuple

from warp.contract import Address, Flow
from warp.dtls.messages import HandshakeType
from warp.dtls.records import HANDSHAKE, PLAIN_HEADER_LENGTH
from warp.errors import Discard, UsageError
from warp.io.interfaces import expand_host
from warp.io.port import RawAddress
from warp.io.udp import UdpSocket, bind_udp
from warp.peer import Kind, PeerConnection, classify
from warp.stun import Attribute, parse_message
from warp_tools.probe.plan import MAX_DATAGRAMS, Trial

MAX_HOSTS: Final = 4


class Note(NamedTuple):
    """One datagram where it met our end: when it left, or when it was handed to us."""

    time: float
    sent: bool
    flow: Flow
    data: bytes
    lost: bool


def dtls_in(data: bytes) -> bytes:
    """Return the DTLS datagram in a datagram, as such or as SPED's rider; empty when none."""
    kind = classify(data)
    if kind is Kind.DTLS:
        return data
    if kind is Kind.STUN:
        with contextlib.suppress(Discard):
            return parse_message(data).get(Attribute.META_DTLS_IN_STUN) or b""
    return b""


def hello_in(data: bytes) -> bool:
    """Tell whether a datagram begins a handshake: with a ClientHello or a ServerHello."""
    dtls = dtls_in(data)
    if len(dtls) <= PLAIN_HEADER_LENGTH or dtls[0] != HANDSHAKE:
        return False
    return dtls[PLAIN_HEADER_LENGTH] in (HandshakeType.CLIENT_HELLO, HandshakeType.SERVER_HELLO)


class Wire:
    """The sockets of one call, and what went over them."""

    def __init__(self, peer: PeerConnection, trial: Trial, delay_s: float) -> None:
        self.notes: list[Note] = []
        self.spent = False
        """Whether the call has sent all that it may."""
        self.changed = asyncio.Event()
        self._peer = peer
        self._loses = trial.loses
        self._seen: set[Flow] = set()
        self._delay_s = delay_s
        self._loop = asyncio.get_running_loop()
        self._sockets: dict[tuple[str, int], UdpSocket] = {}
        self._timer: asyncio.TimerHandle | None = None
        self._closed = False
        self._sent = 0

    def open(self, host: str, *, loopback: bool) -> None:
        """Bind a socket on each address. Raises UsageError when there is none."""
        failure: UsageError | None = None
        for address in expand_host(host, loopback=loopback)[:MAX_HOSTS]:
            try:
                bound = bind_udp(address, 0)
            except UsageError as error:
                failure = error
                continue
            local = (bound.getsockname()[0], bound.getsockname()[1])
            receive = functools.partial(self._receive, local)
            self._sockets[local] = UdpSocket(bound, receive, lambda: None, self._loop)
            self._peer.add_local_address(local, self._loop.time())
        if not self._sockets:
            raise failure or UsageError("this machine has no usable address")

    # -- the way in ---------------------------------------------------------------------------

    def _receive(self, local: Address, data: bytes, remote: RawAddress) -> None:
        flow = Flow(local, (remote[0], remote[1]))
        lost = self._is_lost(False, flow, data)
        if not lost and self._delay_s:
            self._loop.call_later(self._delay_s, self._deliver, data, flow)
        elif not lost:
            self._deliver(data, flow)
        else:
            self._note(False, flow, data, lost=True)

    def _deliver(self, data: bytes, flow: Flow) -> None:
        if not self._closed:
            self._note(False, flow, data)
            self._peer.receive_datagram(data, flow, self._loop.time())
            self.flush()

    # -- the way out --------------------------------------------------------------------------

    def flush(self) -> None:
        """Send what the connection has to send, and wake it when it wants to be woken."""
        now = self._loop.time()
        for data, flow in self._peer.datagrams_to_send(now):
            lost = self._is_lost(True, flow, data)
            if self.spent:
                continue
            self._note(True, flow, data, lost=lost)
            if not lost:
                self._send(data, flow)
        self._arm()
        self.changed.set()

    def _send(self, data: bytes, flow: Flow) -> None:
        socket = self._sockets.get(flow.local)
        if socket is None:
            return
        if self._delay_s:
            self._loop.call_later(self._delay_s, socket.send, data, flow.remote)
        else:
            socket.send(data, flow.remote)

    def _arm(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        deadline = self._peer.get_timer()
        if deadline is not None and not self._closed:
            self._timer = self._loop.call_at(deadline, self._wake)

    def _wake(self) -> None:
        self._timer = None
        self._peer.handle_timer(self._loop.time())
        self.flush()

    # -- both ways ----------------------------------------------------------------------------

    def _is_lost(self, sent: bool, flow: Flow, data: bytes) -> bool:
        """Lose our first datagram on each path, or the one with the server's first flight."""
        if self._loses == "sent" and sent:
            first = flow not in self._seen
            self._seen.add(flow)
            return first
        if self._loses == "received" and not sent and not self._seen and hello_in(data):
            self._seen.add(flow)
            return True
        return False

    def _note(self, sent: bool, flow: Flow, data: bytes, *, lost: bool = False) -> None:
        if len(self.notes) < 2 * MAX_DATAGRAMS:
            self.notes.append(Note(self._loop.time(), sent, flow, data, lost))
        self._sent += sent
        self.spent = self._sent >= MAX_DATAGRAMS

    async def close(self) -> None:
        """Let the last words leave, and close the sockets. Harmless when repeated."""
        if self._closed:
            return
        self.flush()
        if self._delay_s:
            await asyncio.sleep(self._delay_s)
        self._closed = True
        self._arm()
        for socket in self._sockets.values():
            socket.close()
