"""What `warp.io` itself reads: answers of STUN servers, datagrams to route, servers as text."""

from __future__ import annotations

from hypothesis import example, given
from hypothesis import strategies as st

from tests.fuzz.mutation import Script, mutate
from tests.unit.io.support import FakeLoop, FakeSocket, StubSession
from tests.vectors import rfc5769
from warp.contract import Flow
from warp.entropy import SeededEntropy
from warp.errors import InvalidConfig
from warp.io.driver import Driver
from warp.io.gathering import parse_stun_server, parse_turn_server
from warp.io.reflexive import ServerReflexiveProbe
from warp.stun import TransactionConfig, build_message

LOCAL = ("192.0.2.1", 4000)
SERVER = ("198.51.100.7", 3478)


def fuzz_reflexive(data: bytes) -> None:
    """A damaged answer under the right transaction id: one event at most, then silence."""
    script = Script(data)
    probe = ServerReflexiveProbe(Flow(LOCAL, SERVER), SeededEntropy(1), TransactionConfig())
    probe.start(0.0)
    probe.datagrams_to_send(0.0)
    for sample in (rfc5769.RESPONSE_IPV4, rfc5769.RESPONSE_IPV6):
        answer = sample[:8] + probe.transaction_id + sample[20:]
        probe.receive_datagram(mutate(answer, script), Flow(LOCAL, SERVER), 0.1)
    bare = build_message(1, 0x100, probe.transaction_id, [(0x20, data)], integrity_key=None)
    probe.receive_datagram(bare, Flow(LOCAL, SERVER), 0.2)
    assert len(probe.events()) <= 1
    while (deadline := probe.get_timer()) is not None:
        probe.handle_timer(deadline)
        probe.datagrams_to_send(deadline)


def fuzz_port(data: bytes) -> None:
    """Each piece is a datagram from an address of its own: none of them is remembered."""
    loop = FakeLoop()
    driver = Driver(loop)
    raw = FakeSocket(LOCAL)
    port = driver.add_port(raw)
    session = StubSession()
    port.by_ufrag = {"one": session}
    script = Script(data)
    arrivals = 0
    while script:
        arrivals += 1
        raw.arrived.append((script.take(64), (f"198.51.100.{arrivals & 255}", arrivals)))
    while raw.arrived:
        loop.readers[raw.number]()
    assert port.routes == 0
    assert port.unroutable + len(session.peer.received) == arrivals


def fuzz_server_text(data: bytes) -> None:
    """Host and port, or `InvalidConfig` that does not tell the password."""
    text = data.decode("utf-8", "replace")
    for parse in (parse_stun_server, parse_turn_server):
        try:
            parse(text)
        except InvalidConfig as error:
            assert "secret" not in str(error)


@given(st.binary(max_size=100))
def test_reflexive(data: bytes) -> None:
    fuzz_reflexive(data)


@given(st.binary(max_size=300))
def test_port(data: bytes) -> None:
    fuzz_port(data)


@given(st.text(max_size=60))
@example("turn:user:secret@host:" + "1" * 5000)
@example("stun:host:٣")
@example("turn:user:secret@[::1:9")
@example("turn:user:secret@host?transport=sctp")
def test_server_text(text: str) -> None:
    fuzz_server_text(text.encode("utf-8", "surrogatepass"))
