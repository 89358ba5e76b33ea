"""The congestion window (RFC 9260 section 7.2)."""

from __future__ import annotations

from warp.sctp import SctpConfig
from warp.sctp.congestion import CongestionControl

MTU = 1191


def congestion(peer_rwnd: int = 5_000_000, **options: int) -> CongestionControl:
    return CongestionControl(SctpConfig(**options), peer_rwnd)  # type: ignore[arg-type]


def test_start() -> None:
    window = congestion()
    assert window.cwnd == 10 * MTU
    assert window.ssthresh == 5_000_000
    assert congestion(1500).ssthresh == 4 * MTU


def test_slow_start_grows_by_what_was_acked() -> None:
    window = congestion()
    window.receive_ack(2 * MTU, window.cwnd)
    assert window.cwnd == 12 * MTU
    window.receive_ack(1000 * MTU, window.cwnd)  # at most doubled at once
    assert window.cwnd == 24 * MTU


def test_no_growth_unless_the_window_was_used() -> None:
    window = congestion()
    window.receive_ack(2 * MTU, window.cwnd - MTU - 1)
    assert window.cwnd == 10 * MTU
    window.receive_ack(2 * MTU, window.cwnd - MTU)
    assert window.cwnd == 12 * MTU


def test_avoidance_grows_by_one_packet_a_window() -> None:
    window = congestion(1500)
    window.handle_loss(0)
    window.handle_cumulative_ack(0)
    window.cwnd = window.ssthresh + 1
    start = window.cwnd
    for _ in range(5):
        window.receive_ack(MTU, window.cwnd)
        assert window.cwnd == start
    window.receive_ack(MTU, window.cwnd)
    assert window.cwnd == start + MTU


def test_loss_halves_once_a_window() -> None:
    window = congestion()
    window.cwnd = 100 * MTU
    window.handle_loss(500)
    assert window.cwnd == window.ssthresh == 50 * MTU
    assert window.free_packet
    window.handle_loss(600)
    assert window.cwnd == 50 * MTU
    window.receive_ack(10 * MTU, 50 * MTU)  # no growth inside fast recovery
    assert window.cwnd == 50 * MTU
    window.handle_cumulative_ack(499)
    assert window.recovery_exit == 500
    window.handle_cumulative_ack(500)
    assert window.recovery_exit is None
    window.handle_loss(700)
    assert window.cwnd == 25 * MTU


def test_loss_never_goes_below_four_packets() -> None:
    window = congestion()
    window.cwnd = 5 * MTU
    window.handle_loss(1)
    assert window.cwnd == 4 * MTU


def test_a_timeout_leaves_one_packet_and_ends_recovery() -> None:
    window = congestion()
    window.cwnd = 100 * MTU
    window.handle_loss(1)
    window.handle_timeout()
    assert window.cwnd == MTU
    assert window.ssthresh == 25 * MTU
    assert window.recovery_exit is None
    window.receive_ack(MTU, MTU)
    assert window.cwnd == 2 * MTU  # slow start again


def test_bursts_are_counted_per_sack() -> None:
    window = congestion(max_burst_packets=4)
    assert window.burst == 4
    window.handle_sent(3, 0.0)
    assert window.burst == 1
    for _ in range(3):
        window.receive_sack(0)
    assert window.burst == 13
    window.handle_sent(2, 0.0)
    assert window.burst == 4  # no saving up
    window.receive_sack(0)
    window.handle_sent(0, 0.0)
    assert window.burst == 4
    window.handle_sent(9, 0.0)
    assert window.burst == 0
    window.begin_flight(0.2, 0.0)
    assert window.burst == 4


def test_idle_time_shrinks_the_window_to_where_it_started() -> None:
    window = congestion()
    window.cwnd = 80 * MTU
    window.begin_flight(0.2, 100.0)
    assert window.cwnd == 80 * MTU  # nothing was ever sent
    window.handle_sent(1, 100.0)
    window.begin_flight(0.2, 100.1)
    assert window.cwnd == 80 * MTU
    window.begin_flight(0.2, 100.5)
    assert window.cwnd == 20 * MTU
    window.begin_flight(0.2, 1e9)
    assert window.cwnd == 10 * MTU
