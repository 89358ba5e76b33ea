"""Statistics of RFC 3550 appendix A.1, A.3 and A.8, against plain re-computations."""

from __future__ import annotations

import pytest

from warp.rtp import AudioReceiver, ReceiverConfig
from warp.rtp.reception import MAX_DROPOUT, MAX_MISORDER, Place, Reception


def receiver(packets: list[tuple[int, int, float]], clock_rate: int = 48000) -> AudioReceiver:
    r = AudioReceiver(ReceiverConfig(clock_rate=clock_rate))
    r.begin_source(7, 0.0)
    for sequence, timestamp, now in packets:
        r.receive(sequence & 0xFFFF, timestamp & 0xFFFFFFFF, False, 111, b"x" * 10, None, now)
    return r


def test_places_of_appendix_a1() -> None:
    reception = Reception()
    reception.begin(1000, 0, 0.0, again=False)
    reception.highest = 1000
    assert reception.judge(1001) is Place.AHEAD
    assert reception.judge(1000 + MAX_DROPOUT - 1) is Place.AHEAD
    assert reception.judge(1000) is Place.BEHIND
    assert reception.judge(1000 - MAX_MISORDER + 1) is Place.BEHIND
    assert reception.judge(1000 + MAX_DROPOUT) is Place.JUMPED
    assert reception.judge(1000 + MAX_DROPOUT) is Place.JUMPED
    assert reception.judge(1000 + MAX_DROPOUT + 1) is Place.RESTARTED


def test_loss_and_fraction_of_appendix_a3() -> None:
    r = receiver([(i, 960 * i, 0.02 * i) for i in range(100) if i % 4 != 1])
    block = r.report_block(2.0)
    assert block is not None
    assert (block.ssrc, block.highest_sequence) == (7, 99)
    assert block.cumulative_lost == 25 and block.fraction_lost == 25 * 256 // 100
    # nothing lost in the second interval
    for i in range(100, 120):
        r.receive(i, 960 * i, False, 111, b"", None, 0.02 * i)
    block = r.report_block(2.4)
    assert block is not None
    assert block.cumulative_lost == 25 and block.fraction_lost == 0
    assert r.report_block(2.4) is not None  # an empty interval divides by nothing


def test_copies_make_the_loss_negative() -> None:
    r = receiver([(i // 2, 960 * (i // 2), 0.01 * i) for i in range(20)])
    block = r.report_block(1.0)
    assert block is not None
    assert block.cumulative_lost == -10 and block.fraction_lost == 0
    assert r.stats.duplicates == 10


def test_highest_sequence_counts_cycles() -> None:
    r = receiver([(65530 + i, 960 * i, 0.02 * i) for i in range(20)])
    block = r.report_block(1.0)
    assert block is not None
    assert block.highest_sequence == 65549 and block.cumulative_lost == 0


@pytest.mark.parametrize("clock_rate", [8000, 48000])
def test_jitter_of_appendix_a8(clock_rate: int) -> None:
    step = clock_rate // 50
    arrivals = [0.02 * i + (0.007 if i % 3 == 0 else 0.0) + 0.001 * (i % 5) for i in range(200)]
    r = receiver([(i, 0xFFFFF000 + step * i, now) for i, now in enumerate(arrivals)], clock_rate)
    jitter, transit = 0.0, None
    for i, now in enumerate(arrivals):
        new = now * clock_rate - step * i
        if transit is not None:
            jitter += (abs(new - transit) - jitter) / 16
        transit = new
    block = r.report_block(9.0)
    assert block is not None
    assert block.jitter == int(jitter)
    assert r.stats.jitter_s == pytest.approx(jitter / clock_rate)


def test_constant_delay_has_no_jitter() -> None:
    r = receiver([(i, 960 * i, 5.0 + 0.02 * i) for i in range(100)])
    assert r.stats.jitter_s == pytest.approx(0.0, abs=1e-9)


def test_no_block_before_the_first_packet() -> None:
    r = AudioReceiver()
    assert r.report_block(1.0) is None
    r.begin_source(7, 0.0)
    assert r.report_block(1.0) is None
    assert r.stats.lost == 0
