"""SCTP's parsers and its front door on any bytes: a value or a discard, bounded, never harm."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from tests.unit.sctp.support import init_chunk
from tests.vectors.sctp import INITS, NOT_INITS, PACKETS, TAG_A, init, packet
from warp.crypto import HmacSha256
from warp.entropy import SeededEntropy
from warp.errors import Discard
from warp.sctp import Association, SctpConfig, State, parse_init
from warp.sctp.chunks import (
    ChunkType,
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
    parse_tsn,
    split_chunks,
)
from warp.sctp.cookie import open_cookie
from warp.sctp.init_chunk import parse_init_body
from warp.sctp.packet import build_packet, parse_header
from warp.sctp.parameters import (
    encode_outgoing_reset,
    encode_parameters,
    parse_causes,
    parse_outgoing_reset,
    parse_parameters,
    parse_reconfig_response,
)

KEY = HmacSha256(bytes(32))
CONFIG = SctpConfig(a_rwnd=20_000)
CHUNKS = [encode_chunk(kind, 0, bytes(16)) for kind in ChunkType]
SEEDS = [*(packet(name) for name in PACKETS), *map(init, INITS.values()), *CHUNKS]


def body_of(raw: bytes) -> bytes:
    [(_, _, body)] = split_chunks(bytes(12) + raw)
    return body


def fuzz_parse_header(data: bytes) -> None:
    try:
        header = parse_header(data)
    except Discard:
        return
    assert 0 <= header.verification_tag <= 0xFFFFFFFF


def fuzz_split_chunks(data: bytes) -> None:
    seen = 12
    try:
        for _, _, body in split_chunks(data):
            seen += 4 + len(body)
            assert seen <= len(data)
    except Discard:
        return


def fuzz_parse_parameters(data: bytes) -> None:
    try:
        found = parse_parameters(data)
    except Discard:
        return
    assert parse_parameters(encode_parameters(found)) == found


def fuzz_parse_causes(data: bytes) -> None:
    assert sum(4 + len(value) for _, value in parse_causes(data)) <= len(data)


def fuzz_parse_init(data: bytes) -> None:
    try:
        found = parse_init(data)
    except Discard:
        return
    assert found.initiate_tag
    assert parse_init(found.to_bytes()) == replace(found, unrecognized=())
    assert found.capabilities


def fuzz_parse_init_body(data: bytes) -> None:
    try:
        found = parse_init_body(data)
    except Discard:
        return
    assert sum(map(len, found.unrecognized)) <= len(data)


def fuzz_parse_sack(data: bytes) -> None:
    try:
        found = parse_sack(data)
    except Discard:
        return
    assert parse_sack(body_of(encode_sack(*found))) == found


def fuzz_parse_data(data: bytes) -> None:
    try:
        found = parse_data(3, data)
    except Discard:
        return
    assert body_of(encode_data(found)) == data


def fuzz_parse_i_data(data: bytes) -> None:
    try:
        found = parse_i_data(3, data)
    except Discard:
        return
    assert parse_i_data(3, body_of(encode_i_data(found))) == found


def fuzz_parse_forward_tsn(data: bytes) -> None:
    try:
        found = parse_forward_tsn(data)
    except Discard:
        return
    assert body_of(encode_forward_tsn(found)) == data


def fuzz_parse_i_forward_tsn(data: bytes) -> None:
    try:
        found = parse_i_forward_tsn(data)
    except Discard:
        return
    assert parse_i_forward_tsn(body_of(encode_i_forward_tsn(found))) == found


def fuzz_parse_outgoing_reset(data: bytes) -> None:
    try:
        found = parse_outgoing_reset(data)
    except Discard:
        return
    assert encode_outgoing_reset(found) == (13, data)


def fuzz_parse_reconfig_response(data: bytes) -> None:
    try:
        parse_reconfig_response(data)
        parse_tsn(data)
    except Discard:
        return


def fuzz_open_cookie(data: bytes) -> None:
    try:
        open_cookie(data, KEY, 0.0)
    except Discard:
        return


def survive(us: Association, packets: list[bytes]) -> None:
    now = 0.0
    for each in packets:
        now += 0.01
        us.receive_datagram(each, now)
        us.handle_timer(now)
        out = us.datagrams_to_send(now)
        assert all(len(one) <= 1191 for one in out)
        assert len(out) <= 300
        us.events()
        us.messages()
        deadline = us.get_timer()
        assert deadline is None or deadline > now
    if us._inbound is not None:
        assert 0 <= us._inbound.charge <= 2 * CONFIG.a_rwnd + 3000


def established(*, interleaving: bool = False) -> Association:
    extensions = (0x82, 0xC0, 0x40, 0xC2) if interleaving else (0x82, 0xC0)
    local = init_chunk(tag=TAG_A, extensions=extensions, zero_checksum=True)
    us = Association(CONFIG, local_init=local, entropy=SeededEntropy(1))
    us.start_snap(init_chunk(extensions=extensions, zero_checksum=True), 0.0)
    us.send_message(1, 53, bytes(3000), 0.0)
    us.send_message(2, 53, bytes(3000), 0.0, max_retransmits=0)
    us.reset_streams([2], 0.0)
    return us


def cut(data: bytes) -> list[bytes]:
    """Cut at bytes of 0xFF followed by anything, so that a fuzzer can make several packets."""
    return data.split(b"\xff\xfe\xfd")[:20]


def fuzz_receive_datagram(data: bytes) -> None:
    """Whole packets, headers and all, on an association that runs."""
    survive(established(), cut(data))


def fuzz_receive_chunks(data: bytes) -> None:
    """Chunks under the right header: what gets past tag and checksum."""
    for interleaving in (False, True):
        packets = [build_packet(5000, 5000, TAG_A, raw, zero_checksum=True) for raw in cut(data)]
        us = established(interleaving=interleaving)
        survive(us, packets)
        assert us.state in State


def fuzz_receive_while_starting(data: bytes) -> None:
    """Chunks that come while the ordinary handshake is under way."""
    us = Association(CONFIG, local_init=None, entropy=SeededEntropy(1))
    us.receive_datagram(data, 0.0)
    us.start(0.0)
    tag = us._local_tag
    packets = [
        build_packet(5000, 5000, each, raw, zero_checksum=True)
        for raw in cut(data)
        for each in (0, tag)
    ]
    survive(us, packets)


def chunk_soup() -> st.SearchStrategy[bytes]:
    """Sequences of chunks that are nearly right: where random bytes alone never get."""
    word = st.sampled_from((0, 1, 2, 3, 5, 1000, 1001, 1002, 0x7FFFFFFF, 0xFFFFFFFF)).map(
        lambda n: n.to_bytes(4, "big")
    )
    half = st.sampled_from((0, 1, 2, 4, 13, 16, 0x7FFF, 0xFFFF)).map(lambda n: n.to_bytes(2, "big"))
    body = st.lists(st.one_of(word, half, st.binary(max_size=6)), max_size=8).map(b"".join)
    kind = st.sampled_from([int(k) for k in ChunkType] + [0x3E, 0x7E, 0xBE, 0xFE])
    chunk = st.builds(encode_chunk, kind, st.integers(0, 15), body)
    known = st.sampled_from([packet(name)[12:] for name in PACKETS] + CHUNKS)
    piece = st.one_of(chunk, known, st.just(b"\xff\xfe\xfd"), st.binary(max_size=8))
    return st.lists(piece, max_size=12).map(b"".join)


def try_all(data: bytes, *targets: Callable[[bytes], None]) -> None:
    for target in targets:
        target(data)


@given(st.binary(max_size=200))
def test_parsers(data: bytes) -> None:
    try_all(
        data,
        fuzz_parse_header,
        fuzz_split_chunks,
        fuzz_parse_parameters,
        fuzz_parse_causes,
        fuzz_parse_init,
        fuzz_parse_init_body,
        fuzz_parse_sack,
        fuzz_parse_data,
        fuzz_parse_i_data,
        fuzz_parse_forward_tsn,
        fuzz_parse_i_forward_tsn,
        fuzz_parse_outgoing_reset,
        fuzz_parse_reconfig_response,
        fuzz_open_cookie,
    )


@given(st.sampled_from([*INITS.values(), *NOT_INITS.values()]), st.data())
def test_changed_inits(value: str, data: st.DataObject) -> None:
    raw = bytearray(init(value))
    for _ in range(data.draw(st.integers(1, 4))):
        raw[data.draw(st.integers(0, len(raw) - 1))] = data.draw(st.integers(0, 255))
    fuzz_parse_init(bytes(raw))
    fuzz_parse_init_body(bytes(raw[4:]))


@given(st.one_of(st.binary(max_size=300), chunk_soup()))
def test_the_front_door(data: bytes) -> None:
    try_all(data, fuzz_receive_datagram, fuzz_receive_chunks, fuzz_receive_while_starting)
