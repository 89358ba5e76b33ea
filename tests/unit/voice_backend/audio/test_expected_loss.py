"""Redundancy follows what the peer reports, up at once and down slowly."""

from __future__ import annotations

import pytest

from voice_backend.audio import ExpectedLoss
from voice_backend.audio.expected_loss import LEAST_PERCENT, MOST_PERCENT


def after(expected: ExpectedLoss, fraction: int, reports: int) -> int:
    for _ in range(reports):
        expected.receive_report(fraction)
    return expected.percent


def test_until_somebody_reports_it_is_what_was_configured() -> None:
    assert ExpectedLoss(5).percent == 5


def test_it_rises_at_once_and_falls_slowly() -> None:
    expected = ExpectedLoss(5)
    assert after(expected, 51, 1) == 12
    assert after(expected, 51, 4) == 19
    assert after(expected, 0, 1) == 18
    assert 5 < after(expected, 0, 8) < 10
    assert after(expected, 0, 60) == LEAST_PERCENT


def test_a_packet_lost_now_and_then_is_no_storm() -> None:
    expected = ExpectedLoss(5)
    for n in range(100):
        # one of 50 packets in every second report
        expected.receive_report(5 * (n % 2))
    assert expected.percent in (1, 2)


@pytest.mark.parametrize("fraction", [255, 100_000, -1])
def test_it_is_bounded_whatever_is_claimed(fraction: int) -> None:
    percent = after(ExpectedLoss(5), fraction, 50)
    assert percent == (MOST_PERCENT if fraction > 0 else LEAST_PERCENT)
