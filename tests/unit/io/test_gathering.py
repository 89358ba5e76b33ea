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
    gather,
    gather_relays,
    parse_stun_server,
    parse_turn_server,
)
from warp.io.reflexive import ProbeTable
from warp.io.relay import RelayTransport, TurnServer
from warp.stun import TransactionConfig
from warp.trace import MemoryTrace

MAPPED = ("203.0.113.7", 61000)
FAST = TransactionConfig(initial_rto_s=0.01, request_count=2, final_wait_rtos=2)


class FixedPort:
    """A socket that is never used: only its address counts."""

    def __init__(self, local: Address) -> None:
        self.local = local
        self.probes = ProbeTable()

    def send(self, data: bytes, remote: Address) -> None:
        raise AssertionError("nothing is to be sent")


def collect(config: GatherConfig, local: Address) -> list[Candidate]:
    async def run() -> list[Candidate]:
        found = gather(FixedPort(local), config, entropy=SeededEntropy(1))
        return [candidate async for candidate in found]

    return asyncio.run(run())


def test_a_bound_address_is_the_host_candidate() -> None:
    [candidate] = collect(GatherConfig(), ("192.0.2.10", 5000))
    assert candidate.type is CandidateType.HOST
    assert candidate.address == ("192.0.2.10", 5000)
    assert candidate.related_address is None


@pytest.mark.parametrize(
    ("local", "expected"),
    [("0.0.0.0", ["192.0.2.1", "192.0.2.2"]), ("::", ["2001:db8::1"])],
)
def test_a_wildcard_stands_for_every_address_of_its_family(
    local: str, expected: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def addresses(*, loopback: bool, ipv6: bool) -> list[str]:
        return ["192.0.2.1", "192.0.2.2", "2001:db8::1"]

    monkeypatch.setattr(gathering, "host_addresses", addresses)
    found = collect(GatherConfig(), (local, 5000))
    assert [candidate.host for candidate in found] == expected
    assert len({candidate.priority for candidate in found}) == len(found)
    assert [c.priority for c in found] == sorted((c.priority for c in found), reverse=True)


def test_no_address_of_the_family_gives_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    def addresses(*, loopback: bool, ipv6: bool) -> list[str]:
        return ["192.0.2.1"]

    monkeypatch.setattr(gathering, "host_addresses", addresses)
    assert collect(GatherConfig(stun_servers=(("192.0.2.9", 1),)), ("::", 5000)) == []


def with_port(story: Callable[[ProbedEndpoint], Awaitable[None]]) -> None:
    async def run() -> None:
        async with udp(ProbedEndpoint) as port:
            await asyncio.wait_for(story(port), 5)
            assert not port.probes

    asyncio.run(run())


def start(port: ProbedEndpoint, *servers: Address) -> AsyncGenerator[Candidate, None]:
    config = GatherConfig(stun_servers=servers, transaction=FAST)
    return gather(port, config, entropy=SeededEntropy(1))


def test_host_first_then_what_the_server_sees() -> None:
    async def story(port: ProbedEndpoint) -> None:
        async with stun_server(MAPPED) as server:
            found = [candidate async for candidate in start(port, server.address)]
            assert server.requests == [port.local]
        assert [candidate.type.value for candidate in found] == ["host", "srflx"]
        assert found[1].address == MAPPED
        assert found[1].related_address == port.local

    with_port(story)


def test_a_host_candidate_waits_for_no_server() -> None:
    async def story(port: ProbedEndpoint) -> None:
        async with stun_server(MAPPED) as server:
            found = start(port, server.address)
            candidate = await anext(found)
            assert candidate.type is CandidateType.HOST
            assert server.requests == []
            await found.aclose()

    with_port(story)


def test_redundant_addresses_are_left_out() -> None:
    """RFC 8445 section 5.1.3: no NAT, or two servers that see the same."""

    async def story(port: ProbedEndpoint) -> None:
        async with stun_server() as plain, stun_server(MAPPED) as one, stun_server(MAPPED) as two:
            servers = (plain.address, one.address, two.address)
            found = [candidate async for candidate in start(port, *servers)]
        assert [candidate.type.value for candidate in found] == ["host", "srflx"]

    with_port(story)


def test_a_silent_server_delays_no_other() -> None:
    async def story(port: ProbedEndpoint) -> None:
        async with stun_server(drop=99) as silent, stun_server(MAPPED) as server:
            found = start(port, silent.address, server.address)
            kinds = [candidate.type.value async for candidate in found]
        assert kinds == ["host", "srflx"]

    with_port(story)


def test_stopping_early_leaves_nothing_behind() -> None:
    async def story(port: ProbedEndpoint) -> None:
        async with stun_server(drop=99) as silent, stun_server(MAPPED) as server:
            found = start(port, silent.address, server.address)
            await anext(found)
            assert (await anext(found)).address == MAPPED
            assert port.probes
            await found.aclose()
            assert not port.probes

    with_port(story)


def ignore(relay: RelayTransport, data: bytes, remote: Address) -> None:
    return None


def test_relays_come_as_they_open() -> None:
    async def run() -> None:
        async with turn_server() as good, turn_server(password="other") as bad:
            servers = tuple(
                TurnServer(host=LOOPBACK, port=s.address[1], username="ann", password="secret")
                for s in (good, bad)
            )
            trace = MemoryTrace()
            config = GatherConfig(turn_servers=servers)
            relays = [relay async for relay in gather_relays(config, ignore, trace=trace)]
            assert [relay.candidate.type for relay in relays] == [CandidateType.RELAYED]
            [(_, failure)] = trace.named("io:server_failed")
            assert "secret" not in str(failure)
            await relays[0].close()

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
            assert [relay async for relay in gather_relays(config, ignore)] == []
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
