"""Calls, and what is left of them when they do not come about."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest

from tests.unit.io.servers import StunServer, stun_server
from tests.unit.io.servers import turn_server as open_turn_server
from tests.unit.io.support import HOST, OPUS, play, shifted, turns
from warp.contract import Address
from warp.errors import InvalidConfig, InvalidState, UsageError
from warp.ice import CandidateType, parse_candidate
from warp.io import Client, ClientConfig, Server, ServerConfig, Session, connect, listen, trickle
from warp.io.names import MdnsResolver
from warp.peer import PeerConnection
from warp.sdp import SdpError
from warp.trace import MemoryTrace

Signal = Callable[[str], Awaitable[str]]
LOCAL = ClientConfig(host=HOST)
MAPPED = ("203.0.113.7", 61000)
NAME = "3c1c2e42-6f0b-4e6b-9f2e-0123456789ab.local"


def signal_to(server: Server) -> Signal:
    async def signal(offer: str) -> str:
        return server.accept_offer(offer).answer

    return signal


def is_empty(client: Client) -> bool:
    driver = client._driver
    return not (client.sessions or driver.ports or driver._heap or driver.touched)


# -- calls that end ----------------------------------------------------------------------------


def connections() -> int:
    return sum(type(found) is PeerConnection for found in gc.get_objects())


def test_what_a_call_has_held_goes_with_it_without_the_garbage_collector() -> None:
    async def story() -> None:
        async with await listen(HOST) as server, Client(LOCAL) as client:
            call = await client.connect(signal_to(server))
            await call.connected()
            served = server.sessions[0]
            await served.connected()
            call.channel("words", negotiated=True, stream_id=0)
            served.channel("words", negotiated=True, stream_id=0)
            assert connections() == 2
            await call.close()
            await served.close()
            del call, served
            await turns(2)
            assert connections() == 0

    gc.disable()
    gc.freeze()  # what was there before is not looked at
    try:
        play(story)
    finally:
        gc.unfreeze()
        gc.enable()


# -- calls that do not come about --------------------------------------------------------------


def test_what_signal_raises_is_raised_and_nothing_stays() -> None:
    async def story() -> None:
        async def refuse(offer: str) -> str:
            raise ConnectionError("no answer")

        async with Client(LOCAL) as client:
            with pytest.raises(ConnectionError, match="no answer"):
                await client.connect(refuse)
            assert is_empty(client)
        with pytest.raises(ConnectionError):
            await connect(refuse, config=LOCAL)

    play(story)


@pytest.mark.parametrize("answer", ["", "nonsense", "v=0\r\no=- 1 1 IN IP4 0.0.0.0\r\ns=-\r\n"])
def test_an_answer_that_is_none_leaves_nothing(answer: str) -> None:
    async def story() -> None:
        async def signal(offer: str) -> str:
            return answer

        async with Client(LOCAL) as client:
            with pytest.raises(SdpError):
                await client.connect(signal)
            assert is_empty(client)
        with pytest.raises(SdpError):
            await connect(signal, config=LOCAL)

    play(story)


@pytest.mark.parametrize("servers", [False, True])
def test_a_call_that_is_cancelled_while_it_is_signalled(servers: bool) -> None:
    async def story() -> None:
        async with stun_server(drop=99) as silent, open_turn_server() as turn:
            turn.silent = True
            config = with_servers(stun=[silent], turn=[turn.address]) if servers else LOCAL
            asked = asyncio.Event()

            async def never(offer: str) -> str:
                asked.set()
                await asyncio.Event().wait()
                return ""

            async with Client(config) as client:
                for _ in range(2):
                    calling = asyncio.ensure_future(client.connect(never))
                    await asked.wait()
                    await turns()
                    calling.cancel()
                    await asyncio.wait_for(asyncio.wait({calling}), 1)
                    assert calling.cancelled()
                    assert is_empty(client)

    play(story)


def test_closing_the_client_ends_calls_that_are_signalled() -> None:
    async def story() -> None:
        async with await listen(HOST) as server:
            answering = asyncio.Event()

            async def slow(offer: str) -> str:
                answer = server.accept_offer(offer).answer
                await answering.wait()
                return answer

            client = Client(LOCAL)
            calling = asyncio.ensure_future(client.connect(slow))
            await turns()
            await client.close()
            await client.close()
            answering.set()
            with pytest.raises(InvalidState):
                await calling
            assert is_empty(client)
            with pytest.raises(InvalidState, match="closed"):
                await client.connect(slow)

    play(story)


def test_an_address_that_is_not_ours() -> None:
    async def story() -> None:
        async def signal(offer: str) -> str:
            raise AssertionError("no offer without an address")

        with pytest.raises(UsageError, match=r"203\.0\.113\.200"):
            await connect(signal, config=ClientConfig(host="203.0.113.200"))

    play(story)


def test_no_usable_address_at_all(monkeypatch: pytest.MonkeyPatch) -> None:
    async def story() -> None:
        async def signal(offer: str) -> str:
            raise AssertionError("no offer without an address")

        monkeypatch.setattr("warp.io.client.expand_host", lambda host, *, loopback: [])
        with pytest.raises(UsageError, match="no usable address"):
            await connect(signal)

    play(story)


# -- many calls on one client ------------------------------------------------------------------


def test_calls_of_one_client_share_timers_and_clock_but_no_socket() -> None:
    async def story() -> None:
        async with await listen(HOST) as server, Client(LOCAL) as client:
            calls = [await client.connect(signal_to(server)) for _ in range(4)]
            await asyncio.gather(*(one.connected(5) for one in calls))
            remotes = server.sessions
            assert client.sessions == calls
            assert len({one.stats()["flow"].local for one in calls}) == 4
            assert {one.driver for one in calls} == {client._driver}
            assert len({one.audio_out._phase for one in calls}) == 4
            await calls[0].close()
            assert client.sessions == calls[1:]
            assert len(client._driver.ports) == 3
            calls[1].audio_out.send(OPUS)
            assert (await anext(remotes[1].audio_in)).payload == OPUS

    play(story)


def test_a_call_may_have_a_configuration_of_its_own() -> None:
    async def story() -> None:
        async with await listen(HOST) as server, Client(LOCAL) as client:
            plain = await client.connect(
                signal_to(server), config=ClientConfig(host=HOST, audio=False)
            )
            assert "m=audio" not in plain.answer and "m=application" in plain.answer
            voice = await client.connect(
                signal_to(server), config=ClientConfig(host=HOST, data=False)
            )
            assert "m=audio" in voice.answer and "m=application" not in voice.answer
            await asyncio.gather(plain.connected(5), voice.connected(5))

    play(story)


def test_one_call_takes_its_client_with_it() -> None:
    async def story() -> None:
        async with await listen(HOST) as server:
            session = await connect(signal_to(server), config=LOCAL)
            await session.connected(5)
            driver = session.driver
            [remote] = server.sessions
            await remote.close()
            await session.closed
            assert driver.ports == {} and driver._heap == []
            await session.close()

    play(story)


# -- what is found beside the first check ------------------------------------------------------


def with_servers(
    *, stun: list[StunServer] | None = None, turn: list[Address] | None = None, **options: Any
) -> ClientConfig:
    return ClientConfig(
        host=HOST,
        stun_servers=tuple(f"{HOST}:{one.address[1]}" for one in stun or []),
        turn_servers=tuple(f"turn:ann:secret@{HOST}:{port}" for _, port in turn or []),
        **options,
    )


def kinds(sdp: str) -> list[str]:
    lines = [line for line in sdp.splitlines() if line.startswith("a=candidate:")]
    return [parse_candidate(line).type.value for line in dict.fromkeys(lines)]


@asynccontextmanager
async def gathering_call(
    config: ClientConfig, server: ServerConfig | None = None, trace: MemoryTrace | None = None
) -> AsyncIterator[tuple[Session, Session, str]]:
    """Yield both ends of a call and its offer."""
    offers: list[str] = []
    async with await listen(HOST, config=server) as made:

        async def signal(offer: str) -> str:
            offers.append(offer)
            return made.accept_offer(offer).answer

        async with Client(config, trace=trace) as client:
            session = await client.connect(signal)
            [remote] = made.sessions
            yield session, remote, offers[0]
            await asyncio.wait_for(client.close(), 1)
            assert is_empty(client)


def test_a_reflexive_candidate_is_trickled_and_delays_nothing() -> None:
    async def story() -> None:
        trace = MemoryTrace()
        async with (
            stun_server(MAPPED, drop=1) as stun,
            gathering_call(with_servers(stun=[stun]), trace=trace) as (session, remote, offer),
        ):
            assert kinds(offer) == ["host"]
            await session.connected(5)
            # the first answer was dropped: we are connected before the address is known
            assert len(stun.requests) <= 1
            await shifted().pass_time(0.6, step=0.1)
            lines = session.local_candidates()
            found = parse_candidate(await asyncio.wait_for(anext(lines), 5))
            assert found.type is CandidateType.SERVER_REFLEXIVE
            assert found.address == MAPPED
            assert found.related_address == stun.requests[-1]
            with pytest.raises(StopAsyncIteration):
                await anext(lines)
            # the peer may be told, the answer knows no use for it
            remote.add_remote_candidate(str(found))
            remote.add_remote_candidate(None)
            remote.add_remote_candidate("")

    play(story)


def test_what_is_known_when_the_offer_is_made_again_stands_in_it() -> None:
    async def story() -> None:
        async with (
            stun_server(MAPPED) as stun,
            gathering_call(with_servers(stun=[stun])) as (session, remote, _),
        ):
            await session.connected(5)
            [_] = [line async for line in session.local_candidates()]
            offers: list[str] = []

            async def signal(offer: str) -> str:
                offers.append(offer)
                return remote.accept_offer(offer)

            await session.renegotiate(signal)
            assert kinds(offers[0]) == ["host", "srflx"]

    play(story)


def test_without_servers_nothing_more_comes() -> None:
    async def story() -> None:
        async with gathering_call(LOCAL) as (session, remote, _):
            assert [line async for line in session.local_candidates()] == []
            assert [line async for line in remote.local_candidates()] == []

    play(story)


def test_servers_that_are_silent_are_given_up() -> None:
    async def story() -> None:
        async with stun_server(drop=99) as stun, open_turn_server() as turn:
            turn.silent = True
            config = with_servers(stun=[stun], turn=[turn.address], gather_timeout_s=2.0)
            async with gathering_call(config) as (session, _, _):
                await session.connected(5)
                await shifted().pass_time(2.5, step=0.5)
                assert [line async for line in session.local_candidates()] == []

    play(story)


def test_closing_does_not_wait_for_servers() -> None:
    async def story() -> None:
        async with stun_server(drop=99) as stun, open_turn_server() as turn:
            turn.silent = True
            config = with_servers(stun=[stun], turn=[turn.address])
            async with gathering_call(config) as (session, _, _):
                await session.connected(5)
                await asyncio.wait_for(session.close(), 0.5)

    play(story)


def test_a_call_through_a_relay() -> None:
    """The server hears only the relay: the direct way is shut."""

    async def story() -> None:
        async with open_turn_server() as turn:
            config = with_servers(turn=[turn.address])
            async with gathering_call(config) as (session, remote, _):
                [direct] = [p for p in session.driver.ports.values()]
                direct.sock.close()
                line = await asyncio.wait_for(anext(session.local_candidates()), 5)
                relayed = parse_candidate(line)
                assert relayed.type is CandidateType.RELAYED
                await session.connected(10)
                await remote.connected(10)
                flow = remote.stats()["flow"]
                assert flow.remote == relayed.address
                assert session.stats()["flow"].local == relayed.address
                channel = session.channel("x", negotiated=True, stream_id=0)
                other = remote.channel("x", negotiated=True, stream_id=0)
                session.audio_out.send(OPUS)
                assert (await anext(remote.audio_in)).payload == OPUS
                await channel.opened()
                channel.send(bytes(100_000))
                assert len(await anext(other)) == 100_000
                assert len(turn.allocations) == 1
                await session.close()
                # given back, and the goodbye went through it
                assert turn.allocations == {}
                assert await asyncio.wait_for(ended(remote), 1) is None

    play(story)


async def ended(session: Session) -> Any:
    return await session.closed


def test_a_relay_that_is_lost_takes_its_port_along() -> None:
    async def story() -> None:
        async with open_turn_server() as turn:
            port = turn.tcp_address[1]
            config = ClientConfig(
                host=HOST, turn_servers=(f"turn:ann:secret@{HOST}:{port}?transport=tcp",)
            )
            async with gathering_call(config) as (session, _, _):
                await session.connected(5)
                [line] = [line async for line in session.local_candidates()]
                relayed = parse_candidate(line).address
                assert relayed in session.driver.ports
                for writer in turn.writers:
                    writer.close()
                while relayed in session.driver.ports:
                    await asyncio.sleep(0)
                session.audio_out.send(OPUS)

    play(story)


def test_a_relay_server_that_falls_silent_holds_a_close_up_for_a_second_at_most() -> None:
    async def story() -> None:
        async with (
            open_turn_server() as turn,
            gathering_call(with_servers(turn=[turn.address])) as (session, _, _),
        ):
            await session.connected(5)
            [_] = [line async for line in session.local_candidates()]
            turn.silent = True
            closing = asyncio.ensure_future(session.close())
            await turns()
            assert not closing.done()
            await shifted().pass_time(1.1, step=0.1)
            await turns(20)
            assert closing.done()

    play(story)


# -- names -------------------------------------------------------------------------------------


class Multicast:
    """Stands for aioice's mDNS socket: knows one name."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.closed = 0

    async def open(self) -> Any:
        return self

    async def resolve(self, hostname: str, timeout: float) -> str | None:
        self.asked.append(hostname)
        return HOST if hostname == NAME else None

    async def close(self) -> None:
        self.closed += 1


@pytest.fixture
def multicast(monkeypatch: pytest.MonkeyPatch) -> Multicast:
    made = Multicast()
    monkeypatch.setattr(trickle, "MdnsResolver", lambda: MdnsResolver(made.open, attempts=1))
    return made


def hide(sdp: str) -> str:
    """Do to an answer what a browser does: a name in place of the address."""
    lines = sdp.splitlines()
    hidden = [f" {NAME} ".join(line.split(f" {HOST} ", 1)) if "candidate:" in line else line
              for line in lines]  # fmt: skip
    return "\r\n".join(hidden) + "\r\n"


def test_a_name_in_an_answer_is_looked_up(multicast: Multicast) -> None:
    async def story() -> None:
        async with await listen(HOST) as server, Client(LOCAL) as client:

            async def signal(offer: str) -> str:
                return hide(server.accept_offer(offer).answer)

            session = await client.connect(signal)
            assert NAME in session.answer
            await session.connected(5)
            await session.close()
            assert set(multicast.asked) == {NAME}
            assert multicast.closed == 1

    play(story)


def test_a_name_that_is_trickled_is_looked_up(multicast: Multicast) -> None:
    async def story() -> None:
        async with await listen(HOST) as server, Client(LOCAL) as client:

            async def signal(offer: str) -> str:
                answer = server.accept_offer(offer).answer
                keep = [line for line in answer.splitlines() if "candidate" not in line]
                return "\r\n".join(keep) + "\r\n"

            session = await client.connect(signal)
            line = f"candidate:1 1 udp 2122260223 {NAME} {server.port} typ host"
            session.add_remote_candidate(line)
            await session.connected(5)
            assert multicast.asked == [NAME]

    play(story)


def test_only_so_many_names_are_looked_up(multicast: Multicast) -> None:
    async def story() -> None:
        async with gathering_call(LOCAL) as (session, remote, _):
            for number in range(50):
                line = f"candidate:1 1 udp 1 host-{number}.local 9 typ host"
                session.add_remote_candidate(line)
                remote.add_remote_candidate(line)  # lite: of no use to it
            await turns(20)
            assert len(multicast.asked) == trickle.MAX_NAMES

    play(story)


def test_a_candidate_that_is_none_is_said_plainly() -> None:
    async def story() -> None:
        async with gathering_call(LOCAL) as (session, _, _):
            with pytest.raises(InvalidConfig, match="missing"):
                session.add_remote_candidate("candidate:nonsense")

    play(story)
