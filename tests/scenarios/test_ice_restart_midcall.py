"""An ICE restart while media flows: no moment without a flow."""

from __future__ import annotations

import pytest

from tests.scenarios.ice_call import CELLULAR, IceCall
from tests.sim.pair import CLIENT, SERVER
from warp.contract import Flow
from warp.ice import IceCredentials, IceState, host_candidate

ALICE_NEXT = IceCredentials("alice2", "another-password-of-alice")
BOB_NEXT = IceCredentials("bob2", "another-password-of-bob-0")


def restart(call: IceCall, *, signalling_s: float = 0.3) -> None:
    """Alice offers a restart; the answer reaches her later than Bob's first checks."""
    now = call.now
    call.alice.restart(ALICE_NEXT, now)

    def answer(at: float) -> None:
        call.bob.restart(BOB_NEXT, at)
        call.bob.set_remote_credentials(ALICE_NEXT, at)
        call.bob.add_remote_candidate(host_candidate(CELLULAR), at)

    def take_answer(at: float) -> None:
        call.alice.set_remote_credentials(BOB_NEXT, at, lite=call.lite)
        call.alice.add_remote_candidate(host_candidate(SERVER), at)

    call.at(now + signalling_s / 2, answer)
    call.at(now + signalling_s, take_answer)


@pytest.mark.parametrize("lite", [False, True])
def test_there_is_always_a_flow(lite: bool) -> None:
    call = IceCall(lite=lite).connect()
    call.run_for(5)
    call.after_step.append(lambda node, at: _has_flow(node.endpoint.flow))
    restart(call)
    assert call.run(until=call.both_selected, timeout_s=5)
    call.run_for(60)
    assert call.alice.state is call.bob.state is IceState.COMPLETED
    assert call.alice.local_credentials == ALICE_NEXT
    assert call.bob.discards == {}


def _has_flow(flow: Flow | None) -> None:
    assert flow is not None


@pytest.mark.parametrize("lite", [False, True])
def test_a_restart_brings_a_new_network_into_use(lite: bool) -> None:
    call = IceCall(lite=lite).connect()
    call.network.attach("client", CELLULAR)
    now = call.now
    call.alice.add_local_candidate(host_candidate(CELLULAR), now)
    call.alice.remove_local_address(CLIENT[0], now)
    restart(call)
    assert call.run(
        until=lambda: call.alice.selected_flow == Flow(CELLULAR, SERVER) and call.both_selected(),
        timeout_s=5,
    )
    call.run_for(10)
    assert call.bob.flow == Flow(SERVER, CELLULAR)


@pytest.mark.parametrize("lite", [False, True])
def test_a_call_that_lost_consent_comes_back_by_a_restart(lite: bool) -> None:
    call = IceCall(lite=lite).connect()
    call.up.down = call.down.down = True
    call.run_for(60)
    assert call.alice.state is call.bob.state is IceState.FAILED
    call.up.down = call.down.down = False
    restart(call)
    assert call.run(until=call.both_selected, timeout_s=5)
    assert call.alice.state is call.bob.state is IceState.COMPLETED


def test_a_restart_that_is_never_answered_leaves_the_call_alone() -> None:
    call = IceCall().connect()
    call.alice.restart(ALICE_NEXT, call.now)
    call.run_for(120)
    assert call.alice.flow == Flow(CLIENT, SERVER)
    assert call.bob.state is IceState.COMPLETED
