"""DCEP on the wire (RFC 8832 section 5)."""

from __future__ import annotations

import pytest

from warp.datachannel import DcepDiscard, DcepOpen, parse_dcep
from warp.datachannel.dcep import ACK, Reliability
from warp.errors import Discard

# reliable "chat"; unordered, 0 retransmits, "é" with protocol "x"; ordered, 500 ms, "t"
VECTORS = [
    ("030001000000000000040000" + "63686174", DcepOpen("chat")),
    (
        "038101000000000000020001c3a978",
        DcepOpen("é", "x", False, Reliability.RETRANSMITS, 0),
    ),
    (
        "03020200000001f40001000074",
        DcepOpen("t", "", True, Reliability.LIFETIME, 500, 512),
    ),
]


@pytest.mark.parametrize(("wire", "value"), VECTORS)
def test_known_open_messages(wire: str, value: DcepOpen) -> None:
    assert value.to_bytes().hex() == wire
    assert parse_dcep(bytes.fromhex(wire)) == value


def test_ack_is_one_byte_and_more_is_ignored() -> None:
    assert ACK == b"\x02"
    assert parse_dcep(b"\x02") is None
    assert parse_dcep(b"\x02junk") is None


def test_bytes_after_an_open_are_ignored() -> None:
    assert parse_dcep(DcepOpen("a", "b").to_bytes() + b"junk") == DcepOpen("a", "b")


@pytest.mark.parametrize(
    ("wire", "reason"),
    [
        ("", DcepDiscard.EMPTY),
        ("00", DcepDiscard.UNKNOWN_TYPE),
        ("04", DcepDiscard.UNKNOWN_TYPE),
        ("03", DcepDiscard.TRUNCATED),
        ("0300010000000000000400", DcepDiscard.TRUNCATED),
        ("030001000000000000040000636861", DcepDiscard.TRUNCATED),
        ("0300010000000000ffffffff61", DcepDiscard.TRUNCATED),
        ("037f01000000000000000000", DcepDiscard.RESERVED_TYPE),
        ("03ff01000000000000000000", DcepDiscard.RESERVED_TYPE),
        ("030301000000000000000000", DcepDiscard.RESERVED_TYPE),
        ("030001000000000000010000ff", DcepDiscard.NOT_UTF8),
        ("030001000000000000000001ff", DcepDiscard.NOT_UTF8),
    ],
)
def test_malformed(wire: str, reason: DcepDiscard) -> None:
    with pytest.raises(Discard) as caught:
        parse_dcep(bytes.fromhex(wire))
    assert caught.value.reason is reason


def test_the_parameter_is_clamped_to_what_the_api_can_say() -> None:
    wire = DcepOpen("a", "", True, Reliability.RETRANSMITS, 0xFFFFFFFF).to_bytes()
    message = parse_dcep(wire)
    assert message is not None and message.parameter == 0xFFFF


def test_the_parameter_of_a_reliable_channel_means_nothing() -> None:
    message = parse_dcep(bytes.fromhex("030001000000000500010000" + "61"))
    assert message == DcepOpen("a")


def test_texts_have_sixteen_bit_lengths() -> None:
    assert parse_dcep(DcepOpen("a" * 65535).to_bytes()) == DcepOpen("a" * 65535)
    with pytest.raises(ValueError, match="65535"):
        DcepOpen("é" * 32768).to_bytes()
