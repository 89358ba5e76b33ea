"""Writes packets into a pcapng file: raw IP, nanoseconds, as many interfaces as are needed.

draft-ietf-opsawg-pcapng. Called by `redact` and `live`.
"""

from __future__ import annotations

import contextlib
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO, Final

from warp_tools.failure import ToolFailure

RAW_IP: Final = 101
_SECTION, _INTERFACE, _PACKET = 0x0A0D0D0A, 1, 6
_ORDER: Final = 0x1A2B3C4D
_RESOLUTION, _NANOSECONDS = 9, 9
_END: Final = bytes(4)


class PacketWriter:
    """An open file of packets."""

    def __init__(self, stream: BinaryIO, link: int = RAW_IP) -> None:
        self._stream = stream
        self._link = link
        self._interfaces = 0
        self._block(_SECTION, struct.pack("<IHHq", _ORDER, 1, 0, -1))

    def write(
        self, time_ns: int, data: bytes, length: int | None = None, interface: int = 0
    ) -> None:
        """Append one packet, of which `length` bytes were on the wire."""
        while self._interfaces <= interface:
            option = struct.pack("<HHB3x", _RESOLUTION, 1, _NANOSECONDS)
            self._block(_INTERFACE, struct.pack("<HHI", self._link, 0, 0) + option + _END)
            self._interfaces += 1
        high, low = divmod(max(time_ns, 0), 1 << 32)
        size = len(data) if length is None else max(length, len(data))
        head = struct.pack("<IIIII", interface, high & 0xFFFFFFFF, low, len(data), size)
        self._block(_PACKET, head + data + bytes(-len(data) % 4))

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
        with path.open("wb") as stream:
            yield PacketWriter(stream, link)
    except OSError as error:
        raise ToolFailure(f"cannot write {path}: {error.strerror or error}") from error
