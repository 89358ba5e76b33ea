"""ICE against any text and any bytes: a value or a refusal, never anything else."""

from __future__ import annotations

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from tests.unit.ice.helpers import FLOW, START, Diary, HandPeer, connected_agent, make_agent
from warp.contract import Flow
from warp.crypto import HmacSha1
from warp.entropy import SeededEntropy
from warp.errors import InvalidConfig
from warp.ice import (
    Candidate,
    CandidateError,
    IceConfig,
    IceCredentials,
    IceRole,
    parse_candidate,
)
from warp.stun import BINDING, MessageClass, build_message

LINE = (
    "candidate:842163049 1 udp 1677729535 203.0.113.77 50000 typ srflx"
    " raddr 192.168.1.17 rport 54321 generation 0 ufrag abcd"
)
MAX_DATAGRAMS_AN_INPUT = 8


def fuzz_candidate(data: bytes) -> None:
    """Any text: a candidate that survives its own spelling, or `CandidateError`."""
    text = data.decode("utf-8", errors="replace")
    try:
        candidate = parse_candidate(text)
    except CandidateError:
        return
    assert isinstance(candidate, Candidate)
    assert parse_candidate(str(candidate)) == candidate
    assert len(str(candidate)) < 2048


def fuzz_credentials(data: bytes) -> None:
    """Any text: credentials or `InvalidConfig`."""
    ufrag, _, pwd = data.decode("latin-1").partition(" ")
    try:
        credentials = IceCredentials(ufrag, pwd)
    except InvalidConfig:
        return
    assert credentials.ufrag.isascii()


def _feed(data: bytes, *, lite: bool) -> None:
    agent = make_agent(lite=lite, rider=Diary())
    agent.start(START)
    before = agent.flow
    agent.receive_datagram(data, FLOW, START)
    assert len(agent.datagrams_to_send(START)) <= MAX_DATAGRAMS_AN_INPUT
    # nobody without the password gets an answer or leaves a mark
    assert agent.flow == before
    deadline = agent.get_timer()
    agent.handle_timer(START)
    assert agent.get_timer() == deadline


def fuzz_agent_datagram(data: bytes) -> None:
    """Any datagram at the agent's door: nothing raised, nothing answered."""
    _feed(data, lite=True)
    _feed(data, lite=False)


def fuzz_authenticated_request(data: bytes) -> None:
    """Attributes of any kind inside a request with the right password."""
    agent, peer, now = connected_agent(rider=Diary())
    agent.receive_datagram(_signed(peer, data, MessageClass.REQUEST, b"r" * 12), FLOW, now)
    outgoing = agent.datagrams_to_send(now)
    assert 1 <= len(outgoing) <= MAX_DATAGRAMS_AN_INPUT
    assert outgoing[0][0][8:20] == b"r" * 12


def fuzz_authenticated_answer(data: bytes) -> None:
    """Attributes of any kind inside an answer to an open check."""
    for kind in (MessageClass.SUCCESS, MessageClass.ERROR):
        agent, peer, now = connected_agent(rider=Diary())
        agent.request_check(now)
        ((check, _),) = peer.checks(now)
        answer = _signed(peer, data, kind, check.transaction_id)
        agent.receive_datagram(answer, FLOW, now + 0.1)
        assert len(agent.datagrams_to_send(now + 0.1)) <= MAX_DATAGRAMS_AN_INPUT


def _signed(peer: HandPeer, data: bytes, kind: MessageClass, transaction_id: bytes) -> bytes:
    """Cut `data` into attributes: two bytes type, one byte length, value."""
    local = peer.agent.local_credentials
    attributes: list[tuple[int, bytes]] = []
    while len(data) > 2 and len(attributes) < 40:
        size = data[2]
        attributes.append((int.from_bytes(data[:2], "big"), data[3 : 3 + size]))
        data = data[3 + size :]
    # integrity attributes of its own would end what is covered
    attributes = [(k, v) for k, v in attributes if k not in (0x0008, 0x001C, 0x8028)]
    password = peer.own.pwd
    if kind is MessageClass.REQUEST:
        password = local.pwd
        attributes.insert(0, (0x0006, f"{local.ufrag}:{peer.own.ufrag}".encode()))
    key = HmacSha1(password.encode())
    return build_message(BINDING, kind, transaction_id, attributes, integrity_key=key)


@given(st.text(max_size=300))
@example(LINE)
@example("candidate:1 1 udp 1 ::1%x 1 typ host")
@example("candidate:1 1 udp 1 ::ffff:1.2.3.4 1 typ host raddr :: rport 0")
@settings(max_examples=300, deadline=None)
def test_candidate(text: str) -> None:
    fuzz_candidate(text.encode("utf-8", errors="surrogatepass"))


@given(
    st.lists(st.sampled_from([*LINE.split(), "", "a=", "٣", "-1", "::", "x" * 300]), max_size=24)
)
@settings(max_examples=300, deadline=None)
def test_candidate_from_its_own_words(words: list[str]) -> None:
    fuzz_candidate(" ".join(words).encode())


@given(st.binary(max_size=300))
@settings(max_examples=200, deadline=None)
def test_credentials(data: bytes) -> None:
    fuzz_credentials(data)


@given(st.binary(max_size=300))
@settings(max_examples=200, deadline=None)
def test_agent_datagram(data: bytes) -> None:
    fuzz_agent_datagram(data)
    fuzz_agent_datagram(b"\x00\x01" + len(data).to_bytes(2, "big") + b"\x21\x12\xa4\x42" + data)


@given(st.integers(0, 10_000), st.integers(0, 255), st.integers(0, 200))
@settings(max_examples=200, deadline=None)
def test_a_damaged_request(position: int, value: int, cut: int) -> None:
    agent = make_agent(lite=True)
    data = bytearray(HandPeer(agent).request(use_candidate=True, role=IceRole.CONTROLLING))
    original = bytes(data)
    # FINGERPRINT stands behind what is signed: without it a message is as good
    data[position % (len(data) - 8)] = value
    damaged = bytes(data[: len(data) - cut % 40])
    if damaged != original:
        fuzz_agent_datagram(damaged)


_ATTRIBUTES = st.lists(
    st.tuples(
        st.sampled_from(
            (0x0001, 0x0006, 0x0009, 0x000A, 0x0020, 0x0024, 0x0025, 0x8029, 0x802A, 0xC057, 0xC070)
        )
        | st.integers(0, 0xFFFF),
        st.binary(max_size=24),
    ),
    max_size=12,
).map(lambda pairs: b"".join(k.to_bytes(2, "big") + bytes([len(v)]) + v for k, v in pairs))


@pytest.mark.slow
@given(_ATTRIBUTES)
@settings(max_examples=200, deadline=None)
def test_authenticated_request(data: bytes) -> None:
    fuzz_authenticated_request(data)


@pytest.mark.slow
@given(_ATTRIBUTES)
@settings(max_examples=200, deadline=None)
def test_authenticated_answer(data: bytes) -> None:
    fuzz_authenticated_answer(data)


def test_a_flow_with_an_ipv6_remote_is_answered() -> None:
    agent = make_agent(lite=True)
    flow = Flow(("2001:db8::1", 1), ("2001:db8::2", 2))
    assert len(HandPeer(agent, flow).ask(START, role=IceRole.CONTROLLING)) == 1


def test_generated_credentials_are_always_legal() -> None:
    for seed in range(200):
        IceCredentials.generate(SeededEntropy(seed), ufrag_characters=4)
    assert IceConfig().max_pairs == 100
