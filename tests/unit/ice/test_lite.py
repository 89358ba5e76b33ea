"""A lite agent against a full peer made by hand (RFC 8445 sections 2.5, 6.1.1 and 7.3)."""

from __future__ import annotations

from typing import Any

import pytest

from tests.unit.ice.helpers import (
    FLOW,
    LOCAL,
    PRIORITY,
    REMOTE,
    START,
    THEIRS,
    HandPeer,
    error_code,
    host,
    make_agent,
    names,
    run_timers,
)
from warp.contract import Flow
from warp.errors import ConsentLost, InvalidConfig, InvalidState, NoPath
from warp.ice import (
    FlowAuthenticated,
    IceAgent,
    IceRole,
    IceState,
    PairSelected,
    Terminated,
)
from warp.stun import MessageClass

MOVED = Flow(LOCAL, ("203.0.113.1", 9999))


def lite_peer(**config: Any) -> HandPeer:
    agent = make_agent(lite=True, **config)
    agent.add_local_candidate(host(LOCAL), START)
    agent.set_remote_credentials(THEIRS, START)
    agent.add_remote_candidate(host(REMOTE), START)
    agent.start(START)
    agent.events()
    return HandPeer(agent)


def ask(peer: HandPeer, now: float, **options: Any) -> None:
    answers = peer.ask(now, role=IceRole.CONTROLLING, **options)
    assert [m.message_class for m in answers] == [MessageClass.SUCCESS]


def test_it_never_sends_a_check() -> None:
    peer = lite_peer()
    agent = peer.agent
    ask(peer, START + 1)
    agent.request_check(START + 1, burst=3)
    agent.check_flow(MOVED, START + 1)
    run_timers(agent, START + 20)
    assert peer.drain(START + 20) == []
    with pytest.raises(InvalidState):
        agent.nominate(FLOW, START + 20)


def test_it_is_controlled_whatever_it_was_told() -> None:
    assert make_agent(lite=True, role=IceRole.CONTROLLING).role is IceRole.CONTROLLED


def test_a_request_makes_the_flow_usable_and_use_candidate_selects_it() -> None:
    peer = lite_peer()
    agent = peer.agent
    assert agent.flow is None
    ask(peer, START)
    assert agent.flow == FLOW
    assert agent.is_validated
    assert agent.state is IceState.CONNECTED
    assert names(agent.events()) == ["FlowAuthenticated", "StateChanged"]
    ask(peer, START + 0.05, use_candidate=True)
    assert agent.selected_flow == FLOW
    assert agent.state is IceState.COMPLETED
    assert names(agent.events()) == ["PairSelected", "StateChanged"]
    assert agent.rtt_s is None


def test_before_nomination_the_last_request_says_where_to_send() -> None:
    peer = lite_peer()
    ask(peer, START)
    ask(peer, START + 0.01, flow=MOVED)
    assert peer.agent.flow == MOVED
    ask(peer, START + 0.02)
    assert peer.agent.flow == FLOW


def test_it_works_without_knowing_the_peer() -> None:
    agent = make_agent(lite=True)
    agent.start(START)
    ask(HandPeer(agent), START)
    assert agent.flow == FLOW


def test_a_peer_that_wants_to_be_controlled_is_told_otherwise() -> None:
    peer = lite_peer()
    for tie_breaker in (0, 2**64 - 1):
        (answer,) = peer.ask(START, role=IceRole.CONTROLLED, tie_breaker=tie_breaker)
        assert error_code(answer) == 487
    assert peer.agent.role is IceRole.CONTROLLED
    assert peer.agent.flow is None


def test_two_lite_agents_are_refused() -> None:
    with pytest.raises(InvalidConfig):
        make_agent(lite=True).set_remote_credentials(THEIRS, START, lite=True)


def test_a_full_agent_controls_a_lite_peer() -> None:
    agent = make_agent(role=IceRole.CONTROLLED)
    agent.set_remote_credentials(THEIRS, START, lite=True)
    assert agent.role is IceRole.CONTROLLING


# -- moving -------------------------------------------------------------------------------------


def test_use_candidate_from_a_new_address_moves_media_at_once() -> None:
    """The peer's NAT has rebound, or it has changed networks."""
    peer = lite_peer()
    ask(peer, START, use_candidate=True)
    ask(peer, START + 3, flow=MOVED, use_candidate=True)
    assert peer.agent.flow == MOVED
    events = peer.agent.events()
    assert FlowAuthenticated(MOVED) in events
    assert PairSelected(MOVED) in events


def test_a_request_without_use_candidate_does_not_move_a_living_flow() -> None:
    peer = lite_peer()
    ask(peer, START, use_candidate=True)
    ask(peer, START + 3, flow=MOVED)
    assert peer.agent.flow == FLOW


def test_a_silent_flow_is_left_for_any_authenticated_request() -> None:
    peer = lite_peer()
    ask(peer, START, use_candidate=True)
    ask(peer, START + 8, flow=MOVED)
    assert peer.agent.flow == MOVED
    strict = lite_peer(lite_follow_after_s=None)
    ask(strict, START, use_candidate=True)
    ask(strict, START + 20, flow=MOVED)
    assert strict.agent.flow == FLOW


class Ears:
    """A rider that carries nothing and says where the peer was heard."""

    def __init__(self) -> None:
        self.heard: tuple[Flow, float] | None = None

    def last_heard(self) -> tuple[Flow, float] | None:
        return self.heard

    def receive_attributes(self, *_: Any) -> None:
        return None

    def attributes_to_send(self, *_: Any) -> list[tuple[int, bytes]]:
        return []

    def wanted_checks(self) -> int:
        return 1

    def receive_path(self, *_: Any) -> None:
        return None


def heard_peer() -> tuple[HandPeer, Ears]:
    """A call in which the peer was heard on its selected flow at START + 3."""
    ears = Ears()
    peer = lite_peer(rider=ears)
    ask(peer, START, use_candidate=True)
    ears.heard = (FLOW, START + 3)
    return peer, ears


def test_a_nomination_waits_to_be_heard_while_the_peer_is_heard_elsewhere() -> None:
    """Checks can be recorded and repeated; what is protected cannot."""
    peer, ears = heard_peer()
    ask(peer, START + 3.1, flow=MOVED, use_candidate=True)
    assert peer.agent.flow == FLOW
    ears.heard = (FLOW, START + 4.5)
    run_timers(peer.agent, START + 7)
    assert peer.agent.flow == FLOW
    ears.heard = (MOVED, START + 7)
    peer.agent.check_flow(MOVED, START + 7)
    assert peer.agent.flow == MOVED


def test_before_any_nomination_it_follows_what_is_heard() -> None:
    """The peer's checks go round its pairs; what it says otherwise comes on one."""
    peer = lite_peer()
    ask(peer, START)
    ask(peer, START + 0.05, flow=MOVED)
    assert peer.agent.is_undecided
    assert peer.agent.flow == MOVED
    peer.agent.check_flow(FLOW, START + 0.1)
    assert peer.agent.flow == FLOW
    peer.agent.check_flow(Flow(LOCAL, ("203.0.113.1", 1)), START + 0.1)
    assert peer.agent.flow == FLOW
    ask(peer, START + 0.15, flow=MOVED, use_candidate=True)
    assert not peer.agent.is_undecided
    peer.agent.check_flow(FLOW, START + 0.2)
    assert peer.agent.flow == MOVED


def test_a_nomination_counts_when_the_selected_flow_falls_silent() -> None:
    peer, _ = heard_peer()
    ask(peer, START + 3.1, flow=MOVED, use_candidate=True)
    assert peer.agent.flow == FLOW
    run_timers(peer.agent, START + 4.6)
    assert peer.agent.flow == MOVED


def test_what_was_under_way_does_not_bring_the_old_flow_back() -> None:
    peer, ears = heard_peer()
    ears.heard = (MOVED, START + 3.1)
    ask(peer, START + 3.2, flow=MOVED, use_candidate=True)
    assert peer.agent.flow == MOVED
    ears.heard = (FLOW, START + 3.3)
    peer.agent.check_flow(FLOW, START + 3.3)
    assert peer.agent.flow == MOVED
    peer.agent.check_flow(Flow(LOCAL, ("203.0.113.1", 1)), START + 3.4)
    assert peer.agent.flow == MOVED


def test_a_peer_that_speaks_where_it_has_asked_has_moved() -> None:
    """Firefox marks its first nomination only: a moved one's consent check is an ordinary check."""
    peer = lite_peer()
    ask(peer, START, use_candidate=True)
    ask(peer, START + 5, flow=MOVED)
    assert peer.agent.flow == FLOW
    peer.agent.check_flow(MOVED, START + 5.02)
    assert peer.agent.flow == MOVED
    strict = lite_peer(lite_follow_after_s=None)
    ask(strict, START, use_candidate=True)
    ask(strict, START + 5, flow=MOVED)
    strict.agent.check_flow(MOVED, START + 5.02)
    assert strict.agent.flow == FLOW


def test_a_peer_that_asks_where_it_is_heard_has_moved() -> None:
    peer, ears = heard_peer()
    ears.heard = (MOVED, START + 5)
    ask(peer, START + 5.1, flow=MOVED)
    assert peer.agent.flow == MOVED


def test_who_has_asked_elsewhere_since_has_not_moved() -> None:
    """What comes late from a path that was left, or was asked for by somebody's copy of a check."""
    peer, _ = heard_peer()
    ask(peer, START + 3.1, flow=MOVED)
    ask(peer, START + 3.2)
    peer.agent.check_flow(MOVED, START + 3.3)
    assert peer.agent.flow == FLOW


@pytest.mark.parametrize("nominates", [False, True])
def test_a_copy_of_a_request_from_elsewhere_moves_nothing(nominates: bool) -> None:
    """Whoever sees a check can send it again, from any address: he is answered, and no more."""
    peer = lite_peer()
    check = peer.request(role=IceRole.CONTROLLING, use_candidate=nominates)
    for flow in (FLOW, MOVED, MOVED):
        peer.agent.receive_datagram(check, flow, START)
        assert len(peer.drain(START)) == 1
        assert peer.agent.flow == FLOW
    ask(peer, START + 0.05, flow=MOVED, use_candidate=nominates)  # a request of its own
    assert (peer.agent.flow == MOVED) is not nominates


def test_few_requests_are_remembered() -> None:
    peer = lite_peer()
    first = peer.request(role=IceRole.CONTROLLING)
    peer.agent.receive_datagram(first, FLOW, START)
    peer.drain(START)
    for number in range(40):
        ask(peer, START + number)
    peer.agent.receive_datagram(first, MOVED, START + 40)
    assert peer.agent.flow == MOVED


def test_right_after_a_selection_only_a_better_pair_moves_it() -> None:
    peer = lite_peer()
    ask(peer, START, use_candidate=True)
    ask(peer, START + 0.1, flow=MOVED, use_candidate=True, priority=PRIORITY - 1)
    assert peer.agent.flow == FLOW
    ask(peer, START + 0.2, flow=MOVED, use_candidate=True, priority=PRIORITY + 1)
    assert peer.agent.flow == MOVED


def test_remembered_flows_are_bounded_and_the_selected_one_stays() -> None:
    peer = lite_peer(max_learned_candidates=4)
    ask(peer, START, use_candidate=True)
    for port in range(1, 100):
        ask(peer, START + 0.01 * port, flow=Flow(LOCAL, ("203.0.113.1", port)))
    assert peer.agent.flow == FLOW
    paths = peer.agent._generations.current.paths
    assert len(paths._paths) == 4


def test_an_address_that_goes_away_takes_its_flows_along() -> None:
    second = Flow(("192.0.2.2", 50000), REMOTE)
    peer = lite_peer()
    ask(peer, START, use_candidate=True)
    ask(peer, START + 1, flow=second)
    peer.agent.remove_local_address(LOCAL[0], START + 2)
    assert peer.agent.flow == second
    peer.agent.remove_local_address(second.local[0], START + 3)
    assert peer.agent.flow is None
    assert peer.agent.state is IceState.DISCONNECTED
    run_timers(peer.agent, START + 60)
    assert peer.agent.state is IceState.FAILED


# -- consent ------------------------------------------------------------------------------------


def test_requests_keep_consent_and_silence_ends_it() -> None:
    peer = lite_peer()
    agent = peer.agent
    ask(peer, START, use_candidate=True)
    for step in range(1, 10):
        run_timers(agent, START + 5 * step)
        ask(peer, START + 5 * step, use_candidate=True)
    assert agent.state is IceState.COMPLETED
    last = START + 45
    run_timers(agent, last + 8)
    assert agent.state is IceState.DISCONNECTED
    run_timers(agent, last + 29.9)
    assert agent.flow == FLOW
    run_timers(agent, last + 30)
    assert agent.state is IceState.FAILED
    assert agent.flow is None
    (end,) = [e for e in agent.events() if isinstance(e, Terminated)]
    assert isinstance(end.error, ConsentLost)


def test_a_request_ends_the_quiet() -> None:
    peer = lite_peer()
    ask(peer, START, use_candidate=True)
    run_timers(peer.agent, START + 10)
    assert peer.agent.state is IceState.DISCONNECTED
    ask(peer, START + 10, use_candidate=True)
    assert peer.agent.state is IceState.COMPLETED
    run_timers(peer.agent, START + 18)
    assert peer.agent.state is IceState.DISCONNECTED


def test_requests_on_another_flow_are_no_consent_for_this_one() -> None:
    peer = lite_peer(lite_follow_after_s=None)
    ask(peer, START, use_candidate=True)
    for step in range(1, 8):
        run_timers(peer.agent, START + 5 * step)
        if peer.agent.state is IceState.FAILED:
            break
        peer.ask(START + 5 * step, flow=MOVED, role=IceRole.CONTROLLING)
    assert peer.agent.state is IceState.FAILED


def test_no_request_at_all_ends_in_no_path() -> None:
    peer = lite_peer()
    run_timers(peer.agent, START + 39)
    assert peer.agent.state is IceState.CHECKING
    run_timers(peer.agent, START + 40)
    (end,) = [e for e in peer.agent.events() if isinstance(e, Terminated)]
    assert isinstance(end.error, NoPath)


def test_its_timer_costs_nothing_a_request() -> None:
    """Requests arm no timer: the deadline stays where it was until it fires."""
    peer = lite_peer()
    ask(peer, START, use_candidate=True)
    deadline = peer.agent.get_timer()
    ask(peer, START + 3, use_candidate=True)
    assert peer.agent.get_timer() == deadline


def test_answers_to_nothing_are_discarded() -> None:
    peer = lite_peer()
    full = HandPeer(make_agent(lite=True))
    message = peer.ask(START, role=IceRole.CONTROLLING)[0]
    full.answer(message, START)
    assert sum(full.agent.discards.values()) == 1


def test_only_an_agent_made_lite_is_lite() -> None:
    agent: IceAgent = make_agent()
    agent.add_local_candidate(host(LOCAL), START)
    agent.set_remote_credentials(THEIRS, START)
    agent.add_remote_candidate(host(REMOTE), START)
    agent.start(START)
    assert len(agent.datagrams_to_send(START)) == 1
