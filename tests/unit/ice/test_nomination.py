"""Who nominates which pair when (RFC 8445 section 8.1)."""

from __future__ import annotations

import pytest

from tests.unit.ice.helpers import (
    FLOW,
    LOCAL,
    REMOTE,
    START,
    THEIRS,
    HandPeer,
    connected_agent,
    has,
    host,
    make_agent,
    ready_agent,
)
from warp.contract import Flow
from warp.errors import InvalidState
from warp.ice import (
    CandidateType,
    IceConfig,
    IceRole,
    IceState,
    Nomination,
    PairSelected,
    make_candidate,
)
from warp.ice.nomination import supersedes
from warp.stun import Attribute

OTHER = ("203.0.113.2", 443)
OTHER_FLOW = Flow(LOCAL, OTHER)


@pytest.mark.parametrize("lite", [False, True])
def test_the_first_valid_pair_is_nominated_in_the_second_check(lite: bool) -> None:
    agent = ready_agent(remote_is_lite=lite)
    peer = HandPeer(agent)
    ((first, _),) = peer.checks(START)
    assert not has(first, Attribute.USE_CANDIDATE)
    peer.answer(first, START + 0.1)
    marked = [m for m, _ in peer.checks(START + 0.1) if has(m, Attribute.USE_CANDIDATE)]
    assert len(marked) == 1
    assert agent.selected_flow is None
    peer.answer(marked[0], START + 0.2)
    assert agent.selected_flow == FLOW
    assert agent.state is IceState.COMPLETED


def test_nominating_does_not_wait_for_a_tick_even_at_short_round_trips() -> None:
    agent = ready_agent()
    peer = HandPeer(agent)
    ((first, _),) = peer.checks(START)
    peer.answer(first, START + 0.001)
    assert len(peer.checks(START + 0.001)) == 1


def test_a_lost_nomination_is_repeated() -> None:
    agent = ready_agent()
    peer = HandPeer(agent)
    peer.answer_all(START, START + 0.1)
    assert len(peer.checks(START + 0.1)) == 1
    ((again, _),) = peer.checks(START + 0.15)
    assert has(again, Attribute.USE_CANDIDATE)
    peer.answer(again, START + 0.25)
    assert agent.selected_flow == FLOW


def test_every_check_is_marked_when_told_so_but_not_towards_lite() -> None:
    peer = HandPeer(ready_agent(nomination=Nomination.EVERY_CHECK))
    ((check, _),) = peer.checks(START)
    assert has(check, Attribute.USE_CANDIDATE)
    peer.answer(check, START + 0.1)
    assert peer.agent.selected_flow == FLOW
    lite = HandPeer(ready_agent(nomination=Nomination.EVERY_CHECK, remote_is_lite=True))
    ((check, _),) = lite.checks(START)
    assert not has(check, Attribute.USE_CANDIDATE)


def test_with_every_check_marked_the_best_pair_wins() -> None:
    agent = ready_agent(REMOTE, OTHER, nomination=Nomination.EVERY_CHECK)
    peer = HandPeer(agent)
    ((best, _),) = peer.checks(START)
    ((lesser, _),) = peer.checks(START + 0.05)
    peer.answer(lesser, START + 0.1, flow=OTHER_FLOW)
    assert agent.selected_flow == OTHER_FLOW
    peer.answer(best, START + 0.2)
    assert agent.selected_flow == FLOW


def test_waiting_gives_a_better_pair_its_chance() -> None:
    agent = ready_agent(REMOTE, OTHER, nomination=Nomination.WAIT, nomination_wait_s=0.5)
    peer = HandPeer(agent)
    ((best, _),) = peer.checks(START)
    ((lesser, _),) = peer.checks(START + 0.05)
    peer.answer(lesser, START + 0.1, flow=OTHER_FLOW)
    assert agent.flow == OTHER_FLOW  # in use meanwhile
    peer.answer(best, START + 0.3)
    marked = [f for m, f in peer.checks(START + 0.3) if has(m, Attribute.USE_CANDIDATE)]
    assert marked == [FLOW]


def test_waiting_ends() -> None:
    agent = ready_agent(REMOTE, OTHER, nomination=Nomination.WAIT, nomination_wait_s=0.5)
    peer = HandPeer(agent)
    peer.checks(START)
    ((lesser, _),) = peer.checks(START + 0.05)
    peer.answer(lesser, START + 0.1, flow=OTHER_FLOW)
    assert not [m for m, _ in peer.checks(START + 0.55) if has(m, Attribute.USE_CANDIDATE)]
    assert [f for m, f in peer.checks(START + 0.61) if has(m, Attribute.USE_CANDIDATE)] == [
        OTHER_FLOW
    ]


def test_a_relayed_pair_waits_a_little_for_a_direct_one() -> None:
    agent = make_agent(relay_wait_s=0.3)
    agent.add_local_candidate(host(LOCAL), START)
    agent.set_remote_credentials(THEIRS, START)
    relay = make_candidate(CandidateType.RELAYED, OTHER, server="turn")
    agent.add_remote_candidate(host(REMOTE), START)
    agent.add_remote_candidate(relay, START)
    agent.start(START)
    peer = HandPeer(agent)
    peer.checks(START)
    ((check, flow),) = peer.checks(START + 0.05)
    assert flow == OTHER_FLOW
    peer.answer(check, START + 0.1, flow=flow)
    assert agent.flow == OTHER_FLOW
    assert not [m for m, _ in peer.checks(START + 0.2) if has(m, Attribute.USE_CANDIDATE)]
    assert [f for m, f in peer.checks(START + 0.41) if has(m, Attribute.USE_CANDIDATE)] == [
        OTHER_FLOW
    ]


def test_by_application_nothing_happens_by_itself() -> None:
    agent = ready_agent(nomination=Nomination.BY_APPLICATION)
    peer = HandPeer(agent)
    with pytest.raises(InvalidState):
        agent.nominate(FLOW, START)
    peer.answer_all(START, START + 0.1)
    assert peer.checks(START + 0.2) == []
    assert agent.flow == FLOW
    agent.nominate(FLOW, START + 1)
    peer.answer_all(START + 1, START + 1.1)
    assert agent.selected_flow == FLOW


def test_a_selection_can_be_moved_by_hand() -> None:
    agent = ready_agent(REMOTE, OTHER, nomination=Nomination.BY_APPLICATION)
    peer = HandPeer(agent)
    for at in (START, START + 0.05):
        peer.answer_all(at, at + 0.01)
    agent.nominate(FLOW, START + 0.1)
    peer.answer_all(START + 0.1, START + 0.2)
    assert agent.selected_flow == FLOW
    agent.nominate(OTHER_FLOW, START + 5)
    peer.answer_all(START + 5, START + 5.1)
    assert agent.selected_flow == OTHER_FLOW
    with pytest.raises(InvalidState):
        agent.nominate(Flow(LOCAL, ("203.0.113.77", 1)), START + 6)


def test_selection_ends_the_other_checks() -> None:
    _, peer, now = connected_agent()
    agent2 = ready_agent(REMOTE, OTHER)
    peer2 = HandPeer(agent2)
    peer2.answer_all(START, START + 0.01)
    peer2.answer_all(START + 0.01, START + 0.02)
    assert agent2.selected_flow == FLOW
    deadline = agent2.get_timer()
    assert deadline is not None and deadline > START + 3  # consent, nothing else
    assert peer.checks(now + 1) == [] == peer2.checks(START + 1)


# -- the controlled side ------------------------------------------------------------------------


def controlled() -> tuple[HandPeer, float]:
    agent = ready_agent(role=IceRole.CONTROLLED)
    return HandPeer(agent), START


def test_controlled_selects_a_valid_pair_at_once() -> None:
    peer, now = controlled()
    peer.answer_all(now, now + 0.1)
    peer.ask(now + 0.2, role=IceRole.CONTROLLING, use_candidate=True)
    assert peer.agent.selected_flow == FLOW
    assert PairSelected(FLOW) in peer.agent.events()


def test_controlled_remembers_a_nomination_until_the_pair_is_valid() -> None:
    peer, now = controlled()
    _, check = peer.ask(now, role=IceRole.CONTROLLING, use_candidate=True)
    assert peer.agent.selected_flow is None
    peer.answer(check, now + 0.1)
    assert peer.agent.selected_flow == FLOW


def test_controlled_ignores_the_leftovers_of_an_aggressive_peer() -> None:
    agent = ready_agent(REMOTE, OTHER, role=IceRole.CONTROLLED)
    peer = HandPeer(agent)
    for at in (START, START + 0.05):
        peer.answer_all(at, at + 0.01)
    peer.ask(START + 0.1, role=IceRole.CONTROLLING, use_candidate=True)
    peer.ask(START + 0.2, flow=OTHER_FLOW, role=IceRole.CONTROLLING, use_candidate=True)
    assert agent.selected_flow == FLOW
    # later it means that the peer has moved
    peer.ask(START + 2, flow=OTHER_FLOW, role=IceRole.CONTROLLING, use_candidate=True)
    assert agent.selected_flow == OTHER_FLOW
    # a better pair wins at any time
    peer.ask(START + 2.1, role=IceRole.CONTROLLING, use_candidate=True)
    assert agent.selected_flow == FLOW


def test_a_controlling_agent_takes_no_nomination() -> None:
    agent = ready_agent(nomination=Nomination.BY_APPLICATION)
    peer = HandPeer(agent)
    peer.answer_all(START, START + 0.1)
    peer.ask(START + 0.2, role=IceRole.CONTROLLED, use_candidate=True)
    assert agent.selected_flow is None


def test_supersedes() -> None:
    config = IceConfig()
    assert supersedes(2, 1, 0.0, config)
    assert not supersedes(1, 2, 0.1, config)
    assert supersedes(1, 2, 0.6, config)
