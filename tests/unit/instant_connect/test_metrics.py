"""Counts under names that do not change, as Prometheus reads them."""

from __future__ import annotations

import re

from instant_connect.metrics import add_prometheus, metrics_of, prometheus
from tests.unit.instant_connect.door import NOW, SPED_HELLO, Knocker, flow, make_host

LINE = re.compile(r'[a-z_]+(\{[a-z]+="[a-z0-9_]*"\})? [0-9]+')


def test_what_is_under_way_and_what_came_to_nothing() -> None:
    host = make_host()
    host.receive_unknown(Knocker(1).check(SPED_HELLO), flow(), NOW)
    host.receive_unknown(Knocker(2).check(), flow(1), NOW)
    host.receive_unknown(b"nonsense", flow(2), NOW)
    metrics = metrics_of(host)
    assert metrics["sessions"]["SHAKING"] == 1
    assert metrics["waiting"] == {"": 1}
    assert metrics["dropped"] == {"NOT_FOR_US": 1}
    assert metrics["proven"] == {}
    [session] = host.sessions.all()
    host.sessions.authenticated(session, NOW)
    after = metrics_of(host)
    assert (after["sessions"]["PROVEN"], after["sessions"]["SHAKING"]) == (1, 0)
    assert after["proven"] == {"INSTANT": 1}


def test_the_text_is_one_that_prometheus_reads() -> None:
    host = make_host()
    host.receive_unknown(b"nonsense", flow(), NOW)
    text = prometheus({"calls": {"": 3}, **metrics_of(host)})
    assert text.endswith("\n")
    assert "instant_connect_calls 3" in text
    assert 'instant_connect_dropped_total{why="not_for_us"} 1' in text
    assert "# TYPE instant_connect_dropped_total counter" in text
    for line in text.splitlines():
        assert line.startswith("# ") or LINE.fullmatch(line), line


def test_what_several_servers_tell_of_time_is_added_up_as_well() -> None:
    text = """# HELP voice_tick_seconds Work of a period.
# TYPE voice_tick_seconds histogram
voice_tick_seconds_bucket{engine="a",le="0.001"} 2
voice_tick_seconds_bucket{engine="a",le="+Inf"} 3
voice_tick_seconds_sum{engine="a"} 0.25
voice_tick_seconds_count{engine="a"} 3
"""
    assert add_prometheus([text, text]).splitlines() == [
        *text.splitlines()[:2],
        'voice_tick_seconds_bucket{engine="a",le="0.001"} 4',
        'voice_tick_seconds_bucket{engine="a",le="+Inf"} 6',
        'voice_tick_seconds_sum{engine="a"} 0.5',
        'voice_tick_seconds_count{engine="a"} 6',
    ]
