"""The calling side: sockets for each local address, an offer, and checks at once.

    Client.connect ─▶ bind ─▶ offer ─▶ signal(offer) ─▶ answer ─▶ first check, ClientHello in it
                        └▶ trickle: reflexive candidates, relays, names       beside all this

Every call has sockets of its own: what two calls send to one server is told apart by nothing but
the addresses (DTLS and SRTP name no session).
"""

from __future__ import annotations

import asyncio

from warp.crypto import Certificate
from warp.entropy import Entropy, SystemEntropy
from warp.errors import InvalidState, UsageError
from warp.ice import IceCredentials
from warp.io.config import ClientConfig
from warp.io.credentials import DRIFT_S, default_certificate, key_log, wall_offset
from warp.io.driver import Driver
from warp.io.interfaces import expand_host
from warp.io.port import Port
from warp.io.readers import watch_many
from warp.io.session import Session, SessionOwner, Signal
from warp.io.udp import bind_udp
from warp.peer import FlowAuthenticated, PeerConfig, PeerConnection
from warp.trace import Trace


class Client(SessionOwner):
    """Places any number of calls on one set of timers and one audio clock.

    Belongs to the running event loop. `async with Client() as client:` closes it at the end. The
    certificate (ECDSA P-256) is made afresh unless given, and shared by the calls.
    """

    __slots__ = (
        "_certificate",
        "_config",
        "_described",
        "_driver",
        "_entropy",
        "_is_closed",
        "_ports",
        "_trace",
    )

    def __init__(
        self,
        config: ClientConfig | None = None,
        *,
        certificate: Certificate | None = None,
        entropy: Entropy | None = None,
        trace: Trace | None = None,
    ) -> None:
        self._config = config or ClientConfig()
        self._entropy = entropy or SystemEntropy()
        self._certificate = certificate or default_certificate(self._entropy)
        self._trace = trace
        loop = asyncio.get_running_loop()
        self._driver = Driver(loop, watch=watch_many(loop))
        self._ports: dict[Session, list[Port]] = {}
        self._described = self._config, self._config.peer()
        """The configuration of the last call, as its connection was told it."""
        self._is_closed = False

    @property
    def sessions(self) -> list[Session]:
        """The calls that have not ended, those that wait for their answer included."""
        return list(self._ports)

    async def connect(
        self,
        signal: Signal,
        *,
        config: ClientConfig | None = None,
        credentials: IceCredentials | None = None,
        certificate: Certificate | None = None,
    ) -> Session:
        """Call a server: `signal` takes our offer to it and returns its answer.

        Returns as soon as the first check has left; `await session.connected()` for the rest.
        `config` and `certificate` replace the client's for this call. Raises what `signal` raises,
        `warp.sdp.SdpError` when the answer is not usable, `UsageError` when this machine has no
        usable address and `InvalidState` when the client is closed; then nothing is left behind.
        """
        if self._is_closed:
            raise InvalidState("the client is closed: make another")
        session = self._open(config or self._config, credentials, certificate or self._certificate)
        try:
            now = self._driver.loop.time()
            offer = session.peer.create_offer(now)
            session.peer.set_local_description("offer", offer, now)
            session.receive_answer(await signal(offer))
        except BaseException:
            await session.close()
            raise
        return session

    def _open(
        self, config: ClientConfig, credentials: IceCredentials | None, certificate: Certificate
    ) -> Session:
        driver, loop = self._driver, self._driver.loop
        sockets = []
        failure: UsageError | None = None
        for host in expand_host(config.host, loopback=config.loopback):
            try:
                sockets.append(bind_udp(host, 0))
            except UsageError as error:
                failure = error
        if not sockets:
            raise failure or UsageError("this machine has no usable address")
        peer = PeerConnection(
            self._peer_config(config),
            certificate=certificate,
            entropy=self._entropy,
            trace=self._trace,
            keylog=key_log(),
            credentials=credentials,
        )
        session = Session(driver, peer, self)
        ports = self._ports[session] = [driver.add_port(sock) for sock in sockets]
        for port in ports:
            port.set_default(session)
            peer.add_local_address(port.local, loop.time())
        if config.stun_servers or config.turn_servers:
            session.make_trickle(self._trace).gather(ports, config.gathering(), self._entropy)
        return session

    def _peer_config(self, config: ClientConfig) -> PeerConfig:
        """Return the configuration for a call now: the wall clock may have been set."""
        offset = wall_offset(self._driver.loop)
        described, peer = self._described
        if described is not config or abs(offset - peer.wall_offset_s) > DRIFT_S:
            peer = config.peer(wall_offset_s=offset)
            self._described = config, peer
        return peer

    def route(self, session: Session, event: FlowAuthenticated) -> None:
        """Lead the event's address to the session without a look at the default."""
        port = self._driver.ports.get(event.flow.local)
        if port is not None:
            port.add_route(session, event.flow)

    def release(self, session: Session) -> None:
        """The call has ended: its sockets go with it."""
        for port in self._ports.pop(session, ()):
            self._driver.remove_port(port)

    async def close(self) -> None:
        """End every call; afterwards no task, timer or socket is left. Harmless when repeated."""
        self._is_closed = True
        try:
            await asyncio.gather(*(session.close() for session in self.sessions))
        finally:
            self._driver.close()

    async def __aenter__(self) -> Client:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()


class _OneCall(Client):
    """A client that ends with its only call."""

    __slots__ = ()

    def release(self, session: Session) -> None:
        """The call has ended, and the client with it."""
        super().release(session)
        self._driver.close()


async def connect(
    signal: Signal,
    *,
    config: ClientConfig | None = None,
    certificate: Certificate | None = None,
    credentials: IceCredentials | None = None,
    entropy: Entropy | None = None,
    trace: Trace | None = None,
) -> Session:
    """Place one call; see `Client.connect`, which serves many calls better.

    Returns as soon as the first check has left; `await session.connected()` for the rest. Raises
    what `signal` raises, `warp.sdp.SdpError` when the answer is not usable and `UsageError` when
    this machine has no usable address.
    """
    client = _OneCall(config, certificate=certificate, entropy=entropy, trace=trace)
    return await client.connect(signal, credentials=credentials)
