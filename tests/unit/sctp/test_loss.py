"""Counting miss indications (RFC 9260 section 7.2.4)."""

from __future__ import annotations

from warp.sctp.loss import LossDetector


def test_lost_at_the_third_report() -> None:
    losses = LossDetector(0)
    losses.note_hole(5)
    assert losses.count(6, all_holes=False) == []
    assert losses.count(7, all_holes=False) == []
    assert losses.count(8, all_holes=False) == [5]
    assert losses.count(9, all_holes=False) == []
    assert losses.is_idle


def test_only_news_above_the_hole_counts() -> None:
    losses = LossDetector(0)
    losses.note_hole(5)
    for _ in range(9):
        assert losses.count(4, all_holes=False) == []
    assert losses.count(6, all_holes=False) == []


def test_in_recovery_a_moving_point_counts_for_all() -> None:
    losses = LossDetector(0)
    losses.note_hole(5)
    for expected in ([], [], [5]):
        assert losses.count(3, all_holes=True) == expected


def test_an_arrival_ends_the_count() -> None:
    losses = LossDetector(0)
    losses.note_hole(5)
    losses.count(6, all_holes=False)
    losses.note_acked(5)
    assert losses.is_idle
    assert [losses.count(n, all_holes=True) for n in (7, 8, 9)] == [[], [], []]


def test_sent_again_it_waits_for_news_about_what_was_sent_later() -> None:
    losses = LossDetector(0)
    losses.note_resent(5, next_tsn=20)
    for newest in range(6, 20):
        assert losses.count(newest, all_holes=True) == []
    assert losses.count(20, all_holes=False) == []
    assert losses.count(21, all_holes=False) == []
    assert losses.count(22, all_holes=False) == [5]


def test_lost_ones_come_in_order() -> None:
    losses = LossDetector(0)
    for tsn in (9, 5, 7):
        losses.note_hole(tsn)
    losses.count(10, all_holes=False)
    losses.count(11, all_holes=False)
    assert losses.count(12, all_holes=False) == [5, 7, 9]


def test_forget() -> None:
    losses = LossDetector(0)
    losses.note_hole(5)
    losses.note_resent(6, 7)
    losses.forget()
    assert losses.is_idle
