"""Reads classic pcap files (both byte orders, micro- and nanoseconds) into UDP payloads.

Link types: Ethernet (1), BSD loopback (0), raw IP (101, 12, 228, 229), Linux cooked v1 (113) and
v2 (276). A packet captured twice on a cooked loopback (once leaving, once arriving) is kept once.
"""

from __future__ import annotations

import ipaddress
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

CAPTURES = Path(__file__).parent

_OUTGOING = 4  # sll2 packet type "sent by us": the loopback shows each packet a second time


class UdpPacket(NamedTuple):
    """One UDP payload with its capture time (seconds since the epoch) and its addresses."""

    time: float
    source: tuple[str, int]
    destination: tuple[str, int]
    payload: bytes


def read_pcap(path: str | Path) -> list[UdpPacket]:
    """Return every UDP packet of a capture, in order. Relative paths start at tests/captures."""
    return list(iter_pcap((CAPTURES / path).read_bytes()))


def iter_pcap(blob: bytes) -> Iterator[UdpPacket]:
    """Yield every UDP packet of a capture's bytes."""
    magic = struct.unpack_from("<I", blob)[0]
    order = "<" if magic in (0xA1B2C3D4, 0xA1B23C4D) else ">"
    nanoseconds = struct.unpack_from(order + "I", blob)[0] == 0xA1B23C4D
    link = struct.unpack_from(order + "I", blob, 20)[0] & 0x0FFFFFFF
    offset = 24
    while offset + 16 <= len(blob):
        seconds, fraction, kept, _ = struct.unpack_from(order + "IIII", blob, offset)
        frame = blob[offset + 16 : offset + 16 + kept]
        offset += 16 + kept
        packet = _ip_packet(link, frame)
        if packet is not None:
            found = _udp(packet)
            if found is not None:
                source, destination, payload = found
                time = seconds + fraction / (1e9 if nanoseconds else 1e6)
                yield UdpPacket(time, source, destination, payload)


def _ip_packet(link: int, frame: bytes) -> bytes | None:
    if link == 1:
        ether_type = int.from_bytes(frame[12:14], "big")
        return frame[14:] if ether_type in (0x0800, 0x86DD) else None
    if link == 276:
        protocol = int.from_bytes(frame[0:2], "big")
        if protocol not in (0x0800, 0x86DD) or frame[10] == _OUTGOING:
            return None
        return frame[20:]
    if link == 113:
        protocol = int.from_bytes(frame[14:16], "big")
        outgoing = int.from_bytes(frame[0:2], "big") == _OUTGOING
        return frame[16:] if protocol in (0x0800, 0x86DD) and not outgoing else None
    if link == 0:
        return frame[4:]
    if link in (12, 101, 228, 229):
        return frame
    raise ValueError(f"link type {link} is not known")


def _udp(packet: bytes) -> tuple[tuple[str, int], tuple[str, int], bytes] | None:
    if packet[0] >> 4 == 4:
        header, protocol = (packet[0] & 15) * 4, packet[9]
        source, destination = packet[12:16], packet[16:20]
    else:
        header, protocol = 40, packet[6]
        source, destination = packet[8:24], packet[24:40]
    if protocol != 17:
        return None
    source_port, destination_port, length = struct.unpack_from("!HHH", packet, header)
    payload = packet[header + 8 : header + length]
    return (
        (str(ipaddress.ip_address(source)), source_port),
        (str(ipaddress.ip_address(destination)), destination_port),
        payload,
    )


def read_keylog(path: str | Path) -> dict[bytes, dict[str, bytes]]:
    """Return label -> secret for each client random of an SSLKEYLOGFILE."""
    found: dict[bytes, dict[str, bytes]] = {}
    for line in (CAPTURES / path).read_text().splitlines():
        parts = line.split()
        if len(parts) == 3 and not line.startswith("#"):
            secrets = found.setdefault(bytes.fromhex(parts[1]), {})
            secrets[parts[0]] = bytes.fromhex(parts[2])
    return found
