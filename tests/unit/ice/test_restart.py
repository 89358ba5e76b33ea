"""ICE restart: two generations side by side (RFC 8445 section 9, RFC 8839 section 4.4.1.1.1)."""

from __future__ import annotations

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
    host,
    make_agent,
    run_timers,
)
from warp.contract import Flow
from warp.crypto import HmacSha1
from warp.errors import InvalidState
from warp.ice import IceAgent, IceCredentials, IceDiscard, IceRole, IceState
from warp.stun import MessageClass

OURS_NEXT = IceCredentials("ourNext", "another-password-of-ours")
THEIRS_NEXT = IceCredentials("peerNext", "another-password-of-them")
MOVED = Flow(LOCAL, ("203.0.113.9", 443))


def next_peer(agent: IceAgent) -> HandPeer:
    return HandPeer(agent, MOVED, own=THEIRS_NEXT)


def test_a_restart_needs_new_credentials() -> None:
    agent, _, now = connected_agent()
    with pytest.raises(InvalidState):
        agent.restart(OURS, now)


def test_changed_remote_credentials_without_a_restart_are_refused() -> None:
    agent, _, now = connected_agent()
    with pytest.raises(InvalidState):
        agent.set_remote_credentials(THEIRS_NEXT, now)
    agent.set_remote_credentials(THEIRS, now)


def test_media_stays_on_the_earlier_path_until_another_is_selected() -> None:
    agent, peer, now = connected_agent()
    agent.restart(OURS_NEXT, now)
    assert agent.state is IceState.CHECKING
    assert agent.flow == FLOW
    assert agent.selected_flow is None
    assert agent.is_validated
    assert agent.rtt_s is not None
    agent.set_remote_credentials(THEIRS_NEXT, now)
    agent.add_remote_candidate(host(MOVED.remote), now)
    new = next_peer(agent)
    ((check, flow),) = new.checks(now)
    assert flow == MOVED
    assert check.get(6) == b"peerNext:ourNext"
    assert check.verify_integrity(HmacSha1(THEIRS_NEXT.pwd.encode()))
    new.answer(check, now + 0.1)
    assert agent.flow == FLOW
    # the earlier generation is still served, with its own password
    answer = peer.ask(now + 0.1, local=OURS)[0]
    assert answer.message_class is MessageClass.SUCCESS
    assert answer.verify_integrity(HmacSha1(OURS.pwd.encode()))
    new.answer_all(now + 0.15, now + 0.2)
    assert agent.selected_flow == agent.flow == MOVED
    assert agent.state is IceState.COMPLETED


def test_after_the_selection_the_earlier_credentials_are_strange() -> None:
    agent, peer, now = connected_agent()
    agent.restart(OURS_NEXT, now)
    agent.set_remote_credentials(THEIRS_NEXT, now)
    agent.add_remote_candidate(host(MOVED.remote), now)
    new = next_peer(agent)
    new.answer_all(now, now + 0.1)
    new.answer_all(now + 0.1, now + 0.2)
    assert agent.selected_flow == MOVED
    assert peer.ask(now + 0.3, local=OURS) == []
    assert agent.discards == {IceDiscard.UNKNOWN_USERNAME: 1}


def test_consent_of_the_earlier_path_goes_on() -> None:
    agent, peer, now = connected_agent()
    agent.restart(OURS_NEXT, now)
    answered, deadline = 0, now
    while deadline < now + 60:
        soonest = agent.get_timer()
        assert soonest is not None
        deadline = soonest
        agent.handle_timer(deadline)
        answered += peer.answer_all(deadline, deadline + 0.1)
    assert 10 <= answered <= 15
    assert agent.flow == FLOW


def test_the_earlier_path_may_end_before_the_new_one_is_found() -> None:
    agent, _, now = connected_agent()
    agent.restart(OURS_NEXT, now)
    run_timers(agent, now + 31)
    assert agent.flow is None
    assert agent.state is IceState.CHECKING


def test_the_peer_may_check_before_its_answer_comes() -> None:
    agent, _, now = connected_agent()
    agent.restart(OURS_NEXT, now)
    new = next_peer(agent)
    assert [m.message_class for m in new.ask(now + 0.1)] == [MessageClass.SUCCESS]
    agent.set_remote_credentials(THEIRS_NEXT, now + 0.2)
    assert MOVED in [flow for _, flow in new.checks(now + 0.2)]


def test_local_candidates_are_carried_over_but_those_that_went() -> None:
    agent, _, now = connected_agent()
    agent.add_local_candidate(host(("192.0.2.2", 5)), now)
    agent.remove_local_address(LOCAL[0], now)
    agent.restart(OURS_NEXT, now)
    agent.set_remote_credentials(THEIRS_NEXT, now)
    agent.add_remote_candidate(host(REMOTE), now)
    checks = next_peer(agent).checks(now)
    flows = [flow for check, flow in checks if check.get(6) == b"peerNext:ourNext"]
    assert flows == [Flow(("192.0.2.2", 5), REMOTE)]


def test_a_failed_agent_can_be_restarted() -> None:
    agent, _, now = connected_agent()
    run_timers(agent, now + 31)
    assert agent.state is IceState.FAILED
    agent.restart(OURS_NEXT, now + 40)
    assert agent.state is IceState.CHECKING
    agent.set_remote_credentials(THEIRS_NEXT, now + 40)
    agent.add_remote_candidate(host(MOVED.remote), now + 40)
    new = next_peer(agent)
    new.answer_all(now + 40, now + 40.1)
    new.answer_all(now + 40.1, now + 40.2)
    assert agent.state is IceState.COMPLETED


def test_of_several_unfinished_restarts_the_last_counts() -> None:
    agent, peer, now = connected_agent()
    middle = IceCredentials("middle", "p" * 22)
    agent.restart(middle, now)
    agent.restart(OURS_NEXT, now + 1)
    assert agent.flow == FLOW
    assert peer.ask(now + 1, local=middle) == []
    assert peer.ask(now + 1, local=OURS) != []
    assert agent.local_credentials == OURS_NEXT
    assert agent.remote_credentials is None


def test_a_lite_agent_restarts_too() -> None:
    agent = make_agent(lite=True)
    agent.start(START)
    old = HandPeer(agent)
    old.ask(START, role=IceRole.CONTROLLING, use_candidate=True)
    agent.restart(OURS_NEXT, START + 1)
    new = next_peer(agent)
    new.ask(START + 2, role=IceRole.CONTROLLING)
    assert agent.flow == FLOW
    assert old.ask(START + 2, role=IceRole.CONTROLLING, local=OURS) != []
    new.ask(START + 3, role=IceRole.CONTROLLING, use_candidate=True)
    assert agent.flow == MOVED
    assert agent.state is IceState.COMPLETED


def test_a_quiet_earlier_path_gives_way_to_an_unselected_one() -> None:
    agent, _, now = connected_agent()
    agent.restart(OURS_NEXT, now)
    agent.set_remote_credentials(THEIRS_NEXT, now)
    run_timers(agent, now + 9)
    new = next_peer(agent)
    new.ask(now + 9)
    assert agent.flow == MOVED


def test_a_closed_agent_is_not_restarted() -> None:
    agent, _, now = connected_agent()
    agent.close(now)
    with pytest.raises(InvalidState):
        agent.restart(OURS_NEXT, now)


def test_a_restart_before_the_start_is_just_another_set_of_credentials() -> None:
    agent = make_agent()
    agent.restart(OURS_NEXT, START)
    assert agent.state is IceState.NEW
    agent.add_local_candidate(host(LOCAL), START)
    agent.set_remote_credentials(THEIRS, START)
    agent.add_remote_candidate(host(REMOTE), START)
    agent.start(START)
    assert len(HandPeer(agent).checks(START)) == 1
