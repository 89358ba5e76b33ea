"""Fragments in every order (RFC 9260 section 6.9, RFC 8260 section 2)."""

from __future__ import annotations

import sys
from collections.abc import Callable
from itertools import permutations

import pytest

from warp.errors import PeerMisbehaved
from warp.sctp.chunks import BEGIN, END, UNORDERED
from warp.sctp.reasons import SctpRule
from warp.sctp.reassembly import MidAssembler, TsnAssembler

PARTS = [b"abc", b"d", b"efgh", b"ij", b"k"]
FLAGS = [BEGIN, 0, 0, 0, END]


@pytest.mark.parametrize("unordered", [0, UNORDERED])
def test_data_in_every_order(unordered: int) -> None:
    for order in permutations(range(5)):
        assembler = TsnAssembler()
        found = [
            assembler.add(10 + n, FLAGS[n] | unordered, 1, 7, 51 if n == 0 else 99, PARTS[n])
            for n in order
        ]
        assert found[:-1] == [None] * 4
        assert found[-1] == (51, b"abcdefghijk")
        assert assembler.charge == 0


def test_i_data_in_every_order() -> None:
    for order in permutations(range(5)):
        assembler = MidAssembler()
        found = [assembler.add(FLAGS[n], 1, 0, 51 if n == 0 else n, PARTS[n]) for n in order]
        assert found[:-1] == [None] * 4
        assert found[-1] == (51, b"abcdefghijk")
        assert assembler.charge == 0


def test_i_data_messages_interleave() -> None:
    assembler = MidAssembler()
    for flags, mid, word in ((BEGIN, 0, 51), (BEGIN, 1, 52), (0, 1, 1), (0, 0, 1)):
        assert assembler.add(flags, 3, mid, word, bytes([mid])) is None
    assert assembler.add(END, 3, 1, 2, b"x") == (52, b"\1\1x")
    assert assembler.add(END, 3, 0, 2, b"y") == (51, b"\0\0y")


def test_i_data_ordered_and_unordered_with_one_mid_are_two() -> None:
    assembler = MidAssembler()
    assembler.add(BEGIN, 3, 0, 51, b"a")
    assembler.add(BEGIN | UNORDERED, 3, 0, 52, b"b")
    assert assembler.add(END | UNORDERED, 3, 0, 1, b"B") == (52, b"bB")
    assert assembler.add(END, 3, 0, 1, b"A") == (51, b"aA")


def test_neighbouring_messages_of_one_stream_stay_apart() -> None:
    """Same stream, ordered and unordered, one TSN after the other."""
    assembler = TsnAssembler()
    assembler.add(1, BEGIN, 5, 0, 51, b"a")
    assembler.add(3, BEGIN | UNORDERED, 5, 0, 52, b"b")
    assert assembler.add(4, END | UNORDERED, 5, 0, 0, b"B") == (52, b"bB")
    assert assembler.add(2, END, 5, 0, 0, b"A") == (51, b"aA")


def test_unordered_fragments_need_no_common_ssn() -> None:
    assembler = TsnAssembler()
    assembler.add(1, BEGIN | UNORDERED, 5, 3, 51, b"a")
    assert assembler.add(2, END | UNORDERED, 5, 9, 0, b"b") == (51, b"ab")


@pytest.mark.parametrize(
    "chunks",
    [
        [(1, BEGIN, 0, 0), (2, BEGIN, 0, 1)],  # a message begins inside another
        [(2, BEGIN, 0, 1), (1, BEGIN, 0, 0)],
        [(1, BEGIN, 0, 0), (2, END, 0, 1)],  # another sequence number
        [(2, END, 0, 1), (1, BEGIN, 0, 0)],
        [(1, BEGIN, 0, 0), (2, END, 1, 0)],  # another stream
        [(1, BEGIN, 0, 0), (2, END | UNORDERED, 0, 0)],
        [(2, END, 0, 0), (3, END, 0, 0)],  # two ends
        [(2, END, 0, 0), (3, 0, 0, 0)],  # goes on after its end
        [(3, 0, 0, 0), (2, END, 0, 0)],
        [(2, BEGIN, 0, 0), (1, 0, 0, 0)],
    ],
)
def test_impossible_neighbours(chunks: list[tuple[int, int, int, int]]) -> None:
    assembler = TsnAssembler()
    with pytest.raises(PeerMisbehaved) as caught:
        for tsn, flags, stream, ssn in chunks:
            assembler.add(tsn, flags, stream, ssn, 51, b"x")
    assert caught.value.rule is SctpRule.FRAGMENTS_OUT_OF_ORDER


@pytest.mark.parametrize(
    "chunks",
    [
        [(BEGIN, 51), (BEGIN, 51)],
        [(0, 1), (0, 1)],
        [(0, 2), (0, 2)],
        [(0, 0)],  # fragment 0 has to have the B bit
        [(END, 1), (0, 2)],  # beyond the end
        [(0, 2), (END, 1)],
        [(END, 1), (END, 2)],
    ],
)
def test_impossible_fragment_numbers(chunks: list[tuple[int, int]]) -> None:
    assembler = MidAssembler()
    with pytest.raises(PeerMisbehaved):
        for flags, word in chunks:
            assembler.add(flags, 0, 0, word, b"x")


def test_purge_drops_what_was_given_up_and_what_can_never_begin() -> None:
    assembler = TsnAssembler()
    assembler.add(1, BEGIN, 0, 0, 51, b"a")
    assembler.add(3, 0, 0, 0, 51, b"c")  # its beginning is behind the forwarded point
    assembler.add(5, BEGIN, 0, 1, 51, b"d")
    assembler.purge(2)
    assert assembler.add(6, END, 0, 1, 0, b"e") == (51, b"de")
    assert assembler.charge == 0


def test_purge_by_message_id() -> None:
    assembler = MidAssembler()
    for stream, mid in ((0, 0), (0, 1), (0, 2), (1, 0)):
        assembler.add(BEGIN, stream, mid, 51, b"a")
    assembler.add(BEGIN | UNORDERED, 0, 0, 51, b"a")
    assembler.purge(0, False, 1)
    assert assembler.add(END, 0, 2, 1, b"z") == (51, b"az")
    assert assembler.add(END, 1, 0, 1, b"z") == (51, b"az")
    assert assembler.add(END | UNORDERED, 0, 0, 1, b"z") == (51, b"az")
    assert assembler.charge == 0


def test_purge_of_message_ids_wraps_and_survives_extremes() -> None:
    assembler = MidAssembler()
    for mid in (0xFFFFFFFE, 0xFFFFFFFF, 0, 1, 0x80000000):
        assembler.add(BEGIN | UNORDERED, 0, mid, 51, b"a")
    assembler.purge(0, True, 0)
    kept = [mid for mid in (1, 0x80000000) if assembler.add(END | UNORDERED, 0, mid, 1, b"z")]
    assert kept == [1, 0x80000000]
    assert assembler.charge == 0


def test_purge_of_streams() -> None:
    assembler = MidAssembler()
    for stream in range(3):
        assembler.add(BEGIN, stream, 0, 51, b"a")
    assembler.purge_streams(frozenset({1}))
    assert assembler.add(END, 0, 0, 1, b"z") == (51, b"az")
    assembler.purge_streams(frozenset())
    assert assembler.charge == 0


def work(act: Callable[[int], None], size: int) -> int:
    """How many Python and C functions run: a measure of work that no busy machine disturbs."""
    count = 0

    def profile(frame: object, event: str, arg: object) -> None:
        nonlocal count
        count += event in ("call", "c_call")

    before = sys.getprofile()
    sys.setprofile(profile)
    try:
        act(size)
    finally:
        sys.setprofile(before)
    return count


def arrival(order: str, count: int) -> list[int]:
    if order == "in order":
        return list(range(count))
    if order == "backwards":
        return list(range(count - 1, -1, -1))
    return [*range(0, count, 2), *range(1, count, 2)]  # every second one was late


@pytest.mark.slow
@pytest.mark.parametrize("order", ["in order", "backwards", "holes"])
def test_work_grows_with_the_message_and_no_faster(order: str) -> None:
    def data(count: int) -> None:
        assembler = TsnAssembler()
        moved = [
            assembler.add(n, BEGIN * (n == 0) | END * (n == count - 1), 0, 0, 51, b"x")
            for n in arrival(order, count)
        ]
        assert moved[-1] == (51, b"x" * count)

    def i_data(count: int) -> None:
        assembler = MidAssembler()
        for n in arrival(order, count):
            flags = BEGIN * (n == 0) | END * (n == count - 1)
            done = assembler.add(flags, 0, 0, n or 51, b"x")
        assert done == (51, b"x" * count)

    for assemble in (data, i_data):
        small, large = work(assemble, 500), work(assemble, 8000)
        assert large <= 20 * small
