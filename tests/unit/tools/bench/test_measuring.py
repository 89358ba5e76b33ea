from __future__ import annotations

import asyncio
from typing import Any

import pytest

from warp_tools.bench.media import capacity
from warp_tools.bench.party import Arrivals
from warp_tools.bench.slices import Slice, Slices, busy_s, percentile


def found(limit: int, luck: dict[int, int] | None = None) -> tuple[dict[str, Any], list[int]]:
    tried: list[int] = []
    luck = luck or {}

    async def measure(sessions: int) -> dict[str, Any]:
        tried.append(sessions)
        unlucky = tried.count(sessions) <= luck.get(sessions, 0)
        return {"late": 0.5 if sessions > limit or unlucky else 0.0}

    return asyncio.run(capacity(measure, (100, 200, 300, 400, 500))), tried


@pytest.mark.parametrize("limit", [100, 250, 300, 500, 900])
def test_the_largest_step_that_is_carried_is_found(limit: int) -> None:
    assert found(limit)[0]["sessions"] == min(500, limit // 100 * 100)


def test_nothing_carried_is_zero() -> None:
    assert found(0)[0] == {"sessions": 0}


def test_one_unlucky_try_is_forgiven() -> None:
    best, tried = found(300, {300: 1})
    assert best["sessions"] == 300
    assert tried.count(300) == 2


def test_lateness_is_against_each_sessions_best_case() -> None:
    arrivals = Arrivals()
    a, b = arrivals.number("a"), arrivals.number("b")
    assert a == arrivals.number("a") != b
    arrivals.note(a, 0, 9.0)
    arrivals.begin()
    for at, (timestamp, now) in enumerate([(960, 10.02), (1920, 10.04), (2880, 10.09)]):
        arrivals.note(a, timestamp, now)
        arrivals.note(b, at * 960, 20.0 + at * 0.02)
    late = [round(behind, 3) for _, behind in sorted(arrivals.lateness())]
    assert late == [0.0, 0.0, 0.03, 0.0, 0.0, 0.0]
    assert arrivals.lateness() == []


def test_slices_with_foreign_load_do_not_count() -> None:
    slices = Slices()
    slices.found += [Slice(0, 1, 0.5, 0.0), Slice(1, 2, 0.5, 0.5), Slice(2, 3, 0.5, 0.01)]
    seen = [(0.5, 0.001), (1.5, 0.5), (2.5, 0.03), (2.6, 0.001)]
    judged = slices.judge(seen)
    assert judged["frames"] == 3
    assert judged["late"] == pytest.approx(1 / 3)
    assert judged["cpu"] == pytest.approx(1.0)
    assert judged["cpu_whole"] == pytest.approx(1.5)
    assert judged["noisy"] is False


def test_when_all_is_noisy_all_counts_and_is_said() -> None:
    slices = Slices()
    slices.found += [Slice(0, 1, 0.5, 0.4), Slice(1, 2, 0.5, 0.5)]
    judged = slices.judge([(0.5, 0.001)])
    assert judged["noisy"] is True
    assert judged["frames"] == 1
    assert Slices().judge([])["late"] == 1.0


def test_small_helpers() -> None:
    assert percentile([], 0.5) == 0.0
    assert percentile([1.0, 2.0, 3.0], 0.99) == 3.0
    assert busy_s(None) == 0.0
    assert busy_s(99_999) == 0.0


def test_a_slice_is_quiet_when_it_is_at_both_ends() -> None:
    slices = Slices([Slice(n, n + 1, 0.5, 0.0) for n in range(4)])
    other = Slices([[0.5, 1.5, 0.5, 0.9], [1.5, 4.5, 0.5, 0.0]])
    judged = slices.judge([(n + 0.5, 0.03 if n < 2 else 0.0) for n in range(4)], other)
    assert (judged["frames"], judged["late"]) == (2, 0.0)
