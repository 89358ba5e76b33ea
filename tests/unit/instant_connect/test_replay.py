"""The table of used tickets: what it remembers, what it forgets, and how little it keeps."""

from __future__ import annotations

import tracemalloc

import pytest

from instant_connect.replay import ReplayTable, Use, attempt_key
from instant_connect.ticket import CLOCK_SKEW_S
from warp.errors import InvalidConfig

WALL = 1_790_000_000.0
EXPIRY = int(WALL) + 600
TICKET, OTHER = b"ticket 1", b"ticket 2"
ONE, TWO, THREE = (attempt_key(f"ufrag {n}") for n in (1, 2, 3))


def test_one_use() -> None:
    table = ReplayTable()
    assert table.look(TICKET, ONE, 1) is Use.FIRST
    assert table.claim(TICKET, ONE, 1, EXPIRY) is Use.FIRST
    assert table.claim(TICKET, ONE, 1, EXPIRY) is Use.AGAIN
    assert table.claim(TICKET, TWO, 1, EXPIRY) is Use.USED_UP
    assert table.claim(OTHER, TWO, 1, EXPIRY) is Use.FIRST
    assert len(table) == 2


def test_several_uses() -> None:
    table = ReplayTable()
    assert [table.claim(TICKET, key, 2, EXPIRY) for key in (ONE, TWO, ONE, THREE)] == [
        Use.FIRST,
        Use.FIRST,
        Use.AGAIN,
        Use.USED_UP,
    ]
    table.begin(TICKET, TWO)
    assert table.look(TICKET, TWO, 2) is Use.BEGUN
    assert table.look(TICKET, ONE, 2) is Use.AGAIN


def test_looking_uses_nothing() -> None:
    table = ReplayTable()
    for _ in range(3):
        assert table.look(TICKET, ONE, 1) is Use.FIRST
    assert len(table) == 0


def test_what_has_begun_stays_so() -> None:
    table = ReplayTable()
    table.claim(TICKET, ONE, 1, EXPIRY)
    for _ in range(2):
        table.begin(TICKET, ONE)
        assert table.claim(TICKET, ONE, 1, EXPIRY) is Use.BEGUN
    table.begin(OTHER, ONE)  # never claimed: nothing to note
    assert len(table) == 1


def test_a_burnt_ticket_is_used_up_for_all() -> None:
    table = ReplayTable()
    table.claim(TICKET, ONE, 9, EXPIRY)
    table.burn(TICKET, EXPIRY)
    table.burn(OTHER, EXPIRY)
    for ticket in (TICKET, OTHER):
        assert table.claim(ticket, ONE, 9, EXPIRY) is Use.USED_UP
    table.begin(TICKET, ONE)
    assert table.look(TICKET, ONE, 9) is Use.USED_UP


def test_a_ticket_is_remembered_as_long_as_it_opens() -> None:
    table = ReplayTable()
    table.claim(TICKET, ONE, 1, EXPIRY)
    table.burn(OTHER, EXPIRY)
    table.forget_expired(float(EXPIRY + CLOCK_SKEW_S))
    assert len(table) == 2
    table.forget_expired(float(EXPIRY + CLOCK_SKEW_S + 16))
    assert len(table) == 0
    # clocks may be set back
    table.claim(TICKET, ONE, 1, EXPIRY)
    table.forget_expired(WALL)
    assert len(table) == 1


def test_a_full_table_takes_no_more_and_forgets_none() -> None:
    table = ReplayTable(2)
    table.claim(TICKET, ONE, 2, EXPIRY)
    table.claim(OTHER, ONE, 1, EXPIRY)
    assert table.claim(b"ticket 3", ONE, 1, EXPIRY) is Use.NO_ROOM
    table.burn(b"ticket 3", EXPIRY)
    assert len(table) == 2
    assert table.claim(TICKET, TWO, 2, EXPIRY) is Use.FIRST  # of one that is known already
    assert table.claim(OTHER, ONE, 1, EXPIRY) is Use.AGAIN
    with pytest.raises(InvalidConfig):
        ReplayTable(0)


def test_a_ticket_costs_about_200_bytes() -> None:
    table = ReplayTable(20_000)
    names = [number.to_bytes(8, "big") for number in range(20_000)]
    keys = [attempt_key(str(number)) for number in range(8)]
    tracemalloc.start()
    try:
        before = tracemalloc.get_traced_memory()[0]
        for number, name in enumerate(names):
            table.claim(name, keys[number % 8], 1, EXPIRY + number % 600)
        used = tracemalloc.get_traced_memory()[0] - before
    finally:
        tracemalloc.stop()
    assert used / 20_000 < 200  # beside the 41 bytes of the id, which is made for the look-up
