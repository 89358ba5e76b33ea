"""One UDP port, any number of sessions: a server that answers offers at once.

Nothing is gathered: the answer names the address that the port is bound to. A session costs no
thread, no task and no socket of its own.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from warp.crypto import Certificate
from warp.entropy import Entropy, SystemEntropy
from warp.errors import InvalidState
from warp.ice import IceCredentials
from warp.io.config import ServerConfig, peer_config
from warp.io.credentials import default_certificate, key_log
from warp.io.driver import Driver
from warp.io.interfaces import host_addresses
from warp.io.session import Session, SessionOwner
from warp.io.udp import bind_udp
from warp.peer import FlowAuthenticated, PeerConnection
from warp.trace import Trace


class Server(SessionOwner):
    """Made by `listen`. `accept_offer` turns a client's offer into a live session."""

    __slots__ = (
        "_certificate",
        "_config",
        "_driver",
        "_entropy",
        "_peer_config",
        "_port",
        "_sessions",
        "_trace",
        "addresses",
    )

    def __init__(
        self,
        driver: Driver,
        config: ServerConfig,
        certificate: Certificate,
        addresses: tuple[str, ...],
        entropy: Entropy,
        trace: Trace | None,
    ) -> None:
        self._driver = driver
        self._config = config
        self._certificate = certificate
        self._entropy = entropy
        self._trace = trace
        self._port = next(iter(driver.ports.values()))
        self._sessions: dict[str, Session] = {}
        self.addresses = addresses
        self._peer_config = peer_config(
            config.warp,
            lite=config.lite,
            passive=config.passive,
            early_data=config.early_data,
            audio=config.audio,
            max_message_size=config.max_message_size,
            connect_timeout_s=config.connect_timeout_s,
        )

    @property
    def port(self) -> int:
        """The UDP port."""
        return self._port.sock.port

    @property
    def sessions(self) -> list[Session]:
        """The sessions that have not ended."""
        return list(self._sessions.values())

    @property
    def certificate(self) -> Certificate:
        """The identity that every answer's fingerprint names."""
        return self._certificate

    def accept_offer(self, sdp: str, *, credentials: IceCredentials | None = None) -> Session:
        """Answer an offer; `session.answer` is the text to return to the client.

        Raises `warp.sdp.SdpError` naming line and rule when the offer is not usable, and
        `InvalidState` when the server is full or closed.
        """
        if not self._driver.ports:
            raise InvalidState("the server is closed")
        if len(self._sessions) >= self._config.max_sessions:
            raise InvalidState(f"the server already serves {len(self._sessions)} sessions")
        now = self._driver.loop.time()
        peer = PeerConnection(
            self._peer_config,
            certificate=self._certificate,
            entropy=self._entropy,
            trace=self._trace,
            keylog=key_log(),
            credentials=credentials,
        )
        for address in self.addresses:
            peer.add_local_address((address, self.port), now)
        peer.set_remote_description("offer", sdp, now)
        answer = peer.create_answer(now)
        peer.set_local_description("answer", answer, now)
        session = Session(self._driver, peer, self)
        session.answer = answer
        self._sessions[peer.local_ufrag] = session
        self._port.by_ufrag[peer.local_ufrag] = session
        self._driver.flush_soon(session)
        return session

    def add_media_tick(self, tick: Callable[[float], None]) -> Callable[[], None]:
        """Call `tick(now)` every 20 ms on the process's audio clock; returns how to stop it."""
        return self._driver.clock.add_tick(tick)

    def route(self, session: Session, event: FlowAuthenticated) -> None:
        """Lead the event's address to the session."""
        self._port.add_route(session, event.flow)

    def release(self, session: Session) -> None:
        """Forget a session that has ended."""
        for ufrag in session.peer.local_ufrags:
            if self._port.by_ufrag.get(ufrag) is session:
                del self._port.by_ufrag[ufrag]
            self._sessions.pop(ufrag, None)

    async def close(self) -> None:
        """Close every session, then the port."""
        await asyncio.gather(*(session.close() for session in self.sessions))
        self._driver.close()


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

    Raises `warp.io.AddressInUse` when the port is taken. The certificate is made afresh (ECDSA
    P-256) unless given.
    """
    config = config or ServerConfig()
    source = entropy or SystemEntropy()
    driver = Driver(asyncio.get_running_loop())
    sock = bind_udp(host, port, reuse_port=reuse_port)
    wildcard = host in ("0.0.0.0", "::")
    addresses = config.advertise or (
        tuple(a for a in host_addresses() if (":" in a) == (host == "::")) if wildcard else (host,)
    )
    driver.add_port(sock, (addresses[0], sock.getsockname()[1]))
    return Server(
        driver, config, certificate or default_certificate(source), addresses, source, trace
    )
