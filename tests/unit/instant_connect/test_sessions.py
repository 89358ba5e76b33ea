"""Sessions from their first hello to their end, and what is counted on the way."""

from __future__ import annotations

import pytest

from instant_connect.admission import AdmissionConfig
from instant_connect.decisions import Arrived
from instant_connect.held import HeldOffer
from instant_connect.host import Host
from instant_connect.sessions import InstantSession, Path
from instant_connect.ticket import Grant
from instant_connect.tiers import Tier
from instant_connect.ufrag import open_ufrag
from tests.unit.instant_connect.door import NOW, RING, SPED_HELLO, WALL, Knocker, flow, make_host
from warp.errors import InternalError


def arrived(host: Host, knocker: Knocker, number: int = 0, now: float = NOW) -> InstantSession:
    decision = host.receive_unknown(knocker.check(SPED_HELLO), flow(number), now)
    assert isinstance(decision, Arrived)
    return decision.session


def test_what_is_unproven_is_counted_until_it_is_proven() -> None:
    host = make_host()
    session = arrived(host, Knocker(grant=Grant(int(WALL) + 60, policy=9)))
    assert (session.tier, session.path, session.policy) == (Tier.SHAKING, Path.INSTANT, 9)
    assert host.stats()["half_open"] == 1
    for _ in range(2):
        host.sessions.authenticated(session, NOW + 1)
    assert session.tier is Tier.PROVEN
    assert host.stats()["half_open"] == 0
    assert host.stats()["sessions"] == 1
    assert host.stats()["proven"] == {"instant": 1}
    for _ in range(2):
        host.sessions.end(session)
    assert host.stats()["sessions"] == 0
    assert host.sessions.admission.sessions == 0
    host.sessions.authenticated(session, NOW + 2)
    assert host.stats()["proven"] == {"instant": 1}


def test_a_handshake_that_comes_to_nothing_is_overdue_after_five_seconds() -> None:
    host = make_host()
    session = arrived(host, Knocker())
    assert host.get_timer() == NOW + 5.0
    assert host.overdue(NOW + 4.9) == []
    assert host.overdue(NOW + 5.0) == [session]
    assert host.overdue(NOW + 5.0) == []
    host.sessions.end(session)
    assert host.stats()["half_open"] == 0
    assert host.get_timer() is None


def test_a_session_nobody_attached_to_is_confirmed_in_time() -> None:
    host = make_host()
    session = arrived(host, Knocker())
    host.sessions.authenticated(session, NOW + 1)
    assert host.get_timer() == NOW + 31
    assert host.overdue(NOW + 31) == []
    assert session.tier is Tier.CONFIRMED
    assert host.get_timer() is None


def test_or_ended_where_the_policy_is_so() -> None:
    host = make_host(limits=AdmissionConfig(keeps_unattached=False))
    session = arrived(host, Knocker())
    host.sessions.authenticated(session, NOW + 1)
    assert host.overdue(NOW + 31) == [session]
    assert session.tier is Tier.PROVEN


@pytest.mark.parametrize("early", [False, True])
def test_an_offer_attaches_before_or_after(early: bool) -> None:
    host = make_host()
    session = arrived(host, Knocker())
    if not early:
        host.sessions.authenticated(session, NOW + 1)
    host.sessions.attach(session, HeldOffer(None, None, {"voice": "x"}), NOW + 1)
    if early:
        assert session.tier is Tier.SHAKING
        host.sessions.authenticated(session, NOW + 1)
    assert (session.tier, session.path) == (Tier.CONFIRMED, Path.ATTACHED)
    assert session.context == {"voice": "x"}
    assert host.stats()["proven"] == {"attached" if early else "instant": 1}


def test_an_offer_that_waits_is_found_by_its_session() -> None:
    host, knocker = make_host(), Knocker()
    host.sessions.held.hold(knocker.ufrag, HeldOffer(None, None, "context"), NOW)
    session = arrived(host, knocker)
    assert (session.context, session.path) == ("context", Path.ATTACHED)
    assert len(host.sessions.held) == 0


def test_a_ufrag_names_one_session() -> None:
    host, knocker = make_host(), Knocker()
    arrived(host, knocker)
    opened = open_ufrag(knocker.ufrag, RING, WALL)
    with pytest.raises(InternalError):
        host.sessions.begin(opened, knocker.ufrag, "abcd", "192.0.2", NOW)


def test_a_session_that_has_ended_is_not_kept_by_its_deadline() -> None:
    host = make_host(limits=AdmissionConfig(max_unproven_per_prefix=10_000))
    for number in range(50):
        host.sessions.end(arrived(host, Knocker(seed=number), number))
    assert len(host.sessions) == 0
    assert host.get_timer() is None
    assert host.overdue(NOW + 100) == []


def test_a_printed_session_shows_no_secret() -> None:
    knocker = Knocker()
    shown = repr(arrived(make_host(), knocker))
    assert shown == "<InstantSession instant SHAKING>"
