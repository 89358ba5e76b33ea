"""Partial reliability, the sending half (RFC 3758 section 3.5, RFC 7496)."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.unit.sctp.support import Script, init_chunk
from tests.unit.sctp.test_retransmission import FIRST, PAYLOAD, check_flight, transmission
from tests.vectors.sctp import TAG_A
from warp.sctp import SctpConfig
from warp.sctp.chunks import (
    ChunkType,
    ForwardTsn,
    Skip,
    parse_data,
    parse_forward_tsn,
    parse_i_forward_tsn,
)

QUIET = SctpConfig(heartbeat_interval_s=None, initial_cwnd_packets=40, max_burst_packets=100)


def scripted() -> Script:
    return Script(QUIET)


def heard(script: Script, now: float = 0.0) -> tuple[list[int], list[ForwardTsn]]:
    chunks = script.hears(now)
    data = [parse_data(f, body).tsn for k, f, body in chunks if k == ChunkType.DATA]
    forwards = [parse_forward_tsn(body) for k, _, body in chunks if k == ChunkType.FORWARD_TSN]
    return data, forwards


def fire(script: Script) -> float:
    due = script.us.get_timer()
    assert due is not None
    script.us.handle_timer(due)
    return due


@pytest.mark.parametrize("limit", [0, 1, 2])
def test_a_message_leaves_once_and_so_often_more(limit: int) -> None:
    script = scripted()
    script.send(1, max_retransmits=limit)
    script.hears()
    for _ in range(limit):
        now = fire(script)
        assert heard(script, now) == ([FIRST], [])
    now = fire(script)
    assert heard(script, now) == ([], [ForwardTsn(FIRST, (Skip(0, False, 0),))])
    check_flight(script)
    assert transmission(script).flight_size == 0
    script.sacks(FIRST, now=now)
    assert transmission(script).is_idle
    assert script.us.get_timer() is None


def test_none_is_not_0() -> None:
    script = scripted()
    script.send(1)
    script.hears()
    for _ in range(20):
        now = fire(script)
        assert heard(script, now) == ([FIRST], [])


def test_three_reports_abandon_too() -> None:
    script = scripted()
    for n in range(5):
        script.send(PAYLOAD, stream=n, max_retransmits=0 if n == 1 else None)
    script.hears()
    for last in (3, 4):
        script.sacks(FIRST, [(2, last - 1)])
        assert heard(script) == ([], [])
    script.sacks(FIRST, [(2, 4)])
    assert heard(script) == ([], [ForwardTsn(FIRST + 1, (Skip(1, False, 0),))])
    check_flight(script)


def test_a_sent_again_message_may_be_lost_by_nine_reports() -> None:
    """Limit 2: three transmissions, each found lost by three SACKs about later data."""
    script = scripted()
    script.send(1, stream=1, max_retransmits=2)
    script.hears()
    resent = 0
    newest = FIRST
    for _ in range(9):
        script.send(1, stream=2)
        data, forwards = heard(script)
        resent += data.count(FIRST)
        newest = max([newest, *data])
        script.sacks(FIRST - 1, [(2, newest - FIRST + 1)])
    data, forwards = heard(script)
    assert resent == 2
    assert [f.skips for f in forwards] == [(Skip(1, False, 0),)]


def test_the_whole_message_goes_and_its_unsent_end_gets_a_tsn() -> None:
    script = Script(replace(QUIET, initial_cwnd_packets=3))
    script.send(10 * PAYLOAD, max_retransmits=0)
    script.send(5, stream=1)
    assert heard(script)[0] == [FIRST, FIRST + 1, FIRST + 2]
    script.sacks(FIRST - 1, [(2, 2)])  # a fragment of it has even arrived
    now = fire(script)
    data, forwards = heard(script, now)
    # three fragments, and one TSN more that ends the message for the receiver
    assert forwards == [ForwardTsn(FIRST + 3, (Skip(0, False, 0),))]
    assert data == [FIRST + 4]
    assert script.us.buffered_amount(0) == 0
    check_flight(script)
    script.sacks(FIRST + 4, now=now)
    assert transmission(script).is_idle


def test_unordered_messages_are_skipped_without_an_entry() -> None:
    script = scripted()
    script.send(1, ordered=False, max_retransmits=0)
    script.hears()
    now = fire(script)
    assert heard(script, now)[1] == [ForwardTsn(FIRST, ())]


def test_the_newest_skip_of_each_stream() -> None:
    script = scripted()
    for n in range(6):
        script.send(1, stream=n % 2, max_retransmits=0)
    script.hears()
    now = fire(script)
    [forward] = heard(script, now)[1]
    assert forward == ForwardTsn(FIRST + 5, (Skip(0, False, 2), Skip(1, False, 2)))


def test_the_point_stops_at_a_reliable_message() -> None:
    script = scripted()
    for n, limit in enumerate((0, None, 0)):
        script.send(1, stream=n, max_retransmits=limit)
    script.hears()
    now = fire(script)
    data, forwards = heard(script, now)
    assert forwards == [ForwardTsn(FIRST, (Skip(0, False, 0),))]
    assert data == [FIRST + 1]
    script.sacks(FIRST + 1, now=now)
    assert heard(script, now + 1)[1] == [ForwardTsn(FIRST + 2, (Skip(2, False, 0),))]


def test_the_point_passes_whole_messages_that_have_arrived() -> None:
    script = scripted()
    for n in range(4):
        script.send(1, stream=n, max_retransmits=0)
    script.hears()
    script.sacks(FIRST - 1, [(2, 2), (4, 4)])
    now = fire(script)
    [forward] = heard(script, now)[1]
    assert forward == ForwardTsn(FIRST + 2, (Skip(0, False, 0), Skip(2, False, 0)))


def test_the_point_does_not_cut_a_reliable_message_in_two() -> None:
    """A receiver drops what it holds of a message that a FORWARD-TSN ends in."""
    script = scripted()
    script.send(1, stream=1, max_retransmits=0)
    script.send(3 * PAYLOAD, stream=2)
    script.hears()
    script.sacks(FIRST - 1, [(2, 3)])
    now = fire(script)
    data, forwards = heard(script, now)
    assert forwards == [ForwardTsn(FIRST, (Skip(1, False, 0),))]
    assert data == [FIRST + 3]


def test_it_is_sent_again_until_acknowledged_but_not_all_the_time() -> None:
    script = scripted()
    script.send(1, max_retransmits=0)
    script.hears()
    now = fire(script)
    assert len(heard(script, now)[1]) == 1
    assert heard(script, now + 0.1)[1] == []
    assert len(heard(script, now + 0.21)[1]) == 1
    assert heard(script, now + 0.3)[1] == []
    for _ in range(5):  # T3 goes on for it
        now = fire(script)
        assert len(heard(script, now)[1]) == 1
    script.sacks(FIRST, now=now)
    assert heard(script, now + 10)[1] == []
    assert script.us.get_timer() is None


def test_too_many_streams_for_one_packet() -> None:
    script = scripted()
    for n in range(1000):
        script.send(1, stream=n, max_retransmits=0)
    script.hears()
    now = fire(script)
    [forward] = heard(script, now)[1]
    assert max(map(len, script.packets)) <= 1191
    count = len(forward.skips)
    assert count == (1191 - 12 - 8) // 4
    assert forward.cumulative_tsn == FIRST + count - 1
    seen = count
    for _ in range(3):
        script.sacks(FIRST + seen - 1, now=now)
        for forward in heard(script, now)[1]:
            seen += len(forward.skips)
    assert seen == 1000


def test_lifetime_in_the_queue_uses_no_tsn() -> None:
    script = scripted()
    script.send(1, lifetime_s=0.1, now=1.0)
    script.send(1, stream=1, lifetime_s=0.5, now=1.0)
    assert heard(script, 1.1)[0] == [FIRST]
    [fragment] = transmission(script).fragments.values()
    assert fragment.message.stream.stream_id == 1
    assert script.us.buffered_amount(0) == 0


def test_lifetime_0_is_a_lifetime() -> None:
    script = scripted()
    script.send(1, lifetime_s=0.0, now=1.0)
    assert heard(script, 1.0)[0] == []


def test_lifetime_of_what_is_half_sent() -> None:
    script = Script(replace(QUIET, initial_cwnd_packets=2))
    script.send(10 * PAYLOAD, lifetime_s=0.1)
    assert heard(script)[0] == [FIRST, FIRST + 1]
    script.sacks(FIRST + 1, now=0.2)
    assert heard(script, 0.2) == ([], [ForwardTsn(FIRST + 2, (Skip(0, False, 0),))])
    check_flight(script)


def test_lifetime_of_what_waits_to_be_sent_again() -> None:
    script = scripted()
    script.send(2 * PAYLOAD, lifetime_s=0.7)
    script.hears()
    now = fire(script)
    assert now == 0.5
    assert heard(script, now)[0] == [FIRST]
    script.sacks(FIRST, now=0.8)
    data, forwards = heard(script, 0.8)
    assert data == []
    assert [f.cumulative_tsn for f in forwards] == [FIRST + 1]
    check_flight(script)


def test_a_reliable_sibling_is_not_disturbed() -> None:
    script = scripted()
    for n in range(10):
        script.send(PAYLOAD, stream=n % 2, max_retransmits=0 if n % 2 else None)
    script.hears()
    sent: set[int] = set()
    for _ in range(30):
        due = script.us.get_timer()
        if due is None:
            break
        script.us.handle_timer(due)
        data, forwards = heard(script, due)
        sent |= set(data)
        points = [f.cumulative_tsn for f in forwards] + data
        script.sacks(max(points), now=due)
    assert sent >= {FIRST + n for n in (0, 2, 4, 6, 8)}
    assert transmission(script).is_idle


def test_a_peer_without_partial_reliability_gets_everything() -> None:
    script = Script(QUIET, remote=init_chunk(forward=False, extensions=(0x82,)))
    script.send(1, max_retransmits=0)
    script.hears()
    for _ in range(5):
        now = fire(script)
        assert heard(script, now) == ([FIRST], [])
    script.send(1, lifetime_s=0.0, now=now)
    assert script.us.buffered_amount(0) == 1
    script.sacks(FIRST, now=now)
    assert heard(script, now) == ([], [])  # never sent: no TSN, nothing to tell


def test_i_forward_tsn_names_unordered_messages() -> None:
    extensions = (0x82, 0xC0, 0x40, 0xC2)
    script = Script(
        QUIET,
        local=init_chunk(tag=TAG_A, tsn=FIRST, extensions=extensions),
        remote=init_chunk(extensions=extensions),
    )
    script.send(1, ordered=False, max_retransmits=0)
    script.send(1, max_retransmits=0)
    script.hears()
    now = fire(script)
    [forward] = [
        parse_i_forward_tsn(body)
        for k, _, body in script.hears(now)
        if k == ChunkType.I_FORWARD_TSN
    ]
    assert forward == ForwardTsn(FIRST + 1, (Skip(0, True, 0), Skip(0, False, 0)))


def test_an_interleaved_message_is_named_as_soon_as_a_part_of_it_is_passed() -> None:
    extensions = (0x82, 0xC0, 0x40, 0xC2)
    script = Script(
        QUIET,
        local=init_chunk(tag=TAG_A, tsn=FIRST, extensions=extensions),
        remote=init_chunk(extensions=extensions),
    )
    size = 2 * 1156
    script.send(size, stream=1, max_retransmits=0)
    script.send(size, stream=2)
    assert [(d.stream_id, d.tsn) for d in script.hears_i_data()] == [
        (1, FIRST),
        (2, FIRST + 1),
        (1, FIRST + 2),
        (2, FIRST + 3),
    ]
    script.sacks(FIRST - 1, [(3, 4)])  # of each message the first part is missing
    now = fire(script)
    [forward] = [
        parse_i_forward_tsn(body)
        for k, _, body in script.hears(now)
        if k == ChunkType.I_FORWARD_TSN
    ]
    # when the reliable part arrives, the receiver comes to FIRST + 3 by itself
    assert forward == ForwardTsn(FIRST, (Skip(1, False, 0),))
