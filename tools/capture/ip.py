"""IP packets to UDP payloads and TCP segments: headers, extension headers, fragments.

RFC 791, RFC 8200 section 4, RFC 768, RFC 9293 section 3.1. Called by `reader`. What waits for the
rest of its fragments is bounded in number, bytes and age.

    IP packet ─▶ whole? ───────────────────────────▶ UDP payload | TCP segment
                  └ fragment ─▶ Fragments.receive ─▶ when the last one is there
"""

from __future__ import annotations

import ipaddress
import struct
from collections import OrderedDict
from functools import lru_cache
from typing import Final, NamedTuple

TCP: Final = 6
UDP: Final = 17
MAX_WAITING: Final = 256
MAX_WAITING_BYTES: Final = 4 << 20
MAX_PIECES: Final = 64
MAX_AGE_NS: Final = 30_000_000_000
_FRAGMENT: Final = 44
_AUTHENTICATION: Final = 51
_SKIPPED: Final = frozenset((0, 43, 60, 135, 139, 140))
"""IPv6 extension headers that stand between the addresses and the transport."""
_MAX_HEADERS: Final = 8
_V4: Final = struct.Struct("!BBHHHBBH4s4s")
_UDP: Final = struct.Struct("!HHHH")
_TCP: Final = struct.Struct("!HHIIBB")

Address = tuple[str, int]


class Packet(NamedTuple):
    """The payload of an IP packet; `length` bytes of it went over the wire."""

    protocol: int
    source: bytes
    destination: bytes
    hops: int
    """TTL or hop limit as captured."""
    identity: int
    """The IPv4 identification, 0 in IPv6."""
    payload: bytes
    length: int


class _Waiting:
    __slots__ = ("began_ns", "first", "pieces", "total")

    def __init__(self, began_ns: int) -> None:
        self.began_ns = began_ns
        self.pieces: dict[int, tuple[bytes, int]] = {}
        self.total: int | None = None
        self.first: Packet | None = None

    def size(self) -> int:
        return sum(len(data) for data, _ in self.pieces.values())

    def hashes(self) -> set[int]:
        """Return what tells its fragments from others."""
        return {hash(piece) for piece in self.pieces.items()}


class Fragments:
    """Puts fragmented packets together."""

    def __init__(self) -> None:
        self._waiting: OrderedDict[tuple[bytes, bytes, int, int], _Waiting] = OrderedDict()
        self._done: OrderedDict[tuple[bytes, bytes, int, int], set[int]] = OrderedDict()
        """Hashes of the fragments of what is whole: they may come twice, some or all of them."""
        self._bytes = 0
        self.fragments = 0
        self.lost = 0
        """Packets that were given up because a fragment never came."""

    @property
    def unfinished(self) -> int:
        """Packets of which fragments are missing, or lie over each other, as far as it goes."""
        return self.lost + sum(map(self._lacks, self._waiting))

    def receive(
        self, packet: Packet, offset: int, more: bool, identity: int, now_ns: int
    ) -> Packet | None:
        """Take one fragment in; return the packet when all of it is there."""
        self.fragments += 1
        self._expire(now_ns)
        key = (packet.source, packet.destination, packet.protocol, identity)
        waiting = self._waiting.setdefault(key, _Waiting(now_ns))
        if offset not in waiting.pieces and len(waiting.pieces) < MAX_PIECES:
            waiting.pieces[offset] = (packet.payload, packet.length)
            self._bytes += len(packet.payload)
        if not offset:
            waiting.first = packet
        if not more:
            waiting.total = offset + packet.length
        whole = self._whole(waiting)
        if whole is not None:
            self._done[key] = waiting.hashes()
            self._done.move_to_end(key)
            if len(self._done) > MAX_WAITING:
                self._done.popitem(last=False)
            self._forget(key)
        return whole

    def _lacks(self, key: tuple[bytes, bytes, int, int]) -> bool:
        """Tell whether a packet that waits was not whole before, so that these are repeats."""
        return not self._waiting[key].hashes() <= self._done.get(key, set())

    def _expire(self, now_ns: int) -> None:
        while self._waiting:
            key, oldest = next(iter(self._waiting.items()))
            crowded = len(self._waiting) > MAX_WAITING or self._bytes > MAX_WAITING_BYTES
            if not crowded and now_ns - oldest.began_ns < MAX_AGE_NS:
                return
            self.lost += self._lacks(key)
            self._forget(key)

    def _forget(self, key: tuple[bytes, bytes, int, int]) -> None:
        self._bytes -= self._waiting.pop(key).size()

    @staticmethod
    def _whole(waiting: _Waiting) -> Packet | None:
        if waiting.total is None or waiting.first is None:
            return None
        at, parts, cut = 0, [], False
        while at < waiting.total:
            piece = waiting.pieces.get(at)
            if piece is None or not piece[1]:
                return None
            data, length = piece
            if not cut:
                parts.append(data)
            # bytes behind a gap would land in the wrong place
            cut = cut or len(data) < length
            at += length
        return waiting.first._replace(payload=b"".join(parts), length=waiting.total)


def parse_ip(data: bytes, fragments: Fragments, now_ns: int) -> Packet | None:
    """Return the packet whose IP header begins `data`, or None: no IP, or only a part of it."""
    version = data[0] >> 4 if data else 0
    if version == 4:
        return _parse_v4(data, fragments, now_ns)
    return _parse_v6(data, fragments, now_ns) if version == 6 else None


def _parse_v4(data: bytes, fragments: Fragments, now_ns: int) -> Packet | None:
    if len(data) < 20:
        return None
    first, _, total, identity, flags, hops, protocol, _, source, destination = _V4.unpack_from(data)
    header = (first & 15) * 4
    # segmentation offload leaves the length at 0
    length = (total or len(data)) - header
    if header < 20 or length < 0:
        return None
    payload = data[header : header + length]
    packet = Packet(protocol, source, destination, hops, identity, payload, length)
    if flags & 0x3FFF:
        offset = (flags & 0x1FFF) * 8
        return fragments.receive(packet, offset, bool(flags & 0x2000), identity, now_ns)
    return packet


def _parse_v6(data: bytes, fragments: Fragments, now_ns: int) -> Packet | None:
    if len(data) < 40:
        return None
    total, protocol, hops = struct.unpack_from("!HBB", data, 4)
    source, destination = data[8:24], data[24:40]
    at, end = 40, 40 + (total or len(data) - 40)
    for _ in range(_MAX_HEADERS):
        if protocol == _FRAGMENT and at + 8 <= len(data):
            kind, _, place, identity = struct.unpack_from("!BBHI", data, at)
            at += 8
            packet = Packet(kind, source, destination, hops, 0, data[at:end], end - at)
            if not place & 0xFFF9:  # an atomic fragment (RFC 6946)
                protocol = kind
                continue
            if end < at:
                return None
            return fragments.receive(packet, place & 0xFFF8, bool(place & 1), identity, now_ns)
        if protocol in _SKIPPED and at + 2 <= len(data):
            protocol, at = data[at], at + 8 + data[at + 1] * 8
        elif protocol == _AUTHENTICATION and at + 2 <= len(data):
            protocol, at = data[at], at + 8 + data[at + 1] * 4
        else:
            break
    if at > end:
        return None
    return Packet(protocol, source, destination, hops, 0, data[at:end], end - at)


class Udp(NamedTuple):
    """A UDP datagram; `length` bytes of payload went over the wire."""

    source: Address
    destination: Address
    payload: bytes
    length: int


class Segment(NamedTuple):
    """A TCP segment."""

    source: Address
    destination: Address
    sequence: int
    flags: int
    payload: bytes
    length: int


@lru_cache(maxsize=4096)
def host(packed: bytes) -> str:
    """Return an address as text."""
    return str(ipaddress.ip_address(packed))


def parse_udp(packet: Packet) -> Udp | None:
    """Return the datagram inside a packet, or None when the header is not there."""
    data = packet.payload
    if len(data) < 8:
        return None
    source, destination, length, _ = _UDP.unpack_from(data)
    # 0 is a jumbogram or an offloaded one: then the IP packet says how long it is
    length = length if 8 <= length <= packet.length else packet.length
    return Udp(
        (host(packet.source), source),
        (host(packet.destination), destination),
        data[8:length],
        length - 8,
    )


def parse_tcp(packet: Packet) -> Segment | None:
    """Return the segment inside a packet, or None when the header is not there."""
    data = packet.payload
    if len(data) < 20:
        return None
    source, destination, sequence, _, offset, flags = _TCP.unpack_from(data)
    start = (offset >> 4) * 4
    if start < 20 or start > packet.length:
        return None
    return Segment(
        (host(packet.source), source),
        (host(packet.destination), destination),
        sequence,
        flags,
        data[start:],
        packet.length - start,
    )
