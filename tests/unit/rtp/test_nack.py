"""Requests for missing packets: when, how often, and for how many."""

from __future__ import annotations

from warp.rtp.nack import NackList


def test_asked_at_once_and_again_after_a_round_trip() -> None:
    nacks = NackList(32, 2)
    nacks.rtt_s = 0.1
    nacks.add_gap(65535, 65538, 1.0)
    assert nacks.deadline == 1.0
    assert nacks.take(1.0) == [65535, 0, 1]
    assert nacks.take(1.0) == []
    assert nacks.deadline is not None and 1.1 < nacks.deadline < 1.2
    assert nacks.take(1.05) == []
    assert nacks.take(1.2) == [65535, 0, 1]
    assert nacks.deadline is None
    assert nacks.take(9.0) == []


def test_what_arrives_is_not_asked_for() -> None:
    nacks = NackList(32, 2)
    nacks.add_gap(5, 8, 1.0)
    nacks.handle_timer(1.0)
    assert nacks.receive(6) and not nacks.receive(6) and not nacks.receive(99)
    assert nacks.take(1.0) == [5, 7]
    nacks.forget_before(7)
    assert nacks.take(2.0) == [7]
    assert nacks.receive(7)
    assert nacks.deadline is None


def test_an_answer_after_the_last_request_still_counts() -> None:
    nacks = NackList(32, 1)
    nacks.add_gap(5, 6, 1.0)
    assert nacks.take(1.0) == [5]
    assert nacks.deadline is None
    assert nacks.receive(5)


def test_an_outage_is_not_asked_for() -> None:
    nacks = NackList(4, 2)
    nacks.add_gap(0, 2, 1.0)
    nacks.add_gap(10, 15, 1.0)
    assert nacks.take(1.0) == [] and nacks.deadline is None


def test_bounded_newest_first() -> None:
    nacks = NackList(4, 2)
    for start in range(0, 30, 3):
        nacks.add_gap(start, start + 2, 1.0)
    assert nacks.take(1.0) == [24, 25, 27, 28]
    nacks.clear()
    assert nacks.take(2.0) == [] and nacks.deadline is None
