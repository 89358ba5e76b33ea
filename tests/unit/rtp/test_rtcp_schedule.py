"""When reports are due (RFC 3550 section 6.3, appendix A.7)."""

from __future__ import annotations

import math

from warp.entropy import SeededEntropy
from warp.rtp.rtcp_schedule import BANDWIDTH_BYTES_PER_S, RtcpSchedule


def intervals(schedule: RtcpSchedule, count: int) -> list[float]:
    out = []
    for _ in range(count):
        schedule.restart(100.0)
        assert schedule.deadline is not None
        out.append(schedule.deadline - 100.0)
    return out


def test_first_report_after_half_the_minimum() -> None:
    firsts = []
    for seed in range(50):
        schedule = RtcpSchedule(2.5, entropy=SeededEntropy(seed))
        assert schedule.deadline is None
        schedule.start(10.0)
        assert schedule.deadline is not None
        firsts.append(schedule.deadline - 10.0)
        kept = schedule.deadline
        schedule.start(11.0)
        assert schedule.deadline == kept
    scale = math.e - 1.5
    assert min(firsts) >= 1.25 * 0.5 / scale and max(firsts) <= 1.25 * 1.5 / scale
    assert max(firsts) - min(firsts) > 0.5  # randomised: ends do not beat in step


def test_intervals_are_uniform_around_the_minimum() -> None:
    schedule = RtcpSchedule(5.0, entropy=SeededEntropy(1))
    scale = math.e - 1.5
    spread = intervals(schedule, 400)
    assert min(spread) >= 2.5 / scale and max(spread) <= 7.5 / scale
    assert abs(sum(spread) / len(spread) - 5.0 / scale) < 0.15


def test_large_reports_are_sent_less_often() -> None:
    schedule = RtcpSchedule(1.0, entropy=SeededEntropy(1))
    for _ in range(200):
        schedule.receive_datagram(1000)
    expected = 2 * 1028 / BANDWIDTH_BYTES_PER_S / (math.e - 1.5)
    spread = intervals(schedule, 400)
    assert abs(sum(spread) / len(spread) - expected) < 0.4


def test_stop() -> None:
    schedule = RtcpSchedule(1.0, entropy=SeededEntropy(1))
    schedule.start(0.0)
    schedule.stop()
    assert schedule.deadline is None
