"""pcap and pcapng as streams: byte orders, clocks, interfaces, and files that end too early."""

from __future__ import annotations

import gzip
import struct
from io import BytesIO

import pytest

from tests.unit.tools.capture.builder import (
    START_NS,
    Packet,
    block,
    enhanced,
    interface,
    option,
    pcap,
    pcapng,
    section,
)
from warp_tools.capture.files import FREE_COST, MAX_PACKET, MAX_RATIO, CaptureError, Frame, Frames

PACKETS = [Packet(0, b"first"), Packet(1_234_567, b"second one"), Packet(5_000_000_789, b"x" * 61)]


def read(data: bytes) -> tuple[list[Frame], Frames]:
    frames = Frames(BytesIO(data))
    return list(frames), frames


@pytest.mark.parametrize("order", ["<", ">"])
@pytest.mark.parametrize("ns", [False, True])
def test_pcap_in_both_orders_and_clocks(order: str, ns: bool) -> None:
    found, frames = read(pcap(PACKETS, link=101, order=order, ns=ns))
    assert [frame.data for frame in found] == [packet.data for packet in PACKETS]
    step = 1 if ns else 1000
    assert [frame.time_ns for frame in found] == [
        START_NS + packet.at_ns // step * step for packet in PACKETS
    ]
    assert [frame.number for frame in found] == [1, 2, 3]
    assert {frame.link for frame in found} == {101}
    assert frames.damage is None


def test_a_snap_length_keeps_the_length_of_the_wire() -> None:
    found, _ = read(pcap(PACKETS, snap=8))
    assert [(len(frame.data), frame.length) for frame in found] == [(5, 5), (8, 10), (8, 61)]


@pytest.mark.parametrize("first", ["<", ">"])
@pytest.mark.parametrize("second", ["<", ">"])
def test_two_files_in_one(first: str, second: str) -> None:
    """Made with cat: another byte order, clock and link type begin in the middle."""
    one = pcap(PACKETS, link=101, order=first, ns=True)
    both = one + pcap(PACKETS, link=1, order=second) + one
    found, frames = read(both)
    assert [frame.number for frame in found] == list(range(1, 10)) and frames.damage is None
    assert [frame.link for frame in found] == [101] * 3 + [1] * 3 + [101] * 3
    assert [frame.data for frame in found] == [packet.data for packet in PACKETS] * 3
    assert found[0].time_ns == found[6].time_ns and found[5].time_ns % 1000 == 0
    for end in range(len(one), len(one) + 24):
        cut, frames = read(both[:end])
        assert len(cut) == 3 and (end == len(one) or frames.damage)


def test_a_packet_of_2055_is_no_file_header() -> None:
    """Its seconds are those of the magic, its microseconds are not a version."""
    record = struct.pack("<IIII", 0xA1B2C3D4, 77, 4, 4) + b"last"
    found, frames = read(pcap(PACKETS) + record)
    assert found[-1].data == b"last" and frames.damage is None


@pytest.mark.parametrize("order", ["<", ">"])
def test_pcapng(order: str) -> None:
    found, frames = read(pcapng(PACKETS, order=order))
    assert [frame.data for frame in found] == [packet.data for packet in PACKETS]
    assert [frame.time_ns for frame in found] == [
        START_NS + packet.at_ns // 1000 * 1000 for packet in PACKETS
    ]
    assert frames.damage is None and frames.interfaces == 1


@pytest.mark.parametrize(
    ("resolution", "ticks"), [(b"\x06", 10**6), (b"\x09", 10**9), (b"\x8a", 1024), (b"\x03", 1000)]
)
def test_every_interface_has_its_own_clock(resolution: bytes, ticks: int) -> None:
    packet = Packet(2_000_000_000, b"data", interface=1)
    data = section() + interface() + interface(101, options=option(9, resolution))
    found, frames = read(data + enhanced(packet, ticks=ticks))
    assert found[0].time_ns == (START_NS + 2_000_000_000) * ticks // 10**9 * 10**9 // ticks
    assert (found[0].link, found[0].interface, frames.interfaces) == (101, 1, 2)


def test_a_clock_may_have_an_offset() -> None:
    options = option(14, struct.pack("<q", 3600))
    found, _ = read(section() + interface(options=options) + enhanced(Packet(0, b"late")))
    assert found[0].time_ns == START_NS + 3600 * 10**9


def test_a_second_section_begins_again_in_its_own_order() -> None:
    data = pcapng([Packet(0, b"little")]) + pcapng([Packet(1, b"big")], order=">", link=276)
    found, frames = read(data)
    assert [(frame.data, frame.link, frame.number) for frame in found] == [
        (b"little", 1, 1),
        (b"big", 276, 2),
    ]
    assert frames.damage is None


def test_simple_and_obsolete_packets() -> None:
    simple = block(3, struct.pack("<I", 6) + b"simple")
    old = block(2, struct.pack("<HHIIII", 0, 0, 0, 5, 3, 3) + b"old")
    found, _ = read(section() + interface(snap=4) + simple + old)
    assert [(frame.data, frame.length) for frame in found] == [(b"simp", 6), (b"old", 3)]


def test_unknown_blocks_and_unknown_interfaces_are_passed_over() -> None:
    data = section() + block(0xBAD, b"whatever") + interface() + block(4, bytes(8))
    found, frames = read(data + enhanced(Packet(0, b"nobody", interface=7)) + enhanced(PACKETS[0]))
    assert [frame.data for frame in found] == [b"first"]
    assert found[0].number == 2  # as Wireshark counts
    assert frames.damage is None
    assert frames.odd == {"of an interface that the file does not describe": 1}


def test_secrets_that_the_file_carries() -> None:
    lines = b"CLIENT_HANDSHAKE_TRAFFIC_SECRET 00 11"
    secret = block(10, struct.pack("<II", 0x544C534B, len(lines)) + lines)
    other = block(10, struct.pack("<II", 0x57474B4C, 4) + b"wire")
    _, frames = read(section() + secret + other + interface())
    assert frames.secrets == lines + b"\n"


@pytest.mark.parametrize("make", [pcap, pcapng])
def test_a_file_that_ends_anywhere_gives_what_came_before(make) -> None:
    whole = make(PACKETS)
    for end in range(4, len(whole)):
        found, frames = read(whole[:end])
        for frame, packet in zip(found, PACKETS, strict=False):
            assert packet.data.startswith(frame.data)
        if frames.damage is not None:
            assert frames.damage.endswith(("header", "block", "1", "2", "3"))


@pytest.mark.parametrize(
    ("at", "value", "says"),
    [(24 + 8, MAX_PACKET + 1, "packet 1 claims"), (24 + 8, 0xFFFFFFFF, "damaged")],
)
def test_an_absurd_length_ends_a_pcap(at: int, value: int, says: str) -> None:
    data = bytearray(pcap(PACKETS))
    struct.pack_into("<I", data, at, value)
    found, frames = read(bytes(data))
    assert found == [] and says in frames.damage


@pytest.mark.parametrize("length", [0, 8, 13, 1 << 25])
def test_an_absurd_length_ends_a_pcapng(length: int) -> None:
    data = section() + interface() + struct.pack("<II", 6, length) + bytes(64)
    found, frames = read(data)
    assert found == [] and "damaged" in frames.damage


@pytest.mark.parametrize(
    "odd",
    [
        block(6, struct.pack("<IIIII", 0, 0, 0, 0xFFFFFFFF, 0xFFFFFFFF) + b"data"),
        block(6, struct.pack("<IIIII", 0, 0, 0, 8, 8) + b"data"),
        block(2, struct.pack("<HHIIII", 0, 0, 0, 0, 1 << 20, 4) + b"data"),
        block(3, struct.pack("<I", 0xFFFFFFFF) + b"data"),
        block(3, struct.pack("<I", 12) + b"data"),
    ],
)
def test_a_packet_with_an_absurd_length_is_counted(odd: bytes) -> None:
    data = section() + interface() + odd + enhanced(PACKETS[0]) + odd + enhanced(PACKETS[1])
    found, frames = read(data)
    assert [(frame.number, frame.data) for frame in found] == [(2, b"first"), (4, b"second one")]
    assert frames.odd == {"more bytes claimed than the block holds": 2}
    assert frames.damage is None


@pytest.mark.parametrize("short", [block(6, bytes(16)), block(3, b""), block(2, bytes(12))])
def test_so_is_one_that_ends_in_its_own_header(short: bytes) -> None:
    found, frames = read(section() + interface() + short + enhanced(PACKETS[0]))
    assert [frame.number for frame in found] == [2]
    assert frames.odd == {"no room for a packet in the block": 1}


def test_a_section_without_a_byte_order() -> None:
    found, frames = read(b"\x0a\x0d\x0d\x0a" + bytes(60))
    assert found == [] and "byte order" in frames.damage


@pytest.mark.parametrize("make", [pcap, pcapng])
def test_gzip_is_read_through(make) -> None:
    found, frames = read(gzip.compress(make(PACKETS)))
    assert len(found) == 3 and frames.damage is None


def test_damage_inside_gzip_is_an_end() -> None:
    packed = gzip.compress(pcap([Packet(n, bytes(range(200))) for n in range(50)]))
    found, frames = read(packed[: len(packed) // 2])
    assert len(found) < 50 and frames.damage is not None


def test_what_is_wrong_behind_the_last_packet_of_gzip_is_said() -> None:
    """The checksum and the length at its end: all packets are there, but are they right?"""
    packed = gzip.compress(pcap([Packet(n, bytes(range(200))) for n in range(50)]))
    for number in (-6, -2):
        broken = bytearray(packed)
        broken[number] ^= 255
        found, frames = read(bytes(broken))
        assert len(found) == 50
        assert frames.damage == "the gzip file is damaged behind packet 50"
    found, frames = read(packed[:-3])
    assert len(found) == 50
    assert frames.damage == "the gzip file is cut short behind packet 50"


PCAP_HEAD, PCAPNG_HEAD = pcap([]), section() + interface()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("head", "again"),
    [
        (PCAP_HEAD, bytes(16)),
        (PCAP_HEAD, struct.pack("<IIII", 0, 0, 16384, 16384) + bytes(16384)),
        (PCAPNG_HEAD, struct.pack("<III", 0xBAD, 12, 12)),
        (PCAPNG_HEAD, block(6, bytes(20))),
    ],
)
def test_a_file_that_unpacks_without_an_end_is_left_early(head: bytes, again: bytes) -> None:
    """Empty packets, large ones, blocks that are none: what is read is bounded by the file."""
    packed = gzip.compress(head + again * (160_000_000 // len(again)))
    before, frames = 0, Frames(BytesIO(packed))
    for _ in frames:
        before += 1
    assert before * max(len(again), 216) < FREE_COST + MAX_RATIO * len(packed) + 65536
    assert frames.damage is not None
    assert "100 times" in frames.damage and "gunzip" in frames.damage


@pytest.mark.slow
def test_what_is_packed_well_is_read_whole() -> None:
    """Redacted media: a size, a number and a time that differ, and nothing but zeros else."""
    step = 20_011_003
    many = [Packet(n * step, struct.pack(">HI", n, n * 960) + bytes(100)) for n in range(20_000)]
    packed = gzip.compress(pcap(many))
    for times in (1, 30):
        found, frames = read(packed * times)
        assert len(found) == 20_000 * times and frames.damage is None


@pytest.mark.parametrize(
    ("data", "says"),
    [
        (b"", "empty"),
        (b"\x1f\x8b", "not a capture"),
        (b"\x28\xb5\x2f\xfd1234", "zstd"),
        (b"\x04\x22\x4d\x181234", "lz4"),
        (b"snoop\0\0\0", "snoop"),
        (b"\x34\xcd\xb2\xa1" + bytes(20), "modified pcap"),
        (b"GET / HTTP/1.1\r\n", "not a capture"),
        (b"\xd4\xc3", "not a capture"),
    ],
)
def test_what_is_no_capture_is_refused_with_a_reason(data: bytes, says: str) -> None:
    with pytest.raises(CaptureError, match=says):
        Frames(BytesIO(data))


def test_the_length_of_a_frame_check_sequence_is_no_part_of_the_link_type() -> None:
    found, _ = read(pcap(PACKETS, link=0x44000001))
    assert {frame.link for frame in found} == {1}
