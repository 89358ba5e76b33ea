"""Consent of a full agent, and what it does when the path dies (RFC 7675)."""

from __future__ import annotations

import itertools

from tests.unit.ice.helpers import (
    FLOW,
    LOCAL,
    REMOTE,
    START,
    HandPeer,
    connected_agent,
    has,
    host,
    ready_agent,
    run_timers,
)
from warp.contract import Flow
from warp.entropy import SeededEntropy
from warp.errors import ConsentLost
from warp.ice import IceConfig, IceRole, IceState, PairSelected, Terminated
from warp.ice.consent import ConsentSchedule
from warp.ice.context import IceDiscard
from warp.stun import Attribute

MOVED = Flow(LOCAL, ("203.0.113.1", 9999))
OTHER = ("203.0.113.2", 443)
OTHER_FLOW = Flow(LOCAL, OTHER)


def test_checks_are_randomised_between_four_and_six_seconds() -> None:
    schedule = ConsentSchedule(IceConfig(), SeededEntropy(3))
    waits = []
    for step in range(200):
        schedule.note_answer(float(step))
        assert schedule.next_at is not None
        waits.append(schedule.next_at - step)
    assert 4.0 <= min(waits) < 4.2
    assert 5.8 < max(waits) <= 6.0
    assert len(set(waits)) > 100


def test_unanswered_checks_are_followed_by_ever_slower_probes() -> None:
    schedule = ConsentSchedule(IceConfig(), SeededEntropy(3))
    moment, waits = 0.0, []
    for _ in range(6):
        schedule.note_check(0.1, moment)
        assert schedule.next_at is not None
        waits.append(round(schedule.next_at - moment, 3))
        moment = schedule.next_at
    assert waits == [0.3, 0.6, 1.2, 2.0, 2.0, 2.0]
    assert schedule.misses == 6
    schedule.stop()
    assert schedule.next_at is None


def test_consent_is_asked_and_kept_by_answers() -> None:
    agent, peer, now = connected_agent()
    asked = [now]
    while now < START + 120:
        deadline = agent.get_timer()
        assert deadline is not None
        now = deadline
        agent.handle_timer(now)
        for check, flow in peer.checks(now):
            assert flow == FLOW
            assert has(check, Attribute.USE_CANDIDATE)
            peer.answer(check, now + 0.1)
            asked.append(now)
    assert agent.state is IceState.COMPLETED
    gaps = [b - a for a, b in itertools.pairwise(asked)]
    assert all(4.0 <= gap <= 6.2 for gap in gaps)
    assert len(gaps) > 18
    assert agent.rtt_s is not None and abs(agent.rtt_s - 0.1) < 1e-6


def test_each_consent_check_is_a_new_transaction() -> None:
    agent, peer, _ = connected_agent()
    seen = []
    for _ in range(3):
        deadline = agent.get_timer()
        assert deadline is not None
        seen += [m.transaction_id for m, _ in peer.checks(deadline)]
    assert len(set(seen)) == len(seen) > 1


def test_consent_expires_thirty_seconds_after_the_last_answer() -> None:
    agent, _, now = connected_agent()
    run_timers(agent, now + 29.9)
    assert agent.flow == FLOW
    assert agent.state is IceState.DISCONNECTED
    run_timers(agent, now + 30.0)
    assert agent.state is IceState.FAILED
    assert agent.flow is None
    (end,) = [e for e in agent.events() if isinstance(e, Terminated)]
    assert isinstance(end.error, ConsentLost)
    assert agent.datagrams_to_send(now + 31) == []


def test_requests_of_the_peer_are_no_consent() -> None:
    agent, peer, now = connected_agent()
    moment = now
    while agent.state is not IceState.FAILED and moment < now + 40:
        moment += 1.0
        run_timers(agent, moment)
        peer.ask(moment)
    assert agent.state is IceState.FAILED


def test_quiet_and_back() -> None:
    agent, peer, now = connected_agent()
    run_timers(agent, now + 9)
    assert agent.state is IceState.DISCONNECTED
    moment = now + 9
    for _ in range(4):
        deadline = agent.get_timer()
        assert deadline is not None
        moment = deadline
        if peer.answer_all(moment, moment + 0.1):
            break
    assert agent.state is IceState.COMPLETED
    run_timers(agent, moment + 9)
    assert agent.state is IceState.DISCONNECTED


def test_a_dead_path_is_replaced_by_one_that_still_answers() -> None:
    """Two valid pairs; the selected one dies, the other is nominated within a second or so."""
    agent = ready_agent(REMOTE, OTHER)
    peer = HandPeer(agent)
    ((best, _),) = peer.checks(START)
    ((lesser, _),) = peer.checks(START + 0.05)
    peer.answer(best, START + 0.1)
    peer.answer(lesser, START + 0.11, flow=OTHER_FLOW)
    peer.answer_all(START + 0.12, START + 0.2)
    assert agent.selected_flow == FLOW
    died = agent.get_timer()
    assert died is not None
    while agent.selected_flow == FLOW:
        deadline = agent.get_timer()
        assert deadline is not None and deadline < died + 3
        for check, flow in peer.checks(deadline):
            if flow == OTHER_FLOW:
                peer.answer(check, deadline + 0.001, flow=flow)
    assert agent.selected_flow == OTHER_FLOW
    assert PairSelected(OTHER_FLOW) in agent.events()


def test_a_peer_that_rebound_is_followed() -> None:
    """Controlling: the peer's checks come from a new port, its old one no longer answers."""
    agent, peer, now = connected_agent(rtt_s=0.05)
    moved = now + 10
    run_timers_answering(peer, moved)
    peer.ask(moved, flow=MOVED)
    moment = moved
    while agent.selected_flow != MOVED:
        deadline = agent.get_timer()
        assert deadline is not None
        moment = max(deadline, moment)
        for check, flow in peer.checks(moment):
            if flow == MOVED:
                peer.answer(check, moment + 0.05, flow=flow)
    assert moment < moved + 1.0


def run_timers_answering(peer: HandPeer, until: float) -> None:
    while (deadline := peer.agent.get_timer()) is not None and deadline <= until:
        peer.answer_all(deadline, deadline + 0.05)


def test_a_controlled_agent_follows_the_nomination_of_a_peer_that_rebound() -> None:
    agent = ready_agent(role=IceRole.CONTROLLED)
    peer = HandPeer(agent)
    peer.answer_all(START, START + 0.05)
    peer.ask(START + 0.1, role=IceRole.CONTROLLING, use_candidate=True)
    assert agent.selected_flow == FLOW
    answers = peer.ask(START + 9, flow=MOVED, role=IceRole.CONTROLLING, use_candidate=True)
    assert agent.flow == FLOW  # not before the new address has answered
    peer.answer(answers[1], START + 9.05, flow=MOVED)
    assert agent.selected_flow == MOVED


def test_a_lost_interface_is_left_at_once() -> None:
    """Wi-Fi goes, the cellular address was known already: its first check nominates."""
    agent, peer, now = connected_agent()
    cellular = ("198.51.100.7", 40000)
    agent.add_local_candidate(host(cellular), now + 1)
    agent.remove_local_address(LOCAL[0], now + 1)
    assert agent.flow is None
    assert agent.state is IceState.DISCONNECTED
    flow = Flow(cellular, REMOTE)
    ((check, way),) = peer.checks(now + 1)
    assert way == flow
    assert has(check, Attribute.USE_CANDIDATE)
    peer.answer(check, now + 1.1, flow=flow)
    assert agent.selected_flow == flow
    assert agent.state is IceState.COMPLETED


def test_a_validated_backup_takes_over_without_waiting() -> None:
    agent, peer, now = connected_agent()
    cellular = ("198.51.100.7", 40000)
    agent.add_local_candidate(host(cellular), now + 1)
    flow = Flow(cellular, REMOTE)
    ((check, way),) = peer.checks(now + 1)
    assert way == flow
    peer.answer(check, now + 1.1, flow=flow)
    assert agent.selected_flow == FLOW
    agent.remove_local_address(LOCAL[0], now + 2)
    assert agent.flow == flow
    assert agent.state is IceState.CONNECTED
    peer.answer_all(now + 2, now + 2.1)
    assert agent.selected_flow == flow


def test_nothing_left_after_losing_every_interface_ends_in_failure() -> None:
    agent, _, now = connected_agent()
    agent.remove_local_address(LOCAL[0], now)
    run_timers(agent, now + 60)
    assert agent.state is IceState.FAILED


def test_a_copied_answer_from_elsewhere_does_not_end_a_path_that_works() -> None:
    """Whoever sees an answer can send it again from another address, and be faster."""
    agent, peer, now = connected_agent()
    agent.request_check(now)
    ((check, _),) = peer.checks(now)
    peer.answer(check, now + 0.1, flow=MOVED)
    assert agent.flow == FLOW
    assert agent.state is IceState.COMPLETED
    peer.answer(check, now + 0.1)
    assert agent.discards == {IceDiscard.ASYMMETRIC_ANSWER: 1}
