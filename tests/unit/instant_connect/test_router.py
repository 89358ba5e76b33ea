"""Who takes a ufrag: all servers and relays agree, and a change moves no more than it must."""

from __future__ import annotations

import hashlib
from collections import Counter

import pytest

from instant_connect.router import (
    MAX_HOPS,
    Destination,
    Roster,
    first_choice,
    relay_choice,
    rendezvous,
    second_choice,
    settle,
)
from instant_connect.ticket import Route

BLOCKS = [hashlib.sha256(str(n).encode()).digest()[:16] for n in range(600)]
BLOCK = BLOCKS[0]


def test_the_hint_is_followed_while_it_lives() -> None:
    roster = Roster.of(1, 2, 3, draining=[2])
    for hint in (1, 2, 3):
        assert first_choice(Route(0, hint), BLOCK, roster) == hint
    assert first_choice(Route(0, 9), BLOCK, roster) in (1, 2, 3)
    assert first_choice(Route(0, 9), BLOCK, Roster.of()) is None


def test_a_dead_hint_is_spread_evenly() -> None:
    taken = Counter(rendezvous(block, range(4)) for block in BLOCKS)
    assert set(taken) == {0, 1, 2, 3}
    assert all(100 < count < 200 for count in taken.values())


def test_a_server_that_comes_or_goes_moves_its_share_only() -> None:
    before = [rendezvous(block, [1, 2, 3]) for block in BLOCKS]
    without = [rendezvous(block, [1, 3]) for block in BLOCKS]
    assert all(a == b for a, b in zip(before, without, strict=True) if a != 2)
    with_fourth = [rendezvous(block, [1, 2, 3, 4]) for block in BLOCKS]
    moved = [b for a, b in zip(before, with_fourth, strict=True) if a != b]
    assert set(moved) == {4}


def test_the_choice_does_not_depend_on_the_order_of_the_roster() -> None:
    assert rendezvous(BLOCK, [3, 1, 2]) == rendezvous(BLOCK, frozenset([1, 2, 3]))


def test_the_owner_takes_and_others_hand_on() -> None:
    roster = Roster.of(1, 2)
    assert settle(Route(0, 1), BLOCK, roster, 1, 0) == Destination(1, True)
    assert settle(Route(0, 1), BLOCK, roster, 2, 0) == Destination(1, False)
    assert settle(Route(0, 1), BLOCK, Roster.of(), 1, 0) == Destination(None, False)


def test_a_draining_server_is_asked_and_passes_on() -> None:
    roster = Roster.of(1, 2, 3, draining=[1])
    second = second_choice(BLOCK, roster)
    assert second in (2, 3)
    assert settle(Route(0, 1), BLOCK, roster, 5 - (second or 0), 0) == Destination(1, False)
    assert settle(Route(0, 1), BLOCK, roster, 1, 1) == Destination(second, False)
    assert settle(Route(0, 1), BLOCK, roster, second or 0, 2) == Destination(second, True)


def test_when_all_drain_nobody_takes_anything() -> None:
    roster = Roster.of(1, draining=[1])
    assert settle(Route(0, 1), BLOCK, roster, 1, 0) == Destination(None, False)


@pytest.mark.parametrize("own", [1, 2, 3])
def test_rosters_that_differ_end_the_journey(own: int) -> None:
    """Two servers each of which takes the other for the owner."""
    strange = Roster.of(7)
    assert settle(Route(0, 1), BLOCK, strange, own, MAX_HOPS - 1) == Destination(7, False)
    assert settle(Route(0, 1), BLOCK, strange, own, MAX_HOPS) == Destination(None, False)


def test_every_path_ends_at_one_server_within_the_hops() -> None:
    """Whichever server a first datagram reaches, the same one takes it."""
    for draining in ([], [1], [1, 2], [3]):
        roster = Roster.of(1, 2, 3, draining=draining)
        for block in BLOCKS[:40]:
            for hint in (1, 3, 9):
                takers = set()
                for entry in (1, 2, 3):
                    own, hops = entry, 0
                    while not (to := settle(Route(0, hint), block, roster, own, hops)).takes:
                        assert to.server is not None
                        own, hops = to.server, hops + 1
                    takers.add(own)
                assert len(takers) == 1
                assert takers <= roster.taking


def test_a_relay_leads_nothing_new_to_a_draining_server() -> None:
    roster = Roster.of(1, 2, draining=[1])
    assert relay_choice(Route(0, 2), BLOCK, roster) == 2
    assert relay_choice(Route(0, 1), BLOCK, roster) == 2
    assert relay_choice(Route(0, 1), BLOCK, Roster.of()) is None
