"""One UDP port, any number of sessions: a server that answers offers at once.

Nothing is gathered: the answer names the addresses that the port is bound on. A session costs no
thread, no task and no socket of its own.

    listen ─▶ a socket for each address, one port number ─▶ Server.accept_offer ─▶ Session
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace

from warp.contract import Address, Flow
from warp.crypto import Certificate
from warp.entropy import Entropy, SystemEntropy
from warp.errors import InvalidState
from warp.ice import Candidate, CandidateType, IceCredentials, make_candidate
from warp.io.config import ServerConfig
from warp.io.credentials import DRIFT_S, default_certificate, key_log, wall_offset
from warp.io.driver import Driver
from warp.io.interfaces import WILDCARDS, bind_each, expand_host
from warp.io.port import Port, Unknown, raw_address
from warp.io.session import Session, SessionOwner
from warp.io.udp import UdpSocket, connect_udp
from warp.peer import FlowAuthenticated, PeerConfig, PeerConnection
from warp.trace import Trace


class Server(SessionOwner):
    """Made by `listen`. `accept_offer` turns a client's offer into a live session."""

    __slots__ = (
        "_by_ufrag",
        "_candidates",
        "_certificate",
        "_config",
        "_driver",
        "_entropy",
        "_is_closed",
        "_peer_config",
        "_sessions",
        "_trace",
        "addresses",
        "port",
    )

    def __init__(
        self,
        driver: Driver,
        config: ServerConfig,
        *,
        addresses: tuple[str, ...],
        certificate: Certificate,
        entropy: Entropy,
        trace: Trace | None,
    ) -> None:
        self._driver = driver
        self._config = config
        self._certificate = certificate
        self._entropy = entropy
        self._trace = trace
        self._is_closed = False
        self._sessions: dict[Session, tuple[str, ...]] = {}
        self._by_ufrag: dict[str, Session] = {}
        self._peer_config = config.peer(wall_offset_s=wall_offset(driver.loop))
        self.port = next(iter(driver.ports))[1]
        """The UDP port."""
        self.addresses = addresses
        """The addresses that answers name, best first."""
        self._candidates = self._make_candidates()
        for port in driver.ports.values():
            port.by_ufrag = self._by_ufrag
        if not config.lite:
            driver.expect_answers()

    def _make_candidates(self) -> list[Candidate]:
        """Return the candidates of every answer (RFC 8445 section 5.1.1).

        An advertised address stands before one of ours; a full agent sends its checks from there.
        """
        found = []
        for index, host in enumerate(self.addresses):
            kind, base = CandidateType.HOST, None
            address = (host, self._config.advertise_port or self.port)
            if not self._config.lite and address not in self._driver.ports:
                same = [a for a in self._driver.ports if (":" in a[0]) == (":" in host)]
                if same:
                    kind, base = CandidateType.SERVER_REFLEXIVE, same[0]
            found.append(make_candidate(kind, address, base=base, local_preference=0xFFFF - index))
        return found

    @property
    def sessions(self) -> list[Session]:
        """The sessions that have not ended."""
        return list(self._sessions)

    @property
    def candidates(self) -> list[Candidate]:
        """What every answer names, best first."""
        return list(self._candidates)

    @property
    def certificate(self) -> Certificate:
        """The identity that every answer's fingerprint names."""
        return self._certificate

    def accept_offer(self, sdp: str, *, credentials: IceCredentials | None = None) -> Session:
        """Answer an offer; `session.answer` is the text to return to the client.

        Raises `warp.sdp.SdpError` naming line and rule when the offer is not usable, and
        `InvalidState` when the server is full or closed; then nothing is left behind.
        """
        self._require_room()
        if credentials is not None and credentials.ufrag in self._by_ufrag:
            raise InvalidState("another session has these ICE credentials")
        now = self._driver.loop.time()
        peer = PeerConnection(
            self.present_config(),
            certificate=self._certificate,
            entropy=self._entropy,
            trace=self._trace,
            keylog=key_log(),
            credentials=credentials,
        )
        for candidate in self._candidates:
            peer.add_local_candidate(candidate, now)
        session = Session(self._driver, peer, self)
        session.accept_offer(sdp)
        return session

    def adopt(self, peer: PeerConnection, owner: SessionOwner | None = None) -> Session:
        """Serve a connection that was made elsewhere, of descriptions that are exchanged.

        `owner` hears of the session what we would, and passes on to us what it does not keep.
        Raises `InvalidState` when the server is full or closed, or another session has its ufrag.
        """
        self._require_room()
        if not self._by_ufrag.keys().isdisjoint(peer.local_ufrags):
            raise InvalidState("another session has these ICE credentials")
        session = Session(self._driver, peer, owner or self)
        session.answer = peer.local_description
        self.register(session)
        return session

    def find_port(self, local: Address) -> Port | None:
        """Return the port that is bound to a local address, or None."""
        return self._driver.ports.get(local)

    def inject(self, data: bytes, flow: Flow) -> None:
        """Take in a datagram that another process has read from a port shared with ours."""
        port = self.find_port(flow.local)
        if port is not None:
            port.receive(data, raw_address(flow.remote))
            self._driver.loop.call_soon(self._driver.flush_touched)

    def knows(self, flow: Flow) -> bool:
        """Whether what comes on a flow is a session's, by its address alone."""
        port = self.port_of(flow)
        return port is not None and port.knows(raw_address(flow.remote))

    def port_of(self, flow: Flow) -> Port | None:
        """Return the port at a flow's local address, or None."""
        return self._driver.ports.get(flow.local)

    def steer(self, flow: Flow) -> UdpSocket:
        """Let the kernel lead a flow to this process of several that share the port.

        Returns what reads it, to be closed when the flow is nobody's any more. Raises
        `InvalidState` for a flow of another server, and `UsageError` when there is no socket.
        """
        port = self.port_of(flow)
        if port is None:
            raise InvalidState("the flow is not of this server")
        sock = connect_udp(flow.local, flow.remote)
        return UdpSocket(sock, port.receive, self._driver.flush_touched, self._driver.loop)

    def receive_unknown(self, unknown: Unknown) -> None:
        """Let `unknown` say whose a datagram is that names no session; it may make one of it."""
        for port in self._driver.ports.values():
            port.unknown = unknown

    def _require_room(self) -> None:
        if self._is_closed:
            raise InvalidState("the server is closed")
        if len(self._sessions) >= self._config.max_sessions:
            raise InvalidState(f"the server already serves {len(self._sessions)} sessions")

    def present_config(self) -> PeerConfig:
        """Return the configuration for a new session: the wall clock may have been set."""
        offset = wall_offset(self._driver.loop)
        if abs(offset - self._peer_config.wall_offset_s) > DRIFT_S:
            self._peer_config = replace(self._peer_config, wall_offset_s=offset)
        return self._peer_config

    def add_media_tick(self, tick: Callable[[float], None]) -> Callable[[], None]:
        """Call `tick(now)` every 20 ms on the process's audio clock; returns how to stop it.

        `now` is in seconds of the event loop's clock.
        """
        return self._driver.clock.add_tick(tick)

    def register(self, session: Session) -> None:
        """Know the session by every ufrag that may name it in a check."""
        names = session.peer.local_ufrags
        self._forget_names(session)
        self._sessions[session] = names
        for ufrag in names:
            self._by_ufrag[ufrag] = session

    def route(self, session: Session, event: FlowAuthenticated) -> None:
        """Lead the event's address to the session."""
        port = self._driver.ports.get(event.flow.local)
        if port is not None:
            port.add_route(session, event.flow)

    def release(self, session: Session) -> None:
        """Forget a session that has ended."""
        self._forget_names(session)
        self._sessions.pop(session, None)

    def _forget_names(self, session: Session) -> None:
        # those that it was known by: of many ICE restarts its peer remembers the last few
        for ufrag in self._sessions.get(session, ()):
            if self._by_ufrag.get(ufrag) is session:
                del self._by_ufrag[ufrag]

    def resolves_names(self) -> bool:
        """A lite agent checks nobody and has no use for addresses."""
        return not self._config.lite

    async def close(self) -> None:
        """Take no more offers; close every session, then the port. Harmless when repeated."""
        self._is_closed = True
        try:
            await asyncio.gather(*(session.close() for session in self.sessions))
        finally:
            self._driver.close()

    async def __aenter__(self) -> Server:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()


async def listen(
    host: str = "0.0.0.0",
    port: int = 0,
    *,
    config: ServerConfig | None = None,
    certificate: Certificate | None = None,
    entropy: Entropy | None = None,
    trace: Trace | None = None,
    reuse_port: bool = False,
) -> Server:
    """Open one UDP port (0: any) and return the server on it.

    `host` is an address of this machine; `0.0.0.0` means every IPv4 address that it has now, `::`
    every IPv6 address, and an empty text both. Answers name those, or what `config.advertise`
    says: the public addresses in front of a NAT.

    Raises `warp.io.AddressInUse` when the port is taken and `UsageError` when the address is not
    ours. The certificate is made afresh (ECDSA P-256) unless given.
    """
    config = config or ServerConfig()
    source = entropy or SystemEntropy()
    identity = certificate or default_certificate(source)
    # this machine's own clients are welcome too, but others are not told of 127.0.0.1
    sockets = bind_each(expand_host(host, loopback=True), port, reuse_port=reuse_port)
    driver = Driver(asyncio.get_running_loop())
    local = [driver.add_port(sock).local[0] for sock in sockets]
    reachable = [a for a in local if not _is_loopback(a)] if host in WILDCARDS else []
    return Server(
        driver,
        config,
        addresses=config.advertise or tuple(reachable or local),
        certificate=identity,
        entropy=source,
        trace=trace,
    )


def _is_loopback(host: str) -> bool:
    return host.startswith("127.") or host == "::1"
