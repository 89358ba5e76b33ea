"""Parameters and error causes (RFC 9260 section 3.2.1, 3.3.10; RFC 6525 section 4)."""

from __future__ import annotations

import pytest

from warp.errors import Discard
from warp.sctp.parameters import (
    OutgoingReset,
    ReconfigResponse,
    encode_causes,
    encode_outgoing_reset,
    encode_parameter,
    encode_parameters,
    encode_reconfig_response,
    parse_causes,
    parse_outgoing_reset,
    parse_parameters,
    parse_reconfig_response,
)

PAIRS = [(0xC000, b""), (0x8008, b"\x82"), (7, b"cookie"), (8, b"1234")]


def test_padding_stands_between_but_not_after() -> None:
    raw = encode_parameters(PAIRS)
    assert len(raw) == 4 + 8 + 12 + 8
    assert parse_parameters(raw) == PAIRS
    assert encode_parameters(PAIRS[:3])[-2:] == b"ie"
    assert parse_parameters(encode_parameters(PAIRS[:3])) == PAIRS[:3]


@pytest.mark.parametrize("length", range(4))
def test_lengths_below_four_are_refused(length: int) -> None:
    with pytest.raises(Discard):
        parse_parameters(b"\x80\x08" + length.to_bytes(2, "big") + bytes(8))


def test_a_parameter_beyond_the_end_is_refused() -> None:
    with pytest.raises(Discard):
        parse_parameters(b"\x80\x08\x00\x09\x82\xc0\x00\x00")


def test_loose_bytes_after_the_last_are_refused_unless_they_are_padding() -> None:
    assert parse_parameters(encode_parameter(7, b"a") + bytes(3)) == [(7, b"a")]
    assert parse_parameters(encode_parameter(7, b"abcd") + bytes(2)) == [(7, b"abcd")]
    with pytest.raises(Discard):
        parse_parameters(encode_parameter(7, b"abcd") + b"\0\x01")


def test_outgoing_reset_may_name_no_stream() -> None:
    request = OutgoingReset(1, 2, 3, ())
    kind, value = encode_outgoing_reset(request)
    assert (kind, parse_outgoing_reset(value)) == (13, request)


@pytest.mark.parametrize("length", [0, 4, 11, 13, 15])
def test_a_broken_reset_request_is_refused(length: int) -> None:
    with pytest.raises(Discard):
        parse_outgoing_reset(bytes(length))


def test_a_response_may_carry_tsns() -> None:
    kind, value = encode_reconfig_response(ReconfigResponse(9, 6))
    assert (kind, parse_reconfig_response(value + bytes(8))) == (16, ReconfigResponse(9, 6))
    with pytest.raises(Discard):
        parse_reconfig_response(value[:7])


def test_causes_are_read_as_far_as_they_make_sense() -> None:
    raw = encode_causes([(12, b"bye"), (3, b"\0\0\0\x09")])
    assert parse_causes(raw) == [(12, b"bye"), (3, b"\0\0\0\x09")]
    for broken in (b"", b"\0", b"\0\x0c\0\x03", b"\0\x0c\0\x0fbye"):
        assert parse_causes(broken) == []
    assert parse_causes(encode_causes([(12, b"bye!")]) + b"\0\x03\0\x01") == [(12, b"bye!")]
    assert parse_causes(b"\xff\xff\0\x04") == [(0xFFFF, b"")]
