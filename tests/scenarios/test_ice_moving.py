"""The client's address changes in mid-call: NAT rebinding, Wi-Fi to cellular."""

from __future__ import annotations

import pytest

from tests.scenarios.ice_call import CELLULAR, IceCall
from tests.sim.pair import CLIENT, SERVER
from warp.contract import Flow
from warp.ice import IceRole, IceState, PairSelected, Terminated, host_candidate
from warp.ice.nomination import Nominator

INSIDE = ("10.0.0.2", 50000)
FIRST, SECOND = ("192.0.2.1", 61000), ("192.0.2.1", 62000)


def behind_nat(*, lite: bool) -> IceCall:
    call = IceCall(lite=lite)
    call.network.attach("client", INSIDE)
    call.network.rebind(INSIDE, FIRST)
    call.begin(local=INSIDE)
    assert call.run(until=call.both_selected, timeout_s=5)
    assert call.bob.selected_flow == Flow(SERVER, FIRST)
    return call


@pytest.fixture
def once(monkeypatch: pytest.MonkeyPatch) -> None:
    """The client marks the check that nominates, and no other."""
    monkeypatch.setattr(
        Nominator,
        "marks",
        lambda self, pair: self.role is IceRole.CONTROLLING and pair is self.candidate,
    )


@pytest.mark.parametrize("lite", [False, True])
def test_a_nat_rebinding_is_noticed_at_the_next_consent_check(lite: bool) -> None:
    call = behind_nat(lite=lite)
    call.run_for(20)
    call.network.rebind(INSIDE, SECOND)
    rebound = call.now
    new = Flow(SERVER, SECOND)
    assert call.run(until=lambda: call.bob.flow == new, timeout_s=10)
    assert call.now - rebound < 6.3
    call.run_for(60)
    assert call.bob.selected_flow == new
    assert call.alice.state is call.bob.state is IceState.COMPLETED


def test_a_rebinding_of_who_nominates_once_is_followed(once: None) -> None:
    """Firefox's consent checks are ordinary ones: the server sees where it asks, and that it asks
    no more where it did."""
    call = behind_nat(lite=False)
    call.run_for(20)
    call.network.rebind(INSIDE, SECOND)
    rebound = call.now
    new = Flow(SERVER, SECOND)
    assert call.run(until=lambda: call.bob.flow == new, timeout_s=10)
    assert call.now - rebound < 7.5
    call.run_for(60)
    assert call.bob.selected_flow == new
    assert call.alice.state is call.bob.state is IceState.COMPLETED


@pytest.mark.parametrize("lite", [False, True])
def test_a_client_that_suspects_can_have_media_moved_in_half_a_round_trip(lite: bool) -> None:
    """The application hears nothing any more and asks for a check."""
    call = behind_nat(lite=lite)
    call.run_for(20)
    call.network.rebind(INSIDE, SECOND)
    rebound = call.now
    call.alice.request_check(rebound)
    assert call.run(until=lambda: call.bob.flow == Flow(SERVER, SECOND), timeout_s=10)
    # a full server first verifies the new address: one round trip more
    assert call.now - rebound == pytest.approx(0.05 if lite else 0.15, abs=0.02)


def test_a_rebinding_of_the_controlled_side_is_followed() -> None:
    call = IceCall(roles=(IceRole.CONTROLLED, IceRole.CONTROLLING))
    call.network.attach("client", INSIDE)
    call.network.rebind(INSIDE, FIRST)
    call.begin(local=INSIDE)
    assert call.run(until=call.both_selected, timeout_s=5)
    call.run_for(20)
    call.network.rebind(INSIDE, SECOND)
    rebound = call.now
    assert call.run(until=lambda: call.bob.selected_flow == Flow(SERVER, SECOND), timeout_s=10)
    assert call.now - rebound < 7.5
    call.run_for(60)
    assert call.bob.state is IceState.COMPLETED


@pytest.mark.parametrize("lite", [False, True])
def test_many_rebindings_over_a_long_call(lite: bool) -> None:
    call = behind_nat(lite=lite)
    for step in range(40):
        call.network.rebind(INSIDE, ("192.0.2.1", 20000 + step))
        call.alice.request_check(call.now)
        call.run_for(12)
        assert call.bob.flow == Flow(SERVER, ("192.0.2.1", 20000 + step))
    assert call.client.named(Terminated) == call.server.named(Terminated) == []


@pytest.mark.parametrize("lite", [False, True])
def test_from_wifi_to_cellular(lite: bool) -> None:
    call = IceCall(lite=lite).connect()
    call.run_for(10)
    call.network.attach("client", CELLULAR)
    moved = call.now
    call.alice.add_local_candidate(host_candidate(CELLULAR), moved)
    call.alice.remove_local_address(CLIENT[0], moved)
    new = Flow(CELLULAR, SERVER)
    assert call.run(until=lambda: call.bob.flow == Flow(SERVER, CELLULAR), timeout_s=5)
    assert call.now - moved == pytest.approx(0.05 if lite else 0.15, abs=0.02)
    assert call.run(until=lambda: call.alice.selected_flow == new, timeout_s=5)
    assert call.now - moved < 0.31
    call.run_for(60)
    assert call.alice.state is call.bob.state is IceState.COMPLETED
    assert len(call.client.named(PairSelected)) == 2


def test_a_controlled_client_moves_and_the_server_follows() -> None:
    """Only the server may nominate: it finds the old path dead and the new one answering."""
    call = IceCall(roles=(IceRole.CONTROLLED, IceRole.CONTROLLING)).connect()
    call.run_for(10)
    call.network.attach("client", CELLULAR)
    call.network.attach("nobody", CLIENT)
    moved = call.now
    call.alice.add_local_candidate(host_candidate(CELLULAR), moved)
    call.alice.remove_local_address(CLIENT[0], moved)
    assert call.run(until=lambda: call.alice.flow == Flow(CELLULAR, SERVER), timeout_s=1)
    assert call.run(until=lambda: call.bob.flow == Flow(SERVER, CELLULAR), timeout_s=5)
    assert call.now - moved < 1.5
    assert call.run(until=call.both_selected, timeout_s=1)
    call.run_for(60)
    assert call.alice.state is call.bob.state is IceState.COMPLETED


@pytest.mark.parametrize("lite", [False, True])
def test_wifi_dies_without_notice_and_cellular_was_ready(lite: bool) -> None:
    """Nobody tells the client; unanswered consent checks do."""
    call = IceCall(lite=lite).connect()
    call.network.attach("client", CELLULAR)
    call.alice.add_local_candidate(host_candidate(CELLULAR), call.now)
    call.run_for(10)
    assert call.alice.selected_flow == Flow(CLIENT, SERVER)
    # packets from and to the Wi-Fi address vanish from here on
    call.network.attach("nobody", CLIENT)
    call.network.link("nobody", "server").down = True
    died = call.now
    new = Flow(CELLULAR, SERVER)
    assert call.run(until=lambda: call.alice.selected_flow == new, timeout_s=15)
    assert call.now - died < 8.5
    assert call.run(until=lambda: call.bob.flow == Flow(SERVER, CELLULAR), timeout_s=1)
