"""Chunk codecs beyond the vectors: limits, truncation (RFC 9260 section 3.3)."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.unit.sctp.support import chunk
from warp.errors import Discard
from warp.sctp.chunks import (
    Data,
    ForwardTsn,
    IData,
    Sack,
    Skip,
    encode_chunk,
    encode_data,
    encode_forward_tsn,
    encode_i_data,
    encode_i_forward_tsn,
    encode_sack,
    encode_tsn,
    parse_data,
    parse_forward_tsn,
    parse_i_data,
    parse_i_forward_tsn,
    parse_sack,
    parse_tsn,
    split_chunks,
)
from warp.sctp.reasons import SctpDiscard


def first(packet_chunk: bytes) -> tuple[int, int, bytes]:
    [found] = split_chunks(bytes(12) + packet_chunk)
    return found


@pytest.mark.parametrize("length", [0, 1, 2, 3])
def test_a_chunk_shorter_than_its_header_ends_the_packet(length: int) -> None:
    with pytest.raises(Discard) as caught:
        list(split_chunks(bytes(12) + bytes([0, 0, 0, length]) + bytes(16)))
    assert caught.value.reason is SctpDiscard.BAD_CHUNK_LENGTH


def test_a_chunk_longer_than_the_packet_ends_it() -> None:
    walk = split_chunks(bytes(12) + chunk(11) + b"\x00\x03\x00\x20" + bytes(8))
    assert next(walk) == (11, 0, b"")
    with pytest.raises(Discard):
        next(walk)


def test_missing_padding_at_the_end_is_tolerated() -> None:
    assert list(split_chunks(bytes(12) + b"\x06\x00\x00\x05z")) == [(6, 0, b"z")]


@pytest.mark.parametrize("size", [1, 2, 3, 4, 5])
def test_data_is_padded_and_its_length_is_not(size: int) -> None:
    data = Data(3, 7, 1, 2, 51, bytes(size))
    raw = encode_data(data)
    assert len(raw) % 4 == 0
    kind, flags, body = first(raw)
    assert (kind, parse_data(flags, body)) == (0, data)


def test_i_data_round_trip() -> None:
    data = IData(2, 7, 1, 0xFFFFFFFF, 51, b"abc")
    kind, flags, body = first(encode_i_data(data))
    assert (kind, parse_i_data(flags, body)) == (0x40, data)


def test_the_gap_example_of_the_rfc() -> None:
    """RFC 9260 section 3.3.4: TSNs 10 to 12, 14, 15 and 17 have arrived."""
    kind, _, body = first(encode_sack(12, 4660, [(2, 3), (5, 5)]))
    assert kind == 3
    assert body.hex() == "0000000c00001234000200000002000300050005"
    assert parse_sack(body) == Sack(12, 4660, ((2, 3), (5, 5)), ())


def test_forward_tsn_has_no_place_for_unordered_streams() -> None:
    forward = ForwardTsn(9, (Skip(1, False, 4), Skip(2, True, 5)))
    _, _, body = first(encode_forward_tsn(forward))
    assert parse_forward_tsn(body) == ForwardTsn(9, (Skip(1, False, 4),))
    _, _, body = first(encode_i_forward_tsn(forward))
    assert parse_i_forward_tsn(body) == forward


def test_tsn_body() -> None:
    assert parse_tsn(encode_tsn(0xFFFFFFFF)) == 0xFFFFFFFF


@pytest.mark.parametrize(
    ("parse", "whole"),
    [
        (lambda body: parse_data(0, body), 12),
        (lambda body: parse_i_data(0, body), 16),
        (parse_sack, 12),
        (parse_forward_tsn, 4),
        (parse_i_forward_tsn, 4),
        (parse_tsn, 4),
    ],
)
def test_truncated_bodies_are_discarded(parse: Callable[[bytes], object], whole: int) -> None:
    parse(bytes(whole))
    for length in range(whole):
        with pytest.raises(Discard):
            parse(bytes(length))


def test_a_sack_that_promises_more_than_it_has_is_discarded() -> None:
    for gaps, duplicates in ((0xFFFF, 0), (0, 0xFFFF), (0xFFFF, 0xFFFF), (1, 1)):
        body = bytes(8) + gaps.to_bytes(2, "big") + duplicates.to_bytes(2, "big") + bytes(4)
        with pytest.raises(Discard):
            parse_sack(body)


@pytest.mark.parametrize("extra", [1, 2, 3])
def test_forward_tsn_with_a_fraction_of_an_entry_is_discarded(extra: int) -> None:
    for parse in (parse_forward_tsn, parse_i_forward_tsn):
        with pytest.raises(Discard):
            parse(bytes(4 + extra))


def test_a_chunk_of_any_kind_is_padded() -> None:
    assert encode_chunk(11, 0) == b"\x0b\x00\x00\x04"
    assert encode_chunk(9, 1, b"a") == b"\x09\x01\x00\x05a\0\0\0"
