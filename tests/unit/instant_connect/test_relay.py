"""Where a relay leads a datagram, and when an upstream is up: decided without a socket."""

from __future__ import annotations

import itertools

import pytest

from instant_connect.envelope import DRAINING, TAKING, Envelope, decode_envelope, seal_envelope
from instant_connect.keyring import RelayKeys
from instant_connect.reasons import InstantDiscard
from instant_connect.relay import (
    Health,
    HealthChanged,
    Relay,
    RelayConfig,
    Upstream,
    parse_upstream,
)
from instant_connect.router import rendezvous
from instant_connect.ticket import Route
from tests.unit.instant_connect.door import CELL, HELLO, NOW, RING, Knocker
from warp.contract import Address
from warp.errors import InvalidConfig

KEYS = RING.relay_keys()
UPSTREAMS = (
    Upstream(1, 1, ("10.0.0.1", 443)),
    Upstream(2, 4, ("10.0.0.2", 443)),
    Upstream(9, 9, ("10.0.0.9", 443)),
)
CLIENT: Address = ("192.0.2.1", 50_000)
MEDIA = bytes([0x80, 111]) + bytes(40)


def relay(**config: float) -> Relay:
    return Relay(KEYS, UPSTREAMS, RelayConfig(**config), now=NOW)  # type: ignore[arg-type]


def led(relay: Relay, data: bytes, client: Address = CLIENT, now: float = NOW) -> int | None:
    """The index of the upstream that a datagram goes to, unharmed and with its address."""
    passed = relay.receive_client(data, client, now)
    if passed is None:
        return None
    envelope = decode_envelope(passed.data, RING)
    assert (envelope.client, envelope.data, envelope.is_back) == (client, data, False)
    return passed.upstream


def answer(
    relay: Relay, index: int, data: bytes, client: Address = CLIENT, now: float = NOW
) -> tuple[bytes, Address] | None:
    raw = seal_envelope(Envelope(client, data, 2, is_back=True), RING)
    return relay.receive_upstream(raw, index, now)


def knock(hint: int, seed: int = 1) -> Knocker:
    return Knocker(seed, route=Route(CELL, hint))


def ask(relay: Relay, now: float, *told: bytes | None) -> list[HealthChanged]:
    """One round of questions, with the answers of the upstreams."""
    for passed in relay.handle_timer(now):
        question = decode_envelope(passed.data, RING)
        assert question.data == b""
        data = told[passed.upstream]
        if data is not None:
            raw = seal_envelope(question._replace(data=data, is_back=True), RING)
            assert relay.receive_upstream(raw, passed.upstream, now) is None
    return relay.events()


# -- where to -------------------------------------------------------------------------------------


@pytest.mark.parametrize(("hint", "index"), [(1, 0), (2, 1), (3, 1), (4, 1), (9, 2)])
def test_a_check_goes_where_its_ticket_says(hint: int, index: int) -> None:
    assert led(relay(), knock(hint).check()) == index


def test_a_hint_that_nobody_has_goes_where_all_relays_agree() -> None:
    for seed in range(12):
        knocker = knock(77, seed)
        index = led(relay(), knocker.check())
        assert index is not None
        assert UPSTREAMS[index].first == rendezvous(knocker.ticket[1:17], [1, 2, 9])


def test_what_follows_a_check_goes_the_same_way_and_else_nowhere() -> None:
    made = relay()
    for data in (HELLO, MEDIA, b"", b"\x01\x01" + bytes(30), bytes(20)):
        assert led(made, data) is None
    assert made.discards == {InstantDiscard.NOT_FOR_US: 5}
    assert led(made, knock(9).check()) == 2
    for data in (HELLO, MEDIA, b"\x01\x01" + bytes(30)):
        assert led(made, data) == 2
    assert led(made, MEDIA, ("192.0.2.1", 50_001)) is None


def test_checks_that_lead_nowhere_are_dropped_by_reason() -> None:
    made = relay()
    knocker = Knocker(route=Route(CELL + 1, 1))
    assert led(made, knocker.check()) is None
    assert led(made, knock(1).check(ufrag="short")) is None
    assert led(made, knock(1).check(ufrag="!" * 140)) is None
    assert made.discards == {
        InstantDiscard.OTHER_CELL: 1,
        InstantDiscard.UFRAG_LENGTH: 1,
        InstantDiscard.BASE64: 1,
    }
    assert len(made) == 0
    # of an address that is known such a check is an ordinary session's
    led(made, knock(9).check())
    assert led(made, knock(1).check(ufrag="short")) == 2


def test_an_address_is_forgotten_when_nothing_comes_from_it() -> None:
    made = relay()
    led(made, knock(1).check())
    assert led(made, MEDIA, now=NOW + 30) == 0
    assert led(made, MEDIA, now=NOW + 60) == 0
    assert led(made, MEDIA, now=NOW + 90.1) is None
    assert len(made) == 0
    led(made, knock(1).check(), now=NOW + 91)
    answer(made, 0, b"x" * 20, now=NOW + 91)
    made.handle_timer(NOW + 122)
    assert len(made) == 0


def test_an_address_that_another_client_has_got_follows_that() -> None:
    made = relay()
    led(made, knock(1).check())
    answer(made, 0, b"x" * 20)
    assert led(made, knock(9, 2).check()) == 2
    assert led(made, MEDIA) == 2
    assert len(made) == 1


# -- and back -------------------------------------------------------------------------------------


def test_an_answer_goes_to_its_client_and_to_nobody_who_did_not_ask() -> None:
    made = relay()
    led(made, knock(1).check())
    assert answer(made, 0, b"an answer of some length") == (b"an answer of some length", CLIENT)
    assert answer(made, 0, b"to a victim", ("198.51.100.1", 53)) is None
    assert made.discards == {InstantDiscard.NOT_FOR_US: 1}


def test_what_is_not_sealed_goes_nowhere() -> None:
    made = relay()
    led(made, knock(1).check())
    passed = made.receive_client(MEDIA, CLIENT, NOW)
    assert passed is not None
    stranger = RelayKeys(CELL, {2: b"s" * 16})
    forged = seal_envelope(Envelope(CLIENT, b"x", 2, is_back=True), stranger)
    for raw in (b"", MEDIA, forged, passed.data):  # the last one is our own, come back
        assert made.receive_upstream(raw, 0, NOW) is None
    assert made.discards == {InstantDiscard.BAD_ENVELOPE: 4}


# -- bounds ---------------------------------------------------------------------------------------


def test_addresses_that_were_never_answered_make_way_for_each_other_only() -> None:
    made = relay(max_unanswered=3, max_flows=2)
    knocker = knock(1)
    led(made, knocker.check())
    answer(made, 0, b"x" * 20)
    for port in range(20):  # somebody sends a check that was seen, from anywhere
        assert led(made, knocker.check(), ("198.51.100.1", port)) == 0
    assert len(made) == 4
    assert led(made, MEDIA) == 0
    assert led(made, MEDIA, ("198.51.100.1", 16)) is None
    assert led(made, MEDIA, ("198.51.100.1", 17)) == 0
    for port in (17, 18, 19):
        answer(made, 0, b"x" * 20, ("198.51.100.1", port))
    assert len(made) == 2
    assert led(made, MEDIA) is None  # the one that was heard of longest ago


@pytest.mark.parametrize("name", ["idle_s", "max_flows", "max_unanswered", "down_after_s"])
def test_limits_are_above_nought(name: str) -> None:
    with pytest.raises(InvalidConfig, match=name):
        RelayConfig(**{name: 0})


# -- health ---------------------------------------------------------------------------------------


def test_an_upstream_that_does_not_answer_is_down_and_its_tickets_go_elsewhere() -> None:
    made, knocker = relay(), knock(1)
    assert led(made, knocker.check()) == 0
    answer(made, 0, b"x" * 20)
    for second in range(4):
        assert made.health(0) is Health.TAKING
        changes = ask(made, NOW + second, None, TAKING, TAKING)
        assert changes == []
    assert ask(made, NOW + 4, None, TAKING, TAKING) == [HealthChanged(UPSTREAMS[0], Health.DOWN)]
    other = rendezvous(knocker.ticket[1:17], [2, 9])
    assert led(made, knocker.check(), now=NOW + 4) == {2: 1, 9: 2}[other or 0]
    assert ask(made, NOW + 5, TAKING, TAKING, TAKING) == [
        HealthChanged(UPSTREAMS[0], Health.TAKING)
    ]
    assert led(made, knock(1, 2).check(), ("192.0.2.2", 1), NOW + 5) == 0


def test_traffic_is_a_sign_of_life_too() -> None:
    made = relay()
    led(made, knock(1).check())
    for second in range(10):
        answer(made, 0, b"x" * 20, now=NOW + second)
        ask(made, NOW + second, None, TAKING, TAKING)
        led(made, MEDIA, now=NOW + second)
    assert made.health(0) is Health.TAKING


def test_what_the_network_refuses_is_down_at_once() -> None:
    made = relay()
    led(made, knock(1).check())
    made.refuse(0)
    made.refuse(0)
    assert made.events() == [HealthChanged(UPSTREAMS[0], Health.DOWN)]
    assert led(made, MEDIA) is None
    assert made.discards == {InstantDiscard.NOBODY: 1}
    made.refuse(1)
    made.refuse(2)
    assert led(made, knock(2).check()) is None


def test_a_draining_upstream_keeps_its_clients_also_when_they_move() -> None:
    made, old = relay(), knock(1)
    led(made, old.check())
    answer(made, 0, b"x" * 20)
    [change] = ask(made, NOW + 1, DRAINING, TAKING, TAKING)
    assert change.health is Health.DRAINING
    assert led(made, MEDIA, now=NOW + 1) == 0
    assert led(made, old.check(), now=NOW + 1) == 0
    assert led(made, old.check(), ("198.51.100.1", 1), NOW + 2) == 0
    assert led(made, knock(1, 2).check(), ("192.0.2.7", 1), NOW + 2) in (1, 2)


def test_an_answer_to_another_question_says_nothing() -> None:
    made = relay()
    [first, *_] = made.handle_timer(NOW)
    question = decode_envelope(first.data, RING)
    made.handle_timer(NOW + 1)
    raw = seal_envelope(question._replace(data=DRAINING, is_back=True), RING)
    made.receive_upstream(raw, 0, NOW + 1)
    assert made.events() == []


def test_questions_are_asked_in_time() -> None:
    made = relay(probe_s=2.0)
    assert made.get_timer() == NOW
    assert len(made.handle_timer(NOW)) == 3
    assert made.get_timer() == NOW + 2
    assert made.handle_timer(NOW + 1) == []
    for second in itertools.count(1):
        if second * 2 > 70_000:
            break
        made.handle_timer(NOW + 2 * second)
    assert made.get_timer() is not None


def test_counts_are_told() -> None:
    made = relay()
    led(made, knock(1).check())
    led(made, b"", ("192.0.2.2", 1))
    answer(made, 0, b"x" * 20)
    stats = made.stats()
    assert stats["passed_on"] == stats["passed_back"] == stats["flows"] == 1
    assert stats["dropped"] == {"NOT_FOR_US": 1}
    assert stats["upstreams"]["2-4 (10.0.0.2:443)"] == "TAKING"


# -- configuration --------------------------------------------------------------------------------


def test_upstreams_are_told_apart_by_their_numbers() -> None:
    with pytest.raises(InvalidConfig, match="at least one"):
        Relay(KEYS, (), now=NOW)
    twice = (Upstream(1, 3, ("10.0.0.1", 1)), Upstream(3, 3, ("::1", 2)))
    with pytest.raises(InvalidConfig, match=r"server 3 is both 1-3 \(10.0.0.1:1\) and 3 \(\[::1"):
        Relay(KEYS, twice, now=NOW)


def test_how_upstreams_are_written() -> None:
    assert parse_upstream("7=10.0.0.1:443") == (7, 7, "10.0.0.1", 443)
    assert parse_upstream("0-3=media.example:443") == (0, 3, "media.example", 443)
    assert parse_upstream("0=[2001:db8::1]:443") == (0, 0, "2001:db8::1", 443)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "10.0.0.1:443",
        "1=",
        "1=host",
        "1=host:0",
        "1=host:65536",
        "65536=host:1",
        "3-1=h:1",
        "x=host:1",
        "1=::1:443",
        "1=a b:1",
        "1-=h:1",
        "-1=h:1",
    ],
)
def test_what_names_no_upstream_is_refused_with_the_way_to_write_it(text: str) -> None:
    with pytest.raises(InvalidConfig, match="ID=HOST:PORT"):
        parse_upstream(text)
