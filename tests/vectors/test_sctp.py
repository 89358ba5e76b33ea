"""SCTP packets byte for byte, decoded and made again (RFC 9260 section 3.3 and its extensions)."""

from __future__ import annotations

import pytest

from tests.vectors.sctp import INITS, NOT_INITS, ODD_INITS, PACKETS, TAG_A, TAG_B, init, packet
from warp.errors import Discard
from warp.sctp import parse_init
from warp.sctp.chunks import (
    BEGIN,
    END,
    ChunkType,
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
    parse_data,
    parse_forward_tsn,
    parse_i_data,
    parse_i_forward_tsn,
    parse_sack,
    split_chunks,
)
from warp.sctp.complaints import abort_chunk
from warp.sctp.packet import build_packet, checksum_matches, crc32c, parse_header
from warp.sctp.parameters import (
    Cause,
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

OPEN_CHAT = bytes.fromhex("03000100000000000004000063686174")


def bodies(name: str) -> list[tuple[int, int, bytes]]:
    return list(split_chunks(packet(name)))


def to_b(*chunks: bytes) -> bytes:
    return build_packet(5000, 5000, TAG_B, b"".join(chunks))


def to_a(*chunks: bytes) -> bytes:
    return build_packet(5000, 5000, TAG_A, b"".join(chunks))


def test_check_value_of_crc32c() -> None:
    assert crc32c(b"123456789") == 0xE3069283


@pytest.mark.parametrize("name", sorted(set(PACKETS) - {"V2"}))
def test_checksums_match(name: str) -> None:
    assert checksum_matches(packet(name))


def test_v1_v2_dcep_open() -> None:
    [(kind, flags, body)] = bodies("V1")
    assert kind == ChunkType.DATA
    data = parse_data(flags, body)
    assert data == Data(BEGIN | END, 0xFFFFFFF0, 0, 0, 50, OPEN_CHAT)
    assert to_b(encode_data(data)) == packet("V1")
    unchecked = build_packet(5000, 5000, TAG_B, encode_data(data), zero_checksum=True)
    assert unchecked == packet("V2")
    assert parse_header(packet("V2")) == (5000, 5000, TAG_B, 0)


def test_v3_sack_and_data() -> None:
    (_, _, sack), (_, flags, data) = bodies("V3")
    assert parse_sack(sack) == Sack(0xFFFFFFF0, 5242880, (), ())
    assert parse_data(flags, data) == Data(3, 1, 0, 0, 50, b"\x02")
    again = to_a(encode_sack(0xFFFFFFF0, 5242880), encode_data(Data(3, 1, 0, 0, 50, b"\x02")))
    assert again == packet("V3")


def test_v4_v5_strings() -> None:
    assert to_b(encode_data(Data(3, 0xFFFFFFF1, 0, 1, 51, b"hi"))) == packet("V4")
    assert to_b(encode_data(Data(3, 0xFFFFFFF2, 0, 2, 57, b"\0"))) == packet("V5")


def test_v6_sack_with_gap_and_duplicate() -> None:
    [(_, _, body)] = bodies("V6")
    sack = Sack(0xFFFFFFF1, 1000, ((2, 3),), (0xFFFFFFF0,))
    assert parse_sack(body) == sack
    assert to_a(encode_sack(*sack)) == packet("V6")


def test_v7_forward_tsn() -> None:
    [(_, _, body)] = bodies("V7")
    forward = ForwardTsn(2, (Skip(0, False, 5), Skip(2, False, 0)))
    assert parse_forward_tsn(body) == forward
    assert to_b(encode_forward_tsn(forward)) == packet("V7")


def test_v8_v9_stream_reset() -> None:
    [(_, _, body)] = bodies("V8")
    [(kind, value)] = parse_parameters(body)
    request = OutgoingReset(0xFFFFFFF0, 0, 0xFFFFFFF2, (0,))
    assert (kind, parse_outgoing_reset(value)) == (13, request)
    asked = encode_parameters([encode_outgoing_reset(request)])
    assert to_b(encode_chunk(ChunkType.RE_CONFIG, 0, asked)) == packet("V8")
    [(_, _, body)] = bodies("V9")
    [(kind, value)] = parse_parameters(body)
    response = ReconfigResponse(0xFFFFFFF0, 1)
    assert (kind, parse_reconfig_response(value)) == (16, response)
    answered = encode_parameters([encode_reconfig_response(response)])
    assert to_a(encode_chunk(ChunkType.RE_CONFIG, 0, answered)) == packet("V9")


def test_v10_v11_v12_interleaving() -> None:
    first = IData(BEGIN, 0xFFFFFFF3, 2, 0, 51, b"ab")
    last = IData(END, 0xFFFFFFF4, 2, 0, 1, b"cd")
    for name, data in (("V10", first), ("V11", last)):
        [(_, flags, body)] = bodies(name)
        assert parse_i_data(flags, body) == data
        assert to_b(encode_i_data(data)) == packet(name)
    [(_, _, body)] = bodies("V12")
    forward = ForwardTsn(0xFFFFFFF4, (Skip(2, False, 0),))
    assert parse_i_forward_tsn(body) == forward
    assert to_b(encode_i_forward_tsn(forward)) == packet("V12")


def test_v13_v14_heartbeat_and_abort() -> None:
    [(_, _, body)] = bodies("V13")
    assert parse_parameters(body) == [(1, b"\0\0\0\x01")]
    beat = encode_parameter(1, b"\0\0\0\x01")
    assert to_b(encode_chunk(ChunkType.HEARTBEAT, 0, beat)) == packet("V13")
    [(_, _, body)] = bodies("V14")
    assert parse_causes(body) == [(12, b"bye")]
    # the vector counts the padding of its only cause; RFC 9260 section 3.2 does not: both are read
    cause = encode_causes([(Cause.USER_INITIATED_ABORT, b"bye")])
    assert to_b(encode_chunk(ChunkType.ABORT, 0, cause + b"\0")) == packet("V14")
    [(_, _, ours)] = split_chunks(to_b(abort_chunk(Cause.USER_INITIATED_ABORT, "bye", 1191)))
    assert parse_causes(ours) == [(12, b"bye")]


@pytest.mark.parametrize("name", sorted(PACKETS))
def test_every_truncation_is_a_value_or_a_discard(name: str) -> None:
    whole = packet(name)
    for length in range(len(whole)):
        try:
            list(split_chunks(whole[:length]))
        except Discard:
            continue


@pytest.mark.parametrize("name", sorted(INITS))
def test_inits_decode_and_encode_identically(name: str) -> None:
    raw = init(INITS[name])
    assert parse_init(raw).to_bytes() == raw


def test_fields_of_e1_and_e3() -> None:
    draft = parse_init(init(INITS["E1"]))
    assert (draft.initiate_tag, draft.a_rwnd, draft.initial_tsn) == (
        0x896CDD1D,
        5242880,
        0xE079651D,
    )
    assert (draft.outbound_streams, draft.inbound_streams) == (65535, 65535)
    assert draft.parameters == ((0xC000, b""), (0x8008, b"\x82\xc0"))
    assert draft.capabilities == (True, True, False, False)
    pion = parse_init(init(INITS["E3"]))
    assert (pion.initiate_tag, pion.a_rwnd, pion.initial_tsn) == (0x654F15DF, 1048576, 0xDB402B6A)
    # no 0xC000: partial reliability is announced in the list of extensions only
    assert pion.capabilities == (True, True, True, False)


def test_fields_of_the_other_examples() -> None:
    found = {
        name: (i.initiate_tag, i.a_rwnd, i.initial_tsn, tuple(i.capabilities))
        for name in ("E2", "E4", "E5", "E6", "E7", "E8")
        for i in [parse_init(init(INITS[name]))]
    }
    plain, five = (True, True, False, False), 5242880
    assert found == {
        "E2": (0x5FB37474, five, 0xA1AADC74, plain),
        "E4": (0xDEADBEEF, five, 0xDEADBEEF, plain),
        "E5": (0x11223344, 1048576, 0xFFFFFFF0, (True, True, True, True)),
        "E6": (0x55667788, five, 1, (True, True, False, True)),
        "E7": (0xC7C4C4BD, five, 0x726FAA66, plain),
        "E8": (0xF14A2D7D, five, 0x806A36B9, plain),
    }


@pytest.mark.parametrize("name", sorted(NOT_INITS))
def test_what_is_no_init_is_refused(name: str) -> None:
    with pytest.raises(Discard):
        parse_init(init(NOT_INITS[name]))


@pytest.mark.parametrize("length", range(4))
def test_a_parameter_shorter_than_its_header_is_refused(length: int) -> None:
    raw = bytearray(init(INITS["E5"]))
    raw[22:24] = length.to_bytes(2, "big")
    with pytest.raises(Discard):
        parse_init(bytes(raw))


@pytest.mark.parametrize("name", sorted(ODD_INITS))
def test_odd_inits_are_accepted(name: str) -> None:
    assert parse_init(init(ODD_INITS[name])).capabilities.reconfig
