"""A receiver that hands frames out as they come, for a player with a jitter buffer of its own."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from tests.unit.rtp.test_receiver import Stream, red
from warp.rtp import AudioFrame, JitterBuffer, ToneBegan, ToneEnded
from warp.rtp.reorder import Arrival, Unordered


def numbers(stream: Stream) -> list[int]:
    return [f.sequence for f in stream.receiver.frames()]


def test_what_comes_ahead_of_a_gap_leaves_at_once() -> None:
    stream = Stream(in_order=False).put(1, 2, 5, 4, 6, 3, now=1.0)
    assert numbers(stream) == [1, 2, 5, 4, 6, 3]
    assert stream.receiver.get_timer() is None
    stats = stream.receiver.stats
    assert (stats.lost, stats.duplicates, stats.late, stats.gaps) == (0, 0, 0, 0)


def test_each_leaves_once() -> None:
    stream = Stream(in_order=False).put(1, 2, 2, 5, 1, 3, 3, 5, 4, 4, now=1.0)
    assert numbers(stream) == [1, 2, 5, 3, 4]
    assert stream.receiver.stats.duplicates == 5


def test_the_numbers_are_extended() -> None:
    stream = Stream(in_order=False)
    for n in (0xFFFE, 0x10001, 0xFFFF, 0x10000):
        stream.put(n)
    frames = stream.receiver.frames()
    assert [(f.sequence, f.timestamp) for f in frames] == [
        (n, 960 * n) for n in (0xFFFE, 0x10001, 0xFFFF, 0x10000)
    ]


def test_what_is_missing_is_asked_for_while_it_may_be_of_use() -> None:
    stream = Stream(in_order=False, nack=True)
    stream.receiver.set_rtt(0.02)
    stream.put(1, 4, now=1.0)
    assert stream.receiver.nacks_to_send(1.0) == [2, 3]
    stream.put(5, 3, now=1.02)
    assert stream.receiver.nacks_to_send(1.04) == [2]
    assert stream.receiver.stats.repaired == 1
    stream.put(*range(6, 20), now=1.2)
    assert stream.receiver.nacks_to_send(2.0) == []
    assert numbers(stream) == [1, 4, 5, 3, *range(6, 20)]


def test_redundancy_fills_gaps_and_the_originals_are_copies() -> None:
    stream = Stream(in_order=False).put(1)
    stream.put(4, payload=red(4, 2, 3), payload_type=63)
    assert sorted(numbers(stream)) == [1, 2, 3, 4]
    stream.put(3)
    assert numbers(stream) == [] and stream.receiver.stats.duplicates == 1


def test_another_source_is_marked_by_a_gap() -> None:
    stream = Stream(in_order=False).put(1, 2)
    stream.receiver.begin_source(8, 1.0)
    stream.put(70, now=1.0)
    frames = stream.receiver.frames()
    assert [f.gap for f in frames] == [False, False, True, False]
    assert frames[2].lost == 0


def test_digits_that_overtake_each_other_are_one_digit() -> None:
    stream = Stream(in_order=False).put(1)
    parts = [(3, False, 320), (2, False, 160), (5, True, 640), (4, True, 640), (6, True, 640)]
    for n, ended, duration in parts:
        payload = bytes((7, 0x80 if ended else 0)) + duration.to_bytes(2, "big")
        stream.put(n, payload=payload, payload_type=110, timestamp=1920)
    kinds = [type(event) for event in stream.receiver.events()]
    assert kinds == [ToneBegan, ToneEnded]


def frame(sequence: int) -> AudioFrame:
    return AudioFrame(b"x", 960 * sequence, sequence, False, 111, None, 0.0)


def test_what_is_remembered_is_bounded() -> None:
    u = Unordered(4)
    u.begin(0, 0)
    for sequence in range(50, 5000, 50):
        assert u.insert(frame(sequence)) is Arrival.KEPT
    assert len(u._missing) <= 8
    assert u.insert(frame(40)) is Arrival.DUPLICATE
    assert len(u.flush()) == 99 and u.flush() == []


@given(st.lists(st.integers(0, 40), max_size=80))
def test_any_order(arrivals: list[int]) -> None:
    stream = Stream(in_order=False).put(100, now=0.0)
    for n in arrivals:
        stream.put(100 + n, now=1.0)
    heard = numbers(stream)
    assert heard == list(dict.fromkeys([100, *(100 + n for n in arrivals)]))
    buffer = JitterBuffer()
    for n in heard:
        buffer.insert(bytes((72, 0, 0)), n, 960 * n, 1.0)
    assert buffer.counts.duplicates == 0
