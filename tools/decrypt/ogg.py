"""Opus packets into an Ogg file, page by page (RFC 3533, RFC 7845).

    OpusHead page · OpusTags page · pages of about a second of audio, the last one marked

What was lost is asked of the decoder: RFC 7845 section 4.1 wants packets without audio in the place
of missing ones, so that the granule position never jumps. A file is opened for each page and closed
again: a capture may hold any number of streams. Called by `audio`.
"""

from __future__ import annotations

import struct
from pathlib import Path
from typing import Final

from warp.rtp.opus import CLOCK_RATE, FRAME_SAMPLES, MAX_SAMPLES, packet_samples

_PAGE: Final = struct.Struct("<4sBBqIIIB")
_HEAD: Final = struct.Struct("<8sBBHIhB")
_FIRST, _LAST = 2, 4
_MAX_SEGMENTS: Final = 255
_PAGE_SAMPLES: Final = CLOCK_RATE
_VENDOR: Final = b"warp-rtc"
PRE_SKIP: Final = 312
"""What libopus looks ahead for voice, in samples at 48 kHz."""
_CRC_POLYNOMIAL: Final = 0x04C11DB7


def _crc_table() -> tuple[int, ...]:
    table = []
    for byte in range(256):
        value = byte << 24
        for _ in range(8):
            value = (value << 1 ^ (_CRC_POLYNOMIAL if value & 0x8000_0000 else 0)) & 0xFFFF_FFFF
        table.append(value)
    return tuple(table)


_CRC: Final = _crc_table()


def page_checksum(page: bytes) -> int:
    """Return the CRC of a page whose checksum field is zero (RFC 3533 section 6)."""
    value = 0
    for byte in page:
        value = (value << 8 & 0xFFFF_FFFF) ^ _CRC[value >> 24 ^ byte]
    return value


def concealment(toc: int, samples: int) -> list[bytes]:
    """Return packets without audio that last `samples`, in the mode of `toc`.

    Frames of length zero ask the decoder to conceal (RFC 7845 section 4.1). What is less than a
    frame of that mode, or than the 2.5 ms of the shortest one, is left out.
    """
    frame = FRAME_SAMPLES[toc >> 3]
    most = min(MAX_SAMPLES // frame, 48)
    count = samples // frame
    packets = [bytes((toc & 0xFC | 3, most))] * (count // most)
    if rest := count % most:
        packets.append(bytes((toc & 0xFC | 3, rest)))
    return packets


class OggOpusWriter:
    """One Opus stream. Raises OSError, as files do."""

    __slots__ = (
        "_granule",
        "_lacing",
        "_page_from",
        "_payload",
        "_sequence",
        "_serial",
        "packets",
        "path",
    )

    def __init__(self, path: Path, *, channels: int, serial: int, title: str) -> None:
        self.path = path
        self.packets = 0
        self._serial = serial
        self._sequence = 0
        self._granule = 0
        self._page_from = 0
        self._lacing = bytearray()
        self._payload: list[bytes] = []
        head = _HEAD.pack(b"OpusHead", 1, channels, PRE_SKIP, CLOCK_RATE, 0, 0)
        comment = f"TITLE={title}".encode()
        tags = (
            b"OpusTags"
            + len(_VENDOR).to_bytes(4, "little")
            + _VENDOR
            + (1).to_bytes(4, "little")
            + len(comment).to_bytes(4, "little")
            + comment
        )
        with path.open("wb") as out:
            for kind, packet in ((_FIRST, head), (0, tags)):
                self._add(packet)
                out.write(self._page(kind))

    @property
    def samples(self) -> int:
        """How much audio was written, at 48 kHz."""
        return self._granule

    def write(self, packet: bytes) -> None:
        """Append one Opus packet."""
        samples = packet_samples(packet)
        segments = len(packet) // 255 + 1
        if (
            len(self._lacing) + segments > _MAX_SEGMENTS
            or self._granule - self._page_from >= _PAGE_SAMPLES
        ):
            self._flush(0)
        self._add(packet)
        self._granule += samples
        self.packets += 1

    def conceal(self, toc: int, samples: int) -> int:
        """Fill a gap as well as frames of this mode can; return how many samples that makes."""
        before = self._granule
        for packet in concealment(toc, samples):
            self.write(packet)
            self.packets -= 1
        return self._granule - before

    def close(self) -> None:
        """Write what is left, and the mark of the end."""
        self._flush(_LAST)

    def _add(self, packet: bytes) -> None:
        self._lacing += b"\xff" * (len(packet) // 255) + bytes((len(packet) % 255,))
        self._payload.append(packet)

    def _flush(self, kind: int) -> None:
        with self.path.open("ab") as out:
            out.write(self._page(kind))
        self._page_from = self._granule

    def _page(self, kind: int) -> bytes:
        fields = (b"OggS", 0, kind, self._granule, self._serial, self._sequence)
        body = bytes(self._lacing) + b"".join(self._payload)
        blank = _PAGE.pack(*fields, 0, len(self._lacing)) + body
        page = _PAGE.pack(*fields, page_checksum(blank), len(self._lacing)) + body
        self._sequence += 1
        self._lacing.clear()
        self._payload.clear()
        return page
