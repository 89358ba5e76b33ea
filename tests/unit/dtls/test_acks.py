from __future__ import annotations

import pytest

from warp.dtls.acks import MAX_LISTED, AckList, decode_ack, encode_ack
from warp.dtls.faults import Alert, HandshakeFault


def test_round_trip_ascends():
    body = encode_ack([(3, 1), (2, 9), (2, 4)])
    assert body[:2] == (48).to_bytes(2, "big")
    assert decode_ack(body) == [(2, 4), (2, 9), (3, 1)]


def test_empty_ack():
    assert encode_ack([]) == b"\0\0"
    assert decode_ack(b"\0\0") == []


def test_any_order_duplicates_and_huge_values_parse():
    entries = [(2**64 - 1, 2**64 - 1), (2, 5), (2, 5), (0, 0)]
    body = b"".join(e.to_bytes(8, "big") + s.to_bytes(8, "big") for e, s in entries)
    assert decode_ack(len(body).to_bytes(2, "big") + body) == entries


@pytest.mark.parametrize(
    "body", [b"", b"\0", b"\0\1\0", b"\0\x10" + bytes(15), b"\0\0\0", b"\0\x08" + bytes(8)]
)
def test_malformed(body):
    with pytest.raises(HandshakeFault) as caught:
        decode_ack(body)
    assert caught.value.alert is Alert.DECODE_ERROR


def test_list_keeps_the_newest():
    acks = AckList()
    for number in range(MAX_LISTED + 5):
        acks.note(2, number)
        acks.note(2, number)
    numbers = decode_ack(acks.take(1200))
    assert numbers == [(2, n) for n in range(5, MAX_LISTED + 5)]
    acks.clear()
    assert decode_ack(acks.take(1200)) == []


def test_every_ack_names_the_whole_flight():
    """RFC 9147 section 7: so that one may be lost."""
    acks = AckList()
    acks.note(2, 0)
    assert acks
    assert decode_ack(acks.take(1200)) == [(2, 0)]
    assert not acks
    acks.note(2, 4)
    assert acks
    assert decode_ack(acks.take(1200)) == [(2, 0), (2, 4)]
    acks.note(2, 5)
    acks.clear()
    assert not acks


def test_ack_fits_into_its_room_with_the_newest():
    acks = AckList()
    for number in range(30):
        acks.note(2, number)
    body = acks.take(256 - 22)
    assert len(body) <= 256 - 22
    assert decode_ack(body) == [(2, n) for n in range(16, 30)]
    assert decode_ack(acks.take(5)) == [(2, 29)]  # never nothing at all
