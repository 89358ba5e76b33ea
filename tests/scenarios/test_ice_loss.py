"""Loss, reordering, duplication and dead candidates."""

from __future__ import annotations

import pytest

from tests.scenarios.ice_call import IceCall
from tests.sim.network import LinkConfig, drop
from tests.sim.pair import SERVER
from warp.errors import ConsentLost, NoPath
from warp.ice import IceState, PairValidated, Terminated, host_candidate


def test_a_lost_first_check_costs_one_interval() -> None:
    call = IceCall(lite=True)
    call.up.rules.append(drop(0))
    call.connect()
    ((validated, _),) = call.client.named(PairValidated)
    assert validated - call.began == pytest.approx(0.15)


def test_a_lost_response_costs_one_interval() -> None:
    call = IceCall(lite=True)
    call.down.rules.append(drop(0))
    call.connect()
    ((validated, _),) = call.client.named(PairValidated)
    assert validated - call.began == pytest.approx(0.15)


def test_a_lost_nomination_is_repeated() -> None:
    call = IceCall(lite=True)
    call.begin()
    call.run(until=lambda: call.alice.is_validated, timeout_s=1)
    call.up.rules.append(drop(call.up.count))
    assert call.run(until=call.both_selected, timeout_s=1)


@pytest.mark.slow
@pytest.mark.parametrize("lite", [False, True])
@pytest.mark.parametrize("loss", [0.25, 0.5])
def test_heavy_loss_delays_but_does_not_prevent(lite: bool, loss: float) -> None:
    times = []
    for seed in range(40):
        call = IceCall(lite=lite, seed=seed, config=LinkConfig(loss=loss)).connect(timeout_s=30)
        times.append(call.now - call.began)
    times.sort()
    assert times[len(times) // 2] < (0.5 if loss < 0.5 else 1.5)
    assert times[-3] < (1.2 if loss < 0.5 else 6.0)


@pytest.mark.parametrize("lite", [False, True])
def test_reordering_and_duplicates_do_no_harm(lite: bool) -> None:
    config = LinkConfig(reorder=0.3, reorder_s=0.08, duplicate=0.3, jitter_s=0.03)
    for seed in range(10):
        call = IceCall(lite=lite, seed=seed, config=config).connect(timeout_s=5)
        call.run_for(60)
        assert call.alice.state is call.bob.state is IceState.COMPLETED


def test_dead_candidates_in_front_do_not_hold_up_the_living() -> None:
    call = IceCall()
    call.begin()
    for last in range(20):
        call.alice.add_remote_candidate(host_candidate(("203.0.113.200", 1000 + last)), call.now)
    assert call.run(until=call.both_selected, timeout_s=3)


def test_a_swallowed_port_does_not_freeze_the_other_port_of_the_host() -> None:
    call = IceCall(lite=True)
    now = call.now
    call.alice.add_local_candidate(host_candidate(("192.0.2.1", 50000)), now)
    call.alice.set_remote_credentials(call.bob.local_credentials, now, lite=True)
    call.bob.set_remote_credentials(call.alice.local_credentials, now)
    for address in ((SERVER[0], 3478), SERVER):
        call.alice.add_remote_candidate(host_candidate(address), now)
    call.alice.start(now)
    call.bob.start(now)
    assert call.run(until=call.both_selected, timeout_s=2)
    assert call.now - now < 0.5


def test_nobody_there() -> None:
    call = IceCall()
    call.up.down = call.down.down = True
    call.begin()
    call.run_for(60)
    for node in (call.client, call.server):
        ((at, end),) = node.named(Terminated)
        assert isinstance(end.error, NoPath)
        assert at - call.began == pytest.approx(39.5, abs=1)
    # the checks slow down: no flood at a dead address
    assert len(call.sent("client")) < 80


@pytest.mark.parametrize("lite", [False, True])
def test_a_cut_cable_ends_consent_on_both_sides(lite: bool) -> None:
    call = IceCall(lite=lite).connect()
    call.run_for(10)
    call.up.down = call.down.down = True
    cut = call.now
    call.run_for(45)
    for node in (call.client, call.server):
        ((at, end),) = node.named(Terminated)
        assert isinstance(end.error, ConsentLost)
        # 30 s after the last answer, which came up to 6 s before the cut
        assert 24 < at - cut < 30.2
    assert call.alice.flow is None
    assert call.bob.flow is None


@pytest.mark.parametrize("lite", [False, True])
def test_twenty_seconds_of_darkness_are_survived(lite: bool) -> None:
    call = IceCall(lite=lite).connect()
    call.up.down = call.down.down = True
    call.run_for(20)
    assert call.alice.state is IceState.DISCONNECTED
    call.up.down = call.down.down = False
    call.run_for(3)
    assert call.alice.state is call.bob.state is IceState.COMPLETED
    call.run_for(60)
    assert call.alice.state is call.bob.state is IceState.COMPLETED


def test_one_direction_dead_is_no_consent() -> None:
    """Full agents: the peer's requests arrive, but nobody answers ours."""
    call = IceCall().connect()
    call.up.down = True
    call.run_for(45)
    assert call.alice.state is IceState.FAILED
    assert call.bob.state is IceState.FAILED
