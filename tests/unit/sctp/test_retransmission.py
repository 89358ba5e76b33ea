"""Sending, acknowledgement, loss (RFC 9260 sections 6.1-6.3, 7.2)."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.unit.sctp.support import Script, init_chunk, kinds
from tests.vectors.sctp import TAG_A
from warp.sctp import SctpConfig, SctpDiscard, State
from warp.sctp.chunks import IMMEDIATE, ChunkType
from warp.sctp.outbound import ACKED, IN_FLIGHT, LOST
from warp.sctp.retransmission import Transmission
from warp.trace import MemoryTrace

QUIET = SctpConfig(heartbeat_interval_s=None)
PAYLOAD = 1160
CHUNK = PAYLOAD + 16
FIRST = 1000


def transmission(script: Script) -> Transmission:
    found = script.us._transmission
    assert found is not None
    return found


def tsns(script: Script, now: float = 0.0) -> list[int]:
    return [data.tsn for data in script.hears_data(now)]


def started(packets: int, *, config: SctpConfig = QUIET, now: float = 0.0) -> Script:
    """A script in which `packets` full packets are in flight."""
    script = Script(replace(config, initial_cwnd_packets=max(packets, 10), max_burst_packets=1000))
    script.send(packets * PAYLOAD, now=now)
    assert len(tsns(script, now)) == packets
    return script


def check_flight(script: Script) -> None:
    of = transmission(script)
    flying = [f for f in of.fragments.values() if f.state == IN_FLIGHT]
    assert of.flight_size == sum(len(f.chunk) for f in flying)
    assert of._in_flight == len(flying)


# -- what may leave


def test_the_first_flight_is_ten_packets() -> None:
    script = Script()
    script.send(100 * PAYLOAD)
    assert tsns(script) == list(range(FIRST, FIRST + 10))
    assert transmission(script).flight_size == 10 * CHUNK
    assert tsns(script) == []
    check_flight(script)


def test_the_signalled_window_holds_before_any_sack() -> None:
    script = Script(remote=init_chunk(a_rwnd=3000))
    script.send(100 * PAYLOAD)
    assert sum(len(data.payload) for data in script.hears_data()) <= 3000
    assert transmission(script).congestion.ssthresh >= 3000


def test_one_chunk_may_always_be_in_flight() -> None:
    script = Script()
    script.send(PAYLOAD)
    script.hears()
    script.sacks(FIRST, a_rwnd=0)
    script.send(5 * PAYLOAD)
    assert tsns(script) == [FIRST + 1]  # the zero window probe
    assert tsns(script) == []
    script.sacks(FIRST + 1, a_rwnd=2 * PAYLOAD)
    assert len(tsns(script)) == 2


def test_probes_of_a_shut_window_are_no_errors() -> None:
    script = Script(replace(QUIET, max_retransmissions=2))
    script.send(10 * PAYLOAD)
    script.hears()
    script.sacks(FIRST + 9, a_rwnd=0)
    script.send(PAYLOAD)
    assert tsns(script) == [FIRST + 10]
    for _ in range(20):
        now = script.us.get_timer()
        assert now is not None
        script.us.handle_timer(now)
        assert tsns(script, now) == [FIRST + 10]
        script.sacks(FIRST + 9, a_rwnd=0, now=now)
    assert script.us.state is State.ESTABLISHED


def test_a_burst_is_limited_and_a_sack_allows_the_next() -> None:
    script = Script(replace(QUIET, max_burst_packets=4, initial_cwnd_packets=40))
    script.send(40 * PAYLOAD)
    assert len(tsns(script)) == 4
    assert tsns(script) == []
    script.sacks(FIRST + 1)
    # two packets have left the network and may be replaced; a burst comes on top
    assert len(tsns(script)) == 2 + 4
    script.sacks(FIRST + 3)
    script.sacks(FIRST + 5)
    assert len(tsns(script)) == 2 * (2 + 4)


def test_after_idle_a_burst_is_limited_too() -> None:
    script = Script(replace(QUIET, max_burst_packets=4, initial_cwnd_packets=40))
    script.send(1)
    script.hears()
    script.sacks(FIRST)
    script.hears()
    script.send(40 * PAYLOAD, now=100.0)
    assert len(tsns(script, 100.0)) == 4


def test_tsns_wrap_on_the_way_out() -> None:
    script = Script(QUIET, local=init_chunk(tag=TAG_A, tsn=0xFFFFFFFE))
    script.send(4 * PAYLOAD)
    assert tsns(script) == [0xFFFFFFFE, 0xFFFFFFFF, 0, 1]
    script.sacks(0xFFFFFFFF)
    assert transmission(script).flight_size == 2 * CHUNK
    script.sacks(1)
    assert transmission(script).flight_size == 0
    assert script.us.discards == {}


def test_the_last_chunk_of_the_queue_asks_for_a_prompt_sack() -> None:
    script = Script()
    script.send(3 * PAYLOAD)
    assert [data.flags & IMMEDIATE for data in script.hears_data()] == [0, 0, IMMEDIATE]


def test_so_does_every_chunk_under_a_small_window() -> None:
    script = started(10)
    now = script.us.get_timer()
    assert now is not None
    script.us.handle_timer(now)
    script.hears(now)
    script.sacks(FIRST + 9, now=now)
    script.send(3 * PAYLOAD, now=now)
    assert {data.flags & IMMEDIATE for data in script.hears_data(now)} == {IMMEDIATE}


# -- acknowledgements


def test_cumulative_and_gap_acks_leave_the_flight() -> None:
    script = started(10)
    script.sacks(FIRST + 1, [(3, 4)])
    of = transmission(script)
    assert of.flight_size == 6 * CHUNK
    assert sorted(of.fragments) == list(range(FIRST + 2, FIRST + 10))
    check_flight(script)
    script.sacks(FIRST + 9)
    assert of.flight_size == 0
    assert of.is_idle
    assert script.us.get_timer() is None


@pytest.mark.parametrize(
    ("cumulative", "gaps", "reason"),
    [
        (FIRST - 2, [], SctpDiscard.OLD_SACK),
        (FIRST + 10, [], SctpDiscard.BAD_SACK),
        (FIRST + (1 << 31) - 2, [], SctpDiscard.BAD_SACK),
        (FIRST + 1, [(4, 3)], SctpDiscard.BAD_SACK),
        (FIRST + 1, [(0, 3)], SctpDiscard.BAD_SACK),
        (FIRST + 1, [(3, 9)], SctpDiscard.BAD_SACK),
        (FIRST + 1, [(3, 65535)], SctpDiscard.BAD_SACK),
        (FIRST + 1, [(65535, 65535)], SctpDiscard.BAD_SACK),
    ],
)
def test_absurd_sacks_change_nothing(
    cumulative: int, gaps: list[tuple[int, int]], reason: SctpDiscard
) -> None:
    script = started(10)
    of = transmission(script)
    before = (of.cumulative_acked, of.flight_size, of.peer_rwnd, sorted(of.fragments))
    states = [f.state for f in of.fragments.values()]
    script.sacks(cumulative, gaps, a_rwnd=7)
    assert (of.cumulative_acked, of.flight_size, of.peer_rwnd, sorted(of.fragments)) == before
    assert [f.state for f in of.fragments.values()] == states
    assert script.us.discards == {reason: 1}
    check_flight(script)


def test_a_reversed_block_beside_good_ones_changes_nothing() -> None:
    script = started(10)
    script.sacks(FIRST, [(3, 4), (7, 6)])
    assert transmission(script).flight_size == 10 * CHUNK


def test_overlapping_and_unsorted_blocks_are_merged() -> None:
    script = started(10)
    script.sacks(FIRST, [(6, 8), (3, 4), (4, 7)])
    assert transmission(script).flight_size == 3 * CHUNK
    check_flight(script)


def test_a_truncated_sack_is_discarded() -> None:
    script = started(10)
    script.says(b"\x03\0\0\x10" + bytes(8) + b"\0\x09\0\0")
    assert script.us.discards == {SctpDiscard.TRUNCATED_CHUNK: 1}


def test_a_sack_before_anything_was_sent() -> None:
    script = Script()
    script.sacks(FIRST - 1)
    script.sacks(FIRST - 1, [(1, 1)])
    script.sacks(FIRST)
    assert script.us.discards == {SctpDiscard.BAD_SACK: 2}


# -- fast retransmit


def test_exactly_three_reports() -> None:
    script = started(10)
    for last, expected in ((2, []), (3, []), (4, [FIRST])):
        script.sacks(FIRST - 1, [(2, last)])
        assert tsns(script) == expected
        check_flight(script)
    assert transmission(script).congestion.cwnd == 5 * 1191


def test_the_same_sack_counts_once() -> None:
    script = started(10)
    for _ in range(9):
        script.sacks(FIRST - 1, [(2, 2)])
        assert tsns(script) == []


def test_only_tsns_below_the_news_are_missing() -> None:
    script = started(10)
    for last in (2, 3, 4):
        script.sacks(FIRST - 1, [(2, last)])
    assert tsns(script) == [FIRST]
    assert {f.state for f in list(transmission(script).fragments.values())[4:]} == {IN_FLIGHT}


def test_one_reduction_for_a_window_of_losses() -> None:
    script = started(20)
    cwnd = transmission(script).congestion.cwnd
    gaps = [(2, 2), (4, 4), (6, 6)]
    for last in (8, 10, 12, 14, 16, 18):
        gaps.append((last, last))
        script.sacks(FIRST - 1, gaps)
        script.hears()
    assert transmission(script).congestion.cwnd == cwnd // 2
    check_flight(script)


def test_the_first_fast_retransmission_ignores_the_window() -> None:
    script = started(20)
    for last in (2, 3, 4):
        script.sacks(FIRST - 1, [(2, last)])
    of = transmission(script)
    assert of.flight_size > of.congestion.cwnd
    assert tsns(script) == [FIRST]


def test_a_lost_retransmission_is_found_without_a_storm() -> None:
    script = started(12)
    for last in (2, 3, 4):
        script.sacks(FIRST - 1, [(2, last)])
    assert tsns(script) == [FIRST]
    # what was already in flight when it left again says nothing about it
    for last in (5, 6, 7, 8, 9, 10, 11):
        script.sacks(FIRST - 1, [(2, last)])
        assert tsns(script) == []
    script.send(6 * PAYLOAD)
    fresh = tsns(script)
    assert fresh == list(range(FIRST + 12, FIRST + 12 + len(fresh)))
    assert len(fresh) >= 3
    for last, expected in ((13, []), (14, []), (15, [FIRST])):
        script.sacks(FIRST - 1, [(2, last)])
        assert [tsn for tsn in tsns(script) if tsn < fresh[0]] == expected
        check_flight(script)


def test_fast_recovery_ends_at_its_exit_point() -> None:
    script = started(10)
    for last in (2, 3, 4):
        script.sacks(FIRST - 1, [(2, last)])
    script.hears()
    congestion = transmission(script).congestion
    assert congestion.recovery_exit == FIRST + 9
    script.sacks(FIRST + 8)
    assert congestion.recovery_exit == FIRST + 9
    script.sacks(FIRST + 9)
    assert congestion.recovery_exit is None


def test_in_recovery_a_moving_point_counts_for_every_hole() -> None:
    script = started(20)
    for last in (2, 3, 4):  # TSNs +0 and +5 to +9 are missing; news of +10 once
        script.sacks(FIRST - 1, [(2, last), (11, 11)])
    assert FIRST in tsns(script)
    assert transmission(script).congestion.recovery_exit is not None
    for step in (3, 4):
        script.sacks(FIRST + step, [(10 - step, 10 - step)])
    fragments = transmission(script).fragments
    assert {fragments[FIRST + n].state for n in range(5, 10)} == {LOST}


# -- T3


def test_t3_sends_one_packet_and_doubles() -> None:
    script = started(10)
    of = transmission(script)
    deadline = script.us.get_timer()
    assert deadline == 0.5
    waits = []
    for _ in range(5):
        script.us.handle_timer(deadline)
        assert tsns(script, deadline) == [FIRST]
        assert of.congestion.cwnd == 1191
        assert of.flight_size == CHUNK
        check_flight(script)
        again = script.us.get_timer()
        assert again is not None
        waits.append(again - deadline)
        deadline = again
    assert waits == pytest.approx([1.0, 2.0, 3.0, 3.0, 3.0])


def test_t3_is_traced() -> None:
    script = started(2)
    script.us._trace = trace = MemoryTrace()
    script.us.handle_timer(0.5)
    [(at, data)] = trace.named("sctp:retransmission_timeout")
    assert (at, data["flight_bytes"], data["errors"]) == (0.5, 2 * CHUNK, 0)


def test_t3_clears_fast_recovery() -> None:
    script = started(10)
    for last in (2, 3, 4):
        script.sacks(FIRST - 1, [(2, last)])
    script.hears()
    deadline = script.us.get_timer()
    assert deadline is not None
    script.us.handle_timer(deadline)
    assert transmission(script).congestion.recovery_exit is None
    assert tsns(script, deadline) == [FIRST]


def test_slow_start_after_t3() -> None:
    script = started(10)
    script.us.handle_timer(0.5)
    assert tsns(script, 0.5) == [FIRST]
    script.sacks(FIRST, now=0.6)
    assert tsns(script, 0.6) == [FIRST + 1, FIRST + 2]
    script.sacks(FIRST + 2, now=0.7)
    assert len(tsns(script, 0.7)) in (3, 4)
    check_flight(script)


def test_t3_starts_again_with_every_step_forward_and_stops_at_the_end() -> None:
    script = started(4)
    script.sacks(FIRST, now=0.3)
    first = script.us.get_timer()
    assert first is not None
    assert first > 0.5
    script.sacks(FIRST, [(3, 3)], now=0.4)  # no step: the timer stays
    assert script.us.get_timer() == first
    script.sacks(FIRST + 3, now=0.45)
    assert script.us.get_timer() is None


def test_nothing_that_is_acknowledged_is_sent_again() -> None:
    script = started(10)
    script.sacks(FIRST, [(2, 4)])
    seen: list[int] = []
    now = 0.0
    for _ in range(40):
        due = script.us.get_timer()
        if due is None:
            break
        now = max(now, due)
        script.us.handle_timer(now)
        sent = tsns(script, now)
        seen += sent
        if sent:
            script.sacks(max(*sent, FIRST + 4), now=now)
    assert not {FIRST, FIRST + 2, FIRST + 3, FIRST + 4} & set(seen)


def test_a_peer_that_takes_back_its_reports_gets_the_data_again() -> None:
    script = started(4)
    script.sacks(FIRST - 1, [(2, 4)])
    script.sacks(FIRST)  # and now it has lost what it reported
    of = transmission(script)
    assert {f.state for f in of.fragments.values()} == {ACKED}
    deadline = script.us.get_timer()
    assert deadline is not None
    script.us.handle_timer(deadline)
    assert tsns(script, deadline) == [FIRST + 1]
    script.sacks(FIRST + 3, now=deadline)
    assert of.is_idle
    check_flight(script)


def test_round_trips_come_from_chunks_sent_once() -> None:
    script = started(2)
    script.us.handle_timer(0.5)
    assert tsns(script, 0.5) == [FIRST]
    script.sacks(FIRST + 1, now=0.9)
    assert script.us.rtt_s is None  # Karn
    script.send(1, now=1.0)
    script.hears(1.0)
    script.sacks(FIRST + 2, now=1.25)
    assert script.us.rtt_s == 0.25


def test_a_gap_report_gives_no_round_trip() -> None:
    script = started(3)
    script.sacks(FIRST - 1, [(2, 3)], now=0.1)
    assert script.us.rtt_s is None


def test_never_gives_up_by_default() -> None:
    script = started(3)
    now = 0.0
    for _ in range(500):
        due = script.us.get_timer()
        assert due is not None
        now = due
        script.us.handle_timer(now)
        script.hears(now)
    assert now > 1000
    assert script.us.state is State.ESTABLISHED
    script.sacks(FIRST, now=now)
    assert FIRST + 1 in tsns(script, now)


def test_gives_up_at_a_configured_limit() -> None:
    script = started(3, config=replace(QUIET, max_retransmissions=3))
    for _ in range(3):
        due = script.us.get_timer()
        assert due is not None
        script.us.handle_timer(due)
    assert script.us.state is State.ESTABLISHED
    due = script.us.get_timer()
    assert due is not None
    script.us.handle_timer(due)
    assert script.us.state is State.CLOSED
    assert kinds(script.hears(due)) == [ChunkType.ABORT]
    assert script.us.get_timer() is None


def test_an_acknowledgement_resets_the_count() -> None:
    script = started(30, config=replace(QUIET, max_retransmissions=1))
    now = 0.0
    for step in range(20):
        due = script.us.get_timer()
        assert due is not None
        now = due
        script.us.handle_timer(now)
        script.hears(now)
        script.sacks(FIRST + step, now=now)
        script.hears(now)
    assert script.us.state is State.ESTABLISHED
