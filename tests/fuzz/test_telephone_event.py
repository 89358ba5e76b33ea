"""Any bytes as a telephone event: an event or Discard; a tracker never loses count."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from warp.errors import Discard
from warp.rtp import RtpDiscard, ToneBegan, ToneEnded, parse_telephone_event
from warp.rtp.telephone_event import ToneTracker


def fuzz_telephone_event(data: bytes) -> None:
    try:
        event = parse_telephone_event(data)
    except Discard as discard:
        assert discard.reason is RtpDiscard.EVENT
        return
    written = event.serialize()
    assert parse_telephone_event(written) == event
    assert written[0] == data[0] and written[2:] == data[2:4]


@given(st.binary(max_size=12))
def test_any_bytes(data: bytes) -> None:
    fuzz_telephone_event(data)


@given(st.lists(st.tuples(st.integers(0, 5), st.binary(min_size=4, max_size=4)), max_size=40))
def test_beginnings_and_ends_alternate(packets: list[tuple[int, bytes]]) -> None:
    tones = ToneTracker()
    seen = []
    for timestamp, data in packets:
        seen += tones.receive(timestamp, parse_telephone_event(data))
    seen += tones.finish()
    for number, event in enumerate(seen):
        assert isinstance(event, ToneEnded if number % 2 else ToneBegan)
    assert len(seen) % 2 == 0
