"""The calling side: one socket for each local address, an offer, and checks at once.

    connect ─▶ bind ─▶ offer ─▶ signal(offer) ─▶ answer ─▶ first check with the ClientHello in it

Gathering of reflexive and relayed candidates runs beside all this and never delays it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from warp.crypto import Certificate
from warp.entropy import Entropy, SystemEntropy
from warp.errors import UsageError, WarpError
from warp.ice import IceCredentials
from warp.io.config import ClientConfig, peer_config
from warp.io.credentials import default_certificate, key_log
from warp.io.driver import Driver
from warp.io.interfaces import host_addresses
from warp.io.session import Session, SessionOwner
from warp.io.udp import bind_udp
from warp.peer import FlowAuthenticated, PeerConnection
from warp.trace import Trace

Signal = Callable[[str], Awaitable[str]]


class _Client(SessionOwner):
    """Owns the driver of one call."""

    __slots__ = ("_driver", "_tasks")

    def __init__(self, driver: Driver) -> None:
        self._driver = driver
        self._tasks: set[asyncio.Task[None]] = set()

    def route(self, session: Session, event: FlowAuthenticated) -> None:
        """Lead the event's address to the session without a look at the default."""
        port = self._driver.ports.get(event.flow.local)
        if port is not None:
            port.add_route(session, event.flow)

    def release(self, session: Session) -> None:
        """The call has ended: its sockets go with it."""
        for task in self._tasks:
            task.cancel()
        self._driver.loop.call_soon(self._driver.close)


async def connect(
    signal: Signal,
    *,
    config: ClientConfig | None = None,
    certificate: Certificate | None = None,
    credentials: IceCredentials | None = None,
    entropy: Entropy | None = None,
    trace: Trace | None = None,
) -> Session:
    """Call a server: `signal` takes our offer to it and returns its answer.

    Returns as soon as the first check has left; `await session.connected()` for the rest. Raises
    what `signal` raises, and `warp.sdp.SdpError` when the answer is not usable.
    """
    config = config or ClientConfig()
    source = entropy or SystemEntropy()
    driver = Driver(asyncio.get_running_loop())
    peer = PeerConnection(
        peer_config(
            config.warp,
            lite=False,
            passive=True,
            early_data=False,
            audio=config.audio,
            max_message_size=config.max_message_size,
            connect_timeout_s=config.connect_timeout_s,
        ),
        certificate=certificate or default_certificate(source),
        entropy=source,
        trace=trace,
        keylog=key_log(),
        credentials=credentials,
    )
    client = _Client(driver)
    session = Session(driver, peer, client)
    try:
        _open_ports(driver, session, config)
        now = driver.loop.time()
        offer = peer.create_offer(now)
        peer.set_local_description("offer", offer, now)
        answer = await signal(offer)
        peer.set_remote_description("answer", answer, driver.loop.time())
    except BaseException:
        driver.close()
        raise
    session.answer = answer
    driver.flush(session)
    return session


def _open_ports(driver: Driver, session: Session, config: ClientConfig) -> None:
    hosts = [config.host] if config.host else host_addresses(loopback=config.loopback)
    failure: WarpError | None = None
    for host in hosts:
        try:
            sock = bind_udp(host, 0)
        except UsageError as error:
            failure = error
            continue
        port = driver.add_port(sock)
        port.set_default(session)
        session.peer.add_local_address(port.sock.local, driver.loop.time())
    if not driver.ports:
        raise failure or UsageError("this machine has no usable address")
