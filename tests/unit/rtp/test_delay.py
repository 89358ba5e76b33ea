"""Transit times: the base, the spread above it, and clocks that differ."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from warp.rtp.delay import DelayMeter


def meter() -> DelayMeter:
    return DelayMeter(2.0, 0.95)


def test_nothing_is_known_at_first() -> None:
    m = meter()
    assert not m.known and (m.base, m.spread, m.drift_ppm(48_000)) == (0, 0, None)
    assert m.add(77, 1.0) == 0.0
    assert m.known and (m.base, m.spread) == (77, 0)
    assert m.add(99, 1.5) == 0.5
    m.clear()
    assert not m.known


def test_ninety_five_of_a_hundred_are_within_the_spread() -> None:
    m = meter()
    values = list(range(1000, 1100))
    random.Random(1).shuffle(values)
    for i, value in enumerate(values):
        m.add(value, 0.02 * i)
    assert m.base == 1000 and m.spread == 95


def test_what_is_older_than_the_window_is_forgotten() -> None:
    m = meter()
    for i in range(100):
        m.add(5000 if i < 10 else 1000, 0.02 * i)
    assert m.spread == 4000
    for i in range(100, 120):
        m.add(1000, 0.02 * i)
    assert m.spread == 0


def test_a_sparse_stream_is_judged_by_its_last_packets() -> None:
    """DTX: a packet each 400 ms. Five packets would not know the shortest way."""
    m = meter()
    for i in range(100):
        m.add(1000 + (i % 20) * 10, 0.4 * i)
    assert m.base == 1000 and m.spread >= 180


@pytest.mark.parametrize("ppm", [-500, -50, 0, 50, 500])
def test_drift_is_the_slope_of_the_shortest_ways(ppm: int) -> None:
    m, luck = meter(), random.Random(2)
    for i in range(3000):
        now = 0.02 * i
        m.add(int(1000 - now * 48_000 * ppm / 1e6 + luck.expovariate(1 / 200)), now)
    assert m.drift_ppm(48_000) == pytest.approx(ppm, abs=15)


@given(st.lists(st.tuples(st.integers(-(1 << 40), 1 << 40), st.floats(0, 5)), max_size=200))
def test_any_transits(story: list[tuple[int, float]]) -> None:
    m, now, kept = meter(), 0.0, []
    for transit, passed in story:
        now += passed
        m.add(transit, now)
        kept.append((now, transit))
        recent = [x for t, x in kept if now - t <= 2.0]
        assert m.base <= min(recent)
        assert 0 <= m.spread <= max(x for _, x in kept) - min(x for _, x in kept)
        assert len(m._sorted) == len(m._arrivals) <= 512
        assert m._sorted == sorted(x for _, x in m._arrivals)
