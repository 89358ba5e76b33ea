"""Header extensions of RTP (RFC 8285): one-byte and two-byte forms.

What a voice call uses: the mid (RFC 8843 section 15), the audio level (RFC 6464) and the
transport-wide sequence number (draft-holmer-rmcat-transport-wide-cc-extensions-01). Others are
skipped. `ExtensionMap` holds the ids that the descriptions agreed on; `learn_layout` turns the
block of one packet into a mask, so that the next packet of the same shape costs one comparison.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final, NamedTuple

from warp.errors import Discard, InvalidConfig
from warp.rtp.packet import HEADER_LENGTH, RtpDiscard

ONE_BYTE_PROFILE: Final = 0xBEDE
TWO_BYTE_PROFILE: Final = 0x1000
"""Profile of the two-byte form; its low four bits belong to the application (RFC 8285 4.3)."""

MID_URI: Final = "urn:ietf:params:rtp-hdrext:sdes:mid"
AUDIO_LEVEL_URI: Final = "urn:ietf:params:rtp-hdrext:ssrc-audio-level"
TRANSPORT_CC_URI: Final = (
    "http://www.ietf.org/id/draft-holmer-rmcat-transport-wide-cc-extensions-01"
)
ABS_SEND_TIME_URI: Final = "http://www.webrtc.org/experiments/rtp-hdrext/abs-send-time"


class ExtensionMap(NamedTuple):
    """The negotiated id of each extension we use; 0 means not negotiated."""

    mid: int = 0
    audio_level: int = 0
    transport_cc: int = 0

    @classmethod
    def from_uris(cls, ids: Mapping[str, int]) -> ExtensionMap:
        """Pick what we know from `extmap` lines, `{uri: id}` (RFC 8285 section 5).

        Raises `InvalidConfig` when one of these has an id that no packet can carry.
        """
        known = {uri: ids.get(uri, 0) for uri in (MID_URI, AUDIO_LEVEL_URI, TRANSPORT_CC_URI)}
        for uri, number in known.items():
            if uri in ids and (not 1 <= number <= 255 or number == 15):
                raise InvalidConfig(f"extmap id {number} of {uri} is not usable (RFC 8285)")
        return cls(*known.values())


NO_EXTENSIONS: Final = ExtensionMap()


class HeaderExtensions(NamedTuple):
    """Values of the extensions we use; None when the packet lacks one.

    `audio_level` is the level in -dBov, 0 (loudest) to 127 (silence); `voice` is the V bit.
    """

    mid: str | None = None
    audio_level: int | None = None
    voice: bool = False
    transport_sequence: int | None = None


class ExtensionLayout(NamedTuple):
    """The shape of a packet's fixed header's extension block, for packets without CSRCs.

    A packet has this shape when `int.from_bytes(packet[12:end]) & mask == pattern`; then the
    audio level is at `level_at` and the transport sequence at `sequence_at` (0: absent). The mid,
    where present, is part of the pattern.
    """

    end: int
    mask: int
    pattern: int
    level_at: int
    sequence_at: int


def iterate_elements(profile: int | None, block: bytes) -> Iterator[tuple[int, int, int]]:
    """Yield id, start and end of each element in an extension block (without its header).

    An unknown profile yields nothing (RFC 3550 section 5.3.1: ignore what you do not know).
    Raises `Discard(RtpDiscard.EXTENSION)` when an element overruns the block.
    """
    if profile == ONE_BYTE_PROFILE:
        header = 1
    elif profile is not None and profile & 0xFFF0 == TWO_BYTE_PROFILE:
        header = 2
    else:
        return
    at, size = 0, len(block)
    while at < size:
        first = block[at]
        if first == 0:  # padding, in both forms (RFC 8285 section 4.1.2)
            at += 1
            continue
        if header == 1:
            number, length = first >> 4, (first & 15) + 1
            if number == 15:  # reserved: stop here, keep what was read (RFC 8285 section 4.2)
                return
            if number == 0:
                raise Discard(RtpDiscard.EXTENSION, "padding with a length")
        else:
            if at + 1 >= size:
                raise Discard(RtpDiscard.EXTENSION)
            number, length = first, block[at + 1]
        start = at + header
        at = start + length
        if at > size:
            raise Discard(RtpDiscard.EXTENSION)
        yield number, start, at


def parse_extensions(ids: ExtensionMap, profile: int | None, block: bytes) -> HeaderExtensions:
    """Return the extensions we know. Raises `Discard(RtpDiscard.EXTENSION)`.

    An element of an unexpected length is left out, as if the peer had not sent it.
    """
    mid: str | None = None
    level: int | None = None
    voice = False
    sequence: int | None = None
    for number, start, end in iterate_elements(profile, block):
        if number == ids.audio_level and end - start == 1:
            level, voice = block[start] & 0x7F, block[start] > 0x7F
        elif number == ids.transport_cc and end - start >= 2:
            sequence = int.from_bytes(block[start : start + 2], "big")
        elif number == ids.mid and end > start:
            # RFC 8843 section 15.1: a token, so anything beyond ASCII cannot match one
            mid = block[start:end].decode("ascii", "replace")
    return HeaderExtensions(mid, level, voice, sequence)


def build_extensions(elements: Mapping[int, bytes]) -> tuple[int, bytes]:
    """Return profile and block (padded to words) holding `{id: value}`.

    The one-byte form is used where every id and length fits it (RFC 8285 section 4.1).
    """
    one_byte = all(number < 15 and 1 <= len(value) <= 16 for number, value in elements.items())
    out = bytearray()
    for number, value in elements.items():
        if not 1 <= number <= 255 or len(value) > 255:
            raise InvalidConfig(f"extension {number} of {len(value)} bytes cannot be written")
        if one_byte:
            out.append(number << 4 | len(value) - 1)
        else:
            out += bytes((number, len(value)))
        out += value
    out += bytes(-len(out) % 4)
    return ONE_BYTE_PROFILE if one_byte else TWO_BYTE_PROFILE, bytes(out)


def learn_layout(ids: ExtensionMap, packet: bytes, end: int) -> ExtensionLayout:
    """Return the shape of a packet whose extension block runs from byte 12 to `end`.

    Everything but the values we read (and those we do not know) is part of the shape. Raises
    `Discard(RtpDiscard.EXTENSION)`.
    """
    profile = int.from_bytes(packet[12:14], "big")
    base = HEADER_LENGTH + 4
    block = packet[base:end]
    mask = bytearray(b"\xff" * (end - HEADER_LENGTH))
    if profile != ONE_BYTE_PROFILE and profile & 0xFFF0 != TWO_BYTE_PROFILE:
        mask[4:] = bytes(len(block))  # nothing in it is known: any content is this shape
    level_at = sequence_at = 0
    for number, start, stop in iterate_elements(profile, block):
        if number == ids.mid:
            continue
        if number == ids.audio_level and stop - start == 1:
            level_at = base + start
        elif number == ids.transport_cc and stop - start >= 2:
            sequence_at = base + start
        for at in range(start, stop):
            mask[4 + at] = 0
    wide = int.from_bytes(mask, "big")
    pattern = int.from_bytes(packet[HEADER_LENGTH:end], "big") & wide
    return ExtensionLayout(end, wide, pattern, level_at, sequence_at)
