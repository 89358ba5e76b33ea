from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable

import pytest

from tests.unit.io.servers import LOOPBACK, ProbedEndpoint, stun_server, turn_server, udp
from warp.contract import Address
from warp.entropy import SeededEntropy
from warp.errors import InvalidConfig
from warp.ice import Candidate, CandidateType
from warp.io import gathering
from warp.io.gathering import (
    GatherConfig,
    gather_reflexive,
    gather_relays,
    parse_stun_server,
    parse_turn_server,
)
from warp.io.relay import TurnServer
from warp.stun import TransactionConfig
from warp.trace import MemoryTrace

MAPPED = ("203.0.113.7", 61000)
FAST = TransactionConfig(initial_rto_s=0.01, request_count=2, final_wait_rtos=2)


def with_port(story: Callable[[ProbedEndpoint], Awaitable[None]]) -> None:
    async def run() -> None:
        async with udp(ProbedEndpoint) as port:
            await asyncio.wait_for(story(port), 5)
            assert not port.probes

    asyncio.run(run())


def start(port: ProbedEndpoint, *servers: Address) -> AsyncGenerator[Candidate, None]:
    config = GatherConfig(stun_servers=servers, transaction=FAST)
    return gather_reflexive(port, config, entropy=SeededEntropy(1))


def test_what_the_server_sees_of_the_sessions_own_socket() -> None:
    async def story(port: ProbedEndpoint) -> None:
        async with stun_server(MAPPED) as server:
            found = [candidate async for candidate in start(port, server.address)]
            assert server.requests == [port.local]
        [candidate] = found
        assert candidate.type is CandidateType.SERVER_REFLEXIVE
        assert candidate.address == MAPPED
        assert candidate.related_address == port.local

    with_port(story)


def test_redundant_addresses_are_left_out() -> None:
    """RFC 8445 section 5.1.3: no NAT, or two servers that see the same."""

    async def story(port: ProbedEndpoint) -> None:
        async with stun_server() as plain, stun_server(MAPPED) as one, stun_server(MAPPED) as two:
            servers = (plain.address, one.address, two.address)
            found = [candidate async for candidate in start(port, *servers)]
        assert [candidate.address for candidate in found] == [MAPPED]

    with_port(story)


def test_a_silent_server_delays_no_other() -> None:
    async def story(port: ProbedEndpoint) -> None:
        async with stun_server(drop=99) as silent, stun_server(MAPPED) as server:
            found = start(port, silent.address, server.address)
            addresses = [candidate.address async for candidate in found]
        assert addresses == [MAPPED]

    with_port(story)


def test_stopping_early_leaves_nothing_behind() -> None:
    async def story(port: ProbedEndpoint) -> None:
        async with stun_server(drop=99) as silent, stun_server(MAPPED) as server:
            found = start(port, silent.address, server.address)
            assert (await anext(found)).address == MAPPED
            assert port.probes
            await found.aclose()
            assert not port.probes

    with_port(story)


def test_relays_come_as_they_open() -> None:
    async def run() -> None:
        async with turn_server() as good, turn_server(password="other") as bad:
            servers = tuple(
                TurnServer(host=LOOPBACK, port=s.address[1], username="ann", password="secret")
                for s in (good, bad)
            )
            trace = MemoryTrace()
            config = GatherConfig(turn_servers=servers)
            relays = [relay async for relay in gather_relays(config, trace=trace)]
            assert [relay.candidate.type for relay in relays] == [CandidateType.RELAYED]
            [(_, failure)] = trace.named("io:server_failed")
            assert "secret" not in str(failure)
            relays[0].close()
            await relays[0].wait_closed()

    asyncio.run(asyncio.wait_for(run(), 5))


def test_a_silent_relay_server_is_given_up() -> None:
    async def run() -> None:
        async with turn_server() as server:
            server.silent = True
            before = asyncio.all_tasks()
            config = GatherConfig(
                turn_servers=(
                    TurnServer(
                        host=LOOPBACK, port=server.address[1], username="ann", password="secret"
                    ),
                ),
                timeout_s=0.02,
            )
            assert [relay async for relay in gather_relays(config)] == []
            assert asyncio.all_tasks() == before

    asyncio.run(asyncio.wait_for(run(), 5))


def test_results_that_nobody_took_are_released() -> None:
    async def run() -> None:
        async def ready(name: str) -> str:
            return name

        async def never(name: str) -> str:
            await asyncio.Event().wait()
            return name

        async def broken(name: str) -> str:
            await asyncio.Event().wait()
            raise OSError(name)

        released: list[str] = []

        async def release(name: str) -> None:
            released.append(name)

        work = [ready("a"), ready("b"), ready("c"), never("d"), broken("e")]
        results = gathering._as_finished(work, 5.0, release)
        taken = await anext(results)
        await results.aclose()
        assert sorted([taken, *released]) == ["a", "b", "c"]

    asyncio.run(asyncio.wait_for(run(), 5))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("stun.example.org", ("stun.example.org", 3478)),
        ("stun:stun.example.org:19302", ("stun.example.org", 19302)),
        ("[2001:db8::1]:3479", ("2001:db8::1", 3479)),
        ("[2001:db8::1]", ("2001:db8::1", 3478)),
        ("2001:db8::1", ("2001:db8::1", 3478)),
    ],
)
def test_stun_server_texts(text: str, expected: Address) -> None:
    assert parse_stun_server(text) == expected


@pytest.mark.parametrize("text", ["", "stun:", ":3478", "a:0", "a:65536", "a:x", "a:-1", "[::1]x"])
def test_bad_stun_server_texts(text: str) -> None:
    with pytest.raises(InvalidConfig):
        parse_stun_server(text)


def test_turn_server_texts() -> None:
    server = parse_turn_server("turn:ann:p:w@d@turn.example.org?transport=tcp")
    assert (server.host, server.port, server.transport) == ("turn.example.org", 3478, "tcp")
    assert (server.username, server.password) == ("ann", "p:w@d")
    server = parse_turn_server("turns:ann:pw@[2001:db8::1]")
    assert (server.host, server.port, server.transport) == ("2001:db8::1", 5349, "tls")
    assert parse_turn_server("ann:pw@host:1").transport == "udp"


@pytest.mark.parametrize(
    "text", ["turn:host:1", "turn:ann@host", "turn:ann:@host", "turn::pw@host",
             "turn:ann:pw@host?transport=sctp", "turn:ann:pw@:1"]
)  # fmt: skip
def test_bad_turn_server_texts_never_show_the_password(text: str) -> None:
    with pytest.raises(InvalidConfig) as caught:
        parse_turn_server(text)
    assert "pw" not in str(caught.value)
