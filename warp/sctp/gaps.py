"""Gap blocks of a SACK as ranges of TSNs (RFC 9260 section 3.3.4).

Pure functions for `retransmission`: validate before anything changes, then look only at what a SACK
adds to the one before it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TypeAlias

from warp.errors import Discard
from warp.sctp.reasons import SctpDiscard

Range: TypeAlias = tuple[int, int]
"""First and last TSN, both included."""


def tidy_gaps(cumulative: int, gaps: Sequence[Range], next_tsn: int) -> list[Range]:
    """Return the blocks as sorted, disjoint ranges. Raises Discard (BAD_SACK) if any is absurd."""
    ranges: list[Range] = []
    for start, end in sorted(gaps):
        if not 0 < start <= end or cumulative + end >= next_tsn:
            raise Discard(SctpDiscard.BAD_SACK, f"gap block {start}-{end}")
        first, last = cumulative + start, cumulative + end
        if ranges and first <= ranges[-1][1] + 1:
            ranges[-1] = (ranges[-1][0], max(last, ranges[-1][1]))
        else:
            ranges.append((first, last))
    return ranges


def new_ranges(known: Sequence[Range], ranges: Sequence[Range]) -> Iterator[Range]:
    """Yield the parts of `ranges` that `known` does not cover; both sorted and disjoint."""
    position = 0
    for first, last in ranges:
        while position < len(known) and known[position][1] < first:
            position += 1
        look = position
        while first <= last and look < len(known) and known[look][0] <= last:
            if known[look][0] > first:
                yield first, known[look][0] - 1
            first = max(first, known[look][1] + 1)
            look += 1
        if first <= last:
            yield first, last


def covers(ranges: Sequence[Range], tsn: int) -> bool:
    """Tell whether one of the ranges holds this TSN."""
    return any(first <= tsn <= last for first, last in ranges)
