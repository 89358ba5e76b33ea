"""The agent's front door: authentication, conflicts, errors, what it discards."""

from __future__ import annotations

import tracemalloc

import pytest

from tests.unit.ice.helpers import (
    FLOW,
    LOCAL,
    OURS,
    REMOTE,
    START,
    THEIRS,
    HandPeer,
    connected_agent,
    error_code,
    has,
    host,
    make_agent,
    names,
    ready_agent,
)
from warp.contract import Endpoint, Flow
from warp.crypto import HmacSha1
from warp.entropy import SeededEntropy
from warp.errors import InvalidConfig
from warp.ice import (
    IceAgent,
    IceConfig,
    IceDiscard,
    IceRole,
    IceState,
    StateChanged,
)
from warp.ice.states import TRANSITIONS, Input
from warp.stun import (
    BINDING,
    Attribute,
    MessageClass,
    StunDiscard,
    build_message,
    decode_xor_address,
)
from warp.trace import MemoryTrace


def test_it_is_an_endpoint() -> None:
    assert isinstance(make_agent(), Endpoint)


# -- authentication first -------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"password": "not-the-password-at-all-"}, IceDiscard.WRONG_INTEGRITY),
        ({"integrity": False}, IceDiscard.WRONG_INTEGRITY),
        ({"username": "nobody:peer"}, IceDiscard.UNKNOWN_USERNAME),
        ({"username": "ourU:nobody"}, IceDiscard.UNKNOWN_USERNAME),
        ({"username": "ourU"}, IceDiscard.UNKNOWN_USERNAME),
        ({"username": ""}, IceDiscard.UNKNOWN_USERNAME),
    ],
)
@pytest.mark.parametrize("lite", [False, True])
def test_a_stranger_is_not_answered_and_changes_nothing(
    options: dict[str, object], reason: IceDiscard, lite: bool
) -> None:
    agent = make_agent(lite=lite)
    agent.set_remote_credentials(THEIRS, START)
    agent.start(START)
    agent.events()
    peer = HandPeer(agent)
    assert peer.ask(START, use_candidate=True, **options) == []
    assert agent.events() == []
    assert agent.flow is None
    assert agent.discards == {reason: 1}


def test_a_request_without_username_is_not_answered() -> None:
    agent = ready_agent()
    agent.datagrams_to_send(START)
    data = build_message(
        BINDING, MessageClass.REQUEST, b"x" * 12, [], integrity_key=HmacSha1(OURS.pwd.encode())
    )
    agent.receive_datagram(data, FLOW, START)
    assert agent.datagrams_to_send(START) == []
    assert agent.discards == {IceDiscard.NO_USERNAME: 1}


def test_a_flood_of_strangers_takes_no_memory() -> None:
    agent = make_agent(lite=True)
    peer = HandPeer(agent)
    data = peer.request(password="not-the-password-at-all-")
    flows = [Flow(LOCAL, ("203.0.113.1", port)) for port in range(2000)]
    agent.receive_datagram(data, flows[0], START)
    tracemalloc.start()
    before = tracemalloc.take_snapshot()
    for flow in flows:
        agent.receive_datagram(data, flow, START)
    growth = sum(s.size_diff for s in tracemalloc.take_snapshot().compare_to(before, "filename"))
    tracemalloc.stop()
    assert growth < 20_000
    assert agent.discards == {IceDiscard.WRONG_INTEGRITY: 2001}


def test_junk_is_counted_by_reason() -> None:
    agent = ready_agent()
    agent.receive_datagram(b"", FLOW, START)
    agent.receive_datagram(b"\x80" + bytes(40), FLOW, START)
    assert agent.discards == {StunDiscard.NOT_STUN: 2}


def test_another_method_is_discarded() -> None:
    agent = ready_agent()
    data = build_message(3, MessageClass.REQUEST, b"x" * 12, [], integrity_key=None)
    agent.receive_datagram(data, FLOW, START)
    assert agent.discards == {IceDiscard.NOT_BINDING: 1}


def test_an_indication_is_a_keepalive() -> None:
    agent = ready_agent()
    agent.datagrams_to_send(START)
    data = build_message(BINDING, MessageClass.INDICATION, b"x" * 12, [], integrity_key=None)
    agent.receive_datagram(data, FLOW, START)
    assert agent.datagrams_to_send(START) == []
    assert agent.discards == {}


# -- answers --------------------------------------------------------------------------------------


def test_the_response_tells_the_source_and_is_signed() -> None:
    peer = HandPeer(make_agent(lite=True))
    (response,) = peer.ask(START, role=IceRole.CONTROLLING)
    value = response.get(Attribute.XOR_MAPPED_ADDRESS)
    assert value is not None
    assert decode_xor_address(value, response.transaction_id) == REMOTE
    assert response.verify_integrity(HmacSha1(OURS.pwd.encode()))
    assert response.raw[-8:-4] == b"\x80\x28\x00\x04"


def test_a_repeated_request_gets_the_same_bytes() -> None:
    agent = make_agent(lite=True)
    peer = HandPeer(agent)
    data = peer.request(role=IceRole.CONTROLLING)
    agent.receive_datagram(data, FLOW, START)
    agent.receive_datagram(data, FLOW, START)
    first, second = agent.datagrams_to_send(START)
    assert first == second


def test_unknown_optional_attributes_are_ignored() -> None:
    peer = HandPeer(make_agent(lite=True))
    (response,) = peer.ask(
        START, role=IceRole.CONTROLLING, extra=[(0xC057, bytes(4)), (0x8022, b"x"), (0xFFFF, b"")]
    )
    assert response.message_class is MessageClass.SUCCESS


def test_an_unknown_required_attribute_is_refused_by_420() -> None:
    agent = make_agent(lite=True)
    peer = HandPeer(agent)
    (response,) = peer.ask(START, role=IceRole.CONTROLLING, extra=[(0x7FFE, b""), (0x0030, b"")])
    assert error_code(response) == 420
    assert response.get(Attribute.UNKNOWN_ATTRIBUTES) == b"\x7f\xfe\x00\x30"
    assert response.verify_integrity(HmacSha1(OURS.pwd.encode()))
    assert agent.flow is None


def test_an_unknown_required_attribute_of_a_stranger_is_not_even_refused() -> None:
    peer = HandPeer(make_agent(lite=True))
    assert peer.ask(START, extra=[(0x7FFE, b"")], password="not-the-password-at-all-") == []


def test_of_two_attributes_of_one_type_the_first_counts() -> None:
    peer = HandPeer(make_agent(lite=True))
    second = [(int(Attribute.USERNAME), b"nobody:peer")]
    (response,) = peer.ask(START, role=IceRole.CONTROLLING, extra=second)
    assert response.message_class is MessageClass.SUCCESS


# -- role conflicts -------------------------------------------------------------------------------


@pytest.mark.parametrize("role", list(IceRole))
def test_the_larger_tie_breaker_keeps_or_takes_control(role: IceRole) -> None:
    """RFC 8445 section 7.3.1.1: the peer claims the role that we have."""
    for tie_breaker, answer in ((0, "we win"), (2**64 - 1, "they win")):
        agent = ready_agent(role=role)
        response = HandPeer(agent).ask(START, role=role, tie_breaker=tie_breaker)[0]
        we_win = answer == "we win"
        assert agent.role is (IceRole.CONTROLLING if we_win else IceRole.CONTROLLED)
        refused = agent.role is role
        assert response.message_class is (MessageClass.ERROR if refused else MessageClass.SUCCESS)
        if refused:
            assert error_code(response) == 487


def test_no_conflict_when_the_peer_says_nothing() -> None:
    agent = ready_agent()
    response = HandPeer(agent).ask(START, role=None)[0]
    assert response.message_class is MessageClass.SUCCESS
    assert agent.role is IceRole.CONTROLLING


def test_487_makes_us_switch_and_repeat_the_check() -> None:
    agent = ready_agent()
    peer = HandPeer(agent)
    ((check, _),) = peer.checks(START)
    peer.answer(check, START + 0.1, error=487)
    assert agent.role is IceRole.CONTROLLED
    ((again, _),) = peer.checks(START + 0.1)
    assert has(again, Attribute.ICE_CONTROLLED)
    assert again.get(Attribute.ICE_CONTROLLED) != check.get(Attribute.ICE_CONTROLLING)
    assert again.transaction_id != check.transaction_id


def test_487_to_a_check_of_the_former_role_only_repeats_it() -> None:
    agent = ready_agent()
    peer = HandPeer(agent)
    ((first, _),) = peer.checks(START)
    ((second, _),) = peer.checks(START + 0.05)
    peer.answer(first, START + 0.1, error=487)
    peer.answer(second, START + 0.11, error=487)
    assert agent.role is IceRole.CONTROLLED


def test_a_nomination_under_way_is_dropped_with_the_role() -> None:
    agent = ready_agent()
    peer = HandPeer(agent)
    peer.answer_all(START, START + 0.1)
    ((marked, _),) = peer.checks(START + 0.1)
    assert has(marked, Attribute.USE_CANDIDATE)
    peer.answer(marked, START + 0.2, error=487)
    assert agent.role is IceRole.CONTROLLED
    for check, _ in peer.checks(START + 0.2):
        assert not has(check, Attribute.USE_CANDIDATE)
    assert agent.selected_flow is None


# -- states ---------------------------------------------------------------------------------------


def test_states_are_told_as_they_change() -> None:
    agent = make_agent(lite=True)
    agent.start(START)
    agent.start(START)
    HandPeer(agent).ask(START, role=IceRole.CONTROLLING, use_candidate=True)
    agent.close(START + 1)
    states = [e.state for e in agent.events() if isinstance(e, StateChanged)]
    assert states == [IceState.CHECKING, IceState.COMPLETED, IceState.CLOSED]


def test_closed_stays_closed() -> None:
    assert not [key for key in TRANSITIONS if key[0] is IceState.CLOSED]
    assert all(TRANSITIONS[s, Input.CLOSED] for s in IceState if s is not IceState.CLOSED)


def test_a_closed_agent_is_silent_whatever_comes() -> None:
    agent, peer, now = connected_agent()
    agent.close(now)
    agent.close(now)
    assert peer.ask(now) == []
    agent.start(now)
    agent.add_remote_candidate(host(("203.0.113.7", 7)), now)
    agent.add_local_candidate(host(("192.0.2.7", 7)), now)
    agent.set_remote_credentials(THEIRS, now)
    agent.end_of_candidates(now)
    agent.request_check(now)
    agent.remove_local_address("192.0.2.7", now)
    agent.handle_timer(now + 100)
    assert agent.get_timer() is None
    assert agent.datagrams_to_send(now + 100) == []
    assert agent.flow is None
    assert agent.state is IceState.CLOSED


def test_only_a_wrong_config_raises() -> None:
    for wrong in (
        {"check_interval_s": 0.001},
        {"consent_interval_s": 0.0},
        {"consent_interval_s": 31.0},
        {"max_pairs": 0},
        {"max_burst_checks": 0},
    ):
        with pytest.raises(InvalidConfig):
            make_agent(**wrong)


def test_two_runs_with_one_seed_send_the_same_bytes() -> None:
    first, second = (ready_agent(seed=9).datagrams_to_send(START) for _ in range(2))
    assert first == second
    assert first != ready_agent(seed=10).datagrams_to_send(START)


def test_the_trace_tells_the_story_without_addresses() -> None:
    trace = MemoryTrace()
    agent = ready_agent(trace=trace)
    peer = HandPeer(agent)
    peer.answer_all(START, START + 0.1)
    peer.answer_all(START + 0.1, START + 0.2)
    agent.receive_datagram(b"junk", FLOW, START + 0.2)
    told = [name for _, name, _ in trace.records]
    assert told == [
        "ice:state_changed",
        "ice:check_sent",
        "ice:pair_validated",
        "ice:nominating",
        "ice:state_changed",
        "ice:check_sent",
        "ice:pair_selected",
        "ice:state_changed",
        "ice:discarded",
    ]
    assert REMOTE[0] not in str(trace.records)
    assert OURS.pwd not in str(trace.records)


def test_an_idle_agent_is_small() -> None:
    """A session may take 60 KiB in all; ICE's part stays well below a tenth of it."""
    agents = [connected_agent()[0] for _ in range(3)]
    tracemalloc.start()
    before = tracemalloc.get_traced_memory()[0]
    agents += [connected_agent()[0] for _ in range(20)]
    grown = tracemalloc.get_traced_memory()[0] - before
    tracemalloc.stop()
    assert grown / 20 < 9_000


def test_events_and_datagrams_drain() -> None:
    agent = IceAgent(IceConfig(), role=IceRole.CONTROLLING, local=OURS, entropy=SeededEntropy(1))
    agent.start(START)
    assert names(agent.events()) == ["StateChanged"]
    assert agent.events() == []
