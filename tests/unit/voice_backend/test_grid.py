"""The grid: ticks are counted from its origin, and a stall is not paid back without bound."""

from __future__ import annotations

import pytest

from voice_backend.grid import MAX_OWED, Grid


def test_ticks_are_owed_when_they_are_due() -> None:
    grid = Grid(100.0)
    assert list(grid.owed(99.99)) == []
    assert list(grid.owed(100.0)) == [0]
    assert list(grid.owed(100.019)) == []
    assert list(grid.owed(100.0201)) == [1]
    assert grid.next_due == pytest.approx(100.04)


def test_lateness_does_not_add_up() -> None:
    grid, now, done = Grid(0.0), 0.0, []
    for _ in range(1000):
        done += grid.owed(now)
        now = grid.next_due + 0.004
    assert done == list(range(1000))
    assert now == pytest.approx(20.004)


def test_what_was_slept_through_is_owed_at_once() -> None:
    grid = Grid(0.0)
    grid.owed(0.0)
    assert list(grid.owed(0.075)) == [1, 2, 3]


def test_a_long_stall_is_passed_over_and_counted() -> None:
    grid = Grid(0.0)
    grid.owed(0.0)
    owed = grid.owed(10.0)
    assert len(owed) == MAX_OWED
    assert owed[-1] == 500
    assert grid.passed_over == 500 - MAX_OWED
    assert list(grid.owed(10.02)) == [501]
