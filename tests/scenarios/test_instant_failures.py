"""Failure cases that no other story tells: what the client has to do with them, if anything."""

from __future__ import annotations

from dataclasses import replace

import pytest

from instant_connect.bundle import Bundle
from instant_connect.client import RaceState
from instant_connect.reasons import InstantDiscard
from instant_connect.sessions import Path
from instant_connect.tiers import Tier
from tests.scenarios import instant
from tests.scenarios.instant import Caller, Stage, epoch
from tests.scenarios.start import WARP, Start
from warp.contract import Address
from warp.peer import ConnectionState, Terminated

BROWSER = replace(WARP, sped=False, snap=False, server_sped=True, server_snap=True)
V6_SERVER: Address = ("2001:db8::443", 443)


def up(stage: Stage, caller: Caller) -> bool:
    return stage.run(lambda: caller.up and bool(stage.server.billed))


def nothing_is_left(stage: Stage) -> bool:
    stats = stage.server.host.stats()
    names = ("sessions", "half_open", "waiting", "held_offers")
    return all(stats[name] == 0 for name in names)


def test_a_cell_that_is_down_as_a_whole() -> None:
    """Its addresses are silent; another cell's signalling has answered by then (IC-4)."""
    gone = Stage(seed=5, address=("203.0.113.99", 443)).bundle()
    stage = Stage()
    caller = stage.call(gone)
    assert up(stage, caller)
    assert caller.race.state is RaceState.SIGNALLED
    [session] = stage.begun()
    assert session.path is Path.SIGNALLED
    # nothing of the first way ever arrived here
    assert stage.server.host.stats()["dropped"] == {}


def test_without_udp_nothing_begins_and_nothing_stays() -> None:
    """The offer joins an attempt of which nothing comes (IC-8)."""
    stage = Stage(start=replace(WARP, connect_timeout_s=5.0))
    stage.sim.network.link("client", "server").down = True
    caller = stage.call()
    stage.run_for(6.0)
    assert caller.first is not None
    assert caller.first.endpoint.state is ConnectionState.FAILED
    assert [answer.status.value for answer in caller.answers] == ["attached"]
    assert stage.begun() == [] and stage.server.billed == []
    assert stage.server.host.stats()["held_offers"] == 1
    stage.run_for(60.0)
    assert nothing_is_left(stage)


@pytest.mark.parametrize(
    ("start", "moment_s"),
    [
        *[(BROWSER, moment_s) for moment_s in (0.06, 0.11, 0.21)],
        *[(WARP, moment_s) for moment_s in (0.02, 0.06, 0.11, 0.16, 0.21)],
    ],
    ids=lambda value: value if isinstance(value, float) else "warp" if value is WARP else "browser",
)
def test_a_nat_that_rebinds_between_check_and_handshake(start: Start, moment_s: float) -> None:
    """What comes from the new address waits for a check from there (IC-9)."""
    stage = Stage(start=start)
    caller = stage.call()
    inside, outside = ("192.0.2.1", 50_000), ("198.51.100.9", 61_000)
    stage.sim.at(stage.now + moment_s, lambda _: stage.sim.network.rebind(inside, outside))
    assert up(stage, caller)
    stage.run_for(1.0)
    [session] = stage.begun()
    assert session.tier is Tier.CONFIRMED
    assert caller.node is caller.first


@pytest.mark.parametrize("length", [16, 32, 64, 140, 150])
def test_a_client_that_cuts_the_ufrag_is_signalled(
    length: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its checks and its offer name something that nobody has sealed (IC-12)."""

    def cut(*arguments: object) -> object:
        call = compose(*arguments)
        short = call.ufrag[:length]
        return call._replace(answer=call.answer.replace(call.ufrag, short), ufrag=short)

    compose = instant.compose_call
    monkeypatch.setattr(instant, "compose_call", cut)
    stage = Stage()
    caller = stage.call()
    assert up(stage, caller)
    assert caller.race.state is RaceState.SIGNALLED
    [session] = stage.begun()
    assert session.path is Path.SIGNALLED


@pytest.mark.slow
def test_a_tab_that_vanishes_without_a_word() -> None:
    """No goodbye: the server's patience ends the session, and it is told once (IC-20)."""
    stage = Stage()
    caller = stage.call()
    assert up(stage, caller)
    stage.run_for(1.0)
    stage.sim.network.link("client", "server").down = True
    stage.run_for(40.0)
    assert stage.server.live() == []
    assert len(stage.node.named(Terminated)) == 1
    assert nothing_is_left(stage)


def test_a_bundle_of_another_network_is_good_on_this_one() -> None:
    """It was fetched at home, and is used from a train (IC-22)."""
    stage = Stage()
    bundle = stage.bundle()
    for name, host in (("home", "192.0.2.1"), ("train", "198.51.100.200")):
        given = replace(bundle, tickets=bundle.tickets[:1])
        bundle = replace(bundle, tickets=bundle.tickets[1:])
        caller = stage.call(given, name=name, host=host)
        assert up(stage, caller)
        assert stage.run(lambda caller=caller: caller.race.state is RaceState.INSTANT)
        assert caller.session.path is Path.ATTACHED


def test_ipv6_only() -> None:
    """IC-26."""
    stage = Stage(address=V6_SERVER)
    caller = stage.call(host="2001:db8:1::2")
    assert up(stage, caller)
    assert caller.race.state is RaceState.INSTANT
    assert caller.peer.stats()["flow"].remote == V6_SERVER


def test_a_certificate_that_is_not_the_bundles_ends_the_attempt_and_costs_nobody() -> None:
    """It cannot happen by itself: who says it lies, or stands in between (IC-2)."""
    stage = Stage()
    bundle: Bundle = replace(stage.bundle(), fingerprint=epoch(3).certificate.fingerprint())
    caller = stage.call(bundle)
    stage.run_for(1.0)
    assert caller.first is not None
    assert caller.first.endpoint.state is ConnectionState.FAILED
    assert stage.server.billed == []
    stage.run_for(6.0)
    assert nothing_is_left(stage)
    # late datagrams of it are absorbed
    [first, *_] = stage.sim.sent("client")
    stage.sim.inject(first.data, ("192.0.2.1", 50_000), stage.address)
    stage.run_for(0.1)
    assert len(stage.begun()) == 1
    assert stage.server.host.stats()["dropped"][InstantDiscard.ENDED.value] >= 1
