"""DTLS records and handshake headers for scapy (RFC 9147 section 4 and 5.2, RFC 6347 section 4.1).

    DTLS(records=[DTLSPlaintext(content=[DTLSHandshake(body=DTLSClientHello(...))])])
    DTLS(records=[DTLSCiphertext(epoch=2, sequence=0x1234, encrypted=b"...")])

A datagram is a list of records. Protected ones stay shut: `warp pcap decrypt` opens them. Lengths
are computed when they are None; a handshake header's `length` too, unless it is a fragment.
"""

from __future__ import annotations

import struct
from typing import Any, ClassVar, Final

from scapy.fields import (
    BitField,
    ByteEnumField,
    ConditionalField,
    Field,
    FieldLenField,
    PacketField,
    PacketListField,
    ShortField,
    XLongField,
    XShortEnumField,
)
from scapy.packet import Raw

from warp.dtls import Alert
from warp.dtls.record13 import CONNECTION_ID
from warp.dtls.records import ACK, ALERT, APPLICATION_DATA, CHANGE_CIPHER_SPEC, HANDSHAKE
from warp_tools.scapy_layers.base import Beside, Octets, Packet, RestField, StrictPacket, Uint
from warp_tools.scapy_layers.extensions import DTLS_VERSIONS
from warp_tools.scapy_layers.hellos import DTLS_MESSAGES, HANDSHAKE_TYPES

CONTENT_TYPES: Final = {
    CHANGE_CIPHER_SPEC: "change_cipher_spec",
    ALERT: "alert",
    HANDSHAKE: "handshake",
    APPLICATION_DATA: "application_data",
    ACK: "ack",
}
DTLS_ALERTS: Final = {int(one): one.name.lower() for one in Alert}
_HEADER: Final = 12
_RECORD_HEADER: Final = 13


def _read(layer: type[Packet], data: bytes, options: dict[str, Any]) -> Packet:
    """Return `data` under a layer that understands every byte of it, else as bytes."""
    try:
        found = layer(data, **options)
    except Exception:
        # fields raise whatever they like about bytes that are not theirs
        return Raw(data)
    return found if not found.payload else Raw(data)


class _Body(PacketField):
    """The body of a handshake message, or the piece of it that a fragment holds."""

    def __init__(self, name: str) -> None:
        super().__init__(name, None, Raw)

    def getfield(self, pkt: Any, s: bytes) -> tuple[bytes, Packet]:
        """Take as many bytes as the header says."""
        size = pkt.fragment_length
        if len(s) < size:
            raise ValueError("a fragment reaches beyond its record")
        body = s[:size]
        layer = DTLS_MESSAGES.get(pkt.msg_type)
        if layer is None or pkt.fragment_offset or size != pkt.length:
            return s[size:], Raw(body)
        return s[size:], _read(layer, body, {"_parent": pkt})


_TYPE_OF: Final = {layer: kind for kind, layer in DTLS_MESSAGES.items()}


class DTLSHandshake(StrictPacket):
    """A handshake message, or a fragment of one; the type follows from the body's layer."""

    name = "DTLS handshake"
    fields_desc: ClassVar[list[Any]] = [
        ByteEnumField("msg_type", None, HANDSHAKE_TYPES),
        Uint("length", None, 3),
        ShortField("message_seq", 0),
        Uint("fragment_offset", 0, 3),
        Uint("fragment_length", None, 3),
        _Body("body"),
    ]

    def post_build(self, pkt: bytes, pay: bytes) -> bytes:
        """Write the type and the lengths unless they were given."""
        size = (len(pkt) - _HEADER).to_bytes(3, "big")
        if self.msg_type is None:
            pkt = bytes((_TYPE_OF.get(type(self.body), 0),)) + pkt[1:]
        if self.length is None:
            pkt = pkt[:1] + size + pkt[4:]
        if self.fragment_length is None:
            pkt = pkt[:9] + size + pkt[12:]
        return pkt + pay


class DTLSAlert(StrictPacket):
    """An alert (RFC 8446 section 6)."""

    name = "DTLS alert"
    fields_desc: ClassVar[list[Any]] = [
        ByteEnumField("level", 2, {1: "warning", 2: "fatal"}),
        ByteEnumField("description", 0, DTLS_ALERTS),
    ]


class DTLSRecordNumber(StrictPacket):
    """What an ACK names."""

    name = "DTLS record number"
    fields_desc: ClassVar[list[Any]] = [XLongField("epoch", 0), XLongField("sequence", 0)]


class DTLSAck(StrictPacket):
    """An ACK (RFC 9147 section 7)."""

    name = "DTLS ACK"
    fields_desc: ClassVar[list[Any]] = [
        FieldLenField("size", None, length_of="numbers"),
        PacketListField("numbers", [], DTLSRecordNumber, length_from=lambda pkt: pkt.size),
    ]


_CONTENT: Final[dict[int, type[Packet]]] = {ALERT: DTLSAlert, ACK: DTLSAck}


class _Content(PacketListField):
    """What a record in the clear holds."""

    def __init__(self, name: str) -> None:
        super().__init__(name, [], Raw, length_from=lambda pkt: pkt.length)

    def getfield(self, pkt: Any, s: bytes) -> Any:
        """Take as many bytes as the header says; messages, an alert, an ACK, or bytes."""
        if len(s) < pkt.length:
            raise ValueError("a record reaches beyond its datagram")
        data, rest = s[: pkt.length], s[pkt.length :]
        if pkt.epoch == 0 and pkt.type == HANDSHAKE:
            return rest, _messages(data, pkt)
        layer = _CONTENT.get(pkt.type) if pkt.epoch == 0 else None
        if layer is None or not data:
            return rest, [Raw(data)] if data else []
        return rest, [_read(layer, data, {"_parent": pkt})]


def _messages(data: bytes, record: Packet) -> list[Packet]:
    """Return the handshake messages of a record; what makes no sense stays bytes."""
    found: list[Packet] = []
    while data:
        end = _HEADER + int.from_bytes(data[9:12], "big")
        if len(data) < end:
            return [*found, Raw(data)]
        found.append(_read(DTLSHandshake, data[:end], {"_parent": record}))
        data = data[end:]
    return found


class DTLSPlaintext(StrictPacket):
    """A record with a header of 13 bytes: in the clear in epoch 0, protected (1.2) in epoch 1."""

    name = "DTLS record"
    fields_desc: ClassVar[list[Any]] = [
        ByteEnumField("type", HANDSHAKE, CONTENT_TYPES),
        XShortEnumField("version", 0xFEFD, DTLS_VERSIONS),
        ShortField("epoch", 0),
        Uint("sequence", 0, 6),
        ShortField("length", None),
        _Content("content"),
    ]

    def post_build(self, pkt: bytes, pay: bytes) -> bytes:
        """Write the length unless it was given."""
        if self.length is None:
            pkt = pkt[:11] + struct.pack("!H", len(pkt) - _RECORD_HEADER & 0xFFFF) + pkt[13:]
        return pkt + pay


class _Sequence(Field[int, bytes]):
    """The low bits of a record number, still masked: one byte or two, as the S bit says."""

    def addfield(self, pkt: Any, s: Any, val: int | None) -> Any:
        """Append the number."""
        size = 2 if pkt.S else 1
        return s + ((val or 0) & (1 << 8 * size) - 1).to_bytes(size, "big")

    def getfield(self, pkt: Any, s: Any) -> tuple[Any, int]:
        """Take the number off the front."""
        size = 2 if pkt.S else 1
        if len(s) < size:
            raise ValueError("a record ends inside its header")
        return s[size:], int.from_bytes(s[:size], "big")


class _Encrypted(RestField):
    """The protected part: as long as the header says, else to the end of the datagram."""

    def getfield(self, pkt: Any, s: bytes) -> tuple[bytes, bytes]:
        """Take it."""
        size = pkt.length if pkt.L else len(s)
        if len(s) < size:
            raise ValueError("a record reaches beyond its datagram")
        return s[size:], s[:size]


class DTLSCiphertext(StrictPacket):
    """A protected record of DTLS 1.3 under the unified header (RFC 9147 section 4).

    `C`, `S` and `L` say whether there is a connection id, a sequence of 16 bits, a length. How long
    a connection id is stands nowhere on the wire: `DTLSCiphertext.read` is told.
    """

    name = "DTLS 1.3 record"
    fields_desc: ClassVar[list[Any]] = [
        BitField("fixed", 1, 3),
        BitField("C", 0, 1),
        BitField("S", 1, 1),
        BitField("L", 1, 1),
        BitField("epoch", 3, 2),
        Beside("cid_size", 0),
        ConditionalField(
            Octets("connection_id", b"", length_from=lambda pkt: pkt.cid_size),
            lambda pkt: bool(pkt.C),
        ),
        _Sequence("sequence", 0, "2s"),
        ConditionalField(ShortField("length", None), lambda pkt: bool(pkt.L)),
        _Encrypted("encrypted"),
    ]

    def do_dissect(self, s: bytes) -> bytes:
        """Read it, unless a connection id of unknown length makes that impossible."""
        if s[0] & CONNECTION_ID and not self.cid_size:
            raise ValueError("a connection id whose length is not known: DTLSCiphertext.read")
        return super().do_dissect(s)

    @classmethod
    def read(cls, data: bytes, *, cid_size: int) -> DTLSCiphertext:
        """Return a record that has a connection id of so many bytes."""
        record = cls(cid_size=cid_size)
        record.dissect(data)
        return record

    def post_build(self, pkt: bytes, pay: bytes) -> bytes:
        """Write the length unless it was given."""
        if self.L and self.length is None:
            size = len(self.encrypted)
            at = len(pkt) - size - 2
            pkt = pkt[:at] + struct.pack("!H", size & 0xFFFF) + pkt[at + 2 :]
        return pkt + pay


def read_record(data: bytes, **options: Any) -> Packet:
    """Return the first record of `data` (RFC 9147 section 4.1); bytes when it is none."""
    if data[0] >> 5 == 1:
        return DTLSCiphertext(data, **options)
    if data[0] in CONTENT_TYPES:
        return DTLSPlaintext(data, **options)
    return Raw(data)


class DTLS(Packet):
    """A datagram: records, one behind the other."""

    name = "DTLS"
    fields_desc: ClassVar[list[Any]] = [
        PacketListField("records", [], read_record, length_from=lambda pkt: 1 << 16)
    ]

    def mysummary(self) -> str:
        """Name the records."""
        return "DTLS " + " + ".join(_names(self.records))


def _names(records: list[Packet]) -> list[str]:
    found = []
    for record in records:
        if isinstance(record, DTLSPlaintext) and record.epoch == 0:
            messages = [one for one in record.content if isinstance(one, DTLSHandshake)]
            kinds = [HANDSHAKE_TYPES.get(one.msg_type, "handshake") for one in messages]
            found += kinds or [CONTENT_TYPES.get(record.type, f"content {record.type}")]
        else:
            found.append("protected" if not isinstance(record, Raw) else "bytes")
    return found
