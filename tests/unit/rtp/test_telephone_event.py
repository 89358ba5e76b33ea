"""Digits: the payload of RFC 4733 section 2.3 and how its packets fold into two events."""

from __future__ import annotations

import pytest

from warp.errors import Discard, InvalidConfig
from warp.rtp import RtpDiscard, TelephoneEvent, ToneBegan, ToneEnded, parse_telephone_event
from warp.rtp.telephone_event import DIGITS, ToneTracker


def test_layout() -> None:
    event = TelephoneEvent(11, True, 10, 800)
    assert event.serialize().hex() == "0b8a0320"
    assert parse_telephone_event(event.serialize()) == event
    assert parse_telephone_event(bytes.fromhex("0b4a0320ffff")).ended is False
    assert DIGITS[11] == "#"


@pytest.mark.parametrize("length", range(4))
def test_too_short(length: int) -> None:
    with pytest.raises(Discard) as caught:
        parse_telephone_event(bytes(length))
    assert caught.value.reason is RtpDiscard.EVENT


@pytest.mark.parametrize("event", [(256, False, 0, 0), (0, False, 64, 0), (0, False, 0, 65536)])
def test_fields_that_do_not_fit(event: tuple[int, bool, int, int]) -> None:
    with pytest.raises(InvalidConfig):
        TelephoneEvent(*event).serialize()


def test_one_beginning_and_one_end() -> None:
    tones = ToneTracker()
    seen = []
    for duration in (160, 320, 480):
        seen += tones.receive(1000, TelephoneEvent(5, False, 10, duration))
    for _ in range(3):
        seen += tones.receive(1000, TelephoneEvent(5, True, 10, 640))
    assert seen == [ToneBegan(5, 1000, 10), ToneEnded(5, 1000, 640)]


def test_the_next_digit_ends_one_whose_end_was_lost() -> None:
    tones = ToneTracker()
    seen = tones.receive(1000, TelephoneEvent(1, False, 10, 160))
    seen += tones.receive(2000, TelephoneEvent(2, False, 10, 160))
    assert seen == [ToneBegan(1, 1000, 10), ToneEnded(1, 1000, 160), ToneBegan(2, 2000, 10)]
    assert tones.finish() == [ToneEnded(2, 2000, 160)]
    assert tones.finish() == []


def test_a_lone_end_is_a_whole_tone_and_old_packets_are_nothing() -> None:
    tones = ToneTracker()
    assert tones.receive(1000, TelephoneEvent(1, True, 10, 160)) == [
        ToneBegan(1, 1000, 10), ToneEnded(1, 1000, 160),
    ]  # fmt: skip
    assert tones.receive(900, TelephoneEvent(9, False, 10, 160)) == []
    assert tones.receive(1000, TelephoneEvent(1, False, 10, 100)) == []
