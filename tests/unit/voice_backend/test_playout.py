"""Playout: each frame in its turn or not at all; a fence that nothing old passes."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from voice_backend.counts import FrameCounts
from voice_backend.playout import Playout

SAMPLES = 480


def made(delay: int = 1, room: int = 4) -> tuple[Playout, FrameCounts]:
    counts = FrameCounts()
    return Playout(SAMPLES, delay=delay, room=room, counts=counts), counts


def frame(value: int) -> np.ndarray:
    return np.full(SAMPLES, value, np.int16)


def test_nothing_is_owed_before_the_delay_is_over() -> None:
    playout, _ = made(delay=2)
    assert [playout.take()[1] for _ in range(3)] == [False, False, True]


def test_a_frame_has_one_turn() -> None:
    playout, counts = made(delay=0)
    playout.receive(0, frame(5), 0)
    assert playout.take()[0][0] == 5
    assert playout.take()[1]
    playout.receive(1, frame(6), 0)
    assert counts.stale == 1
    assert playout.take()[1]


def test_what_stands_in_fades_and_then_is_silent() -> None:
    playout, _ = made(delay=0)
    playout.receive(0, frame(1000), 0)
    playout.take()
    again, _ = playout.take()
    assert again[0] == 1000
    assert abs(int(again[-1])) < 10
    assert not playout.take()[0].any()


def test_what_lies_too_far_ahead_is_refused() -> None:
    playout, counts = made(delay=0, room=2)
    for index in range(4):
        playout.receive(index, frame(index), 0)
    assert (playout.held, counts.unusable) == (2, 2)


def test_cancel_drops_what_is_held_and_what_comes_of_the_old_epoch() -> None:
    playout, counts = made(delay=0)
    playout.receive(0, frame(1000), 0)
    playout.take()
    playout.receive(1, frame(1000), 0)
    assert playout.cancel(3) == 1
    playout.receive(2, frame(1000), 0)
    assert (playout.held, counts.fenced) == (0, 2)
    cut, missing = playout.take()
    assert not missing
    # no click: from the last sample to nothing within 5 ms
    assert abs(int(cut[SAMPLES // 4 - 1])) < 20
    assert not cut[SAMPLES // 4 :].any()
    assert playout.take()[1] is False
    playout.receive(3, frame(7), 1)
    assert playout.take()[0][0] == 7


def test_what_was_played_is_known() -> None:
    playout, _ = made(delay=1)
    playout.receive(0, frame(1), 0)
    playout.take()
    assert (playout.position_ms, playout.played) == (0, 0)
    playout.take()
    playout.take()
    assert (playout.position_ms, playout.played) == (40, 1)


@given(
    st.lists(
        st.one_of(
            st.tuples(st.just("receive"), st.integers(-3, 40), st.integers(0, 3)),
            st.tuples(st.just("take"), st.just(0), st.just(0)),
            st.tuples(st.just("cancel"), st.integers(0, 40), st.just(0)),
            st.tuples(st.just("cut"), st.integers(0, 40), st.just(0)),
        ),
        max_size=80,
    )
)
def test_whatever_comes_the_queue_is_bounded_and_no_frame_is_lost_uncounted(moves: list) -> None:
    playout, _ = made(delay=1, room=4)
    received = 0
    for move, number, epoch in moves:
        if move == "receive":
            before = playout.held
            playout.receive(number, frame(epoch), epoch)
            received += playout.held > before
            assert number < playout.next_index + 4 or playout.held == before
        elif move == "take":
            pcm, _ = playout.take()
            assert pcm.shape == (SAMPLES,)
        elif move == "cancel":
            playout.cancel(number)
        else:
            playout.cut(number)
        assert playout.held <= 4
        assert playout.played + playout.held <= received


@pytest.mark.parametrize("epoch", [0, 1])
def test_an_epoch_older_than_the_sessions_is_never_played(epoch: int) -> None:
    playout, _ = made(delay=0)
    playout.cancel(0)
    playout.cancel(0)
    playout.receive(0, frame(9), epoch)
    assert not playout.take()[0].any()
