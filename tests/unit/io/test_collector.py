"""What keeps the garbage collector out of a call."""

from __future__ import annotations

import gc
from collections.abc import Iterator

import pytest

from warp.io import avoid_gc_pauses


@pytest.fixture(autouse=True)
def _as_before() -> Iterator[None]:
    threshold = gc.get_threshold()
    yield
    gc.unfreeze()
    gc.set_threshold(*threshold)


def full_collections() -> int:
    return int(gc.get_stats()[2]["collections"])


def test_what_lives_on_is_not_looked_through_as_calls_come() -> None:
    """As many objects as two thousand sessions have, kept; by default several full collections."""
    avoid_gc_pauses()
    before = full_collections()
    kept = [[number] for number in range(400_000)]
    assert full_collections() == before
    assert gc.get_freeze_count() > 0 and len(kept) == 400_000


def test_garbage_in_cycles_does_not_grow_without_bound() -> None:
    avoid_gc_pauses()
    before = full_collections()
    kept: list[list[int]] = []
    while full_collections() == before and len(kept) < 4_000_000:
        kept.extend([number] for number in range(100_000))
    assert full_collections() > before
