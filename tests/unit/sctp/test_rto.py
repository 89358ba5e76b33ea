"""RTO (RFC 9260 section 6.3.1)."""

from __future__ import annotations

import pytest

from warp.sctp import SctpConfig
from warp.sctp.rto import Rto


def rto(**options: float) -> Rto:
    values = {"rtt_variance_floor_s": 0.0, "rto_min_s": 0.001, **options}
    return Rto(SctpConfig(**values))  # type: ignore[arg-type]


def test_initial_value() -> None:
    assert rto().current_s == 0.5
    assert rto().srtt_s is None


def test_formula() -> None:
    timer = rto()
    timer.measure(0.4)  # SRTT = R, RTTVAR = R/2
    assert (timer.srtt_s, timer.rttvar_s) == (0.4, 0.2)
    assert timer.current_s == pytest.approx(1.2)
    timer.measure(0.6)
    assert timer.rttvar_s == pytest.approx(0.75 * 0.2 + 0.25 * 0.2)
    assert timer.srtt_s == pytest.approx(0.875 * 0.4 + 0.125 * 0.6)
    assert timer.current_s == pytest.approx(0.425 + 4 * 0.2)


def test_a_steady_path_meets_the_minimum() -> None:
    timer = rto(rto_min_s=0.2)
    for _ in range(50):
        timer.measure(0.01)
    assert timer.current_s == 0.2


def test_the_variance_floor_leaves_room_above_the_round_trip() -> None:
    timer = rto(rtt_variance_floor_s=0.0275)
    for _ in range(50):
        timer.measure(0.3)
    assert timer.current_s == pytest.approx(0.41)


def test_maximum() -> None:
    timer = rto()
    timer.measure(50.0)
    assert timer.current_s == 60.0


@pytest.mark.parametrize("sample", [-0.001, 60.001, 1e9])
def test_absurd_samples_are_ignored(sample: float) -> None:
    timer = rto()
    timer.measure(sample)
    timer.hint(sample)
    assert timer.srtt_s is None


def test_doubling_is_capped() -> None:
    timer = rto()
    seen = []
    for _ in range(5):
        timer.back_off()
        seen.append(timer.current_s)
    assert seen == [1.0, 2.0, 3.0, 3.0, 3.0]


def test_the_cap_never_shortens_the_timeout() -> None:
    timer = rto()
    timer.measure(4.0)
    timer.back_off()
    assert timer.current_s == 12.0


def test_a_sample_ends_the_doubling() -> None:
    timer = rto()
    timer.back_off()
    timer.measure(0.1)
    assert timer.current_s == pytest.approx(0.3)
    timer.back_off()
    timer.reset_backoff()
    assert timer.current_s == pytest.approx(0.3)


def test_a_hint_serves_until_the_first_sample() -> None:
    timer = rto()
    timer.hint(0.1)
    assert timer.current_s == pytest.approx(0.3)
    timer.measure(0.02)
    assert (timer.srtt_s, timer.rttvar_s) == (0.02, 0.01)
    timer.hint(3.0)
    assert timer.srtt_s == 0.02
