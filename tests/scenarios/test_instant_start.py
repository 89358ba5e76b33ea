"""A session begins with its first datagram; signalling is off the path, and finds it there."""

from __future__ import annotations

from dataclasses import replace

import pytest

from instant_connect.decisions import Answered, Arrived
from instant_connect.sessions import Path
from instant_connect.tiers import Tier
from tests.scenarios.instant import Caller, Stage
from tests.scenarios.start import PLAIN, WARP, Start, run
from warp.datachannel import ChannelOpened
from warp.stun import Attribute, parse_message

TOLERANCE = 0.02


def begun(stage: Stage, caller: Caller) -> bool:
    """Run until everything works at both ends."""
    return stage.run(lambda: caller.up and bool(stage.server.billed))


def figures(stage: Stage, caller: Caller) -> tuple[float | None, ...]:
    """Server media, client media, channel at the client: round trips from the intent."""
    return (stage.server_media_at(caller), caller.media_at(), caller.at(ChannelOpened))


def expected(*values: float) -> object:
    return pytest.approx(values, abs=TOLERANCE)


@pytest.mark.parametrize("hybrid", [False, True], ids=["x25519", "hybrid"])
@pytest.mark.parametrize("rtt_s", [0.03, 0.1, 0.4])
def test_from_intent_to_media_half_a_round_trip(rtt_s: float, hybrid: bool) -> None:
    """Server media 0.5, client media and open channel 1.0, signalling included."""
    start = replace(WARP, rtt_s=rtt_s, hybrid=hybrid)
    stage = Stage(start=start)
    caller = stage.call()
    assert begun(stage, caller)
    assert figures(stage, caller) == expected(0.5, 1.0, 1.0)


def test_it_is_the_signalled_start_without_its_first_round_trip() -> None:
    stage = Stage()
    caller = stage.call()
    assert begun(stage, caller)
    assert figures(stage, caller) == pytest.approx(
        tuple(run(WARP).figures[n] for n in ("server_media", "client_media", "channel_client")),
        abs=TOLERANCE,
    )


def test_one_datagram_carries_ticket_identity_and_hello() -> None:
    stage = Stage()
    caller = stage.call()
    assert begun(stage, caller)
    [first, *_] = stage.sim.sent("client")
    check = parse_message(first.data)
    assert caller.call is not None
    names = (check.get(Attribute.USERNAME) or b"").decode().split(":")
    assert names[0] == caller.call.ufrag
    assert f"a=ice-ufrag:{names[1]}\r\n" in caller.peer.local_description
    hello = check.get(Attribute.META_DTLS_IN_STUN) or b""
    assert hello[0] == 22 and hello[13] == 1
    assert len(first.data) < 600
    assert isinstance(stage.server.decisions[0], Arrived)
    assert len(stage.server.decisions) == 1  # all that follows is known


def test_the_hybrid_hello_and_a_ticket_share_checks_that_browsers_send() -> None:
    """Chromium leaves the hello out of a check beyond 1220 bytes."""
    stage = Stage(start=replace(WARP, hybrid=True))
    caller = stage.call()
    assert begun(stage, caller)
    checks = [step.data for step in stage.sim.sent("client", "stun")][:2]
    assert all(len(data) <= 1220 for data in checks)
    assert all(parse_message(data).get(Attribute.META_DTLS_IN_STUN) for data in checks)


def test_nothing_is_billed_before_the_client_is_proven() -> None:
    stage = Stage()
    caller = stage.call()
    assert begun(stage, caller)
    tiers = [(stage.trips(at - caller.began), tier) for at, _, tier in stage.server.tiers]
    assert tiers == [
        (pytest.approx(0.5, abs=TOLERANCE), Tier.SHAKING),
        (pytest.approx(1.5, abs=TOLERANCE), Tier.CONFIRMED),
    ]
    [(billed_at, _)] = stage.server.billed
    assert stage.trips(billed_at - caller.began) == pytest.approx(1.5, abs=TOLERANCE)


@pytest.mark.parametrize("delay_s", [0.0, 0.01, 0.05, 0.06, 0.15, 0.4], ids=str)
def test_datagram_and_offer_meet_in_any_order(delay_s: float) -> None:
    stage = Stage()
    caller = stage.call(post_delay_s=delay_s, context="configuration")
    assert begun(stage, caller)
    stage.run_for(1.0)
    [session] = stage.begun()
    assert (session.path, session.tier) == (Path.ATTACHED, Tier.CONFIRMED)
    assert session.context == "configuration"
    assert caller.node is caller.first
    assert stage.sim.sent("client'") == []
    assert figures(stage, caller)[1:] == pytest.approx((1.0, 1.0), abs=TOLERANCE)


def test_a_session_lives_without_signalling_and_is_confirmed_in_time() -> None:
    """The API is down, UDP is not."""
    stage = Stage()
    caller = stage.call(post=False)
    assert begun(stage, caller)
    [session] = stage.begun()
    assert (session.path, session.tier) == (Path.INSTANT, Tier.PROVEN)
    stage.run_for(31.0)
    assert session.tier is Tier.CONFIRMED
    assert caller.peer.state.value == "connected"


@pytest.mark.parametrize(
    ("start", "values"),
    [
        (replace(WARP, snap=False), (1.0, 2.0)),
        (replace(WARP, sped=False), (2.0, 2.0)),
        (replace(WARP, sped=False, snap=False, server_sped=True, server_snap=True), (2.0, 3.0)),
        (replace(PLAIN, early_data=False), (3.0, 5.0)),
    ],
    ids=["without SNAP", "without SPED", "a browser", "plain"],
)
def test_whoever_speaks_less_saves_signalling_all_the_same(
    start: Start, values: tuple[float, float]
) -> None:
    """An unmodified browser: no part of WARP but the ticket."""
    stage = Stage(start=start)
    caller = stage.call()
    assert begun(stage, caller)
    assert figures(stage, caller)[1:] == pytest.approx(values, abs=TOLERANCE)
    assert len(stage.begun()) == 1
    if not start.sped:
        # its first check says nothing of DTLS: it is answered from the ticket alone
        assert isinstance(stage.server.decisions[0], Answered)
        assert stage.server.sessions[0].begun_at - caller.began > start.rtt_s


def test_a_signalled_call_begins_with_its_first_datagram_too() -> None:
    stage = Stage()
    caller = stage.call(use_bundle=False)
    stage.run(lambda: bool(caller.answers))
    assert stage.begun() == []
    assert begun(stage, caller)
    [session] = stage.begun()
    assert session.path is Path.SIGNALLED
    assert figures(stage, caller) == expected(1.5, 2.0, 2.0)
    assert session.peer.remote_description == caller.offer


def test_both_kinds_of_call_at_once() -> None:
    stage = Stage()
    callers = [
        stage.call(name=f"c{n}", host=f"192.0.2.{n + 10}", use_bundle=n % 2 == 0) for n in range(6)
    ]
    assert stage.run(lambda: all(c.up for c in callers) and len(stage.server.billed) == 6)
    assert len(stage.begun()) == 6
    assert [c.session.path for c in callers] == [Path.ATTACHED, Path.SIGNALLED] * 3
    assert stage.server.host.stats()["half_open"] == 0


def test_a_double_click_takes_two_tickets() -> None:
    """Two sessions, each by its own ticket; hanging up one of them leaves the other."""
    stage = Stage()
    bundle = stage.bundle()
    first = stage.call(bundle, name="c1")
    second = stage.call(replace(bundle, tickets=bundle.tickets[:-1]), name="c2", host="192.0.2.2")
    assert stage.run(lambda: first.up and second.up and len(stage.server.billed) == 2)
    assert len(stage.begun()) == 2
    assert first.session.ticket.id != second.session.ticket.id
    first.peer.close(stage.now)
    stage.run_for(1.0)
    assert stage.server.live() == [second.session]
    assert second.peer.state.value == "connected"


def test_goodbye_is_heard_at_once() -> None:
    stage = Stage()
    caller = stage.call()
    assert begun(stage, caller)
    caller.peer.close(stage.now)
    stage.run_for(stage.start.rtt_s)
    assert stage.server.live() == []
    assert stage.server.host.stats()["sessions"] == 0


def test_a_call_that_moves_is_followed() -> None:
    """Another network in mid-call: every check names the session, wherever it comes from."""
    stage = Stage()
    caller = stage.call()
    assert begun(stage, caller)
    stage.run_for(2.0)
    stage.sim.network.rebind(("192.0.2.1", 50_000), ("198.51.100.9", 61_000))
    heard = len(caller.node.events)
    stage.run_for(12.0)
    assert len(stage.begun()) == 1
    assert caller.peer.state.value == "connected"
    assert len(caller.node.events) > heard + 100
