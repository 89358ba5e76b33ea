"""Servers that share a port: who has a session, who is asked about it, and when it is over."""

from __future__ import annotations

from instant_connect.decisions import Answered, Arrived, Dropped, Forwarded, Sought
from instant_connect.guests import Lodging
from instant_connect.host import Host, HostConfig
from instant_connect.reasons import InstantDiscard
from instant_connect.replay import attempt_key
from instant_connect.router import MAX_HOPS, Journey, Roster
from instant_connect.ticket import Route, peek_route
from instant_connect.ufrag import open_ufrag
from tests.unit.instant_connect.door import (
    CELL,
    HELLO,
    NOW,
    RING,
    SPED_HELLO,
    WALL,
    Knocker,
    flow,
    make_host,
)
from tests.unit.instant_connect.test_answers import knock, own_offer
from warp.sdp import parse_description


def pair() -> tuple[Host, Host]:
    """Servers 0 and 3 of a cell."""
    hosts = make_host(), make_host(config=HostConfig(server=3))
    for host in hosts:
        host.entrance.set_roster(Roster.of(0, 3))
    return hosts


def test_a_session_begins_where_the_network_delivers_by_leave_of_its_tickets_owner() -> None:
    entry, owner = pair()
    knocker = Knocker(route=Route(CELL, 3))
    data = knocker.check()
    assert entry.receive_unknown(data, flow(), NOW) == Forwarded(3)
    onward = Journey().onward(0)
    assert onward == Journey(1, 0, False)
    assert owner.receive_unknown(data, flow(), NOW, journey=onward) == Forwarded(0, granted=True)
    back = onward.onward(3, granted=True)
    assert back == Journey(2, 0, True)
    assert isinstance(entry.receive_unknown(data, flow(), NOW, journey=back), Answered)
    # from here on it is the entry's, and nobody is asked any more
    arrived = entry.receive_unknown(HELLO, flow(), NOW)
    assert isinstance(arrived, Arrived) and arrived.is_new
    assert isinstance(entry.receive_unknown(knocker.check(), flow(1), NOW), Arrived)
    assert (len(owner.sessions), owner.entrance.waiting, len(owner.entrance.guests)) == (0, 0, 1)


def test_whatever_comes_of_a_guests_ticket_goes_to_its_host() -> None:
    entry, owner = pair()
    knocker = Knocker(route=Route(CELL, 3))
    owner.receive_unknown(knocker.check(), flow(), NOW, journey=Journey(1, 0))
    # the network has given it to the owner, or to a third one that asks
    assert owner.receive_unknown(knocker.check(), flow(1), NOW) == Forwarded(0, granted=True)
    asked = owner.receive_unknown(knocker.check(), flow(2), NOW, journey=Journey(1, 3))
    assert asked == Forwarded(0, granted=True)
    assert entry.entrance.place(knocker.ufrag) == (3, False)
    assert owner.entrance.place(knocker.ufrag) == (0, True)
    # another attempt on its ticket is one too many
    second = Knocker(route=Route(CELL, 3), attempt=1)
    decision = owner.receive_unknown(second.check(), flow(3), NOW, journey=Journey(1, 0))
    assert decision == Dropped(InstantDiscard.USED_UP)


def test_what_is_not_proven_is_granted_to_nobody() -> None:
    _, owner = pair()
    thief = Knocker(route=Route(CELL, 3), password="not what the ticket says")
    decision = owner.receive_unknown(thief.check(), flow(), NOW, journey=Journey(1, 0))
    assert decision == Dropped(InstantDiscard.WRONG_INTEGRITY)
    assert (len(owner.entrance.guests), len(owner.entrance.replay)) == (0, 0)


def test_a_server_that_drains_or_is_gone_is_granted_nothing() -> None:
    _, owner = pair()
    knocker = Knocker(route=Route(CELL, 3))
    owner.entrance.set_roster(Roster.of(0, 3, draining=[0]))
    decision = owner.receive_unknown(knocker.check(), flow(), NOW, journey=Journey(1, 0))
    assert isinstance(decision, Answered)
    other = Knocker(2, route=Route(CELL, 3))
    decision = owner.receive_unknown(other.check(), flow(1), NOW, journey=Journey(1, 7))
    assert isinstance(decision, Answered)


def test_an_offer_that_is_held_keeps_its_session_with_it() -> None:
    _, owner = pair()
    answer = owner.answers.answer(parse_description(own_offer()), NOW)
    data = knock(answer).check()
    assert isinstance(owner.receive_unknown(data, flow(), NOW, journey=Journey(1, 0)), Answered)


def test_guests_of_a_server_that_dies_are_over_and_their_tickets_used() -> None:
    _, owner = pair()
    knocker = Knocker(route=Route(CELL, 3))
    entry = Lodging(b"12345678", attempt_key(knocker.ufrag), int(WALL) + 60)
    opened = open_ufrag(knocker.ufrag, RING, WALL)
    owner.entrance.learn(0, [entry._replace(ticket_id=opened.ticket.id)], NOW)
    assert owner.receive_unknown(knocker.check(), flow(), NOW) == Forwarded(0, granted=True)
    owner.entrance.set_roster(Roster.of(3))
    decision = owner.receive_unknown(knocker.check(), flow(), NOW)
    assert decision == Dropped(InstantDiscard.ENDED)


def test_a_server_tells_of_its_sessions_whoever_is_asked_about_them_now() -> None:
    entry, owner = pair()
    knocker = Knocker(route=Route(CELL, 3))
    journey = Journey(2, 0, True)
    arrived = entry.receive_unknown(knocker.check(SPED_HELLO), flow(), NOW, journey=journey)
    assert isinstance(arrived, Arrived)
    [(whom, [lodging])] = entry.lodgings().items()
    assert whom == 3
    owner.entrance.learn(0, [lodging], NOW)
    assert owner.receive_unknown(knocker.check(), flow(1), NOW) == Forwarded(0, granted=True)
    entry.entrance.set_roster(Roster.of(0))
    assert entry.lodgings() == {}  # by now we are who is asked


def test_a_datagram_does_not_travel_for_ever() -> None:
    host, _ = pair()
    knocker = Knocker(route=Route(CELL, 3))
    far = Journey(MAX_HOPS, 3)
    decision = host.receive_unknown(knocker.check(), flow(), NOW, journey=far)
    assert decision == Dropped(InstantDiscard.NOBODY)
    host.entrance.note_owner(flow(), 3, NOW)
    media = bytes([0x80, 111]) + bytes(40)
    assert host.receive_unknown(media, flow(), NOW) == Forwarded(3)
    assert host.receive_unknown(media, flow(), NOW, journey=far) == Dropped(InstantDiscard.NOBODY)


def test_an_address_that_somebody_claims_is_led_there_unless_nobody_is_there() -> None:
    host, _ = pair()
    media = bytes([0x80, 111]) + bytes(40)
    for nobody in (0, 7):
        host.entrance.note_owner(flow(), nobody, NOW)
        assert host.receive_unknown(media, flow(), NOW) == Sought()
    host.entrance.note_owner(flow(), 3, NOW)
    assert host.receive_unknown(media, flow(), NOW) == Forwarded(3)


def test_checks_without_a_hello_end_in_silence() -> None:
    """The session of such a client was a server's that is gone: it is to notice."""
    host, knocker = make_host(), Knocker()
    for second in range(0, 11, 2):
        decision = host.receive_unknown(knocker.check(), flow(), NOW + second)
        assert isinstance(decision, Answered)
    late = host.receive_unknown(knocker.check(), flow(), NOW + 11)
    assert late == Dropped(InstantDiscard.NO_HELLO)
    assert (host.entrance.waiting, host.sessions.admission.half_open) == (0, 0)
    again = host.receive_unknown(knocker.check(SPED_HELLO), flow(), NOW + 12)
    assert again == Dropped(InstantDiscard.ENDED)


def test_tickets_name_those_who_take_sessions_in_turn() -> None:
    """One of them answers all requests, and is not to have all sessions."""
    host = make_host(config=HostConfig(server=3))
    host.entrance.set_roster(Roster.of(0, 3, 5, 6, draining=[6]))
    named = [
        [peek_route(ticket.raw, RING).hint for ticket in host.bundle(NOW).tickets] for _ in range(3)
    ]
    assert named == [[3, 5, 0], [5, 0, 3], [0, 3, 5]]
    host.entrance.set_roster(Roster.of(3, draining=[3]))
    assert {peek_route(t.raw, RING).hint for t in host.bundle(NOW).tickets} == {3}
