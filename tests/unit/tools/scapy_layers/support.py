"""Packets as layers: really built again, and every datagram that was ever captured."""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache

from scapy.layers.inet import UDP
from scapy.packet import Packet

from tests.captures.pcap import CAPTURES, read_pcap
from warp.errors import Discard
from warp.stun import Attribute, parse_message
from warp_tools.scapy_layers import bind, unbind


def layers(packet: Packet) -> Iterator[Packet]:
    """Yield a packet and everything inside it."""
    yield packet
    if packet.payload:
        yield from layers(packet.payload)
    for value in packet.fields.values():
        for one in value if isinstance(value, list) else [value]:
            if isinstance(one, Packet):
                yield from layers(one)


def rebuilt(packet: Packet) -> bytes:
    """Build a packet from its fields: what scapy remembers of the original does not help."""
    for one in layers(packet):
        one.clear_cache()
    return bytes(packet)


@lru_cache(maxsize=1)
def captured() -> tuple[list[bytes], list[bytes]]:
    """Return every STUN message and every DTLS datagram of the captures, riders included."""
    stun, dtls = [], []
    for path in sorted(CAPTURES.rglob("*.pcap")):
        for packet in read_pcap(path):
            data = packet.payload
            if data and data[0] < 4:
                stun.append(data)
                try:
                    data = parse_message(data).get(Attribute.META_DTLS_IN_STUN) or b""
                except Discard:
                    continue
            if data and 20 <= data[0] < 64:
                dtls.append(data)
    return stun, dtls


def through_udp(data: bytes) -> bytes:
    """Let scapy read a payload of UDP on a bound port, and build it again."""
    bind(50_000)
    try:
        packet = UDP(bytes(UDP(dport=50_000) / data))
        return rebuilt(packet)[8:]
    finally:
        unbind(50_000)
