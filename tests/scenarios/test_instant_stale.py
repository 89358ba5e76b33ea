"""When the first way comes to nothing, signalling is under way already: nothing is lost."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from instant_connect.admission import AdmissionConfig, Verdict
from instant_connect.bundle import Bundle
from instant_connect.client import RaceState
from instant_connect.reasons import InstantDiscard
from instant_connect.sessions import Path
from instant_connect.ticket import CLOCK_SKEW_S
from tests.scenarios.instant import Caller, Stage, epoch
from tests.scenarios.start import WARP
from tests.sim.network import LinkConfig, drop
from warp.datachannel import ChannelOpened
from warp.peer import AudioReceived

CHECK_INTERVAL = 0.05  # seconds: Ta, RFC 8445 section 14.2
INTERVAL = 0.5  # round trips of a check interval at 100 ms


def up(stage: Stage, caller: Caller) -> bool:
    return stage.run(lambda: caller.up and bool(stage.server.billed))


def signalled_start() -> tuple[float, float]:
    """What a call without a bundle takes: channel and first audio at the client."""
    stage = Stage()
    caller = stage.call(use_bundle=False)
    assert up(stage, caller)
    opened, heard = caller.at(ChannelOpened), caller.at(AudioReceived)
    assert opened is not None
    assert heard is not None
    return opened, heard


def expired(stage: Stage) -> Bundle:
    bundle = stage.bundle()
    stage.run_for(600 + CLOCK_SKEW_S + 10)
    return bundle


def rotated_twice(stage: Stage) -> Bundle:
    bundle = stage.bundle()
    entrance = stage.server.host.entrance
    for number in (1, 2):
        entrance.keyring = entrance.keyring.rotate(epoch(number))
    return bundle


def of_another_cell(stage: Stage) -> Bundle:
    return Stage(seed=5).bundle()


def clocks_far_apart(stage: Stage) -> Bundle:
    bundle = stage.bundle()
    stage.server.host.entrance.wall_offset_s += 700
    return bundle


STALE: list[tuple[Callable[[Stage], Bundle], InstantDiscard]] = [
    (expired, InstantDiscard.EXPIRED),
    (rotated_twice, InstantDiscard.KEY_ID),
    (of_another_cell, InstantDiscard.OTHER_CELL),
    (clocks_far_apart, InstantDiscard.EXPIRED),
]


@pytest.mark.parametrize(("spoil", "why"), STALE, ids=lambda value: getattr(value, "__name__", ""))
def test_a_stale_bundle_costs_no_more_than_a_check_interval(
    spoil: Callable[[Stage], Bundle], why: InstantDiscard
) -> None:
    stage = Stage()
    bundle = spoil(stage)
    # the client knows no better: its own clock says that the bundle is good
    caller = stage.call(bundle)
    assert up(stage, caller)
    assert caller.race.state is RaceState.SIGNALLED
    assert stage.server.host.stats()["dropped"][why.value] >= 1
    [session] = stage.begun()
    assert session.path is Path.SIGNALLED
    opened, heard = signalled_start()
    assert (caller.at(ChannelOpened) or 99.0) <= opened + INTERVAL
    assert (caller.at(AudioReceived) or 99.0) <= heard + INTERVAL
    # which it does not use: the other way has a connection of its own
    assert caller.at(ChannelOpened) == pytest.approx(opened, abs=0.02)


@pytest.mark.parametrize("lost", [1, 2, 3])
def test_first_datagrams_that_are_lost_come_again(lost: int) -> None:
    stage = Stage()
    stage.sim.network.link("client", "server").rules += [drop(n) for n in range(lost)]
    caller = stage.call()
    assert up(stage, caller)
    stage.run_for(1.0)
    [session] = stage.begun()
    assert session.path is Path.ATTACHED
    assert caller.node is caller.first
    assert stage.server.host.stats()["half_open"] == 0
    late = lost * CHECK_INTERVAL / stage.start.rtt_s
    assert (caller.at(ChannelOpened) or 99.0) <= 1.0 + late + 0.02


@pytest.mark.parametrize("lost", [1, 2, 3])
def test_first_answers_that_are_lost_come_again(lost: int) -> None:
    stage = Stage()
    stage.sim.network.link("server", "client").rules += [drop(n) for n in range(lost)]
    caller = stage.call()
    assert up(stage, caller)
    stage.run_for(1.0)
    assert len(stage.begun()) == 1
    assert (caller.at(ChannelOpened) or 99.0) <= 1.0 + (lost + 1) * INTERVAL


@pytest.mark.parametrize("seed", range(20))
def test_a_bad_network_makes_one_session_all_the_same(seed: int) -> None:
    stage = Stage(seed=seed)
    for a, b in (("client", "server"), ("server", "client")):
        stage.sim.network.link(a, b).config = LinkConfig(
            delay_s=0.05, jitter_s=0.03, loss=0.15, reorder=0.1, duplicate=0.1
        )
    caller = stage.call()
    assert up(stage, caller)
    stage.run_for(2.0)
    assert len(stage.begun()) == 1
    assert stage.server.host.stats()["half_open"] == 0


def test_a_ticket_outlives_one_rotation() -> None:
    stage = Stage()
    bundle = stage.bundle()
    entrance = stage.server.host.entrance
    entrance.keyring = entrance.keyring.rotate(epoch(1))
    caller = stage.call(bundle)
    assert up(stage, caller)
    assert caller.session.path is Path.ATTACHED
    # and is met with the certificate that its bundle named
    assert caller.session.ticket.epoch.key_id == 0


def test_a_new_epoch_has_a_new_certificate_and_its_own_bundles() -> None:
    stage = Stage()
    entrance = stage.server.host.entrance
    entrance.keyring = entrance.keyring.rotate(epoch(1))
    bundle = stage.bundle()
    assert bundle.fingerprint == epoch(1).certificate.fingerprint()
    caller = stage.call(bundle)
    assert up(stage, caller)
    assert caller.session.path is Path.ATTACHED


@pytest.mark.slow
def test_sessions_outlive_their_epoch() -> None:
    stage = Stage()
    caller = stage.call()
    assert up(stage, caller)
    entrance = stage.server.host.entrance
    for number in (1, 2, 3):
        entrance.keyring = entrance.keyring.rotate(epoch(number))
        stage.run_for(15.0)
    # it moves to another network, where nobody knows it but by its ufrag
    stage.sim.network.rebind(("192.0.2.1", 50_000), ("198.51.100.9", 61_000))
    stage.run_for(15.0)
    assert caller.peer.state.value == "connected"
    assert len(stage.begun()) == 1


@pytest.mark.parametrize("skew_s", [-3600.0, -59.0, 59.0])
def test_the_clocks_of_issuer_and_server_may_differ_by_a_minute(skew_s: float) -> None:
    stage = Stage()
    bundle = stage.bundle()
    stage.run_for(590.0)
    stage.server.host.entrance.wall_offset_s += skew_s
    caller = stage.call(bundle)
    assert up(stage, caller)
    assert caller.session.path is Path.ATTACHED


def test_a_server_that_restarts_opens_the_tickets_it_issued() -> None:
    stage = Stage()
    bundle = stage.bundle()
    restarted = Stage()
    caller = restarted.call(bundle)
    assert up(restarted, caller)
    assert caller.session.path is Path.ATTACHED


def test_a_surge_is_turned_away_at_t0_and_comes_by_signalling() -> None:
    """Overload is met before anything is spent; signalling can say no, or where else to go."""
    stage = Stage(limits=AdmissionConfig(max_half_open=3))
    callers = [stage.call(name=f"c{n}", host=f"192.0.2.{n + 10}") for n in range(6)]
    stage.run_for(0.06)
    assert len(stage.begun()) == 3
    assert stage.server.host.stats()["dropped"][InstantDiscard.OVERLOADED.value] >= 3
    assert stage.run(lambda: all(c.up for c in callers))
    assert len(stage.begun()) == 6
    assert sum(len(c.failures) for c in callers) == 3


def test_a_client_that_the_application_refuses_is_heard_by_signalling() -> None:
    asked = []

    def admit(ticket: object, address: object) -> Verdict:
        asked.append(address)
        return Verdict.REFUSE

    stage = Stage(admit=admit)
    caller = stage.call()
    assert up(stage, caller)
    assert caller.race.state is RaceState.SIGNALLED
    assert caller.session.path is Path.SIGNALLED
    assert asked == [("192.0.2.1", 50_000)]  # not again by its offer, nor by further checks


def test_a_client_that_gives_up_in_the_middle_leaves_nothing() -> None:
    """The user cancels: five seconds later all is free, and nothing was billed."""
    stage = Stage()
    caller = stage.call(post=False)
    stage.run_for(0.06)
    assert stage.server.host.stats()["half_open"] == 1
    stage.sim.network.link("client", "server").down = True
    stage.run_for(5.0)
    assert stage.server.live() == []
    stats = stage.server.host.stats()
    assert (stats["sessions"], stats["half_open"], stats["waiting"]) == (0, 0, 0)
    assert stage.server.billed == []
    assert caller.at(AudioReceived) is not None  # a greeting that was nobody's in particular


def test_a_path_that_is_known_makes_up_for_a_loss_sooner() -> None:
    """An earlier call has told how long an answer takes: what is later is lost."""
    opened = []
    for rtt_hint_s in (None, 0.02):
        stage = Stage(start=replace(WARP, rtt_s=0.02, rtt_hint_s=rtt_hint_s))
        stage.sim.network.link("client", "server").rules.append(drop(0))
        caller = stage.call()
        assert up(stage, caller)
        at = caller.node.named(ChannelOpened)[0][0] - caller.began
        opened.append(round(at, 4))
    assert opened == [0.07, 0.045]
