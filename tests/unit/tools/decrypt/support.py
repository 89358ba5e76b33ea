"""Captures for the decrypter: the recorded calls, edited; and a writer for the result."""

from __future__ import annotations

import struct
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

from tests.captures.pcap import CAPTURES
from warp_tools.capture import Datagram, open_capture
from warp_tools.decrypt.connection import Connection
from warp_tools.decrypt.keylog import KeyLog, read_keylog
from warp_tools.decrypt.plain import Plain, Said
from warp_tools.decrypt.sessions import Sessions

CALLS = ("libwebrtc152_warp", "libwebrtc152_plain", "aiortc116_dtls12")
RAW_IP = 101


def call(name: str) -> list[Datagram]:
    """Return every datagram of a recorded call."""
    return datagrams(CAPTURES / "calls" / f"{name}.pcap")


def keys(name: str) -> Path:
    """Return the key log of a recorded call."""
    return CAPTURES / "calls" / f"{name}.keys"


def datagrams(path: Path) -> list[Datagram]:
    """Return every datagram of a capture."""
    with open_capture(path) as reader:
        return list(reader)


@dataclass
class Opened:
    """What came out of a capture."""

    sessions: Sessions
    plain: list[Plain] = field(default_factory=list)
    said: list[Said] = field(default_factory=list)

    def count(self, dissector: str) -> int:
        """Return how many packets of a protocol were opened."""
        return sum(one.dissector == dissector for one in self.plain)

    @property
    def connection(self) -> Connection:
        """The only connection."""
        (only,) = self.sessions.connections
        return only

    @property
    def shut(self) -> int:
        """Protected records of the only connection that stayed shut."""
        sides = self.connection.handshake.sides.values()
        return sum(side.shut for side in sides) + self.connection.strangers


def opened(items: Iterable[Datagram], log: Path | KeyLog) -> Opened:
    """Decrypt datagrams."""
    result = Opened(Sessions(log if isinstance(log, KeyLog) else read_keylog(log)))
    found = [one for item in items for one in result.sessions.receive(item)]
    for one in found + result.sessions.finish():
        if isinstance(one, Said):
            result.said.append(one)
        else:
            result.plain.append(one)
    return result


def write_pcap(path: Path, items: Iterable[Datagram]) -> Path:
    """Write datagrams (IPv4, UDP) as a pcap of raw IP, with nanoseconds."""
    out = struct.pack("<IHHiIII", 0xA1B23C4D, 2, 4, 0, 0, 1 << 18, RAW_IP)
    for item in items:
        udp = struct.pack("!HHHH", item.source[1], item.destination[1], 8 + len(item.payload), 0)
        size = 20 + len(udp) + len(item.payload)
        hosts = [bytes(map(int, host.split("."))) for host, _ in (item.source, item.destination)]
        ip = struct.pack("!BBHHHBBH", 0x45, 0, size, 0, 0, 64, 17, 0) + b"".join(hosts)
        seconds, rest = divmod(item.time_ns, 1_000_000_000)
        out += struct.pack("<IIII", seconds, rest, size, size) + ip + udp + item.payload
    path.write_bytes(out)
    return path
