from __future__ import annotations

import asyncio

import pytest

from tests.unit.io.servers import LOOPBACK, ProbedEndpoint, stun_server, udp
from warp.contract import Address, Flow
from warp.entropy import SeededEntropy
from warp.ice import Candidate, CandidateType
from warp.io.reflexive import (
    AddressDiscovered,
    DiscoveryFailed,
    ProbeTable,
    ServerReflexiveProbe,
    discover,
)
from warp.stun import (
    BINDING,
    Attribute,
    MessageClass,
    TransactionConfig,
    TransactionState,
    build_message,
    encode_error_code,
    encode_xor_address,
    parse_message,
)
from warp.trace import MemoryTrace

FLOW = Flow(("192.0.2.10", 5000), ("198.51.100.1", 3478))
MAPPED = ("203.0.113.7", 61000)


def make() -> ServerReflexiveProbe:
    return ServerReflexiveProbe(FLOW, SeededEntropy(1), TransactionConfig())


def answer(
    probe: ServerReflexiveProbe,
    kind: MessageClass = MessageClass.SUCCESS,
    attributes: list[tuple[int, bytes]] | None = None,
    transaction_id: bytes | None = None,
) -> bytes:
    transaction_id = transaction_id or probe.transaction_id
    if attributes is None:
        value = encode_xor_address(MAPPED, transaction_id)
        attributes = [(int(Attribute.XOR_MAPPED_ADDRESS), value)]
    return build_message(BINDING, kind, transaction_id, attributes, integrity_key=None)


def test_a_request_and_its_answer() -> None:
    probe = make()
    assert probe.datagrams_to_send(0.0) == []
    probe.start(10.0)
    [(request, flow)] = probe.datagrams_to_send(10.0)
    assert flow == FLOW
    message = parse_message(request)
    assert message.message_class is MessageClass.REQUEST and message.attributes == []
    assert probe.get_timer() == 10.5
    probe.receive_datagram(answer(probe), FLOW, 10.25)
    assert probe.events() == [AddressDiscovered(FLOW, MAPPED, 0.25)]
    assert probe.events() == []
    assert probe.get_timer() is None


def test_a_lost_request_is_repeated_unchanged() -> None:
    probe = make()
    probe.start(0.0)
    first = probe.datagrams_to_send(0.0)
    probe.handle_timer(0.5)
    assert probe.datagrams_to_send(0.5) == first
    probe.receive_datagram(answer(probe), FLOW, 0.6)
    assert probe.events() == [AddressDiscovered(FLOW, MAPPED, None)]


@pytest.mark.parametrize(
    "forge",
    [
        lambda probe: b"",
        lambda probe: b"\x16" + bytes(40),
        lambda probe: answer(probe)[:-1],
        lambda probe: answer(probe, transaction_id=bytes(12)),
        lambda probe: answer(probe, MessageClass.REQUEST),
        lambda probe: answer(probe, attributes=[]),
        lambda probe: answer(probe, attributes=[(0x20, b"\0\1\0\0abc")]),
    ],
)
def test_what_is_no_answer_is_discarded(forge: object) -> None:
    probe = make()
    probe.start(0.0)
    assert callable(forge)
    probe.receive_datagram(forge(probe), FLOW, 0.1)
    assert probe.discarded == 1
    assert probe.events() == []
    probe.receive_datagram(answer(probe), FLOW, 0.2)
    assert len(probe.events()) == 1


def test_an_answer_from_elsewhere_is_discarded() -> None:
    probe = make()
    probe.start(0.0)
    probe.receive_datagram(answer(probe), Flow(FLOW.local, ("198.51.100.9", 3478)), 0.1)
    assert probe.discarded == 1 and probe.events() == []


def test_a_refusal_and_silence_are_told_once() -> None:
    probe = make()
    probe.start(0.0)
    refusal = answer(probe, MessageClass.ERROR, [(9, encode_error_code(300, "Try Alternate"))])
    probe.receive_datagram(refusal, FLOW, 0.1)
    assert probe.events() == [DiscoveryFailed(FLOW, TransactionState.FAILED)]
    silent = make()
    silent.start(0.0)
    while (deadline := silent.get_timer()) is not None:
        silent.handle_timer(deadline)
    silent.handle_timer(1000.0)
    assert silent.events() == [DiscoveryFailed(FLOW, TransactionState.TIMED_OUT)]


def test_table_takes_only_what_it_waits_for() -> None:
    table = ProbeTable()
    seen: list[tuple[bytes, Address]] = []
    probe = make()
    assert not table
    assert not table.receive(answer(probe), FLOW.remote)
    table.add(probe.transaction_id, lambda data, remote: seen.append((data, remote)))
    assert table
    assert table.receive(answer(probe), FLOW.remote)
    assert not table.receive(answer(probe, transaction_id=bytes(12)), FLOW.remote)
    assert not table.receive(b"\x80" * 40, FLOW.remote)
    assert not table.receive(b"", FLOW.remote)
    assert seen == [(answer(probe), FLOW.remote)]
    table.remove(probe.transaction_id)
    table.remove(probe.transaction_id)
    assert not table


def run_discover(
    *, drop: int = 0, error: int = 0, requests: int = 7, server: Address | None = None
) -> tuple[Candidate | None, Address, list[Address], MemoryTrace]:
    async def run() -> tuple[Candidate | None, Address, list[Address], MemoryTrace]:
        trace = MemoryTrace()
        async with udp(ProbedEndpoint) as port, stun_server(MAPPED, drop=drop, error=error) as stun:
            config = TransactionConfig(
                initial_rto_s=0.01, request_count=requests, final_wait_rtos=2
            )
            found = await asyncio.wait_for(
                discover(port, port.local, server or stun.address, config, SeededEntropy(1), trace),
                5,
            )
            assert not port.probes and port.received.empty()
            return found, port.local, stun.requests, trace

    return asyncio.run(run())


def test_discovery_through_the_sessions_own_socket() -> None:
    found, local, requests, _ = run_discover()
    assert requests == [local]
    assert found is not None
    assert found.type is CandidateType.SERVER_REFLEXIVE
    assert found.address == MAPPED
    assert found.related_address == local


def test_discovery_survives_loss() -> None:
    found, local, requests, _ = run_discover(drop=2)
    assert len(requests) >= 3 and set(requests) == {local}
    assert found is not None


def test_discovery_gives_up() -> None:
    for found, *_, trace in (
        run_discover(error=500),
        run_discover(drop=99, requests=2),
        run_discover(server=("::1", 3478)),
    ):
        assert found is None
        [(_, data)] = trace.named("io:server_failed")
        assert LOOPBACK not in str(data)
