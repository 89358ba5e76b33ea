"""A small STUN server and a small TURN server on loopback, so that gathering meets real ones.

RFC 8489 and RFC 8656, only what a client of one call needs: long-term credentials, Allocate,
Refresh, CreatePermission, ChannelBind, Send and Data indications, ChannelData; UDP and TCP.
"""

from __future__ import annotations

import asyncio
import hmac
from collections import Counter
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from typing import Any, TypeVar

from warp.contract import Address
from warp.errors import Discard
from warp.io.reflexive import ProbeTable
from warp.stun import (
    BINDING,
    Attribute,
    Message,
    MessageClass,
    build_message,
    decode_xor_address,
    encode_error_code,
    encode_xor_address,
    long_term_key,
    parse_message,
)

ALLOCATE, REFRESH, SEND, DATA, CREATE_PERMISSION, CHANNEL_BIND = 3, 4, 6, 7, 8, 9
REALM = "example.org"
LOOPBACK = "127.0.0.1"
E = TypeVar("E", bound="Endpoint")


class Key:
    def __init__(self, key: bytes) -> None:
        self._key = key

    def digest(self, *parts: bytes) -> bytes:
        return hmac.digest(self._key, b"".join(parts), "sha1")


class Endpoint(asyncio.DatagramProtocol):
    """A UDP socket whose datagrams are queued."""

    def __init__(self) -> None:
        self.received: asyncio.Queue[tuple[bytes, Address]] = asyncio.Queue()
        self.transport: Any = None

    def connection_made(self, transport: Any) -> None:
        self.transport = transport

    def datagram_received(self, data: bytes, addr: Any) -> None:
        self.received.put_nowait((data, (addr[0], addr[1])))

    @property
    def address(self) -> Address:
        name = self.transport.get_extra_info("sockname")
        return name[0], name[1]

    def send(self, data: bytes, remote: Address) -> None:
        self.transport.sendto(data, remote)

    async def next(self) -> tuple[bytes, Address]:
        return await asyncio.wait_for(self.received.get(), 5)


@asynccontextmanager
async def udp(factory: Callable[[], E] = Endpoint) -> AsyncIterator[E]:
    loop = asyncio.get_running_loop()
    transport, endpoint = await loop.create_datagram_endpoint(factory, local_addr=(LOOPBACK, 0))
    try:
        yield endpoint
    finally:
        transport.close()


class ProbedEndpoint(Endpoint):
    """What the driver's port is to `gather`: one socket, answers to probes taken out first."""

    def __init__(self) -> None:
        super().__init__()
        self.probes = ProbeTable()

    @property
    def local(self) -> Address:
        return self.address

    def datagram_received(self, data: bytes, addr: Any) -> None:
        if not (self.probes and self.probes.receive(data, (addr[0], addr[1]))):
            super().datagram_received(data, addr)


class StunServer(asyncio.DatagramProtocol):
    """Answers Binding requests; `mapped` stands for what a NAT in between would show."""

    def __init__(self, mapped: Address | None = None, *, drop: int = 0, error: int = 0) -> None:
        self.mapped, self.drop, self.error = mapped, drop, error
        self.requests: list[Address] = []
        self.transport: Any = None

    def connection_made(self, transport: Any) -> None:
        self.transport = transport

    @property
    def address(self) -> Address:
        name = self.transport.get_extra_info("sockname")
        return name[0], name[1]

    def datagram_received(self, data: bytes, addr: Any) -> None:
        self.requests.append((addr[0], addr[1]))
        if len(self.requests) <= self.drop:
            return
        request = parse_message(data)
        if self.error:
            kind, attribute = MessageClass.ERROR, (9, encode_error_code(self.error))
        else:
            mapped = self.mapped or (addr[0], addr[1])
            value = encode_xor_address(mapped, request.transaction_id)
            kind, attribute = MessageClass.SUCCESS, (0x20, value)
        self.transport.sendto(
            build_message(BINDING, kind, request.transaction_id, [attribute], integrity_key=None),
            addr,
        )


@asynccontextmanager
async def stun_server(
    mapped: Address | None = None, *, drop: int = 0, error: int = 0
) -> AsyncIterator[StunServer]:
    loop = asyncio.get_running_loop()
    transport, server = await loop.create_datagram_endpoint(
        lambda: StunServer(mapped, drop=drop, error=error), local_addr=(LOOPBACK, 0)
    )
    try:
        yield server
    finally:
        transport.close()


class Allocation:
    """A relayed address of one client."""

    def __init__(self, reply: Callable[[bytes], None]) -> None:
        self.reply = reply
        self.permissions: set[str] = set()
        self.channels: dict[int, Address] = {}
        self.relay: Any = None

    def receive(self, data: bytes, peer: Address) -> None:
        if peer[0] not in self.permissions:
            return
        for number, bound in self.channels.items():
            if bound == peer:
                head = number.to_bytes(2, "big") + len(data).to_bytes(2, "big")
                self.reply(head + data + bytes(-len(data) % 4))
                return
        transaction = bytes(12)
        attributes = [(0x12, encode_xor_address(peer, transaction)), (0x13, data)]
        self.reply(
            build_message(
                DATA, MessageClass.INDICATION, transaction, attributes, integrity_key=None
            )
        )


class RelaySocket(asyncio.DatagramProtocol):
    def __init__(self, allocation: Allocation) -> None:
        self.allocation = allocation

    def datagram_received(self, data: bytes, addr: Any) -> None:
        self.allocation.receive(data, (addr[0], addr[1]))


class TurnServer(asyncio.DatagramProtocol):
    """The server; `counts` holds requests by method and what was relayed."""

    def __init__(self, username: str, password: str) -> None:
        self.username, self.password = username, password
        self.nonce = b"first-nonce"
        self.silent = False
        self.refused: set[str] = set()
        self.allocations: dict[Any, Allocation] = {}
        self.counts: Counter[Any] = Counter()
        self.changed = asyncio.Event()
        self.transport: Any = None
        self.writers: list[asyncio.StreamWriter] = []
        self.tcp_address: Address = ("", 0)
        self._tasks: set[asyncio.Task[None]] = set()

    def connection_made(self, transport: Any) -> None:
        self.transport = transport

    @property
    def address(self) -> Address:
        name = self.transport.get_extra_info("sockname")
        return name[0], name[1]

    def datagram_received(self, data: bytes, addr: Any) -> None:
        self.receive(data, addr, lambda reply: self.transport.sendto(reply, addr))

    async def serve_stream(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        self.writers.append(writer)
        client = writer.get_extra_info("peername")
        with suppress(asyncio.IncompleteReadError, ConnectionError):
            while True:
                head = await reader.readexactly(4)
                length = int.from_bytes(head[2:], "big")
                rest = (length + 3) & ~3 if head[0] & 0xC0 == 0x40 else 16 + length
                body = await reader.readexactly(rest)
                self.receive(head + body, client, writer.write)
        writer.close()

    def receive(self, data: bytes, client: Any, reply: Callable[[bytes], None]) -> None:
        if self.silent:
            return
        allocation = self.allocations.get(client)
        if data[0] & 0xC0 == 0x40:
            number, length = int.from_bytes(data[:2], "big"), int.from_bytes(data[2:4], "big")
            if allocation is not None and number in allocation.channels:
                self.counts["channel data"] += 1
                allocation.relay.sendto(data[4 : 4 + length], allocation.channels[number])
            return
        try:
            message = parse_message(data)
        except Discard:
            self.counts["discarded"] += 1
            return
        if message.message_class is not MessageClass.REQUEST:
            return
        self.counts[message.method] += 1
        key = Key(long_term_key(self.username, REALM, self.password))
        error = self._refusal(message, key)
        if error:
            self._answer(message, reply, MessageClass.ERROR, error, None)
            return
        if message.method == ALLOCATE:
            task = asyncio.ensure_future(self._allocate(message, client, reply, key))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)
        else:
            self._change(message, client, reply, key)

    def _refusal(self, message: Message, key: Key) -> list[tuple[int, bytes]]:
        challenge = [(int(Attribute.REALM), REALM.encode()), (int(Attribute.NONCE), self.nonce)]
        known = message.get(Attribute.USERNAME) == self.username.encode()
        if not known or not message.verify_integrity(key):
            return [(9, encode_error_code(401, "Unauthorized")), *challenge]
        if message.get(Attribute.NONCE) != self.nonce:
            return [(9, encode_error_code(438, "Stale Nonce")), *challenge]
        return []

    async def _allocate(
        self, message: Message, client: Any, reply: Callable[[bytes], None], key: Key
    ) -> None:
        allocation = Allocation(reply)
        loop = asyncio.get_running_loop()
        allocation.relay, _ = await loop.create_datagram_endpoint(
            lambda: RelaySocket(allocation), local_addr=(LOOPBACK, 0)
        )
        self.allocations[client] = allocation
        relayed = allocation.relay.get_extra_info("sockname")[:2]
        transaction = message.transaction_id
        attributes = [
            (int(Attribute.XOR_RELAYED_ADDRESS), encode_xor_address(relayed, transaction)),
            (int(Attribute.XOR_MAPPED_ADDRESS), encode_xor_address(client[:2], transaction)),
            (int(Attribute.LIFETIME), (600).to_bytes(4, "big")),
        ]
        self._answer(message, reply, MessageClass.SUCCESS, attributes, key)

    def _change(
        self, message: Message, client: Any, reply: Callable[[bytes], None], key: Key
    ) -> None:
        allocation = self.allocations.get(client)
        if allocation is None:
            error = [(9, encode_error_code(437, "Allocation Mismatch"))]
            self._answer(message, reply, MessageClass.ERROR, error, key)
            return
        attributes: list[tuple[int, bytes]] = []
        if message.method == REFRESH:
            lifetime = message.get(Attribute.LIFETIME) or b""
            if not any(lifetime):
                self.allocations.pop(client).relay.close()
                self.changed.set()
            attributes = [(int(Attribute.LIFETIME), lifetime)]
        else:
            value = message.get(Attribute.XOR_PEER_ADDRESS) or b""
            peer = decode_xor_address(value, message.transaction_id)
            if peer[0] in self.refused:
                error = [(9, encode_error_code(403, "Forbidden"))]
                self._answer(message, reply, MessageClass.ERROR, error, key)
                return
            allocation.permissions.add(peer[0])
            if message.method == CHANNEL_BIND:
                number = message.get(Attribute.CHANNEL_NUMBER) or b"\0\0"
                allocation.channels[int.from_bytes(number[:2], "big")] = peer
        self._answer(message, reply, MessageClass.SUCCESS, attributes, key)

    def _answer(
        self,
        request: Message,
        reply: Callable[[bytes], None],
        kind: MessageClass,
        attributes: list[tuple[int, bytes]],
        key: Key | None,
    ) -> None:
        reply(
            build_message(
                request.method, kind, request.transaction_id, attributes, integrity_key=key
            )
        )

    def close(self) -> None:
        for allocation in self.allocations.values():
            allocation.relay.close()
        for writer in self.writers:
            writer.close()


@asynccontextmanager
async def turn_server(username: str = "ann", password: str = "secret") -> AsyncIterator[TurnServer]:
    loop = asyncio.get_running_loop()
    transport, server = await loop.create_datagram_endpoint(
        lambda: TurnServer(username, password), local_addr=(LOOPBACK, 0)
    )
    stream = await asyncio.start_server(server.serve_stream, LOOPBACK, 0)
    name = stream.sockets[0].getsockname()
    server.tcp_address = (name[0], name[1])
    try:
        yield server
    finally:
        server.close()
        stream.close()
        transport.close()
        await stream.wait_closed()
