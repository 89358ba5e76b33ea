"""Figures for dashboards: by engine and cause, in Prometheus' words."""

from __future__ import annotations

import pytest

from voice_backend.admission import Load
from voice_backend.counts import FrameCounts, Late
from voice_backend.metrics import BOUNDS, Family, Histogram, exposition, frame_families


def test_frames_are_told_by_engine_and_cause() -> None:
    counts = FrameCounts()
    for cause in (None, Late.MODEL, Late.MODEL, None, Late.PACER):
        counts.note(cause)
    text = exposition(frame_families([((("engine", 'a"b'),), counts)]))
    lines = text.splitlines()
    assert 'voice_frames_total{engine="a\\"b"} 5' in lines
    assert 'voice_late_frames_total{engine="a\\"b",cause="model"} 2' in lines
    assert "# TYPE voice_late_frames_total counter" in lines
    assert text.endswith("\n")
    assert (counts.late_frames, counts.longest, counts.run) == (3, 2, 1)


def test_counts_add_up() -> None:
    one, other = FrameCounts(frames=3, concealed=1), FrameCounts(frames=4, stale=2)
    one.note(Late.QUEUE)
    other.add(one)
    assert other.to_json() == {
        "frames": 8,
        "concealed": 1,
        "fenced": 0,
        "stale": 2,
        "unusable": 0,
        "lost_in": 0,
        "late": {"input_wait": 0, "queue": 1, "model": 0, "encode": 0, "pacer": 0},
        "longest_late_run": 1,
        "missing_ms": 20,
    }


def test_a_histogram_is_cumulative_and_ends_at_infinity() -> None:
    histogram = Histogram()
    for seconds in (0.0005, 0.001, 0.0015, 3.0):
        histogram.note(seconds)
    family = Family(
        name="tick_seconds",
        kind="histogram",
        text="Work",
        samples=list(histogram.samples((("engine", "e"),))),
    )
    lines = exposition([family]).splitlines()
    assert 'voice_tick_seconds_bucket{engine="e",le="0.001"} 2' in lines
    assert 'voice_tick_seconds_bucket{engine="e",le="0.08"} 3' in lines
    assert 'voice_tick_seconds_bucket{engine="e",le="+Inf"} 4' in lines
    assert 'voice_tick_seconds_count{engine="e"} 4' in lines
    assert histogram.quantile(0.5) == 0.001
    assert histogram.quantile(1.0) == 3.0
    assert Histogram().quantile(0.5) == 0.0
    assert len(histogram.counts) == len(BOUNDS) + 1


def test_a_load_admits_while_there_is_time_for_one_more() -> None:
    load = Load()
    assert load.admits(10, 0.02)
    for _ in range(50):
        load.note(0.010)
    assert load.p99 == pytest.approx(0.010)
    assert load.admits(10, 0.02)
    assert not load.admits(2, 0.017)
    assert load.admits(0, 0.02)


def test_a_single_stroke_of_bad_luck_is_no_load() -> None:
    load = Load()
    for n in range(50):
        load.note(1.0 if n == 7 else 0.001)
    assert load.p99 == pytest.approx(0.001)
