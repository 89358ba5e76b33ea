"""How fast two agents find each other, and who sends what (50 ms each way)."""

from __future__ import annotations

import pytest

from tests.scenarios.ice_call import ALICE, BOB, IceCall
from tests.sim.pair import CLIENT, SERVER
from warp.contract import Flow
from warp.ice import FlowAuthenticated, IceRole, IceState, PairValidated, host_candidate

FORTH, BACK = Flow(CLIENT, SERVER), Flow(SERVER, CLIENT)


@pytest.mark.parametrize("lite", [False, True])
def test_client_needs_one_round_trip_and_server_half_of_it(lite: bool) -> None:
    call = IceCall(lite=lite)
    call.begin()
    assert call.ladder == []
    assert call.run(until=lambda: call.alice.is_validated, timeout_s=1)
    assert call.now - call.began == pytest.approx(0.1)
    (usable,) = call.server.named(FlowAuthenticated)
    assert usable[0] - call.began == pytest.approx(0.05)
    assert call.ladder[0].time == call.began  # the first check leaves at once


@pytest.mark.parametrize("lite", [False, True])
def test_both_select_the_same_flow(lite: bool) -> None:
    call = IceCall(lite=lite).connect()
    assert (call.alice.selected_flow, call.bob.selected_flow) == (FORTH, BACK)
    assert call.alice.state is call.bob.state is IceState.COMPLETED
    assert call.now - call.began == pytest.approx(0.2, abs=0.02)


def test_a_lite_server_sends_only_responses() -> None:
    call = IceCall(lite=True).connect()
    call.run_for(30)
    assert len(call.sent("server")) == len(call.sent("client"))
    # after the start: consent checks only
    assert len([s for s in call.sent("client") if s.time > call.began + 1]) in range(5, 9)


def test_a_server_that_does_not_know_the_client_learns_it() -> None:
    call = IceCall()
    call.begin(client_candidate=False)
    assert call.run(until=call.both_selected, timeout_s=2)
    assert call.bob.selected_flow == BACK
    assert call.now - call.began < 0.26


def test_the_offerer_is_reached_before_the_answer() -> None:
    """Bob has Alice's offer; she gets his answer 300 ms later than his checks."""
    call = IceCall()
    now = call.now

    call.alice.add_local_candidate(host_candidate(CLIENT), now)
    call.alice.start(now)
    call.bob.add_local_candidate(host_candidate(SERVER), now)
    call.bob.set_remote_credentials(ALICE, now)
    call.bob.add_remote_candidate(host_candidate(CLIENT), now)
    call.bob.start(now)
    call.at(now + 0.3, lambda at: call.alice.set_remote_credentials(BOB, at))
    assert call.run(until=lambda: call.bob.is_validated, timeout_s=1)
    assert call.now - now == pytest.approx(0.1)
    assert call.alice.flow == FORTH
    assert not call.alice.is_validated
    assert call.run(until=call.both_selected, timeout_s=1)
    assert call.now - now < 0.56


@pytest.mark.parametrize("role", list(IceRole))
def test_a_role_conflict_repairs_itself(role: IceRole) -> None:
    for seed in range(4):
        call = IceCall(roles=(role, role), seed=seed).connect(timeout_s=5)
        assert {call.alice.role, call.bob.role} == set(IceRole)
        assert call.now - call.began < 0.6


def test_a_controlled_client_of_a_lite_server_takes_control() -> None:
    call = IceCall(roles=(IceRole.CONTROLLED, IceRole.CONTROLLED), lite=True).connect()
    assert call.alice.role is IceRole.CONTROLLING


def test_rtt_is_measured() -> None:
    call = IceCall().connect()
    assert call.alice.rtt_s == pytest.approx(0.1)
    assert call.bob.rtt_s == pytest.approx(0.1)
    assert all(e.rtt_s == pytest.approx(0.1) for _, e in call.client.named(PairValidated))


def test_idle_minutes_cost_little() -> None:
    call = IceCall().connect()
    before = len(call.ladder)
    call.run_for(600)
    assert call.alice.state is call.bob.state is IceState.COMPLETED
    # each side asks for consent every 5 s and answers the other
    assert len(call.ladder) - before == pytest.approx(4 * 600 / 5, rel=0.1)
