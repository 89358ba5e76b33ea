"""Stream reset, both directions (RFC 6525 sections 4, 5)."""

from __future__ import annotations

import pytest

from tests.unit.sctp.support import Script, chunk, exchange, init_chunk, kinds, snap_pair
from tests.vectors.sctp import TAG_A
from warp.errors import InvalidState
from warp.sctp import (
    ResetResult,
    SctpConfig,
    SctpDiscard,
    SctpRule,
    State,
    StreamsReset,
    StreamsResetFailed,
    Terminated,
)
from warp.sctp.chunks import BEGIN, END, ChunkType, ForwardTsn, Skip, encode_forward_tsn
from warp.sctp.parameters import (
    OutgoingReset,
    ReconfigResponse,
    encode_outgoing_reset,
    encode_parameters,
    encode_reconfig_response,
    parse_outgoing_reset,
    parse_parameters,
    parse_reconfig_response,
)

FIRST = 1000
PAYLOAD = 1160


def request_of(script: Script, now: float = 0.0) -> OutgoingReset | None:
    found = [
        parse_outgoing_reset(value)
        for kind, _, body in script.hears(now)
        if kind == ChunkType.RE_CONFIG
        for parameter, value in parse_parameters(body)
        if parameter == 13
    ]
    return found[0] if found else None


def responses_of(script: Script, now: float = 0.0) -> list[ReconfigResponse]:
    return [
        parse_reconfig_response(value)
        for kind, _, body in script.hears(now)
        if kind == ChunkType.RE_CONFIG
        for parameter, value in parse_parameters(body)
        if parameter == 16
    ]


def answer(script: Script, seq: int, result: int, now: float = 0.0) -> None:
    body = encode_parameters([encode_reconfig_response(ReconfigResponse(seq, result))])
    script.says(chunk(ChunkType.RE_CONFIG, body), now=now)


def ask(script: Script, seq: int, last_tsn: int, *streams: int, now: float = 0.0) -> None:
    request = OutgoingReset(seq, 0, last_tsn, streams)
    body = encode_parameters([encode_outgoing_reset(request)])
    script.says(chunk(ChunkType.RE_CONFIG, body), now=now)


def resets(script: Script) -> list[StreamsReset | StreamsResetFailed]:
    kinds_of_event = StreamsReset | StreamsResetFailed
    return [event for event in script.us.events() if isinstance(event, kinds_of_event)]


# -- ours


def test_an_idle_stream_is_reset_at_once() -> None:
    script = Script()
    script.us.reset_streams([4], 0.0)
    request = request_of(script)
    assert request == OutgoingReset(FIRST, 0, FIRST - 1, (4,))
    answer(script, FIRST, ResetResult.PERFORMED)
    assert resets(script) == [StreamsReset((4,), incoming=False)]
    assert script.us.get_timer() is None


def last_sent(script: Script) -> int:
    transmission = script.us._transmission
    assert transmission is not None
    return transmission.next_tsn - 1


def test_the_request_waits_until_the_streams_data_has_arrived() -> None:
    script = Script()
    script.send(30 * PAYLOAD, stream=4)
    script.us.reset_streams([4], 0.0)
    assert request_of(script) is None
    while last_sent(script) < FIRST + 29:
        script.sacks(last_sent(script))
        assert request_of(script) is None
    script.sacks(FIRST + 28)
    assert request_of(script) is None
    script.sacks(FIRST + 29)
    assert request_of(script) == OutgoingReset(FIRST, 0, FIRST + 29, (4,))


def test_other_streams_do_not_hold_it_up() -> None:
    script = Script()
    script.send(3, stream=1)
    script.send(100 * PAYLOAD, stream=2)
    script.us.reset_streams([1], 0.0)
    script.hears()
    assigned = last_sent(script)
    script.sacks(FIRST)
    request = request_of(script)
    assert request == OutgoingReset(FIRST, 0, assigned, (1,))


def test_messages_sent_meanwhile_go_out_after_it_numbered_from_0() -> None:
    script = Script()
    script.send(1, stream=4)
    script.hears()
    script.us.reset_streams([4], 0.0)
    script.us.send_message(4, 51, b"next life", 0.0)
    assert script.hears_data() == []
    script.sacks(FIRST)
    assert request_of(script) is not None
    assert script.hears_data() == []  # none between the request and its answer
    answer(script, FIRST, ResetResult.PERFORMED)
    [data] = script.hears_data()
    assert (data.stream_seq, data.payload) == (0, b"next life")


def test_several_at_once_and_others_while_one_is_under_way() -> None:
    script = Script()
    script.us.reset_streams([1, 2, 3], 0.0)
    request = request_of(script)
    assert request is not None
    assert request.stream_ids == (1, 2, 3)
    script.us.reset_streams([4, 2], 0.0)
    script.us.reset_streams([5], 0.0)
    assert request_of(script) is None  # one at a time (section 5.1.1)
    answer(script, FIRST, ResetResult.PERFORMED)
    second = request_of(script)
    assert second is not None
    assert (second.request_seq, second.stream_ids) == (FIRST + 1, (4, 5))


def test_a_thousand_streams_keep_inside_the_packet() -> None:
    script = Script()
    script.us.reset_streams(range(1000), 0.0)
    seen: list[int] = []
    for seq in range(FIRST, FIRST + 8):
        request = request_of(script)
        assert request is not None
        assert max(map(len, script.packets)) <= 1191
        seen += request.stream_ids
        answer(script, seq, ResetResult.PERFORMED)
    assert seen == list(range(1000))
    assert request_of(script) is None


def test_it_is_repeated_unchanged_until_answered() -> None:
    script = Script()
    script.us.reset_streams([4], 0.0)
    first = request_of(script)
    waits = []
    now = 0.0
    for _ in range(4):
        due = script.us.get_timer()
        assert due is not None
        waits.append(due - now)
        now = due
        script.us.handle_timer(now)
        assert request_of(script, now) == first
    assert waits == pytest.approx([0.5, 1.0, 2.0, 3.0])
    answer(script, FIRST, ResetResult.PERFORMED, now)
    answer(script, FIRST, ResetResult.PERFORMED, now)
    assert resets(script) == [StreamsReset((4,), incoming=False)]


def test_in_progress_means_patience() -> None:
    script = Script(SctpConfig(heartbeat_interval_s=None, max_retransmissions=2))
    script.us.reset_streams([4], 0.0)
    first = request_of(script)
    now = 0.0
    for _ in range(10):
        answer(script, FIRST, ResetResult.IN_PROGRESS, now)
        due = script.us.get_timer()
        assert due is not None
        assert due - now <= 0.5
        now = due
        script.us.handle_timer(now)
        assert request_of(script, now) == first
    assert script.us.state is State.ESTABLISHED
    answer(script, FIRST, ResetResult.PERFORMED, now)
    assert resets(script) == [StreamsReset((4,), incoming=False)]


def test_a_silent_peer_is_given_up_at_the_limit() -> None:
    script = Script(SctpConfig(heartbeat_interval_s=None, max_retransmissions=2))
    script.us.reset_streams([4], 0.0)
    script.hears()
    for _ in range(3):
        assert script.us.state is State.ESTABLISHED
        due = script.us.get_timer()
        assert due is not None
        script.us.handle_timer(due)
        script.hears(due)
    assert script.us.state is State.CLOSED


@pytest.mark.parametrize("result", [2, 3, 4, 5, 77])
def test_a_refusal_leaves_the_stream_as_it_was(result: int) -> None:
    script = Script()
    script.send(1, stream=4)
    script.hears()
    script.sacks(FIRST)
    script.us.reset_streams([4], 0.0)
    script.hears()
    script.send(1, stream=4)
    answer(script, FIRST, result)
    expected = ResetResult(result) if result < 7 else ResetResult.DENIED
    assert resets(script) == [StreamsResetFailed((4,), expected)]
    assert [data.stream_seq for data in script.hears_data()] == [1]


def test_nothing_to_do_is_done() -> None:
    script = Script()
    script.us.reset_streams([4], 0.0)
    script.hears()
    answer(script, FIRST, ResetResult.NOTHING_TO_DO)
    assert resets(script) == [StreamsReset((4,), incoming=False)]


def test_answers_to_nothing_are_ignored() -> None:
    script = Script()
    answer(script, FIRST, ResetResult.PERFORMED)
    script.us.reset_streams([4], 0.0)
    script.hears()
    answer(script, FIRST + 1, ResetResult.PERFORMED)
    assert resets(script) == []


def test_a_peer_that_cannot_reset_is_not_asked() -> None:
    script = Script(remote=init_chunk(extensions=(0xC0,)))
    script.us.reset_streams([4], 0.0)
    assert request_of(script) is None
    assert resets(script) == [StreamsResetFailed((4,), ResetResult.DENIED)]
    script.send(1, stream=4)
    assert len(script.hears_data()) == 1


def test_its_requests_are_skipped_when_not_agreed() -> None:
    script = Script(remote=init_chunk(extensions=(0xC0,)))
    ask(script, 1, 0, 4)
    assert script.hears() == []
    assert script.us.discards == {SctpDiscard.UNKNOWN_CHUNK: 1}


def test_a_closed_association_resets_nothing() -> None:
    script = Script()
    script.us.abort(0.0)
    with pytest.raises(InvalidState):
        script.us.reset_streams([4], 0.0)


# -- the peer's


def test_performed_and_numbered_from_0() -> None:
    script = Script()
    for ssn in range(3):
        script.says(script.data(b"%d" % ssn, ssn=ssn, stream=4))
    script.says(script.data(b"other", stream=5))
    script.hears()
    ask(script, 1, 4, 4)
    assert responses_of(script) == [ReconfigResponse(1, ResetResult.PERFORMED)]
    assert resets(script) == [StreamsReset((4,), incoming=True)]
    script.says(script.data(b"again", ssn=0, stream=4), script.data(b"goes on", ssn=1, stream=5))
    assert [payload for _, _, payload in script.us.messages()][-2:] == [b"again", b"goes on"]


def test_no_ids_mean_every_stream() -> None:
    script = Script()
    script.says(script.data(stream=4), script.data(stream=5))
    ask(script, 1, 2)
    assert resets(script) == [StreamsReset((), incoming=True)]
    script.says(script.data(b"a", stream=4), script.data(b"b", stream=5))
    assert len(script.us.messages()) == 4


def test_a_repeated_request_is_answered_but_not_executed_again() -> None:
    script = Script()
    ask(script, 1, 0, 4)
    script.hears()
    script.says(script.data(b"new", ssn=0, stream=4))
    ask(script, 1, 0, 4)
    assert responses_of(script) == [ReconfigResponse(1, ResetResult.PERFORMED)]
    script.says(script.data(b"newer", ssn=1, stream=4))
    assert [payload for _, _, payload in script.us.messages()] == [b"new", b"newer"]
    assert len(resets(script)) == 1


@pytest.mark.parametrize("seq", [0, 3, 0xFFFFFFFF, 0x80000001])
def test_a_wrong_sequence_number(seq: int) -> None:
    script = Script()
    ask(script, seq, 0, 4)
    assert responses_of(script) == [ReconfigResponse(seq, ResetResult.BAD_SEQUENCE_NUMBER)]
    assert resets(script) == []
    ask(script, 1, 0, 4)
    assert responses_of(script) == [ReconfigResponse(1, ResetResult.PERFORMED)]


def test_request_numbers_wrap() -> None:
    script = Script(local=init_chunk(tag=TAG_A, tsn=0xFFFFFFFF), remote=init_chunk(tsn=0xFFFFFFFF))
    for seq in (0xFFFFFFFF, 0, 1):
        ask(script, seq, 0xFFFFFFFE, 4)
        script.us.reset_streams([4], 0.0)
        request = request_of(script)
        assert request is not None
        assert request.request_seq == seq
        answer(script, seq, 1)
    assert len(resets(script)) == 6


def test_it_waits_for_data_that_is_still_on_its_way() -> None:
    script = Script()
    script.says(script.data(b"0", ssn=0, stream=4))
    late = script.data(b"1", ssn=1, stream=4)
    script.hears()
    ask(script, 1, 2, 4)
    assert responses_of(script) == [ReconfigResponse(1, ResetResult.IN_PROGRESS)]
    # the next life's data overtakes the last of this one
    script.says(script.data(b"new 0", ssn=0, stream=4), script.data(b"x", stream=5))
    assert [p for _, _, p in script.us.messages()] == [b"0", b"x"]
    ask(script, 1, 2, 4)
    assert ReconfigResponse(1, ResetResult.IN_PROGRESS) in responses_of(script)
    assert resets(script) == []
    script.says(late)
    assert [p for _, _, p in script.us.messages()] == [b"1", b"new 0"]
    assert resets(script) == [StreamsReset((4,), incoming=True)]
    assert ReconfigResponse(1, ResetResult.PERFORMED) in responses_of(script)
    ask(script, 1, 2, 4)
    assert responses_of(script) == [ReconfigResponse(1, ResetResult.PERFORMED)]
    assert script.us._inbound is not None
    assert script.us._inbound.charge == 0


def test_held_fragments_of_the_next_life() -> None:
    script = Script()
    late = script.data(b"0", ssn=0, stream=4)
    ask(script, 1, 1, 4)
    script.says(script.data(b"ne", ssn=0, stream=4, flags=BEGIN))
    script.says(script.data(b"w", ssn=0, stream=4, flags=END))
    script.says(late)
    assert [p for _, _, p in script.us.messages()] == [b"0", b"new"]


def test_asked_again_under_a_new_number_it_is_still_in_progress() -> None:
    script = Script()
    late = script.data(b"0", ssn=0, stream=4)
    ask(script, 1, 1, 4)
    ask(script, 2, 1, 4)
    assert responses_of(script)[-1] == ReconfigResponse(2, ResetResult.IN_PROGRESS)
    script.says(late)
    assert ReconfigResponse(2, ResetResult.PERFORMED) in responses_of(script)


def test_another_request_meanwhile_is_turned_down() -> None:
    script = Script()
    script.tsn += 1
    ask(script, 1, 1, 4)
    ask(script, 2, 1, 5)
    assert responses_of(script)[-1] == ReconfigResponse(2, ResetResult.ALREADY_IN_PROGRESS)


def test_forward_tsn_completes_a_deferred_reset() -> None:
    script = Script()
    script.tsn += 1  # TSN 1 was abandoned
    ask(script, 1, 1, 4)
    script.says(script.data(b"new", ssn=0, stream=4))
    script.says(encode_forward_tsn(ForwardTsn(1, (Skip(4, False, 0),))))
    assert [p for _, _, p in script.us.messages()] == [b"new"]
    assert resets(script) == [StreamsReset((4,), incoming=True)]


def test_forward_tsn_of_the_next_life_comes_after_the_reset() -> None:
    script = Script()
    script.says(script.data(b"0", ssn=0, stream=4), script.data(b"1", ssn=1, stream=4))
    ask(script, 1, 3, 4)
    script.says(encode_forward_tsn(ForwardTsn(4, (Skip(4, False, 0),))))
    script.tsn = 5
    script.says(script.data(b"after the skip", ssn=1, stream=4))
    assert [p for _, _, p in script.us.messages()][-1:] == [b"after the skip"]


def test_skips_that_waited_for_a_reset_count_however_far_the_point_has_come() -> None:
    script = Script()
    ask(script, 1, 1, 4)
    script.says(script.data(b"of the next life", ssn=1, stream=4, tsn=3))
    # TSN 1, still of this life, and 2 are given up; the point then comes to 3 by itself
    script.says(encode_forward_tsn(ForwardTsn(2, (Skip(4, False, 0),))))
    assert [p for _, _, p in script.us.messages()] == [b"of the next life"]
    assert script.hears_sacks()[-1].cumulative_tsn == 3


def test_other_requests() -> None:
    script = Script()
    outcomes = {14: ResetResult.NOTHING_TO_DO, 15: 2, 17: 2, 18: 2}
    for seq, (kind, result) in enumerate(outcomes.items(), 1):
        body = encode_parameters([(kind, seq.to_bytes(4, "big") + bytes(4))])
        script.says(chunk(ChunkType.RE_CONFIG, body))
        assert responses_of(script) == [ReconfigResponse(seq, result)]


@pytest.mark.parametrize(
    "parameters",
    [
        [],
        [encode_outgoing_reset(OutgoingReset(1, 0, 0, (1,)))] * 2,
        [encode_reconfig_response(ReconfigResponse(1, 1))] * 3,
    ],
)
def test_impossible_sets_of_parameters_abort(parameters: list[tuple[int, bytes]]) -> None:
    script = Script()
    script.says(chunk(ChunkType.RE_CONFIG, encode_parameters(parameters)))
    [ended] = [event for event in script.us.events() if isinstance(event, Terminated)]
    assert getattr(ended.error, "rule", None) is SctpRule.BAD_RECONFIG
    assert kinds(script.hears()) == [ChunkType.ABORT]


@pytest.mark.parametrize(
    "body",
    [
        b"\0\x0d\0\x03",
        b"\0\x0d\0\x08\0\0\0\x01",
        b"\0\x0d\0\x06\0\x01",
        b"\0\x63\0\x04",
        b"\0\x10\0\x04",
    ],
)
def test_broken_requests_are_discarded(body: bytes) -> None:
    script = Script()
    script.says(chunk(ChunkType.RE_CONFIG, body))
    assert script.us.state is State.ESTABLISHED
    assert sum(script.us.discards.values()) == 1


def test_a_response_and_a_request_in_one_chunk() -> None:
    script = Script()
    script.us.reset_streams([4], 0.0)
    script.hears()
    both = [
        encode_reconfig_response(ReconfigResponse(FIRST, 1)),
        encode_outgoing_reset(OutgoingReset(1, FIRST, 0, (4,))),
    ]
    script.says(chunk(ChunkType.RE_CONFIG, encode_parameters(both)))
    assert resets(script) == [
        StreamsReset((4,), incoming=False),
        StreamsReset((4,), incoming=True),
    ]


def test_both_sides_at_once() -> None:
    a, b = snap_pair()
    a.send_message(4, 51, b"a", 0.0)
    b.send_message(4, 51, b"b", 0.0)
    a.reset_streams([4], 0.0)
    b.reset_streams([4], 0.0)
    exchange(a, b)
    for side in (a, b):
        found = {e.incoming for e in side.events() if isinstance(e, StreamsReset)}
        assert found == {True, False}
        assert len(side.messages()) == 1


def test_reused_over_and_over() -> None:
    a, b = snap_pair()
    for n in range(200):
        text = str(n).encode()
        a.send_message(4, 51, text, 0.0)
        a.reset_streams([4], 0.0)
        exchange(a, b)
        assert b.messages() == [(4, 51, text)]
    assert a._queue._streams == {}
