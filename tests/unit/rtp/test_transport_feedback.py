"""Transport-wide feedback: the chunks of the draft, and a log that becomes feedback."""

from __future__ import annotations

import pytest

from warp.errors import Discard
from warp.rtp.transport_feedback import (
    FeedbackDiscard,
    FeedbackLog,
    TransportFeedback,
    build_feedback,
    parse_feedback,
)


def header(count: int, base: int = 1, reference: int = 0) -> str:
    return f"{base:04x}{count:04x}{reference & 0xFFFFFF:06x}00"


def reason(data: str) -> FeedbackDiscard:
    with pytest.raises(Discard) as caught:
        parse_feedback(bytes.fromhex(data))
    assert isinstance(caught.value.reason, FeedbackDiscard)
    return caught.value.reason


def test_run_length_chunks() -> None:
    # 3 small deltas, then 5 not received, then 1 large
    data = bytes.fromhex(header(9, reference=2) + "200300054001010203fff0" + "0000")
    feedback = parse_feedback(data)
    assert feedback == TransportFeedback(1, 9, 2, 0, ((0, 513), (1, 515), (2, 518), (8, 502)))


def test_one_bit_vector() -> None:
    # 1 | 0 | 10100000000001
    data = bytes.fromhex(header(14) + "a801" + "010101")
    assert parse_feedback(data).arrivals == ((0, 1), (2, 2), (13, 3))


def test_two_bit_vector() -> None:
    # 1 | 1 | 01 10 00 00 00 00 01
    data = bytes.fromhex(header(7) + "d801" + "05010002")
    assert parse_feedback(data).arrivals == ((0, 5), (1, 261), (6, 263))


def test_symbols_beyond_the_count_are_ignored() -> None:
    assert parse_feedback(bytes.fromhex(header(1) + "bfff" + "07")).arrivals == ((0, 7),)
    assert parse_feedback(bytes.fromhex(header(2) + "3fff" + "0708")).packet_count == 2
    assert parse_feedback(bytes.fromhex(header(0))).arrivals == ()


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        ("00010001000000", FeedbackDiscard.TOO_SHORT),
        (header(1), FeedbackDiscard.TOO_SHORT),
        (header(1) + "2001", FeedbackDiscard.TOO_SHORT),
        (header(1) + "400100", FeedbackDiscard.TOO_SHORT),
        (header(8000) + "3fff00", FeedbackDiscard.TOO_SHORT),
        (header(1) + "600100", FeedbackDiscard.SYMBOL),
        (header(7) + "f00000", FeedbackDiscard.SYMBOL),
        (header(7) + "00002007", FeedbackDiscard.SYMBOL),
    ],
)
def test_what_does_not_add_up(data: str, expected: FeedbackDiscard) -> None:
    assert reason(data) is expected


@pytest.mark.parametrize(
    "arrivals",
    [
        ((0, 0),),
        tuple((i, 80 * i) for i in range(40)),
        tuple((i, 80 * i) for i in range(0, 60, 3)),
        ((0, 0), (1, 300), (2, 290), (20, 300), (300, 301)),
        ((0, -30000), (1, 2000)),
    ],
)
def test_round_trip(arrivals: tuple[tuple[int, int], ...]) -> None:
    feedback = TransportFeedback(65000, arrivals[-1][0] + 1, 0, 9, arrivals)
    data = build_feedback(feedback)
    assert len(data) % 4 == 0
    assert parse_feedback(data) == feedback


def test_a_regular_voice_stream_is_small() -> None:
    log = FeedbackLog()
    for i in range(5):
        log.add(i, 1000.0 + 0.02 * i)
    assert log.first_at == 1000.0
    (feedback,) = log.take()
    assert (feedback.base_sequence, feedback.packet_count) == (0, 5)
    assert [time - feedback.arrivals[0][1] for _, time in feedback.arrivals] == [
        0,
        80,
        160,
        240,
        320,
    ]
    assert len(build_feedback(feedback)) == 16
    assert log.first_at is None and log.take() == []


def test_feedback_continues_where_the_last_one_ended() -> None:
    log = FeedbackLog()
    for number in (65533, 65534):
        log.add(number, 1.0)
    log.take()
    for number in (1, 2, 2):  # 65535 and 0 are missing; 2 came twice
        log.add(number, 1.1)
    (feedback,) = log.take()
    assert (feedback.base_sequence, feedback.packet_count) == (65535, 4)
    assert [offset for offset, _ in feedback.arrivals] == [2, 3]
    assert feedback.feedback_count == 1


def test_a_late_packet_is_reported_below() -> None:
    log = FeedbackLog()
    for number in (10, 12):
        log.add(number, 1.0)
    log.take()
    log.add(11, 1.05)
    (feedback,) = log.take()
    assert (feedback.base_sequence, feedback.packet_count) == (11, 1)
    log.add(13, 1.1)
    (feedback,) = log.take()
    assert feedback.base_sequence == 13


def test_jumps_split_instead_of_growing() -> None:
    log = FeedbackLog()
    for number, now in ((0, 1.0), (1, 1.0), (3000, 1.01), (3001, 20.0)):
        log.add(number, now)
    parts = log.take()
    assert [(p.base_sequence, p.packet_count) for p in parts] == [(0, 2), (3000, 1), (3001, 1)]
    for part in parts:
        assert parse_feedback(build_feedback(part)) == part


def test_the_reference_time_wraps() -> None:
    log = FeedbackLog()
    log.add(1, 0.064 * 0x800000 + 0.001)
    (feedback,) = log.take()
    assert feedback.reference_time == -0x800000
    assert parse_feedback(build_feedback(feedback)) == feedback


def test_the_log_is_bounded() -> None:
    log = FeedbackLog(capacity=3)
    for i in range(10):
        log.add(i, 1.0)
    (feedback,) = log.take()
    assert feedback.packet_count == 3
