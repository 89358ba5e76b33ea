"""Offers that wait for their client: held as long as their answer is good, in a bounded number."""

from __future__ import annotations

import pytest

from instant_connect.held import HeldOffer, HeldOffers
from warp.errors import InvalidConfig, InvalidState

NOW = 10.0
ONE, TWO = HeldOffer(None, None, "one"), HeldOffer(None, None, "two")


def test_an_offer_is_taken_once() -> None:
    held = HeldOffers(10, 60.0)
    held.hold("u", ONE, NOW)
    assert "u" in held
    assert held.find("u") is ONE
    assert held.take("u") is ONE
    assert held.find("u") is None
    assert held.take("u") is None


def test_the_same_offer_again_replaces_the_first() -> None:
    held = HeldOffers(1, 60.0)
    held.hold("u", ONE, NOW)
    held.hold("u", TWO, NOW + 1)
    assert len(held) == 1
    assert held.get_timer() == NOW + 61
    assert held.take("u") is TWO


def test_what_nobody_takes_up_is_forgotten_and_makes_room() -> None:
    held = HeldOffers(1, 60.0)
    held.hold("u", ONE, NOW)
    with pytest.raises(InvalidState, match="not taken up"):
        held.hold("v", TWO, NOW + 59)
    assert "v" not in held
    held.hold("v", TWO, NOW + 60)
    assert "u" not in held
    assert held.get_timer() == NOW + 120
    held.expire(NOW + 120)
    assert len(held) == 0
    assert held.get_timer() is None


@pytest.mark.parametrize(("capacity", "hold_s"), [(0, 1.0), (1, 0.0)])
def test_some_offers_for_some_time(capacity: int, hold_s: float) -> None:
    with pytest.raises(InvalidConfig):
        HeldOffers(capacity, hold_s)
