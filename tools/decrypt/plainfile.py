"""What was opened, as a pcapng file that Wireshark and tshark decode without any preference.

Each packet is an "exported PDU" (link type 252, LINKTYPE_WIRESHARK_UPPER_PDU): tags that name the
dissector, both addresses, both ports and the packet's number in the original capture, then the
protocol's own bytes. So RTP is RTP whatever its port, and SCTP is SCTP although it never was on IP.

    tag u16 | length u16 | value, padded to 4 …  0 | 0   protocol bytes

Handshake messages of DTLS 1.3's epochs go in the form of TLS, put together (see `readable`).

Called by `run`. Format: draft-ietf-opsawg-pcapng section 4.
"""

from __future__ import annotations

import ipaddress
import struct
from functools import lru_cache
from pathlib import Path
from typing import BinaryIO, Final

from warp_tools.capture.reader import Address
from warp_tools.capture.writer import clock_options, stamp
from warp_tools.decrypt.plain import MEDIA, Plain
from warp_tools.decrypt.readable import Readables
from warp_tools.failure import CommandRefused, ToolFailure

LINK_TYPE: Final = 252
_SECTION, _INTERFACE, _PACKET = 0x0A0D0D0A, 1, 6
_BYTE_ORDER: Final = 0x1A2B3C4D
_UNKNOWN_LENGTH: Final = 0xFFFF_FFFF_FFFF_FFFF
_APPLICATION, _COMMENT, _NAME = 4, 1, 2
_TAG_NAME, _TAG_PORT_TYPE, _TAG_SOURCE_PORT, _TAG_DESTINATION_PORT, _TAG_NUMBER = 12, 24, 25, 26, 30
_TAG_SOURCE: Final = {4: 20, 6: 22}
_TAG_DESTINATION: Final = {4: 21, 6: 23}
_PORT_TYPE_UDP: Final = 3
# a UDP conversation whose hellos agree on SRTP makes tshark take all its media for encrypted
_PORT_TYPE_NONE: Final = 0
_PAIR: Final = struct.Struct("<HH")
_TAG: Final = struct.Struct("!HH")


class PlainFile:
    """A file of packets in the clear; a context. Raises ToolFailure when it cannot be written."""

    __slots__ = ("_early", "_out", "_path", "_readables", "packets")

    def __init__(self, path: Path) -> None:
        self._path = path
        self._readables = Readables()
        self.packets = 0
        self._early = False
        """Whether there is an interface for packets of before 1970."""
        try:
            self._out: BinaryIO = path.open("wb")
        except OSError as error:
            raise CommandRefused(f"cannot write {path}: {error.strerror}") from error
        head = struct.pack("<IHHQ", _BYTE_ORDER, 1, 0, _UNKNOWN_LENGTH)
        application = _option(_APPLICATION, b"warp pcap decrypt")
        self._write(_SECTION, head + application + _option(0, b""))
        self._add_interface(early=False)

    def __enter__(self) -> PlainFile:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def close(self) -> None:
        """Finish the file."""
        try:
            self._out.close()
        except OSError as error:
            raise ToolFailure(f"cannot write {self._path}: {error.strerror}") from error

    def write(self, plain: Plain) -> None:
        """Append one packet."""
        datagram = plain.datagram
        dissector, content, said = self._readables.receive(plain)
        tags = _addresses(dissector, datagram.source, datagram.destination)
        data = tags + _tag(_TAG_NUMBER, datagram.number.to_bytes(4, "big")) + bytes(4) + content
        is_early = datagram.time_ns < 0
        if is_early and not self._early:
            self._add_interface(early=True)
            self._early = True
        head = struct.pack("<IIIII", int(is_early), *stamp(datagram.time_ns), len(data), len(data))
        comment = _option(_COMMENT, said.encode()) + _option(0, b"")
        self._write(_PACKET, head + _padded(data) + (comment if said else b""))
        self.packets += 1

    def _add_interface(self, *, early: bool) -> None:
        options = _option(_NAME, b"decrypted") + clock_options(early=early) + _option(0, b"")
        self._write(_INTERFACE, struct.pack("<HHI", LINK_TYPE, 0, 0) + options)

    def _write(self, kind: int, body: bytes) -> None:
        length = struct.pack("<I", len(body) + 12)
        try:
            self._out.write(struct.pack("<I", kind) + length + body + length)
        except OSError as error:
            raise ToolFailure(f"cannot write {self._path}: {error.strerror}") from error


def _padded(data: bytes) -> bytes:
    return data + bytes(-len(data) % 4)


def _option(code: int, value: bytes) -> bytes:
    return _PAIR.pack(code, len(value)) + _padded(value)


def _tag(kind: int, value: bytes) -> bytes:
    padded = _padded(value)
    return _TAG.pack(kind, len(padded)) + padded


@lru_cache(maxsize=4096)
def _addresses(dissector: str, source: Address, destination: Address) -> bytes:
    """Return the tags that are the same for all packets of one way."""
    tags = [_tag(_TAG_NAME, dissector.encode())]
    for kinds, (host, _) in ((_TAG_SOURCE, source), (_TAG_DESTINATION, destination)):
        address = ipaddress.ip_address(host)
        tags.append(_tag(kinds[address.version], address.packed))
    port_type = _PORT_TYPE_NONE if dissector in MEDIA else _PORT_TYPE_UDP
    tags.append(_tag(_TAG_PORT_TYPE, port_type.to_bytes(4, "big")))
    tags.append(_tag(_TAG_SOURCE_PORT, source[1].to_bytes(4, "big")))
    tags.append(_tag(_TAG_DESTINATION_PORT, destination[1].to_bytes(4, "big")))
    return b"".join(tags)
