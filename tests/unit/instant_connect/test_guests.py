"""Where sessions live whose tickets name us: found, moved, ended, forgotten with their server."""

from __future__ import annotations

from instant_connect.guests import Guests, Lodging


def test_a_guest_is_found_where_it_was_noted_last() -> None:
    guests = Guests()
    guests.note(b"one", 2)
    guests.note(b"one", 3)
    assert (guests.find(b"one"), guests.find(b"two"), len(guests)) == (3, None, 1)


def test_who_had_a_session_may_say_that_it_has_ended_and_nobody_else() -> None:
    guests = Guests()
    guests.note(b"one", 2)
    guests.forget([b"one", b"two"], 3)
    assert guests.find(b"one") == 2
    guests.forget([b"one"], 2)
    assert len(guests) == 0


def test_a_server_that_is_gone_has_no_guests() -> None:
    guests = Guests()
    for number in range(6):
        guests.note(bytes([number]), number % 3)
    guests.keep_only({0, 2})
    assert [guests.find(bytes([n])) for n in range(6)] == [0, None, 2, 0, None, 2]


def test_of_too_many_the_oldest_are_forgotten() -> None:
    guests = Guests(3)
    for number in range(3):
        guests.note(bytes([number]), 1)
    guests.note(bytes([0]), 2)
    guests.note(bytes([3]), 1)
    assert [guests.find(bytes([n])) for n in range(4)] == [2, None, 1, 1]


def test_a_lodging_shows_no_ticket() -> None:
    assert "secret" not in repr(Lodging(b"secret01", b"secret02", 7))
