"""A relay on sockets: one port for all clients, a few to every upstream.

    clients ─▶ one UDP port ─ Relay ─▶ `sockets` connected ones an upstream, by the client's address
    clients ◀─ the same port ◀─ Relay ◀─ envelopes, on whichever of them

Several sockets to each upstream, so that the processes that share its port get a part each. A
socket that is connected hears from the network at once when nobody is there. Nothing is sent to
anybody but what a server has sealed for a client that is known.

    relay = await open_relay("203.0.113.1", 443, keys=keys, upstreams=[Upstream(0, 2, address)])
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import socket
from collections.abc import Callable, Sequence
from typing import Final
from zlib import crc32

from instant_connect.keyring import RelayKeys
from instant_connect.relay import HealthChanged, Passed, Relay, RelayConfig, Upstream
from warp.contract import Address
from warp.errors import InvalidConfig, UsageError
from warp.io.port import RawAddress
from warp.io.udp import BUFFER_BYTES, MAX_DATAGRAM, READ_BATCH, UdpSocket, bind_udp

SOCKETS: Final = 4
"""To each upstream."""
_NOBODY_THERE: Final = (errno.ECONNREFUSED, errno.EHOSTUNREACH, errno.ENETUNREACH)
Report = Callable[[HealthChanged], object]


class RelayServer:
    """Made by `open_relay`. `report` hears what becomes of upstreams."""

    __slots__ = ("_front", "_handle", "_loop", "_report", "_turn", "_ways", "dropped", "relay")

    def __init__(
        self,
        relay: Relay,
        front: socket.socket,
        ways: Sequence[Sequence[socket.socket]],
        report: Report,
    ) -> None:
        self.relay: Final = relay
        """Decides; its `keys` may be replaced at any time."""
        self.dropped = 0
        """Datagrams that the kernel had no room for."""
        self._loop = asyncio.get_running_loop()
        self._report = report
        self._handle: asyncio.TimerHandle | None = None
        self._ways = [tuple(sockets) for sockets in ways]
        self._turn = 0
        self._front = UdpSocket(front, self._receive_client, lambda: None, self._loop)
        for index, sockets in enumerate(self._ways):
            for sock in sockets:
                self._loop.add_reader(sock.fileno(), self._drain, sock, index)
        self._wake()

    @property
    def local(self) -> Address:
        """Where clients come."""
        return self._front.local

    def _receive_client(self, data: bytes, address: RawAddress) -> None:
        client = (address[0], address[1])
        passed = self.relay.receive_client(data, client, self._loop.time())
        if passed is not None:
            sockets = self._ways[passed.upstream]
            self._send(passed, sockets[crc32(repr(client).encode()) % len(sockets)])

    def _send(self, passed: Passed, sock: socket.socket) -> None:
        try:
            sock.send(passed.data)
        except OSError as error:
            self._fail(passed.upstream, error)

    def _drain(self, sock: socket.socket, index: int) -> None:
        now = self._loop.time()
        try:
            for _ in range(READ_BATCH):
                returned = self.relay.receive_upstream(sock.recv(MAX_DATAGRAM), index, now)
                if returned is not None:
                    self._front.send(*returned)
        except OSError as error:
            self._fail(index, error)

    def _fail(self, upstream: int, error: OSError) -> None:
        if error.errno in _NOBODY_THERE:
            self.relay.refuse(upstream)
            self._tell()
        elif not isinstance(error, BlockingIOError):
            self.dropped += 1

    def _wake(self) -> None:
        self._turn += 1  # whoever answers speaks for all the processes of its port
        for passed in self.relay.handle_timer(self._loop.time()):
            sockets = self._ways[passed.upstream]
            self._send(passed, sockets[self._turn % len(sockets)])
        self._tell()
        due = self.relay.get_timer()
        self._handle = None if due is None else self._loop.call_at(due, self._wake)

    def _tell(self) -> None:
        for change in self.relay.events():
            self._report(change)

    def close(self) -> None:
        """Close every socket. Harmless when repeated."""
        if self._handle is not None:
            self._handle.cancel()
            self._handle = None
        self._front.close()
        for sock in (sock for sockets in self._ways for sock in sockets):
            if sock.fileno() >= 0:
                self._loop.remove_reader(sock.fileno())
                sock.close()

    async def __aenter__(self) -> RelayServer:
        return self

    async def __aexit__(self, *_: object) -> None:
        self.close()


async def open_relay(
    host: str,
    port: int,
    *,
    keys: RelayKeys,
    upstreams: Sequence[Upstream],
    config: RelayConfig | None = None,
    report: Report = lambda _: None,
    sockets: int = SOCKETS,
) -> RelayServer:
    """Open the port for clients and the sockets to upstreams, whose addresses are numeric.

    Raises `InvalidConfig` for upstreams that cannot be told apart, `warp.io.AddressInUse` when the
    port is taken and `UsageError` when there is no way to an upstream.
    """
    loop = asyncio.get_running_loop()
    relay = Relay(keys, upstreams, config, now=loop.time())
    with contextlib.ExitStack() as opened:
        front = opened.enter_context(bind_udp(host, port))
        ways = []
        for upstream in upstreams:
            ways.append([opened.enter_context(_connected(upstream)) for _ in range(sockets)])
        opened.pop_all()
    return RelayServer(relay, front, ways, report)


def _connected(upstream: Upstream) -> socket.socket:
    family = socket.AF_INET6 if ":" in upstream.address[0] else socket.AF_INET
    sock = socket.socket(family, socket.SOCK_DGRAM)
    try:
        for option in (socket.SO_RCVBUF, socket.SO_SNDBUF):
            sock.setsockopt(socket.SOL_SOCKET, option, BUFFER_BYTES)
        sock.setblocking(False)
        sock.connect(upstream.address)
    except OSError as error:
        sock.close()
        raise UsageError(f"there is no way to upstream {upstream}: {error.strerror}") from error
    return sock


async def resolve_upstream(first: int, last: int, host: str, port: int) -> Upstream:
    """Return an upstream by its numeric address. Raises `InvalidConfig` when it has none."""
    try:
        found = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_DGRAM)
    except OSError as error:
        raise InvalidConfig(f"upstream {first}: {host} has no address: {error.strerror}") from None
    address = found[0][4]
    return Upstream(first, last, (str(address[0]), int(address[1])))
