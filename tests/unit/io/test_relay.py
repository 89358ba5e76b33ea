from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from tests.unit.io.servers import (
    CHANNEL_BIND,
    LOOPBACK,
    Endpoint,
    turn_server,
    udp,
)
from tests.unit.io.servers import TurnServer as TinyTurnServer
from warp.contract import Address
from warp.errors import InvalidConfig
from warp.ice import CandidateType
from warp.io import relay as relay_module
from warp.io.relay import RelayError, RelayTransport, TurnServer, resolve_server


class Inbox:
    """Where relayed datagrams arrive."""

    def __init__(self) -> None:
        self.queue: asyncio.Queue[tuple[bytes, Address]] = asyncio.Queue()

    def receive(self, data: bytes, remote: Address) -> None:
        self.queue.put_nowait((data, remote))

    async def next(self) -> tuple[bytes, Address]:
        return await asyncio.wait_for(self.queue.get(), 5)


def config(server: TinyTurnServer, transport: str = "udp", password: str = "secret") -> TurnServer:
    host, port = server.address if transport == "udp" else server.tcp_address
    return TurnServer(host=host, port=port, username="ann", password=password, transport=transport)


Story = Callable[[TinyTurnServer, RelayTransport, Endpoint, Inbox], Awaitable[None]]


def play(story: Story, transport: str = "udp") -> None:
    """Run a story with a server, an open relay and a peer, and close what it leaves open."""

    async def run() -> None:
        async with turn_server() as server, udp() as peer:
            inbox = Inbox()
            relay = await RelayTransport.open(config(server, transport))
            relay.receive = inbox.receive
            try:
                await story(server, relay, peer, inbox)
            finally:
                relay.close()
                await relay.wait_closed()
        rest = asyncio.all_tasks() - {asyncio.current_task()}
        await asyncio.wait_for(asyncio.gather(*rest, return_exceptions=True), 5)

    asyncio.run(run())


@pytest.mark.parametrize("transport", ["udp", "tcp"])
def test_datagrams_go_both_ways(transport: str) -> None:
    async def story(
        server: TinyTurnServer, relay: RelayTransport, peer: Endpoint, inbox: Inbox
    ) -> None:
        assert relay.candidate.type is CandidateType.RELAYED
        assert relay.candidate.related_address in server.allocations
        for number in range(5):
            relay.send(b"to the peer %d" % number + b"." * number, peer.address)
        for number in range(5):
            data, source = await peer.next()
            assert data == b"to the peer %d" % number + b"." * number
            assert source == relay.local
        peer.send(b"and back", relay.local)
        assert await inbox.next() == (b"and back", peer.address)
        relay.send(b"bound by now", peer.address)
        assert (await peer.next())[0] == b"bound by now"
        assert server.counts[CHANNEL_BIND] == 1
        assert server.counts["channel data"] == 6
        assert relay.dropped == 0

    play(story, transport)


def test_two_peers_have_two_channels() -> None:
    async def story(
        server: TinyTurnServer, relay: RelayTransport, peer: Endpoint, inbox: Inbox
    ) -> None:
        async with udp() as other:
            relay.send(b"one", peer.address)
            relay.send(b"two", other.address)
            assert (await peer.next())[0] == b"one"
            assert (await other.next())[0] == b"two"
            other.send(b"from two", relay.local)
            assert await inbox.next() == (b"from two", other.address)

    play(story)


def test_what_waits_for_a_channel_is_bounded() -> None:
    async def story(
        server: TinyTurnServer, relay: RelayTransport, peer: Endpoint, inbox: Inbox
    ) -> None:
        for number in range(50):
            relay.send(bytes([number]), peer.address)
        assert relay.dropped == 18
        got = [(await peer.next())[0][0] for _ in range(32)]
        assert got == list(range(32))

    play(story)


def test_a_refused_peer_is_not_asked_for_at_every_datagram() -> None:
    async def story(
        server: TinyTurnServer, relay: RelayTransport, peer: Endpoint, inbox: Inbox
    ) -> None:
        server.refused.add(LOOPBACK)
        relay.send(b"lost", peer.address)
        await asyncio.wait_for(asyncio.gather(*relay._tasks), 5)
        for _ in range(10):
            relay.send(b"lost too", peer.address)
        assert relay.dropped == 11
        assert server.counts[CHANNEL_BIND] == 1

    play(story)


def test_other_address_families_are_not_sent_to() -> None:
    async def story(
        server: TinyTurnServer, relay: RelayTransport, peer: Endpoint, inbox: Inbox
    ) -> None:
        relay.send(b"lost", ("2001:db8::1", 9))
        assert relay.dropped == 1
        assert server.counts[CHANNEL_BIND] == 0

    play(story)


def test_the_number_of_peers_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(relay_module, "_MAX_PEERS", 1)

    async def story(
        server: TinyTurnServer, relay: RelayTransport, peer: Endpoint, inbox: Inbox
    ) -> None:
        relay.send(b"one", peer.address)
        await peer.next()
        relay.send(b"two", (LOOPBACK, 9))
        assert relay.dropped == 1

    play(story)


def test_a_channel_is_bound_again_before_its_permission_ends(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """RFC 8656 section 9: permissions last 300 s, and sending does not refresh them."""
    assert relay_module.REBIND_S < 300

    async def story(
        server: TinyTurnServer, relay: RelayTransport, peer: Endpoint, inbox: Inbox
    ) -> None:
        monkeypatch.setattr(relay_module, "REBIND_S", 0.0)
        relay.send(b"first", peer.address)
        await peer.next()
        relay.send(b"second", peer.address)
        assert (await peer.next())[0] == b"second"
        await asyncio.wait_for(asyncio.gather(*relay._tasks), 5)
        assert server.counts[CHANNEL_BIND] == 2
        assert relay.dropped == 0

    play(story)


def test_a_stale_nonce_is_renewed() -> None:
    async def story(
        server: TinyTurnServer, relay: RelayTransport, peer: Endpoint, inbox: Inbox
    ) -> None:
        server.nonce = b"second-nonce"
        relay.send(b"arrives", peer.address)
        assert (await peer.next())[0] == b"arrives"

    play(story)


def test_closing_gives_the_allocation_back() -> None:
    async def story(
        server: TinyTurnServer, relay: RelayTransport, peer: Endpoint, inbox: Inbox
    ) -> None:
        assert len(server.allocations) == 1
        relay.close()
        relay.close()
        await relay.wait_closed()
        assert server.allocations == {}
        relay.send(b"nowhere", peer.address)
        assert relay.dropped == 1
        assert not relay.lost.done()

    play(story)


@pytest.mark.parametrize("transport", ["udp", "tcp"])
def test_junk_from_the_server_does_no_harm(transport: str) -> None:
    async def story(
        server: TinyTurnServer, relay: RelayTransport, peer: Endpoint, inbox: Inbox
    ) -> None:
        [allocation] = server.allocations.values()
        # a success response of Allocate whose LIFETIME has three bytes
        allocation.reply(bytes.fromhex("010300082112a442") + bytes(12) + b"\0\x0d\0\3abc\0")
        allocation.reply(b"\x40\x01\0\4lost")
        relay.send(b"still there", peer.address)
        assert (await peer.next())[0] == b"still there"

    play(story, transport)


def test_a_lost_server_is_told() -> None:
    async def story(
        server: TinyTurnServer, relay: RelayTransport, peer: Endpoint, inbox: Inbox
    ) -> None:
        for writer in server.writers:
            writer.close()
        await asyncio.wait_for(relay.lost, 5)
        assert relay.closed
        relay.send(b"nowhere", peer.address)
        assert relay.dropped == 1

    play(story, "tcp")


def test_wrong_credentials_are_an_error_without_the_password() -> None:
    async def run() -> None:
        async with turn_server() as server:
            with pytest.raises(RelayError, match="401") as caught:
                await RelayTransport.open(config(server, password="not-it"))
            assert "not-it" not in str(caught.value)
            assert server.allocations == {}

    asyncio.run(run())


def test_an_unreachable_server_is_an_error() -> None:
    async def run() -> None:
        async with turn_server() as server:
            gone = config(server, "tcp")
        with pytest.raises(RelayError):
            await RelayTransport.open(gone)

    asyncio.run(run())


def test_an_unknown_host_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    async def nothing(*_: object) -> None:
        return None

    monkeypatch.setattr(relay_module, "resolve_server", nothing)
    server = TurnServer(host="turn.invalid", username="a", password="b")
    with pytest.raises(RelayError, match="no such host"):
        asyncio.run(RelayTransport.open(server))


def test_resolving() -> None:
    async def run() -> None:
        assert await resolve_server((LOOPBACK, 7), 0, 0) == (LOOPBACK, 7)
        assert await resolve_server((LOOPBACK, 7), 10, 0) is None  # no IPv6 address

    asyncio.run(run())


def test_configuration() -> None:
    with pytest.raises(InvalidConfig):
        TurnServer(host="a", username="b", password="c", transport="sctp")
    server = TurnServer(host="a", username="b", password="hidden")
    assert "hidden" not in repr(server)


def test_a_relay_is_an_outlet_for_a_port() -> None:
    async def story(
        server: TinyTurnServer, relay: RelayTransport, peer: Endpoint, inbox: Inbox
    ) -> None:
        relay.send_run([b"one", b"two", b"three"], peer.address)
        assert [(await peer.next())[0] for _ in range(3)] == [b"one", b"two", b"three"]
        relay.receive = None  # nobody listens yet
        peer.send(b"lost", relay.local)
        relay.send(b"four", peer.address)
        assert (await peer.next())[0] == b"four"
        assert inbox.queue.empty()

    play(story)
