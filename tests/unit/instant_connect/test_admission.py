"""Limits of what is unproven, and the gate in a flood."""

from __future__ import annotations

import pytest

from instant_connect.admission import Admission, AdmissionConfig, FloodGate, prefix_of
from instant_connect.reasons import InstantDiscard
from warp.errors import InvalidConfig

LIMITS = AdmissionConfig(
    max_sessions=5,
    max_half_open=3,
    max_waiting=2,
    max_unproven_per_prefix=2,
    max_unproven_per_ticket=1,
)


@pytest.mark.parametrize(
    ("host", "prefix"),
    [
        ("192.0.2.77", "192.0.2"),
        ("2001:db8:5:6:7:8:9:a", "2001:db8:5"),
        ("2001:db8:5::1", "2001:db8:5"),
        ("2001:db8::1", "2001:db8"),
        ("2001:db8:0:1::1", "2001:db8"),
        ("fe80::1", "fe80"),
        ("::1", ""),
    ],
)
def test_prefixes(host: str, prefix: str) -> None:
    assert prefix_of(host) == prefix


def test_counts_go_up_and_down() -> None:
    admission = Admission(LIMITS)
    assert admission.why_not(b"t", "p", 0) is None
    admission.add(b"t", "p")
    assert admission.why_not(b"t", "p", 0) is InstantDiscard.TICKET_BUSY
    assert admission.why_not(b"u", "p", 0) is None
    admission.add(b"u", "p")
    assert admission.why_not(b"v", "p", 0) is InstantDiscard.PREFIX_BUSY
    admission.remove(b"t", "p")
    assert admission.why_not(b"t", "p", 0) is None
    admission.remove(b"u", "p")
    admission.remove(b"u", "p")  # never below nothing
    assert admission.why_not(b"u", "p", 2) is InstantDiscard.OVERLOADED
    assert not admission._by_prefix
    assert not admission._by_ticket


def test_sessions_and_handshakes_are_limited_by_themselves() -> None:
    admission = Admission(LIMITS)
    admission.half_open = 3
    assert admission.why_not(b"t", "p", 0) is InstantDiscard.OVERLOADED
    admission.half_open, admission.sessions = 0, 5
    assert not admission.has_room


@pytest.mark.parametrize("name", ["max_sessions", "half_open_s", "prefix_rate_per_s", "hold_s"])
def test_limits_that_let_nobody_in_are_refused(name: str) -> None:
    with pytest.raises(InvalidConfig, match=name):
        AdmissionConfig(**{name: 0})
    assert not AdmissionConfig(keeps_unattached=False).keeps_unattached


# -- floods --------------------------------------------------------------------------------------

FLOOD = AdmissionConfig(
    flood_per_s=100, ceiling_per_s=200, prefix_rate_per_s=2, prefix_burst=4, max_prefixes=10
)


def passed(gate: FloodGate, host: str, count: int, now: float) -> int:
    return sum(gate.passes(host, now) for _ in range(count))


def test_everything_passes_while_it_is_little() -> None:
    gate = FloodGate(FLOOD)
    for second in range(5):
        assert passed(gate, "192.0.2.1", 50, float(second)) == 50
    assert not gate.is_flooded


def test_in_a_flood_a_prefix_has_its_rate_and_others_have_theirs() -> None:
    gate = FloodGate(FLOOD)
    assert passed(gate, "192.0.2.1", 90, 0.0) == 50 + 4
    assert gate.is_flooded
    assert passed(gate, "192.0.2.200", 5, 0.0) == 0  # the same prefix
    assert passed(gate, "198.51.100.1", 3, 0.0) == 3
    assert passed(gate, "192.0.2.1", 60, 0.5) == 1  # half a second of two a second
    assert passed(gate, "192.0.2.1", 60, 1.0) == 1


def test_a_flood_ends_after_a_window_without_one() -> None:
    gate = FloodGate(FLOOD)
    passed(gate, "192.0.2.1", 90, 0.0)
    assert passed(gate, "192.0.2.1", 3, 0.5) == 1
    assert gate.is_flooded
    assert passed(gate, "192.0.2.1", 50, 1.0) == 50
    assert not gate.is_flooded
    passed(gate, "192.0.2.1", 90, 1.1)
    assert passed(gate, "192.0.2.1", 50, 60.0) == 50  # after a long silence


def test_floods_from_everywhere_have_a_ceiling_and_take_no_room() -> None:
    gate = FloodGate(FLOOD)
    hosts = [f"10.{n // 256}.{n % 256}.1" for n in range(1000)]
    assert sum(gate.passes(host, 0.0) for host in hosts) == 100
    assert len(gate._buckets) <= 10


def test_what_one_prefix_sends_takes_nothing_from_others() -> None:
    gate = FloodGate(FLOOD)
    assert passed(gate, "192.0.2.1", 100_000, 0.0) == 50 + 4
    assert passed(gate, "198.51.100.1", 3, 0.0) == 3
