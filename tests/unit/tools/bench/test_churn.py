from __future__ import annotations

import asyncio

import pytest

from warp_tools.bench.churn import Found, churn
from warp_tools.bench.residue import Left

NOTHING = Left()


@pytest.mark.slow
def test_calls_that_end_in_any_way_leave_nothing() -> None:
    found = asyncio.run(churn(30))
    assert found.left == NOTHING
    assert found.is_clean


def test_what_is_left_and_what_memory_did_is_told() -> None:
    kib = [900, 800, 1000, 1000, 1010, 1020, 1030, 1040, 1050, 1060]
    found = Found(sessions=100, left=NOTHING, kib=kib)
    assert found.kib_a_session == pytest.approx(1.0)
    assert not Found(sessions=1, left=Left(threads=1), kib=kib).is_clean
