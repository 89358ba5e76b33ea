"""What has arrived, and when it is acknowledged (RFC 9260 section 6.2)."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.sctp.support import Script, chunk, kinds
from warp.errors import Discard
from warp.sctp.chunks import (
    IMMEDIATE,
    ChunkType,
    ForwardTsn,
    Sack,
    encode_forward_tsn,
    parse_sack,
    split_chunks,
)
from warp.sctp.sack import MAX_AHEAD, ReceiveTracker

WINDOW = 5 * 1024 * 1024


def tracker(first: int = 1) -> ReceiveTracker:
    return ReceiveTracker(first, WINDOW)


def sack(of: ReceiveTracker) -> Sack:
    [(kind, _, body)] = split_chunks(bytes(12) + of.build(WINDOW))
    assert kind == ChunkType.SACK
    return parse_sack(body)


def test_cumulative_point() -> None:
    seen = tracker(10)
    assert [seen.note(tsn) for tsn in (10, 11, 12)] == [10, 11, 12]
    assert sack(seen) == Sack(12, WINDOW, (), ())


def test_the_example_of_the_rfc() -> None:
    seen = tracker(10)
    for tsn in (10, 11, 12, 14, 15, 17):
        seen.note(tsn)
    assert sack(seen).gaps == ((2, 3), (5, 5))


def test_gaps_merge_left_right_and_both() -> None:
    seen = tracker(1)
    for tsn in (5, 3, 7):
        seen.note(tsn)
    assert sack(seen).gaps == ((3, 3), (5, 5), (7, 7))
    seen.note(4)
    assert sack(seen).gaps == ((3, 5), (7, 7))
    seen.note(6)
    assert sack(seen).gaps == ((3, 7),)
    seen.note(8)
    seen.note(2)
    assert sack(seen).gaps == ((2, 8),)
    seen.note(1)
    assert sack(seen) == Sack(8, WINDOW, (), ())


def test_tsns_wrap() -> None:
    seen = tracker(0xFFFFFFFE)
    for tsn in (0xFFFFFFFE, 0, 2, 0xFFFFFFFF):
        seen.note(tsn)
    assert sack(seen) == Sack(0, WINDOW, ((2, 2),), ())
    seen.note(1)
    assert sack(seen) == Sack(2, WINDOW, (), ())


def test_first_tsn_0_and_ffffffff() -> None:
    for first in (0, 0xFFFFFFFF):
        seen = tracker(first)
        assert seen.note(first) == first
        assert sack(seen).cumulative_tsn == first


def test_duplicates_are_reported_once() -> None:
    seen = tracker(1)
    for tsn in (1, 1, 3, 3, 0xFFFFFFFF):
        seen.note(tsn)
    assert seen.immediate
    assert sack(seen).duplicates == (1, 3, 0xFFFFFFFF)
    assert sack(seen).duplicates == ()


def test_at_most_twenty_of_each() -> None:
    seen = tracker(1)
    for tsn in range(3, 203, 2):
        seen.note(tsn)
        seen.note(tsn)
    report = sack(seen)
    assert report.gaps == tuple((n, n) for n in range(3, 43, 2))
    assert len(report.duplicates) == 20


def test_what_could_not_be_reported_is_not_kept() -> None:
    seen = tracker(1)
    assert seen.note(MAX_AHEAD) == MAX_AHEAD
    assert sack(seen).gaps == ((65535, 65535),)
    for tsn in (MAX_AHEAD + 1, 0x7FFFFFFF):
        with pytest.raises(Discard):
            seen.note(tsn)
    assert seen.note(0x80000001) is None  # behind, not ahead


def test_forward_over_a_gap_takes_in_what_follows() -> None:
    seen = tracker(1)
    for tsn in (3, 4, 6, 9):
        seen.note(tsn)
    seen.forward(5)
    assert seen.cumulative == 6
    seen.forward(7)
    assert (seen.cumulative, sack(seen).gaps) == (7, ((2, 2),))
    seen.forward(9)
    assert (seen.cumulative, sack(seen).gaps) == (9, ())


def test_forward_into_a_range() -> None:
    seen = tracker(1)
    for tsn in (3, 4, 5):
        seen.note(tsn)
    seen.forward(4)
    assert (seen.cumulative, seen.starts) == (5, [])


@given(st.permutations(range(1, 14)), st.integers(0, 0xFFFFFFFF))
def test_any_order_of_arrival(order: list[int], before: int) -> None:
    seen = tracker((before + 1) & 0xFFFFFFFF)
    arrived: set[int] = set()
    for offset in order:
        assert seen.note((before + offset) & 0xFFFFFFFF) is not None
        arrived.add(offset)
        point = next(n for n in range(1, 15) if n not in arrived) - 1
        report = sack(seen)
        assert report.cumulative_tsn == (before + point) & 0xFFFFFFFF
        reported = {point + n for a, b in report.gaps for n in range(a, b + 1)}
        assert reported == {n for n in arrived if n > point}


# -- when


def test_the_first_packet_is_acknowledged_at_once() -> None:
    script = Script()
    script.says(script.data())
    assert script.hears_sacks() == [Sack(1, script.us.config.a_rwnd - 129, (), ())]


def test_then_every_second_packet() -> None:
    script = Script()
    counts = []
    for _ in range(7):
        script.says(script.data())
        counts.append(len(script.hears_sacks()))
        script.us.messages()
    assert counts == [1, 0, 1, 0, 1, 0, 1]


def test_a_single_packet_waits_for_the_timer() -> None:
    script = Script()
    script.says(script.data(), now=1.0)
    script.hears(1.0)
    script.says(script.data(), now=2.0)
    assert script.hears_sacks(2.0) == []
    due = script.us.get_timer()
    assert due == 2.05
    script.us.handle_timer(2.04)
    assert script.hears_sacks(2.04) == []
    script.us.handle_timer(due)
    assert [s.cumulative_tsn for s in script.hears_sacks(due)] == [2]


def test_time_alone_makes_no_sack() -> None:
    script = Script()
    for _ in range(3):
        script.says(script.data(), now=1.0)
    assert len(script.hears_sacks(1.0)) == 2
    for moment in (1.05, 1.5, 100.0):
        script.us.handle_timer(moment)
        assert script.hears(moment) == []
    assert script.us.get_timer() is None


def test_a_timer_of_an_earlier_packet_does_not_hurry_a_later_one() -> None:
    script = Script()
    for moment in (1.0, 1.0, 1.02, 1.04):
        script.says(script.data(), now=moment)
        script.hears(moment)
    script.us.handle_timer(1.05)  # armed for the second, whose SACK has left with the third
    assert script.hears_sacks(1.05) == []
    script.us.handle_timer(1.09)
    assert [s.cumulative_tsn for s in script.hears_sacks(1.09)] == [4]


def test_every_packet_while_a_gap_is_open() -> None:
    script = Script()
    script.says(script.data())
    script.hears()
    skipped = script.tsn
    script.tsn += 1
    for count in range(1, 5):
        script.says(script.data())
        assert [s.gaps for s in script.hears_sacks()] == [((2, 1 + count),)]
    script.says(script.data(tsn=skipped))
    assert [s.cumulative_tsn for s in script.hears_sacks()] == [6]


def test_a_duplicate_at_once() -> None:
    script = Script()
    script.says(script.data())
    script.hears()
    script.says(script.data(tsn=1))
    assert [s.duplicates for s in script.hears_sacks()] == [(1,)]


def test_the_i_bit_at_once() -> None:
    script = Script()
    script.says(script.data())
    script.hears()
    script.says(script.data(flags=3 | IMMEDIATE))
    assert len(script.hears_sacks()) == 1


def test_an_old_forward_tsn_at_once() -> None:
    script = Script()
    script.says(script.data())
    script.hears()
    script.says(encode_forward_tsn(ForwardTsn(0, ())))
    assert [s.cumulative_tsn for s in script.hears_sacks()] == [1]


def test_packets_count_not_chunks() -> None:
    script = Script()
    script.says(script.data())
    script.hears()
    script.says(*(script.data() for _ in range(5)))
    assert script.hears_sacks() == []
    script.says(chunk(ChunkType.COOKIE_ACK))
    assert script.hears_sacks() == []


def test_a_batch_yields_several_sacks_then_one_for_the_rest() -> None:
    script = Script()
    for _ in range(40):
        script.says(script.data())
    assert [s.cumulative_tsn for s in script.hears_sacks()] == [1, 3, 5, 7, 40]
    assert len(script.packets) == 5


def test_a_pending_sack_rides_with_data() -> None:
    script = Script()
    script.says(script.data())
    script.hears()
    script.says(script.data())
    script.send()
    assert kinds(script.hears()) == [ChunkType.SACK, ChunkType.DATA]
    assert len(script.packets) == 1
