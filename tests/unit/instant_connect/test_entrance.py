"""What becomes of datagrams that name no session: each question, and its price."""

from __future__ import annotations

from typing import Any

import pytest

from instant_connect.admission import MAX_DECLINED, AdmissionConfig, Verdict
from instant_connect.decisions import Answered, Arrived, Dropped, Forwarded, Queued, Sought
from instant_connect.host import Host, HostConfig
from instant_connect.keyring import Epoch
from instant_connect.reasons import InstantDiscard
from instant_connect.router import Journey, Roster
from instant_connect.ticket import CLOCK_SKEW_S, OFFER_HELD, Grant, Route, open_ticket
from tests.unit.instant_connect.door import (
    CELL,
    CONTROLLING,
    HELLO,
    NOMINATED,
    NOW,
    PRIORITY,
    RING,
    SPED_HELLO,
    WALL,
    Knocker,
    flow,
    make_host,
)
from tests.vectors.instant_connect import CERTIFICATE
from warp.contract import Address
from warp.crypto import HmacSha1
from warp.stun import (
    Attribute,
    MessageClass,
    decode_error_code,
    decode_xor_address,
    parse_message,
)
from warp.trace import MemoryTrace


def reason(host: Host, data: bytes, *, number: int = 0, now: float = NOW) -> InstantDiscard:
    decision = host.receive_unknown(data, flow(number), now)
    assert isinstance(decision, Dropped)
    assert host.entrance.discards[decision.reason] >= 1
    return decision.reason


def untouched(host: Host) -> bool:
    stats = host.stats()
    names = ("sessions", "half_open", "waiting", "tickets_used", "held_offers")
    return not any(stats[name] for name in names)


# -- T0: a plain check ---------------------------------------------------------------------------


def test_a_plain_check_is_answered_and_makes_nothing() -> None:
    host, knocker = make_host(), Knocker()
    decision = host.receive_unknown(knocker.check(), flow(), NOW)
    assert isinstance(decision, Answered)
    assert not decision.refused
    answer = parse_message(decision.datagram)
    assert answer.message_class is MessageClass.SUCCESS
    assert answer.verify_integrity(HmacSha1(knocker.password.encode()))
    mapped = answer.get(Attribute.XOR_MAPPED_ADDRESS) or b""
    assert decode_xor_address(mapped, answer.transaction_id) == flow().remote
    assert len(decision.datagram) < len(knocker.check())  # it amplifies nothing
    assert len(host.sessions) == 0
    assert host.entrance.waiting == 1


def test_every_check_of_who_waits_is_answered_and_counts_once() -> None:
    host, knocker = make_host(), Knocker()
    for number in range(6):
        answer = host.receive_unknown(knocker.check(), flow(number % 3), NOW + number)
        assert isinstance(answer, Answered)
    assert host.stats()["waiting"] == host.stats()["tickets_used"] == 1


def test_a_hello_from_where_a_check_came_makes_the_session() -> None:
    host, knocker = make_host(), Knocker()
    host.receive_unknown(knocker.check(CONTROLLING, PRIORITY, NOMINATED), flow(), NOW)
    decision = host.receive_unknown(HELLO, flow(), NOW + 0.1)
    assert isinstance(decision, Arrived)
    assert decision.is_new
    assert decision.datagrams == (HELLO,)
    session = decision.session
    assert (session.ufrag, session.client_ufrag) == (knocker.ufrag, "abcd")
    # it knows of the check, whose answer has left already
    assert session.peer.stats()["flow"] == flow()
    assert session.peer.datagrams_to_send(NOW + 0.1) == []
    assert (session.checked_at, session.begun_at) == (NOW, NOW + 0.1)
    assert host.stats()["waiting"] == 0
    assert host.stats()["half_open"] == 1


def test_a_check_with_a_hello_in_it_makes_the_session_at_once() -> None:
    host, knocker = make_host(), Knocker()
    check = knocker.check(CONTROLLING, PRIORITY, SPED_HELLO)
    decision = host.receive_unknown(check, flow(), NOW)
    assert isinstance(decision, Arrived)
    assert decision.datagrams == (check,)
    again = host.receive_unknown(check, flow(1), NOW)
    assert isinstance(again, Arrived)
    assert again.session is decision.session
    assert not again.is_new


@pytest.mark.parametrize(
    "attribute",
    [
        (int(Attribute.META_DTLS_IN_STUN_ACKNOWLEDGEMENT), b""),
        (int(Attribute.ICE_CONTROLLED), bytes(8)),
        (0x7777, b""),
    ],
    ids=["speaks SPED", "role conflict", "unknown required"],
)
def test_what_only_an_agent_can_answer_makes_the_session(attribute: tuple[int, bytes]) -> None:
    host, knocker = make_host(), Knocker()
    decision = host.receive_unknown(knocker.check(PRIORITY, attribute), flow(), NOW)
    assert isinstance(decision, Arrived)


def test_a_hello_that_overtook_its_check_is_not_lost() -> None:
    host, knocker = make_host(), Knocker()
    assert isinstance(host.receive_unknown(HELLO, flow(), NOW), Queued)
    check = knocker.check()
    decision = host.receive_unknown(check, flow(), NOW + 0.1)
    assert isinstance(decision, Arrived)
    assert decision.datagrams == (check, HELLO)


def test_a_hello_that_came_too_soon_or_elsewhere_is() -> None:
    host, knocker = make_host(), Knocker()
    host.receive_unknown(HELLO, flow(), NOW)
    host.receive_unknown(HELLO, flow(1), NOW)
    assert isinstance(host.receive_unknown(knocker.check(), flow(), NOW + 0.3), Answered)
    assert isinstance(host.receive_unknown(knocker.check(), flow(2), NOW + 0.3), Answered)


def test_a_client_at_several_addresses_is_one() -> None:
    host, knocker = make_host(), Knocker()
    for number in range(9):
        host.receive_unknown(knocker.check(), flow(number), NOW)
    assert isinstance(host.receive_unknown(HELLO, flow(0), NOW), Queued)  # too many, too old
    decision = host.receive_unknown(HELLO, flow(7), NOW)
    assert isinstance(decision, Arrived)


def test_who_is_not_heard_of_waits_no_longer_and_may_come_again() -> None:
    host, knocker = make_host(), Knocker()
    host.receive_unknown(knocker.check(), flow(), NOW)
    due = host.get_timer()
    assert due == NOW + 5.0
    host.overdue(due)
    assert host.entrance.waiting == 0
    assert host.get_timer() is None
    # no session came of it, so that its one use is still its own
    assert isinstance(host.receive_unknown(knocker.check(), flow(), due + 1), Answered)


# -- what is dropped -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\x00",
        bytes(20),
        bytes([22, 254, 253]),
        bytes([0x80, 111]) + bytes(40),
        bytes([23, 254, 253, 0, 1]) + bytes(30),
        Knocker().check(message_class=MessageClass.INDICATION),
        Knocker().check(message_class=MessageClass.SUCCESS),
    ],
)
def test_what_is_neither_check_nor_hello(data: bytes) -> None:
    host = make_host()
    assert reason(host, data) is InstantDiscard.NOT_FOR_US
    assert untouched(host)


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (Knocker().check(ufrag="abcd"), InstantDiscard.UFRAG_LENGTH),
        (Knocker().check(ufrag=Knocker().ufrag[:64]), InstantDiscard.UFRAG_LENGTH),
        (Knocker().check(ufrag=Knocker().ufrag[:-4]), InstantDiscard.ATTEMPT),
        (Knocker().check(ufrag="=" * 140), InstantDiscard.BASE64),
        (Knocker().check(ufrag="A" * 140), InstantDiscard.VERSION),
        (Knocker(epoch=Epoch(9, b"x" * 32, CERTIFICATE)).check(), InstantDiscard.KEY_ID),
        (Knocker(epoch=Epoch(2, b"x" * 32, CERTIFICATE)).check(), InstantDiscard.OTHER_CELL),
        (Knocker(route=Route(CELL + 1)).check(), InstantDiscard.OTHER_CELL),
        (Knocker(grant=Grant(int(WALL) - CLOCK_SKEW_S - 1)).check(), InstantDiscard.EXPIRED),
        (Knocker(grant=Grant(int(WALL) + 9, flags=3)).check(), InstantDiscard.PROFILE),
        (Knocker(password="p" * 32).check(), InstantDiscard.WRONG_INTEGRITY),
        (Knocker().check(integrity=False), InstantDiscard.WRONG_INTEGRITY),
        (Knocker().check(fingerprint=False), InstantDiscard.NO_FINGERPRINT),
        (Knocker().check()[:-1] + b"\0", InstantDiscard.BAD_MESSAGE),
        (Knocker().check()[:-8], InstantDiscard.BAD_MESSAGE),
        (Knocker(client_ufrag="abc").check(), InstantDiscard.ATTEMPT),
        (Knocker(client_ufrag="ab cd").check(), InstantDiscard.ATTEMPT),
        (
            Knocker(grant=Grant(int(WALL) + 9, flags=OFFER_HELD)).check(),
            InstantDiscard.OFFER_FORGOTTEN,
        ),
    ],
)
def test_what_does_not_open_is_dropped_in_silence_and_leaves_nothing(
    data: bytes, why: InstantDiscard
) -> None:
    host = make_host()
    assert reason(host, data) is why
    assert untouched(host)


def test_a_ufrag_whose_attempt_was_changed_is_not_authentic() -> None:
    """Whoever sees a ticket can write another attempt behind it, and not sign for it."""
    one, other = Knocker(attempt=1), Knocker(attempt=2)
    stolen = Knocker(attempt=2, password="guessed password of 22")
    host = make_host()
    assert reason(host, stolen.check()) is InstantDiscard.WRONG_INTEGRITY
    replayed = one.check().replace(one.ufrag[-90:].encode(), other.ufrag[-90:].encode())
    assert reason(host, replayed) is InstantDiscard.BAD_MESSAGE  # not even FINGERPRINT fits
    assert untouched(host)


def test_a_ticket_is_good_for_one_attempt() -> None:
    host = make_host()
    assert isinstance(host.receive_unknown(Knocker(attempt=1).check(), flow(), NOW), Answered)
    assert reason(host, Knocker(attempt=2).check(), number=1) is InstantDiscard.USED_UP


def test_or_for_as_many_as_it_says() -> None:
    host = make_host(limits=AdmissionConfig(max_unproven_per_ticket=9))
    grant = Grant(int(WALL) + 60, max_uses=3)
    for number in range(3):
        check = Knocker(grant=grant, attempt=number).check()
        assert isinstance(host.receive_unknown(check, flow(number), NOW), Answered)
    fourth = Knocker(grant=grant, attempt=3).check()
    assert reason(host, fourth, number=4) is InstantDiscard.USED_UP


def test_a_ufrag_whose_session_has_ended_makes_no_other() -> None:
    host, knocker = make_host(), Knocker()
    decision = host.receive_unknown(knocker.check(SPED_HELLO), flow(), NOW)
    assert isinstance(decision, Arrived)
    host.sessions.end(decision.session)
    assert reason(host, knocker.check(SPED_HELLO)) is InstantDiscard.ENDED
    assert reason(host, knocker.check()) is InstantDiscard.ENDED
    # not even at the last moment of the ticket
    late = NOW + 600 + CLOCK_SKEW_S - 1
    assert reason(host, knocker.check(), now=late) is InstantDiscard.ENDED
    assert reason(host, knocker.check(), now=late + 3) is InstantDiscard.EXPIRED


# -- limits --------------------------------------------------------------------------------------


def test_the_limits_of_what_is_unproven() -> None:
    limits = AdmissionConfig(max_waiting=2, max_unproven_per_ticket=5)
    host = make_host(limits=limits)
    for seed in (1, 2):
        assert isinstance(host.receive_unknown(Knocker(seed).check(), flow(seed), NOW), Answered)
    assert reason(host, Knocker(3).check(), number=3) is InstantDiscard.OVERLOADED
    assert host.stats()["tickets_used"] == 2  # who is turned away may come again
    # who waits already is not turned away
    assert isinstance(host.receive_unknown(Knocker(1).check(), flow(1), NOW), Answered)


def test_no_more_handshakes_than_may_be_under_way() -> None:
    host = make_host(limits=AdmissionConfig(max_half_open=1))
    first, second = Knocker(1), Knocker(2)
    host.receive_unknown(first.check(), flow(1), NOW)
    host.receive_unknown(second.check(), flow(2), NOW)
    assert isinstance(host.receive_unknown(HELLO, flow(1), NOW), Arrived)
    assert reason(host, HELLO, number=2) is InstantDiscard.OVERLOADED
    assert reason(host, Knocker(3).check(), number=3) is InstantDiscard.OVERLOADED
    host.sessions.end(host.sessions.all()[0])
    assert isinstance(host.receive_unknown(HELLO, flow(2), NOW), Arrived)


def test_one_ticket_and_one_prefix_hold_few_handshakes() -> None:
    grant = Grant(int(WALL) + 60, max_uses=99)
    host = make_host(limits=AdmissionConfig(max_unproven_per_prefix=3))
    for number in (1, 2):
        check = Knocker(grant=grant, attempt=number).check()
        host.receive_unknown(check, flow(number), NOW)
    third = Knocker(grant=grant, attempt=3).check()
    assert reason(host, third) is InstantDiscard.TICKET_BUSY
    assert isinstance(host.receive_unknown(Knocker(5).check(), flow(5), NOW), Answered)
    assert reason(host, Knocker(6).check(), number=6) is InstantDiscard.PREFIX_BUSY
    elsewhere = flow(6, "198.51.100.7")
    assert isinstance(host.receive_unknown(Knocker(6).check(), elsewhere, NOW), Answered)


def test_a_full_replay_table_takes_no_new_tickets() -> None:
    host = make_host(config=HostConfig(max_tickets=1))
    host.receive_unknown(Knocker(1).check(), flow(), NOW)
    assert reason(host, Knocker(2).check()) is InstantDiscard.TABLE_FULL
    later = NOW + 700
    fresh = Knocker(3, grant=Grant(int(WALL) + 900))
    assert isinstance(host.receive_unknown(fresh.check(), flow(3), later), Answered)


def test_in_a_flood_nothing_is_opened_beyond_the_rate_of_a_prefix() -> None:
    limits = AdmissionConfig(flood_per_s=20, prefix_burst=5, prefix_rate_per_s=1)
    host = make_host(limits=limits)
    bad = Knocker(password="p" * 32).check()
    reasons = [reason(host, bad, number=number) for number in range(40)]
    assert reasons.count(InstantDiscard.WRONG_INTEGRITY) == 10 + 5
    assert reasons.count(InstantDiscard.FLOODED) == 25
    # the others are served meanwhile
    decision = host.receive_unknown(Knocker(8).check(), flow(0, "198.51.100.1"), NOW)
    assert isinstance(decision, Answered)


# -- the application's say -----------------------------------------------------------------------


class Doorman:
    def __init__(self, verdict: Verdict) -> None:
        self.verdict = verdict
        self.asked: list[tuple[int, Address | None]] = []

    def __call__(self, ticket: Any, address: Address | None) -> Verdict:
        self.asked.append((ticket.grant.policy, address))
        return self.verdict


def test_the_application_is_asked_once_an_attempt() -> None:
    doorman = Doorman(Verdict.ADMIT)
    host, knocker = make_host(admit=doorman), Knocker(grant=Grant(int(WALL) + 60, policy=7))
    for _ in range(3):
        host.receive_unknown(knocker.check(), flow(), NOW)
    host.receive_unknown(HELLO, flow(), NOW)
    host.receive_unknown(knocker.check(), flow(1), NOW)
    assert doorman.asked == [(7, flow().remote)]


def test_it_may_say_nothing_or_end_the_clients_checks() -> None:
    doorman = Doorman(Verdict.DROP)
    host, knocker = make_host(admit=doorman), Knocker()
    assert reason(host, knocker.check()) is InstantDiscard.NOT_ADMITTED
    doorman.verdict = Verdict.REFUSE
    knocker = Knocker(2)
    decision = host.receive_unknown(knocker.check(), flow(), NOW)
    assert isinstance(decision, Answered)
    assert decision.refused
    answer = parse_message(decision.datagram)
    assert answer.message_class is MessageClass.ERROR
    assert answer.verify_integrity(HmacSha1(knocker.password.encode()))
    assert decode_error_code(answer.get(Attribute.ERROR_CODE) or b"")[0] == 508
    assert host.entrance.discards[InstantDiscard.NOT_ADMITTED] == 2
    assert untouched(host)


@pytest.mark.parametrize("verdict", [Verdict.DROP, Verdict.REFUSE], ids=lambda value: value.name)
def test_what_it_has_declined_is_no_question_any_more(verdict: Verdict) -> None:
    """ICE repeats its checks, and the offer comes as well: the answer is the first one."""
    doorman = Doorman(verdict)
    host, knocker = make_host(admit=doorman), Knocker(grant=Grant(int(WALL) + 60, max_uses=2))
    answers = [host.receive_unknown(knocker.check(), flow(), NOW) for _ in range(5)]
    assert len(doorman.asked) == 1
    assert {isinstance(answer, Answered) for answer in answers} == {verdict is Verdict.REFUSE}
    doorman.verdict = Verdict.ADMIT
    # another attempt, on whatever ticket, is another question
    for other in (Knocker(attempt=1, grant=Grant(int(WALL) + 60, max_uses=2)), Knocker(2)):
        assert isinstance(host.receive_unknown(other.check(), flow(1), NOW), Answered)
    assert len(doorman.asked) == 3


def test_what_was_declined_is_remembered_within_bounds() -> None:
    admission = make_host(admit=Doorman(Verdict.DROP)).entrance.admission
    ticket = open_ticket(Knocker().ticket, RING, WALL)
    for number in range(MAX_DECLINED + 10):
        admission.ask(number.to_bytes(4, "big"), ticket, None)
    assert len(admission._declined) == MAX_DECLINED


def test_it_is_asked_of_what_is_authentic_only() -> None:
    doorman = Doorman(Verdict.ADMIT)
    host = make_host(admit=doorman)
    for data in (
        Knocker(password="p" * 32).check(),
        Knocker().check(integrity=False),
        HELLO,
        Knocker(route=Route(99)).check(),
    ):
        host.receive_unknown(data, flow(), NOW)
    assert doorman.asked == []


# -- other servers -------------------------------------------------------------------------------


def test_what_belongs_to_another_server_goes_there_with_all_that_follows() -> None:
    host, knocker = make_host(), Knocker(route=Route(CELL, 3))
    host.entrance.roster = Roster.of(0, 3)
    for data in (knocker.check(), HELLO, bytes([0x80, 111]) + bytes(40), knocker.check()):
        assert host.receive_unknown(data, flow(), NOW) == Forwarded(3)
    assert untouched(host)
    assert isinstance(host.receive_unknown(HELLO, flow(1), NOW), Queued)
    # what is forgotten in time starts anew
    media = bytes([0x80, 111]) + bytes(40)
    assert host.receive_unknown(media, flow(), NOW + 31) == Sought()
    host.entrance.set_roster(Roster.of(0))
    assert reason(host, media, number=2) is InstantDiscard.NOT_FOR_US


def test_an_address_that_comes_with_another_ticket_is_not_handed_on_any_more() -> None:
    host = make_host()
    host.entrance.roster = Roster.of(0, 3)
    host.receive_unknown(Knocker(1, route=Route(CELL, 3)).check(), flow(), NOW)
    ours = Knocker(2, route=Route(CELL, 0))
    assert isinstance(host.receive_unknown(ours.check(), flow(), NOW), Answered)
    assert isinstance(host.receive_unknown(HELLO, flow(), NOW), Arrived)


def test_a_restarted_session_of_another_server_is_found_there() -> None:
    """By its flow, and by its new ufrag when it comes from elsewhere."""
    here, there = make_host(), make_host(config=HostConfig(server=3))
    here.entrance.roster = there.entrance.roster = Roster.of(0, 3)
    knocker = Knocker(route=Route(CELL, 3))
    assert here.receive_unknown(knocker.check(), flow(), NOW) == Forwarded(3)
    short = Knocker().check(ufrag="8charact")
    assert here.receive_unknown(short, flow(), NOW) == Forwarded(3)
    assert reason(here, short, number=1) is InstantDiscard.UFRAG_LENGTH
    routed = Knocker().check(ufrag=there.draw_credentials().ufrag)
    assert here.receive_unknown(routed, flow(2), NOW) == Forwarded(3)
    assert reason(there, routed) is InstantDiscard.UFRAG_LENGTH  # no session of theirs has it
    # an epoch that is over leads home all the same
    ring = RING.rotate(Epoch(3, b"n" * 32, CERTIFICATE)).rotate(Epoch(4, b"o" * 32, CERTIFICATE))
    here.entrance.keyring = ring
    assert here.receive_unknown(knocker.check(), flow(3), NOW) == Forwarded(3)


def test_what_was_handed_on_is_taken() -> None:
    host, knocker = make_host(config=HostConfig(server=3)), Knocker(route=Route(CELL, 3))
    host.entrance.roster = Roster.of(0, 3)
    assert isinstance(
        host.receive_unknown(knocker.check(), flow(), NOW, journey=Journey(1)), Answered
    )


def test_a_draining_server_passes_on_what_is_new_and_keeps_what_it_has() -> None:
    host = make_host()
    host.entrance.roster = Roster.of(0, 3)
    had, new = Knocker(1, route=Route(CELL, 0)), Knocker(2, route=Route(CELL, 0))
    arrived = host.receive_unknown(had.check(SPED_HELLO), flow(1), NOW)
    assert isinstance(arrived, Arrived)
    host.entrance.roster = Roster.of(0, 3, draining=[0])
    assert host.receive_unknown(new.check(), flow(2), NOW) == Forwarded(3)
    moved = host.receive_unknown(had.check(), flow(3), NOW)
    assert isinstance(moved, Arrived)
    assert moved.session is arrived.session
    host.entrance.roster = Roster.of(0, draining=[0])
    assert reason(host, Knocker(4).check(), number=4) is InstantDiscard.NOBODY


def test_keys_may_be_replaced_while_sessions_live() -> None:
    host, old, older = make_host(), Knocker(1), Knocker(2)
    decision = host.receive_unknown(old.check(SPED_HELLO), flow(), NOW)
    assert isinstance(decision, Arrived)
    once = RING.rotate(Epoch(3, b"n" * 32, CERTIFICATE))
    host.entrance.keyring = once
    assert isinstance(host.receive_unknown(older.check(), flow(1), NOW), Answered)
    host.entrance.keyring = once.rotate(Epoch(4, b"o" * 32, CERTIFICATE))
    assert reason(host, Knocker(3).check(), number=2) is InstantDiscard.KEY_ID
    # the session is known by its ufrag, whatever its ticket was sealed with
    again = host.receive_unknown(old.check(), flow(3), NOW)
    assert isinstance(again, Arrived)
    assert again.session is decision.session


# -- nothing gives anything away -----------------------------------------------------------------


def test_decisions_show_no_ufrag() -> None:
    host, knocker = make_host(), Knocker()
    shown = [
        repr(host.receive_unknown(knocker.check(), flow(), NOW)),
        repr(host.receive_unknown(knocker.check(SPED_HELLO), flow(), NOW)),
        repr(host.stats()),
        repr(host.sessions.all()),
    ]
    assert all(knocker.ufrag[:30] not in text and knocker.password not in text for text in shown)


def test_the_trace_shows_none_either() -> None:
    trace = MemoryTrace()
    host = make_host(trace=trace)
    knocker = Knocker()
    host.receive_unknown(knocker.check(integrity=False), flow(), NOW)
    host.receive_unknown(knocker.check(SPED_HELLO), flow(), NOW)
    names = [name for _, name, _ in trace.records if name.startswith("instant:")]
    assert names == [
        "instant:dropped",
        "instant:tier_reached",
        "instant:materialised",
    ]
    assert knocker.ufrag[:30] not in repr(trace.records)
