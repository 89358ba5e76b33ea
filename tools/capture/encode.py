"""Datagrams back into IP packets, checksums right: what `redact` writes.

RFC 791, RFC 8200, RFC 768, RFC 9293; RFC 4571 frames on TCP. A datagram that its capture had cut
stays cut: its lengths say what went over the wire, and there is nothing to make a checksum of.
"""

from __future__ import annotations

import ipaddress
import struct
from typing import Final

from warp_tools.capture.ip import TCP, UDP, Address

_ACK_PUSH: Final = 0x18
_NO_NEXT_HEADER: Final = 59


def udp_packet(
    source: Address, destination: Address, payload: bytes, length: int, hops: int
) -> tuple[bytes, int]:
    """Return an IP packet with a datagram, and its length on the wire."""
    body = struct.pack("!HHHH", source[1], destination[1], 8 + length & 0xFFFF, 0) + payload
    if len(payload) == length:
        sum_ = _checksum(_pseudo(source, destination, UDP, len(body)) + body) or 0xFFFF
        body = body[:6] + struct.pack("!H", sum_) + body[8:]
    return _ip(source, destination, UDP, body, 8 + length, hops)


def tcp_packet(
    source: Address, destination: Address, sequence: int, payload: bytes, hops: int
) -> tuple[bytes, int]:
    """Return an IP packet with a TCP segment, and its length."""
    head = struct.pack("!HHII", source[1], destination[1], sequence & 0xFFFFFFFF, 0)
    body = head + struct.pack("!BBHHH", 5 << 4, _ACK_PUSH, 65535, 0, 0) + payload
    sum_ = _checksum(_pseudo(source, destination, TCP, len(body)) + body)
    body = body[:16] + struct.pack("!H", sum_) + body[18:]
    return _ip(source, destination, TCP, body, len(body), hops)


def framed(payload: bytes) -> bytes:
    """Return a datagram as RFC 4571 puts it on a stream."""
    return struct.pack("!H", len(payload)) + payload


def nothing() -> bytes:
    """Return a packet that keeps the place of one that was left out."""
    return _ip(("0.0.0.0", 0), ("0.0.0.0", 0), _NO_NEXT_HEADER, b"", 0, 1)[0]


def _ip(
    source: Address, destination: Address, protocol: int, body: bytes, length: int, hops: int
) -> tuple[bytes, int]:
    first, second = (ipaddress.ip_address(address[0]).packed for address in (source, destination))
    if len(first) == 16:
        head = struct.pack("!IHBB", 6 << 28, length & 0xFFFF, protocol, hops) + first + second
        return head + body, 40 + length
    head = struct.pack("!BBHHHBBH", 0x45, 0, 20 + length & 0xFFFF, 0, 0x4000, hops, protocol, 0)
    head += first + second
    head = head[:10] + struct.pack("!H", _checksum(head)) + head[12:]
    return head + body, 20 + length


def _pseudo(source: Address, destination: Address, protocol: int, length: int) -> bytes:
    first, second = (ipaddress.ip_address(address[0]).packed for address in (source, destination))
    if len(first) == 16:
        return first + second + struct.pack("!II", length, protocol)
    return first + second + struct.pack("!BBH", 0, protocol, length & 0xFFFF)


def _checksum(data: bytes) -> int:
    """Return the Internet checksum (RFC 1071)."""
    data += bytes(len(data) % 2)
    total: int = sum(struct.unpack(f"!{len(data) // 2}H", data))
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return ~total & 0xFFFF
