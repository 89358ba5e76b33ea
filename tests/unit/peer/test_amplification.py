"""An unvalidated address gets at most three times what it has sent."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from warp.peer.amplification import FACTOR, MAX_ADDRESSES, AmplificationBudget

A, B = ("192.0.2.1", 1000), ("192.0.2.2", 1000)


def test_nothing_without_a_datagram() -> None:
    assert not AmplificationBudget().spend(A, 1)


def test_three_times_and_not_a_byte_more() -> None:
    budget = AmplificationBudget()
    budget.receive(A, 100)
    assert budget.spend(A, 299)
    assert budget.spend(A, 1)
    assert not budget.spend(A, 1)
    assert budget.blocked == 1
    assert not budget.spend(B, 1)


def test_validation_lifts_the_limit_for_that_address_only() -> None:
    budget = AmplificationBudget()
    budget.receive(A, 1)
    budget.receive(B, 1)
    budget.validate(A)
    assert budget.spend(A, 10_000)
    assert not budget.spend(B, 4)


@given(st.lists(st.tuples(st.integers(0, 40), st.booleans(), st.integers(1, 1500))))
def test_never_more_than_three_times(steps: list[tuple[int, bool, int]]) -> None:
    budget = AmplificationBudget()
    received: dict[int, int] = {}
    sent: dict[int, int] = {}
    for port, incoming, size in steps:
        if incoming:
            budget.receive(("192.0.2.9", port), size)
            received[port] = received.get(port, 0) + size
        elif budget.spend(("192.0.2.9", port), size):
            sent[port] = sent.get(port, 0) + size
        assert sent.get(port, 0) <= FACTOR * received.get(port, 0)
    assert len(budget._credit) <= MAX_ADDRESSES
