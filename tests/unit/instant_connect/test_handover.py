"""Messages between the processes of one port: what is written reads the same."""

from __future__ import annotations

import pytest

from instant_connect.envelope import Way
from instant_connect.guests import Lodging
from instant_connect.handover import (
    Asked,
    Begun,
    Ended,
    Handed,
    Message,
    Owned,
    Sought,
    decode_handover,
    encode_handover,
)
from instant_connect.reasons import InstantDiscard
from instant_connect.router import Journey
from warp.contract import Flow
from warp.errors import Discard

V4 = Flow(("203.0.113.1", 443), ("192.0.2.1", 50_000))
V6 = Flow(("2001:db8::1", 443), ("2001:db8:ffff:ffff:ffff:ffff:ffff:1", 65_535))
RELAY = Way(("198.51.100.7", 9), 15)
MESSAGES: list[Message] = [
    Handed(b"datagram", V4, Journey(1, 2)),
    Handed(b"", V6, Journey(3, None, True), RELAY),
    Sought(7, b"media" * 300, V6),
    Sought(65_534, b"media", V4, RELAY),
    Owned(3, V6),
    Begun(2, (Lodging(b"ticket 1", b"attempt1", 2**32 - 1), Lodging(bytes(8), bytes(8), 0))),
    Begun(2, ()),
    Ended(9, (b"attempt1", b"attempt2")),
    Ended(9, ()),
    Asked(4),
]


@pytest.mark.parametrize("message", MESSAGES, ids=lambda message: type(message).__name__)
def test_what_is_written_reads_the_same(message: Message) -> None:
    assert decode_handover(encode_handover(message)) == message


def test_the_bytes_of_a_datagram_that_is_handed_on() -> None:
    flow = Flow(("10.0.0.1", 443), ("10.0.0.2", 5))
    raw = encode_handover(Handed(b"DATA", flow, Journey(2, 0x0102, True)))
    assert raw == b"\x01\x02\x01\x02\x01\x0810.0.0.1\x01\xbb\x0810.0.0.2\x00\x05DATA"


@pytest.mark.parametrize("message", MESSAGES, ids=lambda message: type(message).__name__)
def test_what_is_cut_is_dropped_or_shorter(message: Message) -> None:
    raw = encode_handover(message)
    for size in range(len(raw)):
        try:
            assert decode_handover(raw[:size]) != message
        except Discard as discard:
            assert discard.reason is InstantDiscard.BAD_HANDOVER


@pytest.mark.parametrize(
    "raw",
    [
        b"",
        b"\x01",
        bytes(5),
        b"\x07" + bytes(4),
        b"\x06" + bytes(5),
        b"\x04" + bytes(4 + 19),
        b"\x05" + bytes(4 + 7),
        b"\x03" + bytes(4) + b"\x02\xff\xff\0\0\x01a\0\0",
    ],
)
def test_what_nobody_writes_is_dropped(raw: bytes) -> None:
    with pytest.raises(Discard):
        decode_handover(raw)
