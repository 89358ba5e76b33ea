"""A TURN allocation as a datagram transport (RFC 8656), on aioice's client.

Called by `gathering.gather_relays`; the driver sends what ICE addresses from the relayed address
through it. The first datagram to an address binds a channel and waits for it; what follows
leaves in the same call, four bytes longer.

    send ─▶ channel bound? ─yes─▶ ChannelData ─▶ TURN server ─▶ peer
                │ no
                ▼
             ChannelBind, a few datagrams wait meanwhile
"""

from __future__ import annotations

import asyncio
import contextlib
import ipaddress
import socket
import ssl
import struct
from collections import deque
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

from aioice import stun, turn

from warp.contract import Address
from warp.errors import InvalidConfig
from warp.ice import Candidate, CandidateType, make_candidate

LIFETIME_S = 600  # RFC 8656 section 3.2
REBIND_S = 240.0  # a channel holds 600 s, but its permission only 300 s (RFC 8656 section 9)
RETRY_S = 5.0
_MAX_WAITING = 32
_MAX_PEERS = 256
_CLOSE_TIMEOUT_S = 1.0
_HEADER = struct.Struct("!HH")

RelayReceiver: TypeAlias = Callable[[bytes, Address], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnServer:
    """Where and as whom to ask for a relayed address. `transport` is udp, tcp or tls."""

    host: str
    port: int = 3478
    username: str
    password: str
    transport: str = "udp"

    def __post_init__(self) -> None:
        if self.transport not in ("udp", "tcp", "tls"):
            raise InvalidConfig("the transport to a TURN server is udp, tcp or tls")

    def __repr__(self) -> str:
        return f"TurnServer({self.host}:{self.port}/{self.transport})"


class RelayError(OSError):
    """The TURN server is unreachable or refuses us."""


async def resolve_server(server: Address, family: int, kind: int) -> Address | None:
    """Return a server's numeric address of one family (0: any), or None when it has none."""
    with contextlib.suppress(ValueError):
        # the system's resolver would cost a thread to tell the same
        number = ipaddress.ip_address(server[0])
        own = socket.AF_INET6 if number.version == 6 else socket.AF_INET
        return (str(number), server[1]) if family in (0, own) else None
    loop = asyncio.get_running_loop()
    try:
        found = await loop.getaddrinfo(server[0], server[1], family=family, type=kind)
    except OSError:
        return None
    if not found:
        return None
    address: Address = (str(found[0][4][0]), int(found[0][4][1]))
    return address


class _UdpClient(turn.TurnClientUdpProtocol):
    """Survives a malformed datagram of the server."""

    def datagram_received(self, data: bytes | str, addr: Address) -> None:
        with contextlib.suppress(ValueError, struct.error):
            super().datagram_received(data, addr)


class _StreamClient(turn.TurnClientTcpProtocol):
    """Survives a malformed message of the server."""

    def datagram_received(self, data: bytes | str, addr: Address) -> None:
        with contextlib.suppress(ValueError, struct.error):
            super().datagram_received(data, addr)


class RelayTransport(asyncio.DatagramProtocol):
    """One allocation, and an outlet for a port. `send` never blocks.

    `receive(data, remote)` is called for each relayed datagram once it is set; `lost` is done when
    the allocation has gone without our doing.
    """

    __slots__ = (
        "_bound",
        "_client",
        "_closing",
        "_loop",
        "_put",
        "_tasks",
        "_waiting",
        "candidate",
        "closed",
        "dropped",
        "lost",
        "receive",
    )

    def __init__(self, client: turn.TurnClientProtocol, candidate: Candidate) -> None:
        self._client = client
        self._loop = asyncio.get_running_loop()
        self._put: Callable[[bytes], object]
        if isinstance(client, turn.TurnClientTcpProtocol):
            self._put = client.transport.write
        else:
            self._put = client.transport.sendto
        # peer -> when its channel is to be bound again; no channel: not to be tried before
        self._bound: dict[Address, float] = {}
        self._waiting: dict[Address, deque[bytes]] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self.candidate = candidate
        self.closed = False
        self.dropped = 0
        self.receive: RelayReceiver | None = None
        self.lost: asyncio.Future[None] = self._loop.create_future()
        self._closing: asyncio.Task[None] | None = None
        client.receiver = self

    @property
    def local(self) -> Address:
        """The relayed address: what the peer sees, and the local side of our flows."""
        return self.candidate.address

    @classmethod
    async def open(cls, server: TurnServer) -> RelayTransport:
        """Allocate. Raises `RelayError` when the server is unreachable or refuses."""
        kind = socket.SOCK_DGRAM if server.transport == "udp" else socket.SOCK_STREAM
        remote = await resolve_server((server.host, server.port), 0, kind)
        if remote is None:
            raise RelayError(f"{server!r}: no such host")
        client = None
        try:
            client = await _connect(server, remote)
            relayed = await client.connect()
        except (OSError, stun.TransactionError) as error:
            raise RelayError(f"{server!r}: {error}") from error
        finally:
            if client is not None and client.relayed_address is None:
                client.transport.close()
        candidate = make_candidate(
            CandidateType.RELAYED,
            relayed,
            server=f"{remote[0]}/{server.transport}",
        )
        # RFC 8839 section 5.1: the related address of a relayed candidate is the mapped one
        candidate = replace(candidate, related_address=client.mapped_address)
        return cls(client, candidate)

    # ---- to the peer

    def send(self, data: bytes, remote: Address) -> None:
        """Send one datagram to a peer through the relay; dropped and counted when it cannot be."""
        channel = self._client.peer_to_channel.get(remote)
        if channel is None:
            self._bind(data, remote)
            return
        if self._loop.time() >= self._bound.get(remote, 0.0):
            self._bound[remote] = self._loop.time() + REBIND_S
            self._start(self._rebind(channel, remote))
        self._write(channel, data)

    send_behind = send

    def send_run(self, datagrams: Sequence[bytes], remote: Address) -> None:
        """Send several datagrams to one peer, one by one."""
        for data in datagrams:
            self.send(data, remote)

    def _write(self, channel: int, data: bytes) -> None:
        if self.closed:
            self.dropped += 1
            return
        # padding is a must in a stream and tolerated in a datagram (RFC 8656 section 12.5)
        self._put(_HEADER.pack(channel, len(data)) + data + bytes(-len(data) % 4))

    def _bind(self, data: bytes, remote: Address) -> None:
        waiting = self._waiting.get(remote)
        if waiting is not None:
            if len(waiting) == _MAX_WAITING:
                self.dropped += 1
            else:
                waiting.append(data)
            return
        if self._unreachable(remote):
            self.dropped += 1
            return
        self._waiting[remote] = deque((data,))
        self._start(self._bind_and_flush(remote))

    def _unreachable(self, remote: Address) -> bool:
        return (
            self.closed
            or (":" in remote[0]) != (":" in self.local[0])
            or self._loop.time() < self._bound.get(remote, 0.0)
            or (remote not in self._bound and len(self._bound) >= _MAX_PEERS)
        )

    async def _bind_and_flush(self, remote: Address) -> None:
        waiting = self._waiting[remote]
        try:
            await self._client.send_data(waiting.popleft(), remote)
        except (OSError, stun.TransactionError):
            self._bound[remote] = self._loop.time() + RETRY_S
            self.dropped += len(waiting) + 1
            return
        finally:
            del self._waiting[remote]
        self._bound[remote] = self._loop.time() + REBIND_S
        channel = self._client.peer_to_channel[remote]
        for data in waiting:
            self._write(channel, data)

    async def _rebind(self, channel: int, remote: Address) -> None:
        try:
            await self._client.channel_bind(channel, remote)
        except (OSError, stun.TransactionError):
            self._bound[remote] = self._loop.time() + RETRY_S

    def _start(self, work: Coroutine[Any, Any, None]) -> None:
        task = self._loop.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    # ---- from the peer (called by aioice)

    def datagram_received(self, data: bytes, addr: Address) -> None:
        """Hand a relayed datagram on."""
        if self.receive is not None and not self.closed:
            self.receive(data, (addr[0], addr[1]))

    def error_received(self, exc: Exception) -> None:
        """Count what could not be sent."""
        self.dropped += 1

    def connection_lost(self, exc: Exception | None) -> None:
        """Note that the allocation is gone; `lost` tells unless we closed it ourselves."""
        if self._client.refresh_task is not None:
            self._client.refresh_task.cancel()
        if not self.closed:
            self.closed = True
            if not self.lost.done():
                self.lost.set_result(None)

    def close(self) -> None:
        """Begin to give the allocation back; harmless when repeated."""
        if self.closed:
            return
        self.closed = True
        for task in self._tasks:
            task.cancel()
        self._closing = self._loop.create_task(self._give_back())

    async def _give_back(self) -> None:
        with contextlib.suppress(TimeoutError, OSError):
            await asyncio.wait_for(self._client.delete(), _CLOSE_TIMEOUT_S)

    async def wait_closed(self) -> None:
        """Wait until it is given back; a server that does not answer holds us up one second."""
        if self._closing is not None:
            await asyncio.shield(self._closing)


async def _connect(server: TurnServer, remote: Address) -> turn.TurnClientProtocol:
    loop = asyncio.get_running_loop()
    arguments = (remote, server.username, server.password, LIFETIME_S, int(REBIND_S))
    if server.transport == "udp":
        _, datagrams = await loop.create_datagram_endpoint(
            lambda: _UdpClient(*arguments), remote_addr=remote
        )
        return datagrams
    secured = server.transport == "tls"
    _, stream = await loop.create_connection(
        lambda: _StreamClient(*arguments),
        *remote,
        ssl=ssl.create_default_context() if secured else None,
        server_hostname=server.host if secured else None,
    )
    return stream
