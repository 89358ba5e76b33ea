"""RTCP, bytes to values and back (RFC 3550 section 6, RFC 4585 section 6).

    compound = SR or RR, SDES with a CNAME, then feedback or BYE; or, where the descriptions say
    rtcp-rsize, any of them alone (RFC 5506)

`parse_rtcp` checks the frame of the whole compound first (RFC 3550 appendix A.2); a packet with a
good frame and a bad or unknown body becomes `UnknownRtcp`, and its neighbours are kept.
"""

from __future__ import annotations

import enum
import struct
from collections.abc import Callable, Iterable, Sequence
from typing import Final, NamedTuple, TypeAlias

from warp.errors import Discard, InvalidConfig
from warp.rtp.transport_feedback import TransportFeedback, build_feedback, parse_feedback

_WORD: Final = struct.Struct("!I")
_SENDER_INFO: Final = struct.Struct("!IQIII")
_BLOCK: Final = struct.Struct("!II4I")
_NACK_ITEM: Final = struct.Struct("!HH")


class PacketType(enum.IntEnum):
    """RTCP packet types that we know."""

    SR = 200
    RR = 201
    SDES = 202
    BYE = 203
    APP = 204
    RTPFB = 205
    PSFB = 206
    XR = 207


class RtcpDiscard(enum.Enum):
    """Why an RTCP datagram is worthless."""

    TOO_SHORT = "shorter than an RTCP header"
    VERSION = "RTCP version is not 2"
    LENGTH = "lengths of the packets do not add up"
    PADDING = "padding is longer than the packet"
    FIRST_PACKET = "a compound packet must begin with a report"
    BODY = "body does not fit its packet type"


SDES_CNAME: Final = 1
SDES_MID: Final = 15
"""RFC 8843 section 15.2."""
FMT_NACK: Final = 1
FMT_TRANSPORT_CC: Final = 15
FMT_PLI: Final = 1


class ReportBlock(NamedTuple):
    """Reception of one source (RFC 3550 section 6.4.1). `jitter` is in clock ticks."""

    ssrc: int
    fraction_lost: int
    cumulative_lost: int
    highest_sequence: int
    jitter: int
    last_sender_report: int = 0
    delay_since_report: int = 0

    def serialize(self) -> bytes:
        """Return the 24 bytes of the block; the loss count is clamped to 24 bits, signed."""
        lost = max(-0x800000, min(self.cumulative_lost, 0x7FFFFF)) & 0xFFFFFF
        return _BLOCK.pack(
            self.ssrc, self.fraction_lost << 24 | lost, self.highest_sequence & 0xFFFFFFFF,
            self.jitter, self.last_sender_report, self.delay_since_report,
        )  # fmt: skip


class SenderReport(NamedTuple):
    """SR (RFC 3550 section 6.4.1); `ntp` is the 64-bit NTP time."""

    ssrc: int
    ntp: int
    rtp_timestamp: int
    packet_count: int
    octet_count: int
    blocks: tuple[ReportBlock, ...] = ()

    def serialize(self) -> bytes:
        """Return the packet."""
        body = _SENDER_INFO.pack(
            self.ssrc, self.ntp, self.rtp_timestamp,
            self.packet_count & 0xFFFFFFFF, self.octet_count & 0xFFFFFFFF,
        )  # fmt: skip
        body += b"".join(block.serialize() for block in self.blocks)
        return _frame(PacketType.SR, len(self.blocks), body)


class ReceiverReport(NamedTuple):
    """RR (RFC 3550 section 6.4.2)."""

    ssrc: int
    blocks: tuple[ReportBlock, ...] = ()

    def serialize(self) -> bytes:
        """Return the packet."""
        body = _WORD.pack(self.ssrc) + b"".join(block.serialize() for block in self.blocks)
        return _frame(PacketType.RR, len(self.blocks), body)


class SourceDescription(NamedTuple):
    """SDES (RFC 3550 section 6.5): for each source its items, type and text."""

    chunks: tuple[tuple[int, tuple[tuple[int, bytes], ...]], ...]

    def serialize(self) -> bytes:
        """Return the packet."""
        body = b""
        for ssrc, items in self.chunks:
            chunk = _WORD.pack(ssrc)
            for kind, text in items:
                if len(text) > 255:
                    raise InvalidConfig("an SDES item holds at most 255 bytes")
                chunk += bytes((kind, len(text))) + text
            # at least one null octet ends the list, then up to the word (section 6.5)
            body += chunk + bytes(4 - len(chunk) % 4)
        return _frame(PacketType.SDES, len(self.chunks), body)

    def item(self, ssrc: int, kind: int) -> bytes | None:
        """Return the text of the first item of this type, or None."""
        for source, items in self.chunks:
            if source == ssrc:
                for number, text in items:
                    if number == kind:
                        return text
        return None


class Goodbye(NamedTuple):
    """BYE (RFC 3550 section 6.6)."""

    ssrcs: tuple[int, ...]
    reason: bytes = b""

    def serialize(self) -> bytes:
        """Return the packet."""
        body = b"".join(_WORD.pack(ssrc) for ssrc in self.ssrcs)
        if self.reason:
            text = self.reason[:255]
            body += bytes((len(text),)) + text
        return _frame(PacketType.BYE, len(self.ssrcs), body)


class GenericNack(NamedTuple):
    """Sequence numbers (16 bits) that did not arrive (RFC 4585 section 6.2.1)."""

    sender_ssrc: int
    media_ssrc: int
    lost: tuple[int, ...]

    def serialize(self) -> bytes:
        """Return the packet; numbers within 16 of each other share an item."""
        body = struct.pack("!II", self.sender_ssrc, self.media_ssrc)
        rest = list(self.lost)
        while rest:
            first = rest[0]
            bits, later = 0, []
            for number in rest[1:]:
                distance = (number - first) & 0xFFFF
                if 1 <= distance <= 16:
                    bits |= 1 << (distance - 1)
                elif distance:
                    later.append(number)
            body += _NACK_ITEM.pack(first, bits)
            rest = later
        return _frame(PacketType.RTPFB, FMT_NACK, body)


class PictureLossIndication(NamedTuple):
    """PLI (RFC 4585 section 6.3.1). Parsed so that it can be ignored by name."""

    sender_ssrc: int
    media_ssrc: int

    def serialize(self) -> bytes:
        """Return the packet."""
        body = struct.pack("!II", self.sender_ssrc, self.media_ssrc)
        return _frame(PacketType.PSFB, FMT_PLI, body)


class UnknownRtcp(NamedTuple):
    """A packet that is not ours to read: other types (XR, APP, REMB), or a body that is wrong."""

    packet_type: int
    item_count: int
    body: bytes
    malformed: bool = False

    def serialize(self) -> bytes:
        """Return the packet."""
        return _frame(self.packet_type, self.item_count, self.body)


class CongestionFeedback(NamedTuple):
    """Transport-wide arrival times (draft-holmer-rmcat-transport-wide-cc-extensions-01)."""

    sender_ssrc: int
    media_ssrc: int
    feedback: TransportFeedback

    def serialize(self) -> bytes:
        """Return the packet."""
        head = struct.pack("!II", self.sender_ssrc, self.media_ssrc)
        return _frame(PacketType.RTPFB, FMT_TRANSPORT_CC, head + build_feedback(self.feedback))


RtcpPacket: TypeAlias = (
    SenderReport
    | ReceiverReport
    | SourceDescription
    | Goodbye
    | GenericNack
    | PictureLossIndication
    | CongestionFeedback
    | UnknownRtcp
)


def build_rtcp(packets: Iterable[RtcpPacket]) -> bytes:
    """Return one compound datagram. Raises `InvalidConfig` when a field cannot be written."""
    try:
        return b"".join(packet.serialize() for packet in packets)
    except struct.error as error:
        raise InvalidConfig(f"field out of range in an RTCP packet: {error}") from error


def parse_rtcp(data: bytes, *, reduced_size: bool = True) -> list[RtcpPacket]:
    """Return the packets of a compound datagram, or raise `Discard(RtcpDiscard)`.

    Without `reduced_size` the first packet has to be a report (RFC 3550 section 6.1).
    """
    size = len(data)
    if size < 4:
        raise Discard(RtcpDiscard.TOO_SHORT)
    if not reduced_size and data[1] not in (PacketType.SR, PacketType.RR):
        raise Discard(RtcpDiscard.FIRST_PACKET)
    frames: list[tuple[int, int, bytes]] = []
    at = 0
    while at < size:
        if size - at < 4:
            raise Discard(RtcpDiscard.LENGTH)
        first = data[at]
        if first >> 6 != 2:
            raise Discard(RtcpDiscard.VERSION)
        end = at + 4 + 4 * int.from_bytes(data[at + 2 : at + 4], "big")
        if end > size:
            raise Discard(RtcpDiscard.LENGTH)
        body = data[at + 4 : end]
        if first & 0x20:
            # RFC 3550 section 6.4.1 wants whole words, in the last packet only; libwebrtc pads
            # transport feedback by single bytes, and SRTCP has authenticated what we read here
            padding = body[-1] if body else 0
            if not 0 < padding <= len(body):
                raise Discard(RtcpDiscard.PADDING)
            body = body[: len(body) - padding]
        frames.append((data[at + 1], first & 31, body))
        at = end
    return [_parse_body(kind, count, body) for kind, count, body in frames]


def _frame(packet_type: int, count: int, body: bytes) -> bytes:
    if not 0 <= count <= 31:
        raise InvalidConfig("an RTCP packet counts at most 31 items")
    body += bytes(-len(body) % 4)
    return struct.pack("!BBH", 0x80 | count, packet_type, len(body) // 4) + body


def _parse_body(kind: int, count: int, body: bytes) -> RtcpPacket:
    parser = _PARSERS.get(kind)
    if parser is None:
        return UnknownRtcp(kind, count, body)
    try:
        parsed = parser(count, body)
    except (Discard, struct.error, IndexError):
        return UnknownRtcp(kind, count, body, malformed=True)
    return parsed if parsed is not None else UnknownRtcp(kind, count, body)


def _parse_blocks(count: int, body: bytes, start: int) -> tuple[ReportBlock, ...]:
    blocks = []
    for at in range(start, start + 24 * count, 24):
        ssrc, loss, highest, jitter, last, delay = _BLOCK.unpack_from(body, at)
        lost = loss & 0xFFFFFF
        blocks.append(
            ReportBlock(ssrc, loss >> 24, lost - (lost >> 23 << 24), highest, jitter, last, delay)
        )
    return tuple(blocks)


def _parse_sender_report(count: int, body: bytes) -> SenderReport:
    # what follows the blocks is a profile's extension and is skipped (RFC 3550 section 6.4.3)
    ssrc, ntp, timestamp, packets, octets = _SENDER_INFO.unpack_from(body)
    return SenderReport(ssrc, ntp, timestamp, packets, octets, _parse_blocks(count, body, 24))


def _parse_receiver_report(count: int, body: bytes) -> ReceiverReport:
    return ReceiverReport(_WORD.unpack_from(body)[0], _parse_blocks(count, body, 4))


def _parse_source_description(count: int, body: bytes) -> SourceDescription:
    chunks = []
    at = 0
    for _ in range(count):
        ssrc = _WORD.unpack_from(body, at)[0]
        at += 4
        items = []
        while body[at]:
            end = at + 2 + body[at + 1]
            if end > len(body):
                raise Discard(RtcpDiscard.BODY)
            items.append((body[at], body[at + 2 : end]))
            at = end
        at += 4 - at % 4
        if at > len(body):
            raise Discard(RtcpDiscard.BODY)
        chunks.append((ssrc, tuple(items)))
    return SourceDescription(tuple(chunks))


def _parse_goodbye(count: int, body: bytes) -> Goodbye:
    ssrcs = struct.unpack_from(f"!{count}I", body)
    reason = b""
    rest = body[4 * count :]
    if rest:
        reason = rest[1 : 1 + rest[0]]
        if len(reason) != rest[0]:
            raise Discard(RtcpDiscard.BODY)
    return Goodbye(ssrcs, reason)


def _parse_transport_feedback(count: int, body: bytes) -> RtcpPacket | None:
    sender, media = struct.unpack_from("!II", body)
    if count == FMT_TRANSPORT_CC:
        return CongestionFeedback(sender, media, parse_feedback(body[8:]))
    if count == FMT_NACK:
        lost: list[int] = []
        for first, bits in _NACK_ITEM.iter_unpack(body[8:]):
            lost.append(first)
            lost += [(first + 1 + i) & 0xFFFF for i in range(16) if bits >> i & 1]
        return GenericNack(sender, media, tuple(lost))
    return None


def _parse_payload_feedback(count: int, body: bytes) -> PictureLossIndication | None:
    sender, media = struct.unpack_from("!II", body)
    return PictureLossIndication(sender, media) if count == FMT_PLI else None


_Parser: TypeAlias = Callable[[int, bytes], "RtcpPacket | None"]
_PARSERS: Final[dict[int, _Parser]] = {
    PacketType.SR: _parse_sender_report,
    PacketType.RR: _parse_receiver_report,
    PacketType.SDES: _parse_source_description,
    PacketType.BYE: _parse_goodbye,
    PacketType.RTPFB: _parse_transport_feedback,
    PacketType.PSFB: _parse_payload_feedback,
}


def lost_sequences(packets: Sequence[RtcpPacket], media_ssrc: int) -> list[int]:
    """Return what the NACKs among `packets` ask of one source, without repeats, in order."""
    asked: dict[int, None] = {}
    for packet in packets:
        if isinstance(packet, GenericNack) and packet.media_ssrc == media_ssrc:
            asked.update(dict.fromkeys(packet.lost))
    return list(asked)
