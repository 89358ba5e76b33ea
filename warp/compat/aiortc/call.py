"""One connection's sockets and session, with its news handed on as they come.

    Call ─▶ Driver ─▶ UDP sockets, one for each address       receive_events ─▶ Listener

A `warp.io` session keeps channels for readers; here handlers are called, so events go straight
on. Made by `RTCPeerConnection`, which listens.
"""

from __future__ import annotations

import asyncio
from typing import Protocol

from warp.contract import Event
from warp.entropy import SystemEntropy
from warp.errors import UsageError, WarpError
from warp.ice import CandidateType, make_candidate
from warp.io import ClientConfig, Session
from warp.io.credentials import default_certificate, key_log, wall_offset
from warp.io.driver import Driver
from warp.io.gathering import GatherConfig
from warp.io.interfaces import expand_host
from warp.io.port import Port
from warp.io.session import SessionOwner
from warp.io.udp import bind_udp
from warp.peer import (
    AudioReceived,
    ConnectionState,
    FlowAuthenticated,
    MediaReady,
    PeerConnection,
    StateChanged,
    Terminated,
)


class Listener(Protocol):
    """Who hears of a call."""

    def receive_path(self) -> None:
        """An address of the peer's has proven itself."""

    def receive_connected(self) -> None:
        """The peer is authenticated."""

    def receive_channel_event(self, event: Event) -> None:
        """Something happened on a channel."""

    def receive_end(self, error: WarpError | None) -> None:
        """The call has ended; `error` is None when either side closed it on purpose."""


class Endpoint(SessionOwner):
    """The sockets of one call: whatever comes on them is the call's."""

    __slots__ = ("_driver", "ports")

    def __init__(self, driver: Driver) -> None:
        self._driver = driver
        self.ports: list[Port] = []

    def open(self, call: Call) -> None:
        """Bind a socket to each address of this machine; harmless when repeated.

        Raises `UsageError` when there is none.
        """
        failure: UsageError | None = None
        for host in [] if self.ports else expand_host("", loopback=False):
            try:
                port = self._driver.add_port(bind_udp(host, 0))
            except UsageError as error:
                failure = error
                continue
            port.set_default(call)
            self.ports.append(port)
        if not self.ports:
            raise failure or UsageError("this machine has no usable address")

    def route(self, session: Session, event: FlowAuthenticated) -> None:
        """Lead the event's address to the call without a look at the default."""
        port = self._driver.ports.get(event.flow.local)
        if port is not None:
            port.add_route(session, event.flow)

    def release(self, session: Session) -> None:
        """The call has ended, and its sockets with it."""
        for port in self.ports:
            self._driver.remove_port(port)
        self._driver.close()


class Call(Session):
    """A session whose events go to a listener."""

    __slots__ = ("_endpoint", "_listener", "_servers")

    def __init__(self, listener: Listener, servers: GatherConfig) -> None:
        """Belongs to the running event loop; no socket is open before `gather_hosts`."""
        loop = asyncio.get_running_loop()
        driver = Driver(loop)
        entropy = SystemEntropy()
        peer = PeerConnection(
            ClientConfig().peer(wall_offset_s=wall_offset(loop)),
            certificate=default_certificate(entropy),
            entropy=entropy,
            keylog=key_log(),
        )
        self._endpoint = Endpoint(driver)
        self._listener = listener
        self._servers = servers
        super().__init__(driver, peer, self._endpoint)

    @property
    def now(self) -> float:
        """The time that the machines are told."""
        return self.driver.loop.time()

    def gather_hosts(self) -> list[str]:
        """Open the sockets and return the host candidates, as attribute texts."""
        self._endpoint.open(self)
        lines = []
        for port in self._endpoint.ports:
            candidate = make_candidate(CandidateType.HOST, port.local)
            self.peer.add_local_candidate(candidate, self.now)
            lines.append(str(candidate))
        return lines

    async def gather_servers(self) -> list[str]:
        """Return the candidates that STUN and TURN servers tell, once they all have, or in 5 s."""
        servers = self._servers
        if not servers.stun_servers and not servers.turn_servers:
            return []
        trickle = self.make_trickle()
        trickle.gather(self._endpoint.ports, servers, SystemEntropy())
        return [line async for line in trickle.lines]

    def set_remote(self, kind: str, sdp: str) -> None:
        """Apply a description of the peer's, and look for the names in it."""
        self.peer.set_remote_description(kind, sdp, self.now)
        for line in sdp.splitlines():
            if line.startswith("a=candidate:") and ".local " in line:
                self._resolve_name(line)
        self.driver.flush_soon(self)

    def receive_events(self, now: float) -> None:
        """Drain the peer's events and tell the listener."""
        for event in self.peer.events():
            if type(event) is AudioReceived:
                self.audio_in._receive(event.frames)
            elif isinstance(event, MediaReady):
                self.audio_out._ready()
            elif isinstance(event, FlowAuthenticated):
                self._endpoint.route(self, event)
                self._listener.receive_path()
            elif isinstance(event, StateChanged):
                if event.state is ConnectionState.CONNECTED:
                    self._connected = True
                    self._open_lanes()
                    self._release_waiting()
                    self._listener.receive_connected()
            elif isinstance(event, Terminated):
                self._end(event.error)
            else:
                self._listener.receive_channel_event(event)

    def _end(self, error: WarpError | None) -> None:
        if not self._closed.done():
            super()._end(error)
            self._listener.receive_end(error)
