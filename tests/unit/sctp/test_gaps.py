"""Gap blocks: validated first, then only what is new (RFC 9260 section 3.3.4)."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from warp.errors import Discard
from warp.sctp.gaps import covers, new_ranges, tidy_gaps
from warp.sctp.reasons import SctpDiscard


def members(ranges: list[tuple[int, int]]) -> set[int]:
    return {tsn for first, last in ranges for tsn in range(first, last + 1)}


def ranges_of(tsns: set[int]) -> list[tuple[int, int]]:
    return tidy_gaps(0, [(tsn, tsn) for tsn in tsns], 10_000)


def test_sorted_and_merged() -> None:
    assert tidy_gaps(100, [(7, 9), (2, 3), (4, 4), (8, 12)], 200) == [(102, 104), (107, 112)]


@pytest.mark.parametrize("gap", [(3, 2), (0, 1), (2, 100), (100, 100), (65535, 65535)])
def test_absurd_blocks_are_refused(gap: tuple[int, int]) -> None:
    with pytest.raises(Discard) as caught:
        tidy_gaps(100, [(2, 3), gap], 200)
    assert caught.value.reason is SctpDiscard.BAD_SACK


def test_the_last_possible_offset() -> None:
    assert tidy_gaps(0, [(2, 65535)], 70_000) == [(2, 65535)]


@pytest.mark.slow
@given(st.sets(st.integers(1, 60)), st.sets(st.integers(1, 60)))
def test_difference(known: set[int], now: set[int]) -> None:
    new = list(new_ranges(ranges_of(known), ranges_of(now)))
    assert members(new) == now - known
    assert new == sorted(new)


def test_covers() -> None:
    assert [tsn for tsn in range(10) if covers([(2, 3), (7, 7)], tsn)] == [2, 3, 7]
