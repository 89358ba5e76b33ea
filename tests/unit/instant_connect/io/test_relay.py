"""A relay on real sockets before real servers: clients at their own addresses, and who is down."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import pytest

from instant_connect.bundle import parse_bundle
from instant_connect.host import HostConfig
from instant_connect.io.arrival import Arrival
from instant_connect.io.client import InstantClient, Posted
from instant_connect.io.listening import InstantConfig, listen_instant
from instant_connect.io.relay import RelayServer, open_relay, resolve_upstream
from instant_connect.io.server import InstantServer
from instant_connect.keyring import Epoch, Keyring
from instant_connect.reasons import InstantDiscard
from instant_connect.relay import Health, HealthChanged, RelayConfig, Upstream
from tests.unit.instant_connect.io.test_server import CLIENT, arrival_of, talk, until
from tests.unit.io.support import HOST, OPUS, play
from warp.entropy import SystemEntropy
from warp.errors import HandshakeTimedOut, InvalidConfig, UsageError
from warp.io import AddressInUse, Session

RING = Keyring.generate(SystemEntropy(), 1.79e9)
QUICK = RelayConfig(probe_s=0.05, down_after_s=0.2)


async def never(_: str, __: object) -> Posted:
    raise ConnectionError("signalling is not part of this")


async def speak(session: Session, arrival: Arrival) -> None:
    """What is said at one end is heard at the other."""
    for here, there in ((session, arrival.session), (arrival.session, session)):
        here.audio_out.send(OPUS)
        assert (await asyncio.wait_for(anext(there.audio_in), 5)).payload == OPUS


class Cell:
    """Servers behind a relay: they advertise its address, and know nothing else of it."""

    def __init__(self, relay: RelayServer, servers: list[InstantServer]) -> None:
        self.relay = relay
        self.servers = servers
        self.clients: list[InstantClient] = []

    async def call(self, number: int, timeout_s: float = 10.0) -> tuple[Session, InstantServer]:
        """A call by a ticket of one server; and the server that has it."""
        client = InstantClient(post=never, config=CLIENT)
        self.clients.append(client)
        port = str(self.relay.local[1])
        text = self.servers[number].bundle(tickets=1)
        text = text.replace(str(self.servers[number].port), port)
        client.wallet.put(parse_bundle(text), asyncio.get_running_loop().time())
        before = [server.stats()["proven"].get("instant", 0) for server in self.servers]
        session = await client.connect(timeout_s)
        after = [server.stats()["proven"].get("instant", 0) for server in self.servers]
        [index] = [n for n in range(len(after)) if after[n] > before[n]]
        return session, self.servers[index]


@asynccontextmanager
async def cell(
    count: int = 2, report: Callable[[HealthChanged], object] = lambda _: None
) -> AsyncIterator[Cell]:
    servers = []
    for number in range(count):
        config = InstantConfig(host=HostConfig(server=number))
        servers.append(await listen_instant(HOST, keyring=RING, config=config))
    upstreams = [Upstream(n, n, (HOST, server.port)) for n, server in enumerate(servers)]
    keys = RING.relay_keys()
    made: Cell | None = None
    async with await open_relay(
        HOST, 0, keys=keys, upstreams=upstreams, config=QUICK, report=report
    ) as relay:
        made = Cell(relay, servers)
        try:
            yield made
        finally:
            for client in made.clients:
                await client.close()
            for server in servers:
                await server.close()


def test_calls_go_by_their_tickets_and_clients_are_where_they_are() -> None:
    async def story() -> None:
        async with cell() as made:
            for number in (0, 1, 1):
                session, server = await made.call(number)
                assert server is made.servers[number]
                arrival = await arrival_of(server)
                await talk(session, arrival)
                # the server knows the client's own address, not the relay's
                flow = session.peer.stats()["flow"]
                assert arrival.session.peer.stats()["flow"].remote == flow.local
                assert flow.remote == made.relay.local
                # and has told it (XOR-MAPPED-ADDRESS): nothing was learnt of another one
                assert "prflx" not in str(session.stats())
            assert made.relay.relay.stats()["flows"] == 3
            assert made.relay.relay.discards == {}

    play(story)


def test_an_upstream_that_is_gone_loses_its_calls_and_its_tickets_go_elsewhere() -> None:
    async def story() -> None:
        changes: list[HealthChanged] = []
        async with cell(report=changes.append) as made:
            _, server = await made.call(0)
            text = server.bundle(tickets=1)
            await server.close()
            await until(lambda: changes)
            assert changes[0].health is Health.DOWN
            assert changes[0].upstream.first == 0
            client = InstantClient(post=never, config=CLIENT)
            made.clients.append(client)
            text = text.replace(str(server.port), str(made.relay.local[1]))
            client.wallet.put(parse_bundle(text), asyncio.get_running_loop().time())
            await client.connect()
            assert made.servers[1].stats()["sessions"] == 1

    play(story)


def test_a_server_that_drains_says_so_and_keeps_what_it_has() -> None:
    async def story() -> None:
        changes: list[HealthChanged] = []
        async with cell(report=changes.append) as made:
            session, server = await made.call(0)
            arrival = await arrival_of(server)
            server.drain()
            await until(lambda: changes)
            assert changes[0].health is Health.DRAINING
            await talk(session, arrival)
            other, taken = await made.call(1)
            assert taken is made.servers[1]
            assert other is not session

    play(story)


@pytest.mark.slow
def test_keys_may_be_rotated_before_the_relay_hears_of_it() -> None:
    async def story() -> None:
        async with cell() as made:
            session, server = await made.call(0)
            arrival = await arrival_of(server)
            ring = RING.rotate(Epoch.generate(RING.next_key_id(), SystemEntropy(), 1.79e9))
            for each in made.servers:
                each.rotate(ring)
            await speak(session, arrival)
            with pytest.raises(HandshakeTimedOut):  # the relay cannot read where it leads
                await made.call(1, timeout_s=0.3)
            assert made.relay.relay.discards[InstantDiscard.KEY_ID] > 0
            made.relay.relay.keys = ring.relay_keys()
            _, taken = await made.call(1)
            assert taken is made.servers[1]
            await speak(session, arrival)

    play(story)


def test_a_stranger_who_makes_envelopes_is_not_heard() -> None:
    async def story() -> None:
        async with await listen_instant(HOST, keyring=RING) as server:
            stranger = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
            for size in (1, 4, 16, 40):
                stranger.sendto(b"\x0c" * size, (HOST, server.port))
            stranger.close()
            dropped = server.host.entrance.discards
            await until(lambda: sum(dropped.values()) == 4)
            assert set(dropped) <= {InstantDiscard.BAD_ENVELOPE, InstantDiscard.KEY_ID}

    play(story)


def test_what_cannot_be_is_refused_and_leaves_no_socket() -> None:
    async def story() -> None:
        keys = RING.relay_keys()
        here = [Upstream(0, 0, (HOST, 9))]
        async with await open_relay(HOST, 0, keys=keys, upstreams=here) as relay:
            with pytest.raises(AddressInUse):
                await open_relay(*relay.local, keys=keys, upstreams=here)
        with pytest.raises(InvalidConfig, match="at least one"):
            await open_relay(HOST, 0, keys=keys, upstreams=[])
        with pytest.raises(UsageError, match="no way to upstream 7"):
            nowhere = Upstream(7, 7, ("255.255.255.255", 9))
            await open_relay(HOST, 0, keys=keys, upstreams=[nowhere])
        with pytest.raises(InvalidConfig, match="has no address"):
            await resolve_upstream(1, 1, "no-such-host.invalid", 443)
        assert await resolve_upstream(1, 2, HOST, 443) == Upstream(1, 2, (HOST, 443))

    play(story)
