"""A full agent against a peer made by hand: checks, answers, triggers (RFC 8445 section 7)."""

from __future__ import annotations

import itertools

import pytest

from tests.unit.ice.helpers import (
    FLOW,
    LOCAL,
    PRIORITY,
    REMOTE,
    START,
    THEIRS,
    HandPeer,
    connected_agent,
    has,
    host,
    make_agent,
    names,
    ready_agent,
    run_timers,
)
from warp.contract import Flow
from warp.crypto import HmacSha1
from warp.errors import InvalidState, NoPath
from warp.ice import (
    CandidateType,
    FlowAuthenticated,
    IceDiscard,
    IceRole,
    IceState,
    PairSelected,
    PairValidated,
    RemoteCandidateLearned,
    Terminated,
    make_candidate,
    parse_candidate,
)
from warp.stun import Attribute, Message, MessageClass, parse_message

OTHER = ("203.0.113.2", 443)
REBOUND = Flow(LOCAL, ("203.0.113.1", 9999))


def only(found: list[tuple[Message, Flow]]) -> Message:
    assert len(found) == 1
    return found[0][0]


# -- the first check --------------------------------------------------------------------------


def test_the_first_check_leaves_with_the_first_drain() -> None:
    peer = HandPeer(ready_agent())
    assert len(peer.checks(START)) == 1


@pytest.mark.parametrize("last", ["start", "credentials", "remote", "local"])
def test_whatever_comes_last_releases_the_first_check(last: str) -> None:
    agent = make_agent()
    acts = {
        "local": lambda: agent.add_local_candidate(host(LOCAL), START),
        "credentials": lambda: agent.set_remote_credentials(THEIRS, START),
        "remote": lambda: agent.add_remote_candidate(host(REMOTE), START),
        "start": lambda: agent.start(START),
    }
    for name, act in acts.items():
        if name != last:
            act()
            assert agent.datagrams_to_send(START) == []
    acts[last]()
    deadline = agent.get_timer()
    assert deadline is not None and deadline <= START
    assert len(agent.datagrams_to_send(START)) == 1


def test_a_check_holds_what_it_must() -> None:
    check = only(HandPeer(ready_agent()).checks(START))
    assert check.get(Attribute.USERNAME) == b"peer:ourU"
    assert len(check.get(Attribute.ICE_CONTROLLING) or b"") == 8
    assert not has(check, Attribute.ICE_CONTROLLED)
    assert not has(check, Attribute.USE_CANDIDATE)
    priority = int.from_bytes(check.get(Attribute.PRIORITY) or b"", "big")
    assert priority == (110 << 24) | (host(LOCAL).priority & 0xFFFFFF)
    assert check.verify_integrity(HmacSha1(THEIRS.pwd.encode()))
    assert check.raw[-8:-4] == b"\x80\x28\x00\x04"  # FINGERPRINT is last


def test_a_controlled_agent_says_so_and_never_nominates() -> None:
    agent = ready_agent(role=IceRole.CONTROLLED)
    peer = HandPeer(agent)
    check = only(peer.checks(START))
    assert has(check, Attribute.ICE_CONTROLLED)
    peer.answer(check, START + 0.1)
    for message, _ in peer.checks(START + 0.1):
        assert not has(message, Attribute.USE_CANDIDATE)
    with pytest.raises(InvalidState):
        agent.nominate(FLOW, START + 1)


# -- pacing -----------------------------------------------------------------------------------


def test_one_ordinary_check_each_interval_in_order_of_priority() -> None:
    agent = ready_agent(REMOTE, OTHER, ("203.0.113.3", 443))
    sent = []
    moment = START
    while moment < START + 0.16:
        sent += [
            (round(moment - START, 3), f.remote[0][-1]) for _, f in HandPeer(agent).checks(moment)
        ]
        deadline = agent.get_timer()
        assert deadline is not None
        moment = deadline
    assert sent == [(0.0, "1"), (0.05, "2"), (0.1, "3"), (0.15, "1")]


def test_every_check_is_a_new_transaction() -> None:
    agent = ready_agent()
    peer = HandPeer(agent)
    seen = set()
    for step in range(10):
        seen.add(only(peer.checks(START + step * 0.05)).transaction_id)
    assert len(seen) == 10


def test_checks_are_steady_first_and_then_slow_down() -> None:
    agent = ready_agent(steady_checks=5, max_check_interval_s=0.4)
    moments = run_timers(agent, START + 3, HandPeer(agent))
    gaps = [round(b - a, 3) for a, b in itertools.pairwise(moments)]
    assert gaps[:8] == [0.05, 0.05, 0.05, 0.05, 0.1, 0.2, 0.4, 0.4]


def test_an_answer_to_an_earlier_check_counts() -> None:
    """At long round-trip times several checks are under way; any answer validates."""
    agent = ready_agent()
    peer = HandPeer(agent)
    first = only(peer.checks(START))
    for step in range(1, 4):
        peer.checks(START + step * 0.05)
    peer.answer(first, START + 0.17)
    (validated,) = [e for e in agent.events() if isinstance(e, PairValidated)]
    assert validated.flow == FLOW
    assert validated.rtt_s == pytest.approx(0.17)
    assert agent.rtt_s == pytest.approx(0.17)


# -- answers ----------------------------------------------------------------------------------


def test_an_answer_makes_the_pair_valid_and_usable() -> None:
    agent = ready_agent()
    peer = HandPeer(agent)
    assert agent.flow is None
    assert not agent.is_validated
    peer.answer(only(peer.checks(START)), START + 0.1)
    assert agent.flow == FLOW
    assert agent.is_validated
    assert agent.state is IceState.CONNECTED
    assert names(agent.events()) == ["PairValidated", "StateChanged"]


def test_a_forged_answer_changes_nothing() -> None:
    agent = ready_agent()
    peer = HandPeer(agent)
    check = only(peer.checks(START))
    peer.answer(check, START, password="not-the-password-at-all-")
    peer.answer(check, START, integrity=False)
    peer.answer(check, START, error=487, integrity=False)
    assert agent.flow is None
    assert agent.role is IceRole.CONTROLLING
    assert agent.discards == {IceDiscard.WRONG_INTEGRITY: 3}
    peer.answer(check, START + 0.1)
    assert agent.flow == FLOW


def test_an_answer_to_nothing_is_discarded() -> None:
    agent = ready_agent()
    peer = HandPeer(agent)
    check = only(peer.checks(START))
    peer.answer(check, START + 0.1)
    peer.answer(check, START + 0.1)
    assert agent.discards == {IceDiscard.UNKNOWN_TRANSACTION: 1}


def test_an_answer_on_another_flow_counts_for_nothing() -> None:
    """Anybody can repeat one from elsewhere: it neither validates the pair nor ends it."""
    agent = ready_agent()
    peer = HandPeer(agent)
    check = only(peer.checks(START))
    peer.answer(check, START + 0.1, flow=REBOUND)
    assert agent.flow is None
    assert agent.discards == {IceDiscard.ASYMMETRIC_ANSWER: 1}
    peer.answer(check, START + 0.1)
    assert agent.flow == FLOW


def test_an_answer_with_an_unknown_required_attribute_is_discarded() -> None:
    agent = ready_agent()
    peer = HandPeer(agent)
    peer.answer(only(peer.checks(START)), START, extra=[(0x7FFF, b"?")])
    assert agent.flow is None
    assert agent.discards == {IceDiscard.UNKNOWN_REQUIRED_ATTRIBUTE: 1}


def test_an_answer_with_an_unknown_optional_attribute_counts() -> None:
    agent = ready_agent()
    peer = HandPeer(agent)
    peer.answer(only(peer.checks(START)), START, extra=[(0xC057, b"????")])
    assert agent.flow == FLOW


def test_the_mapped_address_is_recorded() -> None:
    agent, _, _ = connected_agent()
    pair = agent._generations.current.paths.checklist.pairs[FLOW]
    assert pair.mapped_address == LOCAL


@pytest.mark.parametrize("code", [403, 486, 508])
def test_a_lasting_error_ends_the_pair(code: int) -> None:
    agent = ready_agent()
    peer = HandPeer(agent)
    peer.answer(only(peer.checks(START)), START + 0.01, error=code)
    assert run_timers(agent, START + 30, peer) == []


@pytest.mark.parametrize("code", [401, 420, 430, 500])
def test_a_passing_error_does_not(code: int) -> None:
    agent = ready_agent()
    peer = HandPeer(agent)
    peer.answer(only(peer.checks(START)), START + 0.01, error=code)
    peer.answer(only(peer.checks(START + 0.05)), START + 0.06)
    assert agent.flow == FLOW


# -- requests of the peer -----------------------------------------------------------------------


def test_a_request_is_answered_on_its_flow_and_checked_at_once() -> None:
    agent = ready_agent()
    peer = HandPeer(agent)
    peer.checks(START)
    response, check = peer.ask(START + 0.02)
    assert response.message_class is MessageClass.SUCCESS
    assert check.message_class is MessageClass.REQUEST
    assert agent.flow == FLOW  # usable before it is verified
    assert not agent.is_validated
    assert agent.state is IceState.CHECKING
    assert FlowAuthenticated(FLOW) in agent.events()


def test_repeated_requests_trigger_spaced_checks() -> None:
    agent = ready_agent()
    peer = HandPeer(agent)
    peer.checks(START)
    count = sum(len(peer.ask(START + 0.02)) for _ in range(20))
    assert count == 20 + 1


def test_a_request_from_an_unknown_address_teaches_a_candidate() -> None:
    agent = ready_agent()
    peer = HandPeer(agent, REBOUND)
    response, check = peer.ask(START)
    assert response.message_class is MessageClass.SUCCESS
    (learned,) = [e.candidate for e in agent.events() if isinstance(e, RemoteCandidateLearned)]
    assert learned.address == REBOUND.remote
    assert learned.type is CandidateType.PEER_REFLEXIVE
    assert learned.priority == PRIORITY
    peer.answer(check, START + 0.1)
    assert agent.flow == REBOUND


def test_a_request_without_priority_is_served() -> None:
    assert len(HandPeer(ready_agent(), REBOUND).ask(START, priority=None)) == 2


def test_requests_before_the_answer_are_served_and_checked_once_it_came() -> None:
    """An offerer is reached before it knows the peer (RFC 8445 section 7.3)."""
    agent = make_agent()
    agent.add_local_candidate(host(LOCAL), START)
    agent.start(START)
    peer = HandPeer(agent)
    (response,) = peer.ask(START)
    assert response.message_class is MessageClass.SUCCESS
    assert agent.flow == FLOW
    agent.set_remote_credentials(THEIRS, START + 1)
    peer.answer(only(peer.checks(START + 1)), START + 1.1)
    assert agent.is_validated


def test_early_requests_from_many_addresses_are_bounded() -> None:
    agent = make_agent(max_learned_candidates=4)
    agent.add_local_candidate(host(LOCAL), START)
    peer = HandPeer(agent)
    for port in range(1, 200):
        assert len(peer.ask(START, flow=Flow(LOCAL, ("203.0.113.1", port)))) == 1
    agent.set_remote_credentials(THEIRS, START)
    agent.start(START)
    assert len(peer.checks(START)) <= 4


def test_candidates_that_are_no_use_are_passed_over() -> None:
    agent = ready_agent()
    for line in (
        "candidate:1 1 tcp 1518280447 203.0.113.9 9 typ host tcptype active",
        "candidate:1 2 udp 1518280447 203.0.113.9 10 typ host",
        "candidate:1 1 udp 1518280447 abc.local 11 typ host",
        "candidate:1 1 udp 1518280447 2001:db8::9 12 typ host",
    ):
        agent.add_remote_candidate(parse_candidate(line), START)
    flows = {flow for _ in range(4) for _, flow in HandPeer(agent).checks(START + 1)}
    assert flows == {FLOW}


# -- trickle ----------------------------------------------------------------------------------


def test_trickled_candidates_are_checked_as_they_come() -> None:
    agent = ready_agent()
    peer = HandPeer(agent)
    peer.checks(START)
    agent.add_remote_candidate(host(OTHER), START + 1)
    assert OTHER in {flow.remote for _, flow in peer.checks(START + 1)}
    agent.add_local_candidate(host(("192.0.2.2", 1)), START + 2)
    locals_seen = {
        flow.local[0] for step in range(8) for _, flow in peer.checks(START + 2 + step * 0.05)
    }
    assert "192.0.2.2" in locals_seen


def test_a_repeated_candidate_does_nothing() -> None:
    agent, peer, now = connected_agent()
    agent.add_remote_candidate(host(REMOTE), now)
    agent.add_local_candidate(host(LOCAL), now)
    assert peer.checks(now + 0.01) == []


# -- failing ----------------------------------------------------------------------------------


def test_no_path_only_after_patience() -> None:
    agent = ready_agent()
    agent.end_of_candidates(START)
    run_timers(agent, START + 39.4)
    assert agent.state is IceState.CHECKING
    run_timers(agent, START + 60)
    assert agent.state is IceState.FAILED
    (end,) = [e for e in agent.events() if isinstance(e, Terminated)]
    assert isinstance(end.error, NoPath)
    assert agent.get_timer() is None
    assert agent.flow is None


def test_end_of_candidates_without_any_pair_still_waits() -> None:
    """A peer-reflexive candidate may yet save the session (RFC 8863 section 3)."""
    agent = make_agent()
    agent.add_local_candidate(host(LOCAL), START)
    agent.set_remote_credentials(THEIRS, START)
    agent.start(START)
    agent.end_of_candidates(START)
    run_timers(agent, START + 39)
    assert agent.state is IceState.CHECKING
    peer = HandPeer(agent)
    _, check = peer.ask(START + 39)
    peer.answer(check, START + 39.1)
    assert agent.state is IceState.CONNECTED


def test_waiting_for_an_answer_is_not_failing() -> None:
    agent = make_agent()
    agent.add_local_candidate(host(LOCAL), START)
    agent.start(START)
    assert agent.get_timer() is None
    agent.set_remote_credentials(THEIRS, START + 300)
    agent.add_remote_candidate(host(REMOTE), START + 300)
    assert len(HandPeer(agent).checks(START + 300)) == 1


def test_a_late_candidate_gets_its_full_time() -> None:
    agent = ready_agent()
    run_timers(agent, START + 39)
    agent.add_remote_candidate(host(OTHER), START + 39)
    run_timers(agent, START + 70)
    assert agent.state is IceState.CHECKING
    run_timers(agent, START + 80)
    assert agent.state is IceState.FAILED


def test_a_failed_agent_is_silent() -> None:
    agent = ready_agent()
    run_timers(agent, START + 60)
    assert HandPeer(agent).ask(START + 61) == []
    assert agent.discards == {IceDiscard.NOT_RUNNING: 1}


# -- media from elsewhere -----------------------------------------------------------------------


def test_authenticated_media_from_an_unknown_flow_is_checked() -> None:
    agent, peer, now = connected_agent()
    agent.check_flow(REBOUND, now + 2)
    flows = [flow for _, flow in peer.checks(now + 2)]
    assert REBOUND in flows
    assert FLOW in flows  # and the path in use is asked whether it lives
    agent.check_flow(REBOUND, now + 2.02)
    assert REBOUND not in [flow for _, flow in peer.checks(now + 2.02)]


def test_an_extra_check_leaves_at_once_and_is_bounded() -> None:
    agent, peer, now = connected_agent()
    agent.request_check(now + 1, burst=2)
    assert len(peer.checks(now + 1)) == 2
    agent.request_check(now + 1, burst=100)
    assert len(peer.checks(now + 1)) == 4
    agent.request_check(now + 1)
    assert len(peer.checks(now + 1)) == 1


def test_an_extra_check_before_anything_is_known_is_harmless() -> None:
    agent = make_agent()
    agent.request_check(START)
    assert agent.datagrams_to_send(START) == []


def test_ipv6() -> None:
    local, remote = ("2001:db8::1", 5000), ("2001:db8::2", 443)
    agent = make_agent()
    agent.add_local_candidate(host(local), START)
    agent.set_remote_credentials(THEIRS, START)
    agent.add_remote_candidate(
        parse_candidate("candidate:1 1 udp 2122260223 2001:0DB8::0:2 443 typ host"), START
    )
    agent.start(START)
    peer = HandPeer(agent, Flow(local, remote))
    response = peer.ask(START)[0]
    assert len(response.get(Attribute.XOR_MAPPED_ADDRESS) or b"") == 20
    peer.answer(only(peer.checks(START + 0.05)), START + 0.1, mapped=local)
    assert agent.flow == Flow(local, remote)


def test_a_relayed_local_candidate_is_just_an_address() -> None:
    relayed = ("198.51.100.9", 3500)
    agent = make_agent()
    agent.add_local_candidate(make_candidate(CandidateType.RELAYED, relayed, server="turn"), START)
    agent.set_remote_credentials(THEIRS, START)
    agent.add_remote_candidate(host(REMOTE), START)
    agent.start(START)
    ((_, flow),) = agent.datagrams_to_send(START)
    assert flow == Flow(relayed, REMOTE)


def test_selection_is_announced_once() -> None:
    agent, peer, now = connected_agent()
    peer.answer_all(now + 6, now + 6.1)
    assert not [e for e in agent.events() if isinstance(e, PairSelected)]


def test_what_leaves_is_well_formed() -> None:
    agent = ready_agent()
    for data, _ in agent.datagrams_to_send(START):
        assert parse_message(data).raw == data
