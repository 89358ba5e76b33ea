"""Builds captures for tests: link layers, IP, UDP, TCP, and calls made over from real ones."""

from __future__ import annotations

import ipaddress
import struct
from collections.abc import Iterable, Iterator
from typing import NamedTuple
from zlib import crc32

from tests.captures.pcap import UdpPacket, read_pcap
from warp.stun import Attribute, build_message, is_stun, parse_message

START_NS = 1_795_978_000_000_000_000
CLIENT, SERVER = ("192.0.2.1", 40000), ("198.51.100.7", 3478)
_RANDOM_AT = 27


class Packet(NamedTuple):
    """A frame to be written, at nanoseconds after the start."""

    at_ns: int
    data: bytes
    interface: int = 0


def udp(source: tuple[str, int], destination: tuple[str, int], payload: bytes) -> bytes:
    """Return a UDP datagram (without a checksum)."""
    return struct.pack("!HHHH", source[1], destination[1], 8 + len(payload), 0) + payload


def tcp(
    source: tuple[str, int], destination: tuple[str, int], seq: int, payload: bytes, flags: int = 16
) -> bytes:
    """Return a TCP segment."""
    ports = struct.pack("!HHII", source[1], destination[1], seq & 0xFFFFFFFF, 0)
    return ports + struct.pack("!BBHHH", 5 << 4, flags, 65535, 0, 0) + payload


def ipv4(
    source: str, destination: str, payload: bytes, protocol: int = 17, identity: int = 7,
    fragment: int = 0, hops: int = 64,
) -> bytes:  # fmt: skip
    """Return an IPv4 packet; `fragment` is the field of flags and offset."""
    return struct.pack(
        "!BBHHHBBH4s4s", 0x45, 0, 20 + len(payload), identity, fragment, hops, protocol, 0,
        ipaddress.ip_address(source).packed, ipaddress.ip_address(destination).packed,
    ) + payload  # fmt: skip


def ipv6(source: str, destination: str, payload: bytes, protocol: int = 17) -> bytes:
    """Return an IPv6 packet."""
    return (
        struct.pack("!IHBB", 6 << 28, len(payload), protocol, 64)
        + ipaddress.ip_address(source).packed
        + ipaddress.ip_address(destination).packed
        + payload
    )


def ip_udp(source: tuple[str, int], destination: tuple[str, int], payload: bytes) -> bytes:
    """Return an IP packet with a UDP datagram."""
    body = udp(source, destination, payload)
    make = ipv6 if ":" in source[0] else ipv4
    return make(source[0], destination[0], body)


def ethernet(packet: bytes, *tags: int) -> bytes:
    """Return an Ethernet frame, with VLAN tags."""
    kind = 0x86DD if packet[:1] and packet[0] >> 4 == 6 else 0x0800
    out = bytes(12)
    for tag in tags:
        out += struct.pack("!HH", 0x8100, tag)
    return out + struct.pack("!H", kind) + packet


def pcap(
    packets: Iterable[Packet], link: int = 1, order: str = "<", ns: bool = False, snap: int = 65535
) -> bytes:
    """Return a pcap file."""
    magic = 0xA1B23C4D if ns else 0xA1B2C3D4
    out = [struct.pack(order + "IHHiIII", magic, 2, 4, 0, 0, snap, link)]
    for packet in packets:
        seconds, rest = divmod(START_NS + packet.at_ns, 1_000_000_000)
        kept = packet.data[:snap]
        fraction = rest if ns else rest // 1000
        head = struct.pack(order + "IIII", seconds, fraction, len(kept), len(packet.data))
        out.append(head + kept)
    return b"".join(out)


def block(kind: int, body: bytes, order: str = "<") -> bytes:
    """Return one block of a pcapng file."""
    body += bytes(-len(body) % 4)
    length = struct.pack(order + "I", 12 + len(body))
    return struct.pack(order + "I", kind) + length + body + length


def option(code: int, value: bytes, order: str = "<") -> bytes:
    """Return one option."""
    return struct.pack(order + "HH", code, len(value)) + value + bytes(-len(value) % 4)


def section(order: str = "<") -> bytes:
    """Return a section header."""
    return block(0x0A0D0D0A, struct.pack(order + "IHHq", 0x1A2B3C4D, 1, 0, -1), order)


def interface(link: int = 1, order: str = "<", options: bytes = b"", snap: int = 0) -> bytes:
    """Return an interface description."""
    return block(1, struct.pack(order + "HHI", link, 0, snap) + options, order)


def enhanced(
    packet: Packet, order: str = "<", ticks: int = 1_000_000, start: int = START_NS
) -> bytes:
    """Return an enhanced packet block."""
    at = (start + packet.at_ns) * ticks // 1_000_000_000
    size = len(packet.data)
    head = struct.pack(order + "IIIII", packet.interface, at >> 32, at & 0xFFFFFFFF, size, size)
    return block(6, head + packet.data, order)


def pcapng(packets: Iterable[Packet], link: int = 1, order: str = "<") -> bytes:
    """Return a pcapng file with one interface."""
    return section(order) + interface(link, order) + b"".join(enhanced(p, order) for p in packets)


def frames(datagrams: Iterable[UdpPacket]) -> Iterator[Packet]:
    """Return captured datagrams as Ethernet frames, the first one at 0."""
    began: float | None = None
    for found in datagrams:
        began = found.time if began is None else began
        at_ns = round((found.time - began) * 1e9)
        yield Packet(at_ns, ethernet(ip_udp(found.source, found.destination, found.payload)))


def call(name: str, number: int, server: tuple[str, int] | None = None) -> list[UdpPacket]:
    """Make a captured call over into another one: new addresses, ufrags and hello randoms.

    With `server`, the side that answers the first check is that address.
    """
    packets = read_pcap(f"{name}.pcap")
    first, second = packets[0].source, packets[0].destination
    client = (f"10.{number >> 16 & 255}.{number >> 8 & 255}.{number & 255}", first[1])
    hosts = {first: client, second: server or (client[0], second[1])}
    made: list[UdpPacket] = []
    crcs: dict[bytes, bytes] = {}
    for packet in packets:
        payload = _made_over(packet.payload, number, crcs)
        made.append(
            UdpPacket(packet.time, hosts[packet.source], hosts[packet.destination], payload)
        )
    return made


def _made_over(payload: bytes, number: int, crcs: dict[bytes, bytes]) -> bytes:
    if not is_stun(payload):
        return _other_random(payload, number, crcs)
    message = parse_message(payload)
    attributes = []
    for kind, value in message.attributes:
        if kind == Attribute.USERNAME:
            left, right = value.split(b":")
            mark = f"{number:06d}".encode()
            value = left + mark + b":" + right + mark
        elif kind == Attribute.META_DTLS_IN_STUN:
            value = _other_random(value, number, crcs)
        elif kind == Attribute.META_DTLS_IN_STUN_ACKNOWLEDGEMENT:
            listed = [value[at : at + 4] for at in range(0, len(value), 4)]
            value = b"".join(crcs.get(crc, crc) for crc in listed)
        attributes.append((kind, value))
    transaction = bytes(
        a ^ b for a, b in zip(message.transaction_id, number.to_bytes(12, "big"), strict=True)
    )
    return build_message(
        message.method, message.message_class, transaction, attributes, integrity_key=None
    )


def _other_random(payload: bytes, number: int, crcs: dict[bytes, bytes]) -> bytes:
    """Change the random of a ClientHello that begins here."""
    if payload[:1] != b"\x16" or payload[13:14] != b"\x01" or payload[19:22] != b"\0\0\0":
        return payload
    mark = number.to_bytes(8, "big")
    made = payload[:_RANDOM_AT] + mark + payload[_RANDOM_AT + 8 :]
    crcs[crc32(payload).to_bytes(4, "big")] = crc32(made).to_bytes(4, "big")
    return made
