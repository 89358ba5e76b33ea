"""The SCTP packet: header, checksum, and the outbox that bundles chunks (RFC 9260 3.1, 6.10).

Called by the association; every packet that leaves is made here, and none exceeds the MTU.

    chunks ──add──▶ Outbox (bundle) ──flush──▶ packet ──take──▶ DTLS
"""

from __future__ import annotations

import struct
from typing import Final, NamedTuple

from google_crc32c import extend as _crc32c_extend

from warp.errors import Discard
from warp.sctp.reasons import SctpDiscard

COMMON_HEADER: Final = struct.Struct("!HHII")
COMMON_HEADER_SIZE: Final = 12
_PORTS_AND_TAG: Final = struct.Struct("!HHI")
_NO_CHECKSUM: Final = bytes(4)
_CONTROL_LIMIT: Final = 128


class PacketHeader(NamedTuple):
    """The common header; `checksum` is the field as it stands, big-endian read."""

    source_port: int
    destination_port: int
    verification_tag: int
    checksum: int


def crc32c(data: bytes) -> int:
    """Return the CRC32c (Castagnoli) of `data` (RFC 9260 appendix A)."""
    return int(_crc32c_extend(0, data))


def parse_header(packet: bytes) -> PacketHeader:
    """Read the common header. Raises Discard for what is too short to be a packet."""
    if len(packet) < COMMON_HEADER_SIZE + 4:
        raise Discard(SctpDiscard.TOO_SHORT)
    return PacketHeader(*COMMON_HEADER.unpack_from(packet))


def checksum_matches(packet: bytes) -> bool:
    """Tell whether the checksum field is right; it is stored little-endian."""
    computed = _crc32c_extend(0, packet[:8] + _NO_CHECKSUM + packet[12:])
    return int(computed).to_bytes(4, "little") == packet[8:12]


def build_packet(
    source_port: int, destination_port: int, tag: int, chunks: bytes, *, zero_checksum: bool = False
) -> bytes:
    """Return one packet around padded `chunks`."""
    front = _PORTS_AND_TAG.pack(source_port, destination_port, tag)
    if zero_checksum:
        return front + _NO_CHECKSUM + chunks
    checksum = _crc32c_extend(0, front + _NO_CHECKSUM + chunks)
    return front + int(checksum).to_bytes(4, "little") + chunks


class Outbox:
    """Packets on their way out, and the bundle that is being filled.

    `size` is the length the open bundle's packet would have; `limit` its cap. Chunks handed to
    `add` are padded. `control` chunks wait until the next drain and go in front. Bundles need the
    peer's tag, packets of their own do not.
    """

    __slots__ = (
        "_chunks",
        "_destination_port",
        "_front",
        "_plain",
        "_seed",
        "_source_port",
        "_zero_checksum",
        "accepts_zero",
        "control",
        "limit",
        "packets",
        "size",
    )

    def __init__(self, source_port: int, destination_port: int, limit: int) -> None:
        self._source_port = source_port
        self._destination_port = destination_port
        self.limit = limit
        self.packets: list[bytes] = []
        self.control: list[bytes] = []
        self.size = COMMON_HEADER_SIZE
        self._chunks: list[bytes] = []
        self._zero_checksum = False
        self.accepts_zero = False
        """Whether we announced that packets without checksum are welcome (RFC 9653)."""
        self._front = b""
        self._plain = b""
        self._seed = 0

    def set_destination(self, port: int) -> None:
        """Address the peer's `port`; before the first packet only."""
        self._destination_port = port
        self.set_tag(0, zero_checksum=False)

    def set_tag(self, tag: int, *, zero_checksum: bool) -> None:
        """Use the peer's `tag` from now on, with or without a checksum (RFC 9653 section 5.2)."""
        self._zero_checksum = zero_checksum
        self._front = _PORTS_AND_TAG.pack(self._source_port, self._destination_port, tag)
        self._plain = self._front + _NO_CHECKSUM
        self._seed = 0 if zero_checksum else int(_crc32c_extend(0, self._plain))

    def add_control(self, chunk: bytes) -> None:
        """Queue a control chunk for the next drain; the flood of a hostile peer is cut off."""
        if len(self.control) < _CONTROL_LIMIT:
            self.control.append(chunk)

    def add(self, chunk: bytes) -> None:
        """Put a chunk into the bundle, closing the bundle first if it would not fit."""
        size = self.size + len(chunk)
        if size > self.limit and self._chunks:
            self.flush()
            size = COMMON_HEADER_SIZE + len(chunk)
        self._chunks.append(chunk)
        self.size = size

    def flush(self) -> None:
        """Close the bundle: what has been added becomes one packet."""
        chunks = self._chunks
        if not chunks:
            return
        body = chunks[0] if len(chunks) == 1 else b"".join(chunks)
        chunks.clear()
        self.size = COMMON_HEADER_SIZE
        if self._zero_checksum:
            self.packets.append(self._plain + body)
        else:
            checksum = _crc32c_extend(self._seed, body).to_bytes(4, "little")
            self.packets.append(b"".join((self._front, checksum, body)))

    def add_packet(self, tag: int, chunk: bytes) -> None:
        """Add a packet of its own with another tag and a real checksum (INIT, COOKIE ECHO)."""
        if len(self.packets) < _CONTROL_LIMIT:
            self.packets.append(build_packet(self._source_port, self._destination_port, tag, chunk))

    def take(self) -> list[bytes]:
        """Drain the finished packets, in order."""
        packets, self.packets = self.packets, []
        return packets

    def clear(self) -> None:
        """Forget everything that was not yet drained."""
        self.packets = []
        self.control = []
        self._chunks.clear()
        self.size = COMMON_HEADER_SIZE
