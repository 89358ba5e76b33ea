"""RTP packets, bytes to values and back (RFC 3550 section 5.1).

     0                   1                   2                   3
    |V=2|P|X|  CC   |M|     PT      |       sequence number         |
    |                           timestamp                           |
    |           synchronization source (SSRC) identifier            |
    |                        CC times a CSRC                        |
    |   profile of the extension    |   its length in words         |   if X

`router` reads the same layout in place for the packets of a call; `parse_rtp` is for everything
that wants a value: the first packet of a source, tools, tests.
"""

from __future__ import annotations

import enum
import struct
from typing import Final

from warp.errors import Discard, InvalidConfig

HEADER_LENGTH: Final = 12
HEADER: Final = struct.Struct("!BBHII")
_EXTENSION_HEADER: Final = struct.Struct("!HH")


class RtpDiscard(enum.Enum):
    """Why an RTP packet is worthless."""

    TOO_SHORT = "shorter than its own header says"
    VERSION = "RTP version is not 2"
    PADDING = "padding is longer than the packet"
    EXTENSION = "header extension elements overrun their block"
    UNKNOWN_SOURCE = "neither mid, SSRC nor payload type leads to a media section"
    UNKNOWN_PAYLOAD_TYPE = "payload type was not negotiated"
    UNKNOWN_MID = "mid was not negotiated"
    RETIRED_SOURCE = "source was replaced by a newer one"
    OWN_SOURCE = "carries an SSRC of ours"
    SEQUENCE_JUMP = "sequence number jumped; waiting for a second packet that agrees"
    REDUNDANCY = "redundant audio blocks do not add up"
    EVENT = "telephone event payload is too short"


class RtpPacket:
    """One RTP packet. `extension` is the raw block after its four-byte header, or empty."""

    __slots__ = (
        "csrcs",
        "extension",
        "extension_profile",
        "marker",
        "padding",
        "payload",
        "payload_type",
        "sequence",
        "ssrc",
        "timestamp",
    )

    def __init__(
        self,
        payload_type: int,
        sequence: int,
        timestamp: int,
        ssrc: int,
        payload: bytes = b"",
        marker: bool = False,
        csrcs: tuple[int, ...] = (),
        extension_profile: int | None = None,
        extension: bytes = b"",
        padding: int = 0,
    ) -> None:
        self.payload_type = payload_type
        self.sequence = sequence
        self.timestamp = timestamp
        self.ssrc = ssrc
        self.payload = payload
        self.marker = marker
        self.csrcs = csrcs
        self.extension_profile = extension_profile
        self.extension = extension
        self.padding = padding

    def serialize(self) -> bytes:
        """Return the packet as bytes. Raises `InvalidConfig` when a field cannot be written."""
        first = 0x80 | len(self.csrcs)
        if self.padding:
            first |= 0x20
        if self.extension_profile is not None:
            first |= 0x10
        second = self.payload_type | (0x80 if self.marker else 0)
        try:
            out = HEADER.pack(first, second, self.sequence, self.timestamp, self.ssrc)
            out += b"".join(csrc.to_bytes(4, "big") for csrc in self.csrcs)
            if self.extension_profile is not None:
                words, rest = divmod(len(self.extension), 4)
                out += _EXTENSION_HEADER.pack(self.extension_profile, words + (rest > 0))
                out += self.extension + bytes(-len(self.extension) % 4)
            out += self.payload
            if self.padding:
                out += bytes(self.padding - 1) + bytes([self.padding])
        except (struct.error, ValueError, OverflowError) as error:
            raise InvalidConfig(f"field out of range in an RTP packet: {error}") from error
        if len(self.csrcs) > 15 or self.payload_type > 127:
            raise InvalidConfig("an RTP packet has at most 15 CSRCs and a payload type of 0..127")
        return out


def parse_rtp(data: bytes) -> RtpPacket:
    """Return the packet in `data`, or raise `Discard(RtpDiscard)` (RFC 3550 section 5.1)."""
    if len(data) < HEADER_LENGTH:
        raise Discard(RtpDiscard.TOO_SHORT)
    first, second, sequence, timestamp, ssrc = HEADER.unpack_from(data)
    kind, marker = second & 0x7F, second > 0x7F
    if first == 0x80:  # nothing optional: most packets of a peer without extensions
        return RtpPacket(kind, sequence, timestamp, ssrc, data[HEADER_LENGTH:], marker)
    if first >> 6 != 2:
        raise Discard(RtpDiscard.VERSION)
    start, end = payload_bounds(data)
    csrc_end = HEADER_LENGTH + 4 * (first & 15)
    csrcs: tuple[int, ...] = ()
    if first & 15:
        csrcs = struct.unpack_from(f"!{first & 15}I", data, HEADER_LENGTH)
    profile, extension = None, b""
    if first & 0x10:
        profile = data[csrc_end] << 8 | data[csrc_end + 1]
        extension = data[csrc_end + 4 : start]
    return RtpPacket(
        kind, sequence, timestamp, ssrc, data[start:end], marker, csrcs, profile, extension,
        len(data) - end,
    )  # fmt: skip


def is_rtcp(data: bytes) -> bool:
    """Tell RTCP from RTP where both share a port (RFC 5761 section 4).

    Right for datagrams whose first byte says RTP (128..191, RFC 7983): the second byte of RTCP is
    192..223, which an RTP packet could only have with a payload type of 64..95.
    """
    return len(data) > 1 and 192 <= data[1] <= 223


def payload_bounds(data: bytes) -> tuple[int, int]:
    """Return where the payload starts and ends in a packet of at least 12 bytes.

    Raises `Discard(RtpDiscard)` when CSRCs, extension or padding overrun the packet.
    """
    size = len(data)
    first = data[0]
    start = HEADER_LENGTH + 4 * (first & 15)
    if first & 0x10:
        if size < start + 4:
            raise Discard(RtpDiscard.TOO_SHORT)
        start += 4 + 4 * (data[start + 2] << 8 | data[start + 3])
    if size < start:
        raise Discard(RtpDiscard.TOO_SHORT)
    end = size
    if first & 0x20:
        # the last byte counts itself: 0 is as wrong as more than there is
        padding = data[-1] if size > start else 0
        end = size - padding
        if padding == 0 or end < start:
            raise Discard(RtpDiscard.PADDING)
    return start, end
