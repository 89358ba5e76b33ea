"""The tiers: what raises them, what each allows, and how long each lasts."""

from __future__ import annotations

import itertools

import pytest

from instant_connect.tiers import ALLOWANCES, TRANSITIONS, Input, Standing, Tier
from warp.peer import SendPermission
from warp.trace import MemoryTrace

NOW = 50.0


def standing(trace: MemoryTrace | None = None) -> Standing:
    return Standing(NOW, half_open_s=5.0, confirm_after_s=30.0, trace=trace)


def test_a_session_begins_at_t1_with_five_seconds() -> None:
    one = standing()
    assert (one.tier, one.deadline) == (Tier.SHAKING, NOW + 5.0)


@pytest.mark.parametrize("reached", [False, True])
def test_the_way_up(reached: bool) -> None:
    trace = MemoryTrace()
    one = standing(trace)
    if reached:
        one.receive(Input.REACHED, NOW + 0.5)
        assert one.deadline == NOW + 5.0
    one.receive(Input.AUTHENTICATED, NOW + 1.0)
    assert (one.tier, one.deadline) == (Tier.PROVEN, NOW + 31.0)
    assert not one.is_attached
    one.receive(Input.WAITED, NOW + 31.0)
    assert (one.tier, one.deadline) == (Tier.CONFIRMED, None)
    tiers = [data["tier"] for _, data in trace.named("instant:tier_reached")]
    assert tiers == ["SHAKING", *(["REACHABLE"] if reached else []), "PROVEN", "CONFIRMED"]


def test_an_offer_that_comes_first_counts_from_t3_on() -> None:
    one = standing()
    one.receive(Input.ATTACHED, NOW)
    assert (one.tier, one.is_attached) == (Tier.SHAKING, True)
    one.receive(Input.AUTHENTICATED, NOW + 1)
    assert (one.tier, one.deadline) == (Tier.CONFIRMED, None)


def test_an_offer_that_comes_later_confirms_at_once() -> None:
    one = standing()
    one.receive(Input.AUTHENTICATED, NOW + 1)
    one.receive(Input.ATTACHED, NOW + 2)
    assert (one.tier, one.deadline, one.is_attached) == (Tier.CONFIRMED, None, True)


def test_no_order_of_inputs_skips_a_proof_or_takes_one_back() -> None:
    for order in itertools.product(Input, repeat=5):
        one, highest, proven = standing(), Tier.SHAKING, False
        for why in order:
            one.receive(why, NOW)
            proven |= why is Input.AUTHENTICATED
            assert one.tier >= highest
            assert (one.tier >= Tier.PROVEN) is proven
            highest = one.tier


def test_the_table_leads_from_every_tier_to_the_last() -> None:
    assert {tier for tier, _ in TRANSITIONS} == set(Tier) - {Tier.CONFIRMED}
    assert all(after > before for (before, _), after in TRANSITIONS.items())


def test_every_tier_allows_what_the_ones_below_it_do() -> None:
    assert list(ALLOWANCES) == list(Tier)
    for lower, upper in itertools.pairwise(ALLOWANCES.values()):
        assert (lower.dtls, lower.admits, lower.durable) <= (True, True, True)
        for name in ("dtls", "admits", "durable", "media"):
            assert getattr(lower, name) <= getattr(upper, name)
        if lower.amplification is None:
            assert upper.amplification is None


def test_nothing_costs_anything_before_t3() -> None:
    for tier, allowance in ALLOWANCES.items():
        assert allowance.admits is (tier >= Tier.PROVEN)
        assert allowance.durable is (tier >= Tier.CONFIRMED)
        personal = allowance.media is SendPermission.ALL
        assert personal is (tier >= Tier.PROVEN)
    assert not ALLOWANCES[Tier.ANSWERED].dtls
    assert ALLOWANCES[Tier.SHAKING].amplification == 3
    assert standing().allowance is ALLOWANCES[Tier.SHAKING]
