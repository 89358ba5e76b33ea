"""From frames to datagrams: link layers, VLAN, IP versions, fragments, TCP, packets shown twice."""

from __future__ import annotations

import struct
from io import BytesIO
from pathlib import Path

import pytest

from tests.captures.pcap import CAPTURES, read_pcap
from tests.unit.tools.capture.builder import (
    CLIENT,
    SERVER,
    Packet,
    enhanced,
    ethernet,
    interface,
    ip_udp,
    ipv4,
    ipv6,
    pcap,
    section,
    tcp,
    udp,
)
from warp.stun import BINDING, MessageClass, build_message
from warp_tools.capture import CaptureError, Datagram, Reader, open_capture

V6 = ("2001:db8::1", 5000), ("2001:db8::2", 6000)
PAYLOAD = b"\x16\xfe\xfd" + bytes(range(100))


def datagrams(capture: bytes) -> tuple[list[Datagram], Reader]:
    reader = Reader(BytesIO(capture))
    return list(reader), reader


def only(frame: bytes, link: int = 1) -> Datagram:
    (found,), _ = datagrams(pcap([Packet(0, frame)], link=link))
    return found


def is_it(found: Datagram, source=CLIENT, destination=SERVER) -> bool:
    return (found.source, found.destination, found.payload, found.length, found.transport) == (
        source, destination, PAYLOAD, len(PAYLOAD), "udp",
    )  # fmt: skip


PACKET = ip_udp(CLIENT, SERVER, PAYLOAD)
COOKED = struct.pack("!HHH8sH", 0, 1, 6, bytes(8), 0x0800)
COOKED2 = struct.pack("!HHIHBB8s", 0x0800, 0, 2, 1, 0, 6, bytes(8))


@pytest.mark.parametrize(
    ("link", "frame"),
    [
        (1, ethernet(PACKET)),
        (1, ethernet(PACKET, 5)),
        (1, ethernet(PACKET, 5, 6)),
        (1, bytes(12) + b"\x88\x64\x11\x00\x00\x01" + struct.pack("!HH", 2, 0x0021) + PACKET),
        (0, b"\x02\0\0\0" + PACKET),
        (108, b"\0\0\0\x02" + PACKET),
        (12, PACKET),
        (14, PACKET),
        (101, PACKET),
        (228, PACKET),
        (113, COOKED + PACKET),
        (276, COOKED2 + PACKET),
    ],
)
def test_every_link_layer(link: int, frame: bytes) -> None:
    assert is_it(only(frame, link))


@pytest.mark.parametrize(("link", "before"), [(1, bytes(12) + b"\x86\xdd"), (101, b""), (229, b"")])
def test_ipv6(link: int, before: bytes) -> None:
    assert is_it(only(before + ip_udp(*V6, PAYLOAD), link), *V6)


def test_extension_headers_are_walked_over() -> None:
    body = udp(*V6, PAYLOAD)
    hop = bytes([60, 0]) + bytes(6)
    options = bytes([17, 1]) + bytes(14)
    packet = ipv6(V6[0][0], V6[1][0], hop + options + body, protocol=0)
    assert is_it(only(ethernet(packet)), *V6)


def test_the_ttl_is_kept_and_options_are_walked_over() -> None:
    body = udp(CLIENT, SERVER, PAYLOAD)
    packet = bytearray(ipv4(CLIENT[0], SERVER[0], bytes(4) + body, hops=57))
    packet[0] = 0x46
    found = only(ethernet(bytes(packet)))
    assert is_it(found) and found.hops == 57


# -- fragments ------------------------------------------------------------------------------------


def v4_fragments(payload: bytes, size: int, identity: int = 9) -> list[bytes]:
    body = udp(CLIENT, SERVER, payload)
    out = []
    for at in range(0, len(body), size):
        more = 0x2000 if at + size < len(body) else 0
        packet = ipv4(
            CLIENT[0], SERVER[0], body[at : at + size], identity=identity, fragment=more | at // 8
        )
        out.append(ethernet(packet))
    return out


def v6_fragments(payload: bytes, size: int) -> list[bytes]:
    body = udp(*V6, payload)
    out = []
    for at in range(0, len(body), size):
        more = at + size < len(body)
        head = struct.pack("!BBHI", 17, 0, at | more, 77)
        out.append(ethernet(ipv6(V6[0][0], V6[1][0], head + body[at : at + size], protocol=44)))
    return out


@pytest.mark.parametrize("backwards", [False, True])
@pytest.mark.parametrize("make", [v4_fragments, v6_fragments])
def test_fragments_are_put_together(make, backwards: bool) -> None:
    payload = bytes(range(256)) * 12
    pieces = make(payload, 1000)
    assert len(pieces) == 4
    ordered = pieces[::-1] if backwards else pieces
    found, _ = datagrams(pcap(Packet(n, piece) for n, piece in enumerate(ordered)))
    assert [d.payload for d in found] == [payload]
    assert found[0].number == 4  # of the last one


def test_a_fragment_that_comes_twice_is_not_missed_elsewhere() -> None:
    pieces = v4_fragments(bytes(range(256)) * 8, 1000)
    twice = [pieces[2], pieces[2], pieces[0], pieces[1], pieces[1], pieces[0]]
    found, reader = datagrams(pcap(Packet(n, piece) for n, piece in enumerate(twice)))
    assert len(found) == 1 and reader.notes() == []
    other = v4_fragments(bytes(2048), 1000)[0]
    _, reader = datagrams(pcap(Packet(n, piece) for n, piece in enumerate([*twice[:4], other])))
    assert reader.notes() == ["1 packets lack some of their IP fragments"]


def test_two_fragmented_packets_do_not_mix() -> None:
    first, second = v4_fragments(b"a" * 900, 400, 1), v4_fragments(b"b" * 900, 400, 2)
    mixed = [piece for pair in zip(first, second, strict=True) for piece in pair]
    found, _ = datagrams(pcap(Packet(n, piece) for n, piece in enumerate(mixed)))
    assert [d.payload for d in found] == [b"a" * 900, b"b" * 900]


def test_an_atomic_fragment_is_whole() -> None:
    head = struct.pack("!BBHI", 17, 0, 0, 1)
    packet = ipv6(V6[0][0], V6[1][0], head + udp(*V6, PAYLOAD), protocol=44)
    assert is_it(only(ethernet(packet)), *V6)


def test_fragments_that_never_end_are_bounded() -> None:
    pieces = (
        Packet(n, v4_fragments(bytes(1000), 400, identity=n % 65536)[0]) for n in range(5_000)
    )
    found, reader = datagrams(pcap(pieces))
    assert found == []
    assert any("lack some" in note for note in reader.notes())


def test_fragments_that_the_snap_length_cut_say_so() -> None:
    pieces = v4_fragments(bytes(range(256)) * 8, 1200)
    (found,), _ = datagrams(pcap((Packet(n, p) for n, p in enumerate(pieces)), snap=200))
    assert found.cut and found.length == 2048
    assert found.payload == (bytes(range(256)) * 8)[: len(found.payload)]


def test_fragments_that_overlap_are_not_made_a_packet_of() -> None:
    """RFC 5722: which of them would count differs from machine to machine."""
    first = v4_fragments(bytes(range(256)) * 8, 1200)
    longer = v4_fragments(bytes(range(256)) * 8, 1208)
    found, reader = datagrams(pcap(Packet(n, p) for n, p in enumerate([longer[0], first[1]])))
    assert found == []
    assert reader.notes() == ["1 packets lack some of their IP fragments"]
    again, _ = datagrams(pcap(Packet(n, p) for n, p in enumerate([first[0], *first])))
    assert [len(d.payload) for d in again] == [2048]


# -- TCP ------------------------------------------------------------------------------------------

CHECK = build_message(BINDING, MessageClass.REQUEST, bytes(12), [], integrity_key=None)


def framed(*payloads: bytes) -> bytes:
    return b"".join(struct.pack("!H", len(payload)) + payload for payload in payloads)


def tcp_capture(*segments: tuple[int, bytes, int]) -> bytes:
    frames = [
        ethernet(ipv4(CLIENT[0], SERVER[0], tcp(CLIENT, SERVER, seq, data, flags), protocol=6))
        for seq, data, flags in segments
    ]
    return pcap(Packet(n * 1000, frame) for n, frame in enumerate(frames))


def test_frames_of_rfc_4571() -> None:
    stream = framed(CHECK, PAYLOAD, b"\x80" * 20)
    segments = [(100, b"", 2)]
    segments += [(101 + at, stream[at : at + 7], 16) for at in range(0, len(stream), 7)]
    found, _ = datagrams(tcp_capture(*segments))
    assert [d.payload for d in found] == [CHECK, PAYLOAD, b"\x80" * 20]
    assert {d.transport for d in found} == {"tcp"}


def test_segments_out_of_order_twice_and_overlapping() -> None:
    stream = framed(CHECK, PAYLOAD, CHECK)
    pieces = [(at, stream[at : at + 40], 16) for at in range(0, len(stream), 20)]
    pieces[1], pieces[2] = pieces[2], pieces[1]
    found, reader = datagrams(tcp_capture((0xFFFFFFFF, b"", 2), *pieces, *pieces))
    assert [d.payload for d in found] == [CHECK, PAYLOAD, CHECK]
    assert reader.notes() == []


def test_a_stream_that_began_earlier_is_joined_at_a_frame() -> None:
    found, _ = datagrams(tcp_capture((5_000, framed(CHECK, PAYLOAD), 24)))
    assert [d.payload for d in found] == [CHECK, PAYLOAD]


def test_a_stream_that_began_inside_a_frame_is_joined_at_the_next_one() -> None:
    """The first segments begin in the middle of something, one of them with media alone."""
    media = framed(b"\x80" * 60)
    segments = [(5_000, media[30:], 24), (5_032, media, 24), (5_094, framed(CHECK, PAYLOAD), 24)]
    found, _ = datagrams(tcp_capture(*segments))
    assert [d.payload for d in found] == [CHECK, PAYLOAD]


def test_retransmissions_in_other_pieces_do_not_pile_up() -> None:
    """What came too early is sent again in larger pieces, for as long as the connection lasts."""
    stream = framed(*[CHECK] * 200)
    segments = [(1, stream[:20], 24)]
    for at in range(20, len(stream), 40):
        segments.append((1 + at + 10, stream[at + 10 : at + 30], 24))  # ahead of a loss
        segments.append((1 + at, stream[at : at + 40], 24))  # and all of it once more
    found, reader = datagrams(tcp_capture((0, b"", 2), *segments))
    assert len(found) == 200 and reader.notes() == []


def test_stun_that_frames_itself() -> None:
    found, _ = datagrams(tcp_capture((1, CHECK + CHECK, 24)))
    assert [d.payload for d in found] == [CHECK, CHECK]


def test_other_protocols_over_tcp_are_left_alone() -> None:
    found, _ = datagrams(tcp_capture((1, b"GET / HTTP/1.1\r\nHost: x\r\n\r\n" * 9, 24)))
    assert found == []


def test_a_missing_segment_costs_what_it_held() -> None:
    rest = [(200 + 90 * n, framed(CHECK) * 4 + b"..", 24) for n in range(60)]
    found, reader = datagrams(tcp_capture((1, framed(CHECK), 24), *rest))
    assert found[0].payload == CHECK
    assert any("gaps" in note for note in reader.notes())


# -- twice, cut, damaged --------------------------------------------------------------------------


def test_a_packet_that_leaves_and_arrives_is_one() -> None:
    """tcpdump -i any on a loopback: once leaving, once arriving."""
    leaving = bytearray(COOKED2 + PACKET)
    leaving[10] = 4
    capture = pcap([Packet(0, bytes(leaving)), Packet(20_000, COOKED2 + PACKET)], link=276)
    found, reader = datagrams(capture)
    assert len(found) == 1 and is_it(found[0]) and found[0].number == 1
    assert reader.counts["copies"] == 1


def test_the_same_bytes_later_or_at_the_same_place_are_another_packet() -> None:
    twice = [Packet(0, COOKED2 + PACKET), Packet(1_000_000, COOKED2 + PACKET)]
    assert len(datagrams(pcap(twice, link=276))[0]) == 2
    other = bytearray(COOKED2)
    other[4:8] = (3).to_bytes(4, "big")
    late = [Packet(0, COOKED2 + PACKET), Packet(50_000_000, bytes(other) + PACKET)]
    assert len(datagrams(pcap(late, link=276))[0]) == 2


def test_two_interfaces_of_one_machine_show_a_packet_once() -> None:
    data = section() + interface() + interface()
    data += enhanced(Packet(0, ethernet(PACKET))) + enhanced(Packet(1000, ethernet(PACKET), 1))
    found, _ = datagrams(data)
    assert [d.interface for d in found] == [0]


def test_notes_say_what_was_left_out() -> None:
    packets = [
        Packet(2_000, ethernet(PACKET)),
        Packet(1_000, ethernet(ip_udp(SERVER, CLIENT, bytes(400)))),
        Packet(3_000, bytes(12) + b"\x08\x06" + bytes(28)),
        Packet(4_000, ethernet(ipv4(CLIENT[0], SERVER[0], b"ping", protocol=1))),
    ]
    found, reader = datagrams(pcap(packets, snap=180))
    assert [d.cut for d in found] == [False, True]
    assert found[1].length == 400 and len(found[1].payload) == 180 - 42
    assert sorted(reader.notes()) == [
        "1 datagrams were cut by the capture's snap length",
        "1 packets are older than the packet before them",
    ]
    assert reader.counts["other"] == 2


def test_unknown_link_types_are_named() -> None:
    found, reader = datagrams(pcap([Packet(0, bytes(60))], link=127))
    assert found == []
    assert reader.notes() == ["1 packets of link type 127, which is not known here"]


@pytest.mark.parametrize("end", range(0, 60))
def test_a_packet_that_ends_anywhere_is_no_error(end: int) -> None:
    for frame, link in ((ethernet(PACKET, 3), 1), (COOKED2 + PACKET, 276), (PACKET, 101)):
        datagrams(pcap([Packet(0, frame[:end])], link=link))
        datagrams(pcap([Packet(0, bytes(12) + b"\x86\xdd" + bytes(end))], link=1))


@pytest.mark.parametrize(
    "name", sorted(str(path.relative_to(CAPTURES)) for path in CAPTURES.rglob("*.pcap"))
)
def test_real_captures_read_as_the_tests_own_reader_reads_them(name: str) -> None:
    with open_capture(CAPTURES / name) as reader:
        found = list(reader)
    wanted = read_pcap(name)
    assert [(d.source, d.destination, d.payload) for d in found] == [
        (p.source, p.destination, p.payload) for p in wanted
    ]
    assert [d.time_ns / 1e9 for d in found] == pytest.approx([p.time for p in wanted], abs=1e-6)
    assert reader.notes() == []


def test_files_that_cannot_be_opened(tmp_path: Path) -> None:
    with pytest.raises(CaptureError, match="No such file"), open_capture(tmp_path / "no.pcap"):
        pass
    with pytest.raises(CaptureError, match="directory"), open_capture(tmp_path):
        pass
    (tmp_path / "empty").write_bytes(b"")
    with pytest.raises(CaptureError, match="empty"), open_capture(tmp_path / "empty"):
        pass
