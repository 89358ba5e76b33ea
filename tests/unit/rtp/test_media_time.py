"""Clocks: NTP, the round trip of RFC 3550 figure 2, and a peer's media time on its wall."""

from __future__ import annotations

import pytest

from warp.rtp.media_time import (
    SenderClock,
    ntp_from_wall,
    ntp_middle,
    round_trip,
    wall_from_ntp,
)


def test_ntp_of_known_instants() -> None:
    assert ntp_from_wall(0.0) == 2208988800 << 32
    assert ntp_from_wall(0.5) == 2208988800 << 32 | 0x80000000
    assert wall_from_ntp(ntp_from_wall(1_700_000_000.25)) == 1_700_000_000.25


def test_round_trip_example_of_rfc_3550_section_6_4_1() -> None:
    # figure 2: A = 0xb710:8000, DLSR = 0x0005:4000, LSR = 0xb705:2000, delay 6.125 s
    assert round_trip(0xB7108000, 0xB7052000, 0x00054000) == 6.125


def test_round_trip_that_says_nothing() -> None:
    assert round_trip(1000, 0, 0) is None
    assert round_trip(1000, 1001, 5) == 0.0  # rounding
    assert round_trip(0, 0x40000000, 0x20000000) is None  # a clock went back
    assert round_trip(0x10000, 0xFFFFFFFF, 0) == pytest.approx(1.0, abs=1e-4)


def test_delay_since_report() -> None:
    clock = SenderClock(48000)
    assert clock.delay_since_report(5.0) == 0
    clock.receive_report(ntp_from_wall(100.0), 0, 10.0)
    assert clock.delay_since_report(11.5) == 0x18000
    assert clock.delay_since_report(9.0) == 0
    assert clock.last_report == ntp_middle(ntp_from_wall(100.0))


def test_media_time_on_the_peers_wall_clock_over_a_wrap() -> None:
    clock = SenderClock(48000)
    assert clock.wall_time(0) is None
    clock.receive_report(ntp_from_wall(100.0), 0xFFFFFF00, 0.0)
    assert clock.wall_time(0xFFFFFF00) == 100.0
    assert clock.wall_time((0xFFFFFF00 + 48000) & 0xFFFFFFFF) == pytest.approx(101.0)
    assert clock.wall_time(0xFFFFFF00 - 480) == pytest.approx(99.99)
    assert clock.wall_time(0x5_FFFF_FF00 + 48000) == pytest.approx(101.0)  # extended
