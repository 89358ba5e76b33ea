"""Writes packets into a pcapng file: raw IP, nanoseconds, as many interfaces as are needed.

A packet block counts up from its interface's clock, so that packets of before 1970 have interfaces
of their own. draft-ietf-opsawg-pcapng. Called by `redact` and `live`.
"""

from __future__ import annotations

import contextlib
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO, Final

from warp_tools.failure import CommandRefused, ToolFailure

RAW_IP: Final = 101
_SECTION, _INTERFACE, _PACKET = 0x0A0D0D0A, 1, 6
_ORDER: Final = 0x1A2B3C4D
_RESOLUTION, _NANOSECONDS, _OFFSET = 9, 9, 14
_END: Final = bytes(4)
_EARLY_S: Final = -(1 << 63) // 1_000_000_000


def clock_options(*, early: bool) -> bytes:
    """Return the options of an interface that counts nanoseconds, from 1970 or long before."""
    offset = struct.pack("<HHq", _OFFSET, 8, _EARLY_S) if early else b""
    return struct.pack("<HHB3x", _RESOLUTION, 1, _NANOSECONDS) + offset


def stamp(time_ns: int) -> tuple[int, int]:
    """Return a packet block's time, high and low; before 1970 by an early interface's clock."""
    ticks = time_ns if time_ns >= 0 else max(time_ns - _EARLY_S * 1_000_000_000, 0)
    return ticks >> 32 & 0xFFFFFFFF, ticks & 0xFFFFFFFF


class PacketWriter:
    """An open file of packets."""

    def __init__(self, stream: BinaryIO, link: int = RAW_IP) -> None:
        self._stream = stream
        self._link = link
        self._interfaces = 0
        self._usual: list[int] = []
        self._early: dict[int, int] = {}
        self._block(_SECTION, struct.pack("<IHHq", _ORDER, 1, 0, -1))

    def write(
        self, time_ns: int, data: bytes, length: int | None = None, interface: int = 0
    ) -> None:
        """Append one packet, of which `length` bytes were on the wire."""
        number = self._number(interface, early=time_ns < 0)
        size = len(data) if length is None else max(length, len(data))
        head = struct.pack("<IIIII", number, *stamp(time_ns), len(data), size)
        self._block(_PACKET, head + data + bytes(-len(data) % 4))

    def _number(self, interface: int, *, early: bool) -> int:
        """Return which interface of the file that is; the usual ones keep their order."""
        if early:
            if interface not in self._early:
                self._early[interface] = self._add_interface(early=True)
            return self._early[interface]
        while len(self._usual) <= interface:
            self._usual.append(self._add_interface(early=False))
        return self._usual[interface]

    def _add_interface(self, *, early: bool) -> int:
        options = clock_options(early=early) + _END
        self._block(_INTERFACE, struct.pack("<HHI", self._link, 0, 0) + options)
        self._interfaces += 1
        return self._interfaces - 1

    def flush(self) -> None:
        """Let readers see what was written."""
        self._stream.flush()

    def _block(self, kind: int, body: bytes) -> None:
        length = struct.pack("<I", 12 + len(body))
        self._stream.write(struct.pack("<I", kind) + length + body + length)


@contextlib.contextmanager
def writing(path: Path, link: int = RAW_IP) -> Iterator[PacketWriter]:
    """Write a file of packets. Raises `ToolFailure` when that cannot be done."""
    try:
        opened = path.open("wb")
    except OSError as error:
        raise CommandRefused(f"cannot write {path}: {error.strerror or error}") from error
    try:
        with opened as stream:
            yield PacketWriter(stream, link)
    except OSError as error:
        raise ToolFailure(f"cannot write {path}: {error.strerror or error}") from error
