"""Capture files, one packet after another: pcap and pcapng, read as a stream, never as a whole.

pcap: draft-ietf-opsawg-pcap (both byte orders, micro- and nanoseconds). pcapng:
draft-ietf-opsawg-pcapng (several sections and interfaces, each with its own clock). Called by
`reader`; a file that ends too early, or goes mad in the middle, gives what came before.

    stream ─▶ magic ─┬▶ pcap    header, then records
                     └▶ pcapng  sections ─▶ interfaces, packets, decryption secrets
"""

from __future__ import annotations

import gzip
import struct
import zlib
from collections import Counter
from collections.abc import Callable, Iterator
from typing import BinaryIO, Final, NamedTuple, Protocol, cast

from warp_tools.failure import CommandRefused

MAX_PACKET: Final = 1 << 18  # what libpcap calls its largest snap length
MAX_BLOCK: Final = 1 << 24
MAX_SECRETS: Final = 1 << 20
MAX_INTERFACES: Final = 4096
FREE_COST: Final = 1 << 26
MAX_RATIO: Final = 100
_PIECE_COST: Final = 100
"""What it costs to take in one piece of a packed file, however small, in bytes."""

_PCAP: Final = {
    b"\xd4\xc3\xb2\xa1": ("<", 1000),
    b"\xa1\xb2\xc3\xd4": (">", 1000),
    b"\x4d\x3c\xb2\xa1": ("<", 1),
    b"\xa1\xb2\x3c\x4d": (">", 1),
}
_VERSION: Final = (2, 4)
_PCAPNG: Final = b"\x0a\x0d\x0d\x0a"
_OTHERS: Final = {
    b"\x1f\x8b": "gzip",
    b"\x28\xb5\x2f\xfd": "zstd",
    b"\x04\x22\x4d\x18": "lz4",
    b"\x34\xcd\xb2\xa1": "modified pcap",
    b"\xa1\xb2\xcd\x34": "modified pcap",
    b"snoo": "snoop",
}
_SECTION, _INTERFACE, _PACKET, _SIMPLE, _SECRETS, _ENHANCED = 0x0A0D0D0A, 1, 2, 3, 10, 6
_OPTION_RESOLUTION, _OPTION_OFFSET = 9, 14
_TLS_KEY_LOG: Final = 0x544C534B
_NO_ROOM: Final = "no room for a packet in the block"
_NO_INTERFACE: Final = "of an interface that the file does not describe"
_TOO_LONG: Final = "more bytes claimed than the block holds"


class CaptureError(CommandRefused):
    """The input is no capture that can be read; the text says why and what to do."""


class Frame(NamedTuple):
    """One captured packet with its link-layer header."""

    number: int
    """Its place in the file, from 1, as Wireshark counts."""
    time_ns: int
    """Nanoseconds since 1970."""
    link: int
    """Link type (https://www.tcpdump.org/linktypes.html)."""
    interface: int
    data: bytes
    length: int
    """Bytes that it had on the wire; `data` may hold fewer."""


class FrameSource(Protocol):
    """Where frames come from: a file, or a network interface."""

    damage: str | None
    odd: Counter[str]
    secrets: bytes

    @property
    def interfaces(self) -> int:
        """How many interfaces it looks at."""

    def __iter__(self) -> Iterator[Frame]:
        """Yield every frame."""


class _Interface(NamedTuple):
    link: int
    snap: int
    ticks: int
    """Ticks a second."""
    offset_ns: int


class Frames:
    """The packets of one capture file. Iterate once; the notes are complete when it is done."""

    def __init__(self, stream: BinaryIO) -> None:
        """Read the file's first bytes. Raises `CaptureError` when this is no capture."""
        self._stream = stream
        self._unpacked: _Unpacked | None = None
        self._read: Callable[[int], bytes] = stream.read
        self.number = 0
        self.damage: str | None = None
        """Why reading stopped before the end, in plain words."""
        self.odd: Counter[str] = Counter()
        """Packets that were passed over, by what is wrong with them."""
        self.secrets = b""
        """TLS key log lines that a pcapng file brings along (its decryption secrets blocks)."""
        self.format = ""
        self._order = "<"
        self._unit = 1000
        self._interfaces: list[_Interface] = []
        self._magic = self._open()

    def _open(self) -> bytes:
        magic = self._read(4)
        if magic[:2] == b"\x1f\x8b":
            again = _Again(magic, self._stream)
            self._unpacked = _Unpacked(again)
            self._read = self._unpacked.read
            magic = self._read(4) or b"\0"
        if magic == _PCAPNG:
            self.format = "pcapng"
        elif magic in _PCAP:
            self.format = "pcap"
            self._order, self._unit = _PCAP[magic]
        elif not magic:
            raise CaptureError("the file is empty: record one with tcpdump -w FILE udp")
        else:
            kind = _OTHERS.get(magic) or _OTHERS.get(magic[:2])
            if kind is None:
                raise CaptureError("not a capture: it begins like neither pcap nor pcapng")
            if self._unpacked is not None:
                raise CaptureError(f"{kind} inside gzip is not read: unpack it (gunzip) first")
            raise CaptureError(f"{kind} files are not read: convert it to pcap or pcapng first")
        return magic

    @property
    def interfaces(self) -> int:
        """How many interfaces the section that is being read has, 1 in a pcap."""
        return len(self._interfaces) or 1

    def __iter__(self) -> Iterator[Frame]:
        """Yield every packet in the order of the file."""
        yield from self._pcap() if self.format == "pcap" else self._pcapng()
        if self._unpacked is None:
            return
        if self._unpacked.fault and self.damage is None:
            self.damage = f"the gzip file is {self._unpacked.fault} behind packet {self.number}"
        if self._unpacked.is_refused:
            self.damage = (
                f"read until packet {self.number} only: what is gzipped unpacks to more than "
                f"{MAX_RATIO} times its size, as no capture does; gunzip it first to read it whole"
            )

    # -- pcap -------------------------------------------------------------------------------------

    def _pcap(self) -> Iterator[Frame]:
        header = self._read(20)
        if len(header) < 20:
            self.damage = "the file ends inside its own header"
            return
        link = struct.unpack(self._order + "I", header[16:])[0] & 0x03FFFFFF
        read, unit, layout = self._read, self._unit, struct.Struct(self._order + "IIII")
        while head := read(16):
            if len(head) < 16:
                self.damage = f"the file ends inside packet {self.number + 1}"
                return
            if head[:4] in _PCAP:
                again = self._another(head)
                if again is not None:  # behind it, the first packet of another file
                    link, unit, layout = again
                    continue
            seconds, fraction, kept, length = layout.unpack(head)
            if kept > MAX_PACKET:
                self.damage = f"packet {self.number + 1} claims {kept} bytes: the file is damaged"
                return
            data = read(kept)
            self.number += 1
            time_ns = seconds * 1_000_000_000 + fraction * unit
            if len(data) < kept:
                self.damage = f"the file ends inside packet {self.number}"
                if not data:
                    self.number -= 1
                    return
            yield Frame(self.number, time_ns, link, 0, data, max(length, kept))

    def _another(self, head: bytes) -> tuple[int, int, struct.Struct] | None:
        """Read a file header in the middle: two files were put into one with cat.

        Return link type, unit and layout of what follows; None: it is a packet, of 2055 perhaps.
        """
        order, unit = _PCAP[head[:4]]
        if struct.unpack(order + "HH", head[4:8]) != _VERSION:
            return None
        rest = self._read(8)
        if len(rest) < 8:
            self.damage = "the file ends inside the header of another one"
        link = struct.unpack(order + "I", rest[4:].rjust(4, b"\0"))[0] & 0x03FFFFFF
        return link, unit, struct.Struct(order + "IIII")

    # -- pcapng -----------------------------------------------------------------------------------

    def _pcapng(self) -> Iterator[Frame]:
        kind, head = _SECTION, b""
        pending = self._magic
        while True:
            head = pending + self._read(8 - len(pending))
            pending = b""
            if not head:
                return
            body = self._block(head)
            if body is None:
                return
            kind = struct.unpack(self._order + "I", head[:4])[0]
            if kind == _SECTION:
                self._interfaces = []
            elif kind == _INTERFACE:
                self._add_interface(body)
            elif kind in (_ENHANCED, _PACKET, _SIMPLE):
                frame = self._packet(kind, body)
                if frame is not None:
                    yield frame
            elif kind == _SECRETS:
                self._add_secrets(body)

    def _block(self, head: bytes) -> bytes | None:
        """Return the body of the block that begins with `head`, or None at the end."""
        if len(head) < 8:
            self.damage = "the file ends inside a block"
            return None
        extra = b""
        if head[:4] == _PCAPNG:
            extra = self._read(4)
            order = {b"\x4d\x3c\x2b\x1a": "<", b"\x1a\x2b\x3c\x4d": ">"}.get(extra)
            if order is None:
                self.damage = "a section header without a byte order: the file is damaged"
                if len(extra) < 4:
                    self.damage = "the file ends inside a block"
                return None
            self._order = order
        length = struct.unpack(self._order + "I", head[4:])[0]
        if length < 12 + len(extra) or length > MAX_BLOCK or length & 3:
            self.damage = f"a block claims {length} bytes: the file is damaged"
            return None
        want = length - 8 - len(extra)
        rest = self._read(want)
        if len(rest) < want:
            self.damage = "the file ends inside a block"
            return None
        return extra + rest[:-4]

    def _add_interface(self, body: bytes) -> None:
        if len(body) < 8 or len(self._interfaces) >= MAX_INTERFACES:
            return
        link, _, snap = struct.unpack_from(self._order + "HHI", body)
        ticks, offset_ns = 1_000_000, 0
        for code, value in self._options(body[8:]):
            if code == _OPTION_RESOLUTION and len(value) == 1:
                base, power = (2, value[0] & 0x7F) if value[0] & 0x80 else (10, value[0])
                ticks = base**power if power <= 63 else ticks
            elif code == _OPTION_OFFSET and len(value) == 8:
                offset_ns = struct.unpack(self._order + "q", value)[0] * 1_000_000_000
        self._interfaces.append(_Interface(link, snap, ticks, offset_ns))

    def _options(self, block: bytes) -> Iterator[tuple[int, bytes]]:
        at = 0
        while at + 4 <= len(block):
            code, length = struct.unpack_from(self._order + "HH", block, at)
            if code == 0:
                return
            yield code, block[at + 4 : at + 4 + length]
            at += 4 + (length + 3 & ~3)

    def _packet(self, kind: int, body: bytes) -> Frame | None:
        self.number += 1
        start = 4 if kind == _SIMPLE else 20
        if len(body) < start:
            self.odd[_NO_ROOM] += 1
            return None
        number, high, low = 0, 0, 0
        if kind == _SIMPLE:
            (length,) = struct.unpack_from(self._order + "I", body)
            kept = length
        else:
            layout = "IIIII" if kind == _ENHANCED else "HHIIII"
            fields = struct.unpack_from(self._order + layout, body)
            number, (high, low, kept, length) = fields[0], fields[-4:]
        if number >= len(self._interfaces):
            self.odd[_NO_INTERFACE] += 1
            return None
        interface = self._interfaces[number]
        if kind == _SIMPLE and interface.snap:
            kept = min(length, interface.snap)
        if kept > min(MAX_PACKET, len(body) - start):
            self.odd[_TOO_LONG] += 1
            return None
        ticks_at = high << 32 | low
        time_ns = ticks_at * 1_000_000_000 // interface.ticks + interface.offset_ns
        data = body[start : start + kept]
        return Frame(self.number, time_ns, interface.link, number, data, max(length, len(data)))

    def _add_secrets(self, body: bytes) -> None:
        if len(body) < 8:
            return
        kind, length = struct.unpack_from(self._order + "II", body)
        if kind == _TLS_KEY_LOG and len(self.secrets) + length <= MAX_SECRETS:
            self.secrets += body[8 : 8 + length] + b"\n"


class _Again:
    """A stream whose first bytes were read already; counts what is read."""

    def __init__(self, first: bytes, stream: BinaryIO) -> None:
        self._first, self._stream = first, stream
        self.count = 0

    def read(self, size: int = -1) -> bytes:
        if not self._first:
            out = self._stream.read(size)
        else:
            end = len(self._first) if size < 0 else size
            out, self._first = self._first[:end], self._first[end:]
        self.count += len(out)
        return out


class _Unpacked:
    """A gzip stream, which ends where it is damaged, and where it has grown beyond measure."""

    def __init__(self, packed: _Again) -> None:
        self._packed = packed
        self._unpacked = gzip.GzipFile(fileobj=cast(BinaryIO, packed))
        self._cost = 0
        self.is_refused = False
        self.fault = ""
        """What is wrong with it, in plain words."""

    def read(self, size: int) -> bytes:
        if self.is_refused:
            return b""
        try:
            out = self._unpacked.read(size)
        except EOFError:
            self.fault = "cut short"
            return b""
        except (zlib.error, gzip.BadGzipFile):
            self.fault = "damaged"
            return b""
        self._cost += len(out) + _PIECE_COST
        self.is_refused = self._cost > FREE_COST + MAX_RATIO * self._packed.count
        return out
