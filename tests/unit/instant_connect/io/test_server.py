"""An Instant Connect server and its client on real sockets: every way in, every way out."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

import pytest

from instant_connect.admission import AdmissionConfig
from instant_connect.answers import Status
from instant_connect.bundle import parse_bundle
from instant_connect.host import HostConfig, lodging_of
from instant_connect.io.arrival import Arrival
from instant_connect.io.client import InstantClient, Posted
from instant_connect.io.listening import InstantConfig, listen_instant
from instant_connect.io.server import InstantServer
from instant_connect.keyring import Epoch, Keyring
from instant_connect.router import Journey, Roster
from instant_connect.sessions import InstantSession
from instant_connect.tiers import Tier
from tests.unit.io.support import HOST, OPUS, play, shifted
from warp.contract import Flow
from warp.entropy import SystemEntropy
from warp.errors import InvalidConfig, InvalidState
from warp.io import Client, ClientConfig, ServerConfig, Session

CLIENT = ClientConfig(host=HOST)


class Signalling:
    """What a server's HTTP routes would do, without HTTP."""

    def __init__(self, server: InstantServer, *, delay_s: float = 0.0) -> None:
        self.server = server
        self.delay_s = delay_s
        self.asked: list[Mapping[str, str]] = []
        self.answered: list[Status] = []
        self.failure: Exception | None = None

    async def __call__(self, offer: str, headers: Mapping[str, str]) -> Posted:
        self.asked.append(headers)
        await asyncio.sleep(self.delay_s)
        if self.failure is not None:
            raise self.failure
        answer = self.server.answer(
            offer,
            ufrag=headers.get("Instant-Ufrag", ""),
            proof=headers.get("Instant-Proof", ""),
            context="context",
            dcid=4,
        )
        self.answered.append(answer.status)
        return Posted(answer.status, answer.sdp)


def fill(client: InstantClient, server: InstantServer, **options: Any) -> None:
    bundle = parse_bundle(server.bundle(**options))
    client.wallet.put(bundle, asyncio.get_running_loop().time())


async def talk(session: Session, arrival: Arrival) -> None:
    """Audio and messages go both ways."""
    ours = session.channel("oai-events", negotiated=True, stream_id=4)
    assert arrival.events is not None
    await asyncio.wait_for(ours.opened(), 5)
    ours.send("hello")
    assert await asyncio.wait_for(anext(arrival.events), 5) == "hello"
    arrival.events.send("and you")
    assert await asyncio.wait_for(anext(ours), 5) == "and you"
    session.audio_out.send(OPUS)
    frame = await asyncio.wait_for(anext(arrival.session.audio_in), 5)
    assert frame.payload == OPUS


async def arrival_of(server: InstantServer) -> Arrival:
    return await asyncio.wait_for(anext(aiter(server)), 5)


async def until(condition: Any, timeout_s: float = 5.0) -> None:
    """Wait for something that other tasks bring about."""
    loop = asyncio.get_running_loop()
    end = loop.time() + timeout_s
    while not condition():
        assert loop.time() < end, "it never came to that"
        await asyncio.sleep(0.005)


def test_an_instant_call() -> None:
    async def story() -> None:
        async with await listen_instant(HOST) as server:
            signalling = Signalling(server)
            async with InstantClient(post=signalling, config=CLIENT) as client:
                fill(client, server, policy=11)
                session = await client.connect()
                arrival = await arrival_of(server)
                await talk(session, arrival)
                await until(lambda: arrival.tier is Tier.CONFIRMED)
                assert arrival.path.value in ("instant", "attached")
                assert (arrival.policy, arrival.context) == (11, "context")
                assert signalling.answered == [Status.ATTACHED]
                assert set(signalling.asked[0]) == {"Instant-Ufrag", "Instant-Proof"}
                assert len(server.server.sessions) == 1
                assert client.wallet.rtt_s is not None
                await session.close()
                await asyncio.wait_for(arrival.session.closed, 5)
            assert server.stats()["sessions"] == 0

    play(story)


def test_a_call_without_a_ticket_is_signalled() -> None:
    async def story() -> None:
        async with await listen_instant(HOST) as server:
            signalling = Signalling(server)
            async with InstantClient(post=signalling, config=CLIENT) as client:
                session = await client.connect()
                arrival = await arrival_of(server)
                await talk(session, arrival)
                assert (arrival.path.value, arrival.context) == ("signalled", "context")
                assert signalling.asked == [{}]
                assert arrival.session.answer.startswith("v=0")

    play(story)


def test_a_stale_ticket_costs_the_call_nothing() -> None:
    async def story() -> None:
        async with await listen_instant(HOST) as old, await listen_instant(HOST) as server:
            signalling = Signalling(server)
            async with InstantClient(post=signalling, config=CLIENT) as client:
                fill(client, old)
                await old.close()
                session = await client.connect()
                arrival = await arrival_of(server)
                await talk(session, arrival)
                assert arrival.path.value == "signalled"
                assert server.stats()["stale"] == {"its ufrag does not open, or not any more": 1}
                await until(lambda: client._client.sessions == [session])

    play(story)


def test_a_session_lives_while_signalling_is_down() -> None:
    async def story() -> None:
        async with await listen_instant(HOST) as server:
            signalling = Signalling(server)
            signalling.failure = ConnectionError("the API is down")
            async with InstantClient(post=signalling, config=CLIENT) as client:
                fill(client, server)
                session = await client.connect()
                arrival = await arrival_of(server)
                await talk(session, arrival)
                assert (arrival.path.value, arrival.tier) == ("instant", Tier.PROVEN)
                await shifted().pass_time(31.0)
                assert arrival.tier is Tier.CONFIRMED
                assert arrival.context is None

    play(story)


def test_when_neither_way_leads_anywhere_signalling_says_why() -> None:
    async def story() -> None:
        async with await listen_instant(HOST) as server:
            signalling = Signalling(server)
            signalling.failure = ConnectionError("the API is down")
            client = InstantClient(post=signalling, config=CLIENT)
            with pytest.raises(ConnectionError, match="API is down"):
                await client.connect()
            await client.close()
            await client.close()

    play(story)


def test_the_slow_answer_of_signalling_is_not_waited_for() -> None:
    async def story() -> None:
        async with await listen_instant(HOST) as server:
            signalling = Signalling(server, delay_s=60.0)
            async with InstantClient(post=signalling, config=CLIENT) as client:
                fill(client, server)
                session = await client.connect()
                arrival = await arrival_of(server)
                await talk(session, arrival)
                assert signalling.answered == []

    play(story)


@pytest.mark.slow
def test_a_greeting_leaves_before_the_client_is_proven() -> None:
    async def story() -> None:
        greeted: list[Tier] = []

        def greet(arrival: Arrival) -> None:
            greeted.append(arrival.tier)
            arrival.session.audio_out.send(OPUS, non_personal=True)

        async with (
            await listen_instant(HOST, greet=greet) as server,
            InstantClient(post=Signalling(server), config=CLIENT) as client,
        ):
            fill(client, server)
            session = await client.connect()
            frame = await asyncio.wait_for(anext(session.audio_in), 5)
            assert frame.payload == OPUS
            assert greeted == [Tier.SHAKING]

    play(story)


def test_clients_without_long_ufrags_get_sessions_the_ordinary_way() -> None:
    async def story() -> None:
        async with await listen_instant(HOST) as server, Client(CLIENT) as client:
            accepted: list[Session] = []

            async def signal(offer: str) -> str:
                accepted.append(server.server.accept_offer(offer))
                return accepted[0].answer

            session = await client.connect(signal)
            await asyncio.wait_for(session.connected(), 5)
            assert len(session.answer.partition("a=ice-ufrag:")[2].split()[0]) == 8
            assert server.stats()["sessions"] == 0

    play(story)


@pytest.mark.slow
def test_many_calls_at_once() -> None:
    async def story() -> None:
        async with await listen_instant(HOST) as server:
            clients = [InstantClient(post=Signalling(server), config=CLIENT) for _ in range(20)]
            for number, client in enumerate(clients):
                if number % 2:
                    fill(client, server)
            sessions = await asyncio.gather(*(client.connect() for client in clients))
            arrivals = [await arrival_of(server) for _ in clients]
            assert len({id(arrival.session) for arrival in arrivals}) == 20
            assert len(server.server.sessions) == 20
            for session in sessions:
                await session.close()
            for arrival in arrivals:
                await asyncio.wait_for(arrival.session.closed, 5)
            stats = server.stats()
            assert (stats["sessions"], stats["half_open"], stats["waiting"]) == (0, 0, 0)
            assert sum(stats["proven"].values()) == 20
            await asyncio.gather(*(client.close() for client in clients))

    play(story)


def test_keys_are_replaced_while_calls_go_on() -> None:
    async def story() -> None:
        entropy = SystemEntropy()
        ring = Keyring.generate(entropy, 1.79e9)
        async with (
            await listen_instant(HOST, keyring=ring) as server,
            InstantClient(post=Signalling(server), config=CLIENT) as client,
        ):
            fill(client, server)
            session = await client.connect()
            arrival = await arrival_of(server)
            server.rotate(ring.rotate(Epoch.generate(1, entropy, 1.79e9)))
            await talk(session, arrival)
            second = await client.connect()  # by a ticket of the epoch before
            assert (await arrival_of(server)).path.value != "signalled"
            assert second.state is session.state
            with pytest.raises(InvalidConfig, match="another cell"):
                server.rotate(Keyring.generate(entropy, 1.79e9, cell=9))

    play(story)


def test_a_server_that_is_full_says_so_by_signalling() -> None:
    async def story() -> None:
        config = InstantConfig(server=ServerConfig(early_data=True, max_sessions=1))
        async with await listen_instant(HOST, config=config) as server:
            signalling = Signalling(server)
            async with InstantClient(post=signalling, config=CLIENT) as client:
                fill(client, server)
                await client.connect()
                with pytest.raises(InvalidState, match="already serves"):
                    await InstantClient(post=signalling, config=CLIENT).connect()

    play(story)


def test_a_handshake_that_stops_is_over_after_five_seconds() -> None:
    async def story() -> None:
        async with (
            await listen_instant(HOST) as server,
            InstantClient(post=Signalling(server, delay_s=60), config=CLIENT) as client,
        ):
            fill(client, server)
            calling = asyncio.ensure_future(client.connect())
            await until(lambda: server.stats()["sessions"])
            # it stops here, if it has not been faster than we look
            calling.cancel()
            await asyncio.gather(calling, return_exceptions=True)
            await shifted().pass_time(6.0)
            await until(lambda: server.stats()["half_open"] == 0)

    play(story)


def test_offers_that_nobody_takes_up_are_forgotten() -> None:
    async def story() -> None:
        config = InstantConfig(limits=AdmissionConfig(hold_s=5.0))
        async with await listen_instant(HOST, config=config) as server, Client(CLIENT) as client:

            async def signal(offer: str) -> str:
                server.answer(offer)
                raise ConnectionError

            with pytest.raises(ConnectionError):
                await client.connect(signal)
            assert server.stats()["held_offers"] == 1
            await shifted().pass_time(6.0)
            assert server.stats()["held_offers"] == 0

    play(story)


class Wires:
    """The neighbours of one server, in the same process."""

    def __init__(self, servers: list[InstantServer], own: int) -> None:
        self.servers = servers
        self.own = own
        self.handed: list[tuple[int, Journey]] = []
        self.sought = 0

    def hand_on(self, server: int, data: bytes, flow: Flow, journey: Journey) -> None:
        self.handed.append((server, journey))
        self.servers[server].take_over(data, flow, journey)

    def seek(self, data: bytes, flow: Flow) -> None:
        self.sought += 1

    def begun(self, session: InstantSession) -> None:
        self._tell(
            session, lambda e, one: e.learn(self.own, [one], asyncio.get_running_loop().time())
        )

    def ended(self, session: InstantSession) -> None:
        self._tell(session, lambda e, one: e.guests.forget([one.key], self.own))

    def _tell(self, session: InstantSession, what: Any) -> None:
        owner = self.servers[self.own].host.entrance.owner_of(session.ticket)
        if owner not in (None, self.own):
            what(self.servers[owner].host.entrance, lodging_of(session))


@pytest.mark.slow
def test_servers_that_share_a_port_have_the_sessions_that_the_kernel_gives_them() -> None:
    """Which of them gets a client's datagrams is chance; that one server has the session is not."""

    async def story() -> None:
        ring = Keyring.generate(SystemEntropy(), 1.79e9)
        servers: list[InstantServer] = []
        for number in (0, 1):
            config = InstantConfig(host=HostConfig(server=number))
            port = servers[0].port if servers else 0
            servers.append(
                await listen_instant(HOST, port, keyring=ring, config=config, reuse_port=True)
            )
        wires = [Wires(servers, number) for number in (0, 1)]
        for server, wire in zip(servers, wires, strict=True):
            server.set_roster(Roster.of(0, 1))
            server.set_neighbours(wire)

        async def post(offer: str, headers: Mapping[str, str]) -> Posted:
            await asyncio.sleep(0.1)  # an offer that is there first keeps its session where it is
            names = {"ufrag": headers["Instant-Ufrag"], "proof": headers["Instant-Proof"]}
            answer = servers[1].answer(offer, **names)
            if answer.server is not None:
                answer = servers[answer.server].answer(offer, **names, settled=answer.settled)
            return Posted(answer.status, answer.sdp)

        async with servers[0], servers[1]:
            clients = [InstantClient(post=post, config=CLIENT) for _ in range(24)]
            for client in clients:
                fill(client, servers[1])
            sessions = await asyncio.gather(*(client.connect() for client in clients))
            counts = [len(server.server.sessions) for server in servers]
            # that all hash to the one of the two sockets does not happen
            assert sum(counts) == 24 and all(counts)
            arrivals = [await arrival_of(server) for server in servers for _ in server._calls]
            handed = sum(len(wire.handed) for wire in wires)
            for session in sessions:
                ufrag = session.peer.stats()["flow"].local
                [arrival] = [a for a in arrivals if a.session.peer.stats()["flow"].remote == ufrag]
                await talk(session, arrival)
            assert sum(len(wire.handed) for wire in wires) == handed
            guests = [len(server.host.entrance.guests) for server in servers]
            assert all(guests)
            await asyncio.gather(*(client.close() for client in clients))
            await until(lambda: not any(len(s.host.entrance.guests) for s in servers))

    play(story)


def test_what_no_such_server_can_be_is_refused() -> None:
    for options in ({"lite": False}, {"passive": False}, {"audio": False}, {"data": False}):
        with pytest.raises(InvalidConfig, match="Instant Connect"):
            InstantConfig(server=ServerConfig(**options))
