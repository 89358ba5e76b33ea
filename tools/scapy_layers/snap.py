"""SNAP's INIT chunk for scapy: what `a=sctp-init` carries in a description.

    SNAPInit.from_sdp("a=sctp-init:AQAAHmzT...")  ─▶ fields ─▶  SNAPInit(...).to_line()

draft-hancke-tsvwg-snap section 4; the chunk is that of RFC 9260 section 3.3.2. scapy's own SCTP
layers stop at parameters that they do not know, such as the one of RFC 9653.
"""

from __future__ import annotations

import struct
from typing import Any, ClassVar, Final

from scapy.fields import (
    ByteEnumField,
    FieldListField,
    IntField,
    PacketListField,
    ShortEnumField,
    ShortField,
    XByteField,
    XIntField,
)

from warp.sctp.chunks import ChunkType
from warp.sctp.parameters import ParameterType
from warp.sdp import decode_sctp_init, encode_sctp_init
from warp_tools.scapy_layers.base import Beside, Packet, RestField, StrictPacket

SCTP_CHUNKS: Final = {int(one): one.name.lower() for one in ChunkType}
SCTP_PARAMETERS: Final = {int(one): one.name.lower() for one in ParameterType}
_PREFIX: Final = "a=sctp-init:"
_HEADER: Final = 4
_FIXED: Final = 20


class _Parameter(StrictPacket):
    """Type, length, value, and padding unless it is the last."""

    def post_build(self, pkt: bytes, pay: bytes) -> bytes:
        """Write the length unless it was given, and pad."""
        if self.length is None:
            pkt = pkt[:2] + struct.pack("!H", len(pkt) & 0xFFFF) + pkt[4:]
        padding = bytes(-len(pkt) % 4) if self.padding is None else self.padding
        return pkt + padding + pay

    def do_dissect(self, s: bytes) -> bytes:
        """Read the value within its length; what the padding holds is kept beside it."""
        length = int.from_bytes(s[2:4], "big")
        if not _HEADER <= length <= len(s) or super().do_dissect(s[:length]):
            raise ValueError("a parameter reaches beyond its chunk")
        behind = length + (-length % 4)
        self.padding = s[length:behind]
        return s[behind:]


def _parameter(kind: ParameterType | int, *value: Any) -> list[Any]:
    return [
        ShortEnumField("type", int(kind), SCTP_PARAMETERS),
        ShortField("length", None),
        *value,
        Beside("padding"),
    ]


class SNAPParameter(_Parameter):
    """A parameter of any type: its value as bytes."""

    name = "SCTP parameter"
    fields_desc = _parameter(0, RestField("value"))


class SNAPForwardTSN(_Parameter):
    """Partial reliability (RFC 3758); has no value."""

    name = "SCTP forward-TSN supported"
    fields_desc = _parameter(ParameterType.FORWARD_TSN_SUPPORTED)


class SNAPZeroChecksum(_Parameter):
    """Packets may come without a checksum; 1: DTLS detects errors (RFC 9653)."""

    name = "SCTP zero checksum"
    fields_desc = _parameter(ParameterType.ZERO_CHECKSUM, IntField("error_detection", 1))


class SNAPSupportedExtensions(_Parameter):
    """Chunk types beyond RFC 9260 (RFC 5061 section 4.2.7)."""

    name = "SCTP supported extensions"
    fields_desc = _parameter(
        ParameterType.SUPPORTED_EXTENSIONS,
        FieldListField(
            "chunks",
            [],
            ByteEnumField("chunk", 0, SCTP_CHUNKS),
            length_from=lambda pkt: pkt.length - _HEADER,
        ),
    )


_LAYERS: Final[dict[int, tuple[type[_Parameter], int | None]]] = {
    ParameterType.FORWARD_TSN_SUPPORTED: (SNAPForwardTSN, 4),
    ParameterType.ZERO_CHECKSUM: (SNAPZeroChecksum, 8),
    ParameterType.SUPPORTED_EXTENSIONS: (SNAPSupportedExtensions, None),
}


def _read_parameter(data: bytes, **options: Any) -> Packet:
    kind, length = struct.unpack_from("!HH", data)
    layer, fixed = _LAYERS.get(kind, (SNAPParameter, None))
    if fixed is not None and length != fixed:
        layer = SNAPParameter
    return layer(data, **options)


class SNAPInit(Packet):
    """An INIT chunk as long as its own length says: nothing pads its last parameter."""

    name = "SNAP INIT"
    fields_desc: ClassVar[list[Any]] = [
        ByteEnumField("type", int(ChunkType.INIT), SCTP_CHUNKS),
        XByteField("flags", 0),
        ShortField("length", None),
        XIntField("initiate_tag", 1),
        IntField("a_rwnd", 5_242_880),
        ShortField("outbound_streams", 65535),
        ShortField("inbound_streams", 65535),
        XIntField("initial_tsn", 1),
        PacketListField(
            "parameters", [], _read_parameter, length_from=lambda pkt: pkt.length - _FIXED
        ),
    ]

    def post_build(self, pkt: bytes, pay: bytes) -> bytes:
        """Write the length unless it was given, and leave the last parameter unpadded."""
        last = self.parameters[-1] if self.parameters else None
        if isinstance(last, _Parameter) and last.padding is None:
            bare = last.copy()
            bare.padding = b""
            pkt = pkt[: len(pkt) - (-len(bytes(bare)) % 4)]
        if self.length is None:
            pkt = pkt[:2] + struct.pack("!H", len(pkt) & 0xFFFF) + pkt[4:]
        return pkt + pay

    @classmethod
    def from_sdp(cls, text: str) -> SNAPInit:
        """Return the chunk of a description, of its `a=sctp-init` line, or of the bare value.

        Raises ValueError when there is none, more than one, or one that is no base64.
        """
        lines = [line.strip() for line in text.splitlines()]
        values = [line.removeprefix(_PREFIX) for line in lines if line.startswith(_PREFIX)]
        if not values and len(lines) == 1 and not lines[0].startswith(("a=", "v=")):
            values = lines
        raw, fault = decode_sctp_init(values)
        if raw is None:
            raise ValueError(fault.value if fault is not None else "there is no a=sctp-init line")
        return cls(raw)

    def to_line(self) -> str:
        """Return the line of a description."""
        return _PREFIX + encode_sctp_init(bytes(self))
