"""The reorder buffer: in order, exactly once, or a marked gap; never more than its capacity."""

from __future__ import annotations

from warp.rtp import AudioFrame, ReorderBuffer
from warp.rtp.reorder import Arrival


def frame(sequence: int, now: float = 0.0) -> AudioFrame:
    return AudioFrame(b"%d" % sequence, 960 * sequence, sequence, False, 111, None, now)


def buffer(*, next_sequence: int = 10, capacity: int = 8) -> ReorderBuffer:
    out = ReorderBuffer(0.04, capacity)
    out.begin(next_sequence, 960 * (next_sequence - 1))
    return out


def numbers(frames: list[AudioFrame]) -> list[int | tuple[int, int]]:
    return [(f.sequence, f.lost) if f.gap else f.sequence for f in frames]


def test_what_is_next_leaves_at_once() -> None:
    b = buffer()
    assert b.insert(frame(10)) is Arrival.KEPT
    assert b.deadline is None
    assert numbers(b.take(0.0)) == [10]
    assert not b.entries and b.deadline is None


def test_what_is_ahead_waits_for_the_gap_to_fill() -> None:
    b = buffer()
    b.insert(frame(12, 1.0))
    assert b.take(1.0) == [] and b.deadline == 1.04
    b.insert(frame(11, 1.01))
    assert b.take(1.01) == [] and b.deadline == 1.04
    b.insert(frame(10, 1.02))
    assert numbers(b.take(1.02)) == [10, 11, 12]
    assert b.deadline is None


def test_a_gap_is_marked_once_its_time_is_over() -> None:
    b = buffer()
    b.insert(frame(13, 1.0))
    assert b.take(1.039) == []
    out = b.take(1.04)
    assert numbers(out) == [(10, 3), 13]
    gap = out[0]
    assert gap.payload is None and gap.timestamp == 9600 and gap.received_at == 1.0


def test_each_gap_has_its_own_deadline() -> None:
    b = buffer()
    b.insert(frame(11, 1.00))
    b.insert(frame(13, 1.02))
    assert numbers(b.take(1.04)) == [(10, 1), 11]
    assert b.deadline == 1.06
    assert numbers(b.take(1.06)) == [(12, 1), 13]


def test_a_gap_seen_early_does_not_wait_again() -> None:
    b = buffer()
    b.insert(frame(14, 1.00))
    b.insert(frame(11, 1.03))
    assert numbers(b.take(1.04)) == [(10, 1), 11, (12, 2), 14]


def test_copies_and_late_frames_are_told_apart() -> None:
    b = buffer()
    b.insert(frame(12, 1.0))
    assert b.insert(frame(12, 1.0)) is Arrival.DUPLICATE
    b.take(2.0)
    assert b.insert(frame(11, 2.1)) is Arrival.LATE
    assert b.insert(frame(11, 2.1)) is Arrival.DUPLICATE
    assert b.insert(frame(12, 2.1)) is Arrival.DUPLICATE
    b.forget()
    assert b.insert(frame(10, 2.1)) is Arrival.DUPLICATE


def test_a_full_buffer_gives_up_the_gap() -> None:
    b = buffer(capacity=4)
    for sequence in (11, 12, 13):
        b.insert(frame(sequence, 1.0))
        assert b.take(1.0) == []
    b.insert(frame(14, 1.0))
    assert numbers(b.take(1.0)) == [(10, 1), 11, 12, 13, 14]
    assert not b.entries


def test_flush_empties_and_marks() -> None:
    b = buffer()
    for sequence in (11, 12, 15):
        b.insert(frame(sequence, 1.0))
    assert numbers(b.flush()) == [(10, 1), 11, 12, (13, 2), 15]
    assert b.deadline is None and b.flush() == []


def test_what_is_remembered_of_gaps_is_bounded() -> None:
    b = buffer(capacity=4)
    for start in range(0, 3000, 100):
        b.begin(start, 960 * start)
        b.insert(frame(start + 90, 0.0))
        b.take(1.0)
    assert b._given_up is not None and len(b._given_up) <= 8
    assert b.insert(frame(2989)) is Arrival.LATE


def test_timestamps_that_run_backwards_do_not_make_the_gap_earlier() -> None:
    b = buffer()
    b.insert(AudioFrame(b"", 0, 12, False, 111, None, 0.0))
    assert b.take(1.0)[0].timestamp == 960 * 9
