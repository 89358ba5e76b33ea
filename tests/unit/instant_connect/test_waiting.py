"""What is kept of clients at T0, and of records that overtook their check."""

from __future__ import annotations

from instant_connect.waiting import MAX_FLOWS, MAX_REMEMBERED, EarlyRecords, WaitingRoom
from tests.unit.instant_connect.door import flow

NOW = 10.0


def test_one_check_is_kept_of_each_address() -> None:
    room = WaitingRoom(5.0)
    client = room.admit("u", b"t", "p", NOW)
    room.note(client, b"first", flow(1), NOW)
    room.note(client, b"second", flow(2), NOW)
    room.note(client, b"third", flow(1), NOW)
    assert client.checks == {flow(2): b"second", flow(1): b"third"}
    assert room.on(flow(1)) is room.on(flow(2)) is room.find("u") is client


def test_of_many_addresses_the_latest() -> None:
    room = WaitingRoom(5.0)
    client = room.admit("u", b"t", "p", NOW)
    for number in range(MAX_FLOWS + 2):
        room.note(client, b"check", flow(number), NOW)
    assert len(client.checks) == MAX_FLOWS
    assert room.on(flow(0)) is None
    assert room.on(flow(1)) is None
    room.remove(client)
    assert len(room) == 0
    assert room.on(flow(MAX_FLOWS)) is None


def test_an_address_that_a_nat_gives_to_another_is_the_others() -> None:
    room = WaitingRoom(5.0)
    one, two = room.admit("one", b"t", "p", NOW), room.admit("two", b"t", "p", NOW)
    room.note(one, b"check", flow(1), NOW)
    room.note(two, b"check", flow(1), NOW)
    assert room.on(flow(1)) is two
    assert one.checks == {}
    room.remove(one)
    assert room.on(flow(1)) is two


def test_who_is_heard_stays_and_who_is_not_goes() -> None:
    room = WaitingRoom(5.0)
    assert room.get_timer() is None
    one, two = room.admit("one", b"t", "p", NOW), room.admit("two", b"t", "p", NOW)
    room.note(one, b"check", flow(1), NOW)
    room.note(two, b"check", flow(2), NOW + 1)
    room.note(one, b"check", flow(1), NOW + 2)
    assert room.get_timer() == NOW + 6
    assert room.expire(NOW + 5.9) == []
    assert room.expire(NOW + 6) == [two]
    assert room.expire(NOW + 60) == [one]
    assert len(room) == 0


def test_records_wait_a_fifth_of_a_second_two_of_each_address() -> None:
    early = EarlyRecords()
    for record in (b"one", b"two", b"three"):
        early.hold(record, flow(), NOW)
    assert early.take(flow(), NOW + 0.2) == [b"one", b"two"]
    assert early.take(flow(), NOW + 0.2) == []
    early.hold(b"one", flow(), NOW)
    assert early.take(flow(), NOW + 0.3) == []
    early.hold(b"one", flow(), NOW)
    early.hold(b"later", flow(), NOW + 1)
    assert early.take(flow(), NOW + 1) == [b"later"]


def test_strangers_fill_little() -> None:
    early = EarlyRecords()
    early.hold(bytes(1501), flow(), NOW)
    assert len(early) == 0
    for number in range(1000):
        early.hold(bytes(1500), flow(number), NOW)
    assert len(early) == 64
    assert early.take(flow(999), NOW) == [bytes(1500)]
    assert early.take(flow(0), NOW) == []


def test_who_goes_on_without_a_hello_has_had_its_time_however_it_comes_and_goes() -> None:
    room = WaitingRoom(5.0, hello_s=10.0)
    client = room.admit("u", b"t", "p", 100.0)
    assert not room.is_overdue(client, 200.0)
    assert room.expire(106.0) == [client]
    again = room.admit("u", b"t", "p", 112.0)  # it was away: that is not held against it
    room.note(again, b"check", flow(), 112.0)
    assert not room.is_overdue(again, 116.9)
    room.note(again, b"check", flow(), 115.0)
    assert room.is_overdue(again, 117.1)
    other = room.admit("v", b"t", "p", 112.0)
    assert not room.is_overdue(other, 117.1)


def test_those_who_came_and_went_are_not_remembered_without_end() -> None:
    room = WaitingRoom(5.0, hello_s=10.0)
    for number in range(MAX_REMEMBERED + 1):
        room.admit(str(number), b"t", "p", 0.0)
    room.expire(6.0)
    assert room.admit("0", b"t", "p", 3.0).spent_s == 0.0
    assert room.admit("1", b"t", "p", 3.0).spent_s == 3.0
