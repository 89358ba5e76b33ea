"""The common header, the checksum and the outbox (RFC 9260 sections 3.1, 6.8, 6.10; RFC 9653)."""

from __future__ import annotations

import pytest

from tests.unit.sctp.support import chunk
from warp.errors import Discard
from warp.sctp.chunks import split_chunks
from warp.sctp.packet import Outbox, build_packet, checksum_matches, parse_header
from warp.sctp.reasons import SctpDiscard


def outbox(*, zero_checksum: bool = False, limit: int = 1191) -> Outbox:
    box = Outbox(5000, 5001, limit)
    box.set_tag(0x1234, zero_checksum=zero_checksum)
    return box


def test_header_and_checksum() -> None:
    packet = build_packet(1, 2, 3, chunk(11))
    header = parse_header(packet)
    assert header[:3] == (1, 2, 3)
    assert checksum_matches(packet)
    assert header.checksum == int.from_bytes(packet[8:12], "big")


def test_short_packets_are_discarded() -> None:
    with pytest.raises(Discard) as caught:
        parse_header(bytes(15))
    assert caught.value.reason is SctpDiscard.TOO_SHORT


@pytest.mark.parametrize("zero_checksum", [False, True])
def test_a_bundle_becomes_one_packet(zero_checksum: bool) -> None:
    box = outbox(zero_checksum=zero_checksum)
    box.add(chunk(11))
    box.add(chunk(4, b"abcd"))
    box.flush()
    [packet] = box.take()
    assert parse_header(packet)[:3] == (5000, 5001, 0x1234)
    assert (packet[8:12] == bytes(4)) is zero_checksum
    assert checksum_matches(packet) is not zero_checksum
    assert [kind for kind, _, _ in split_chunks(packet)] == [11, 4]
    assert box.take() == []


def test_a_chunk_that_does_not_fit_opens_the_next_packet() -> None:
    box = outbox(limit=600)
    for _ in range(5):
        box.add(chunk(4, bytes(196)))
    box.flush()
    assert [len(p) for p in box.take()] == [412, 412, 212]


def test_flushing_nothing_makes_no_packet() -> None:
    box = outbox()
    box.flush()
    assert box.take() == []


def test_own_packets_have_a_real_checksum_and_keep_their_order() -> None:
    box = outbox(zero_checksum=True)
    box.add_packet(0, chunk(1))
    box.add(chunk(11))
    box.flush()
    init, other = box.take()
    assert checksum_matches(init)
    assert parse_header(init).verification_tag == 0
    assert other[8:12] == bytes(4)


def test_control_chunks_are_bounded() -> None:
    box = outbox()
    for _ in range(1000):
        box.add_control(chunk(5))
        box.add_packet(1, chunk(2))
    assert len(box.control) == len(box.packets) == 128


def test_clear_forgets_everything() -> None:
    box = outbox()
    box.add(chunk(11))
    box.add_control(chunk(11))
    box.add_packet(1, chunk(2))
    box.clear()
    box.flush()
    assert box.take() == []
    assert box.control == []


def test_another_destination() -> None:
    box = outbox()
    box.set_destination(6002)
    box.add(chunk(11))
    box.flush()
    assert parse_header(box.take()[0])[:2] == (5000, 6002)
