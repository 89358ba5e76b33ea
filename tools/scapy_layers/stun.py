"""STUN for scapy (RFC 8489), with the attributes of ICE (RFC 8445) and SPED.

    STUN(key=b"ice-pwd", attributes=[
        STUNUsername(value="remote:local"), STUNPriority(), STUNDtls(value=hello),
        STUNMessageIntegrity(), STUNFingerprint()])

MESSAGE-INTEGRITY and FINGERPRINT without a value are computed when the packet is built, lengths and
padding too. Codes, digests and the form of addresses are those of `warp.stun`.
"""

from __future__ import annotations

import struct
from typing import Any, ClassVar, Final

from scapy.fields import (
    ByteEnumField,
    ByteField,
    FieldListField,
    IntField,
    PacketListField,
    ShortEnumField,
    ShortField,
    StrFixedLenField,
    XIntField,
    XLongField,
)

from warp.crypto import HmacSha1
from warp.errors import Discard
from warp.stun import (
    FINGERPRINT_ATTRIBUTE_BYTES,
    HEADER_BYTES,
    INTEGRITY_ATTRIBUTE_BYTES,
    MAGIC_COOKIE,
    Attribute,
    decode_xor_address,
    encode_xor_address,
)
from warp.stun.integrity import fingerprint_of
from warp_tools.scapy_layers.base import Beside, Octets, Packet, RestField, StrictPacket
from warp_tools.scapy_layers.dtls import DTLS

_METHODS: Final = {
    0x001: "Binding",
    0x003: "Allocate",
    0x004: "Refresh",
    0x006: "Send",
    0x007: "Data",
    0x008: "CreatePermission",
    0x009: "ChannelBind",
}
_CLASSES: Final = {
    0x000: "request",
    0x010: "indication",
    0x100: "success response",
    0x110: "error response",
}
STUN_TYPES: Final = {
    method & 0xF | (method & 0x70) << 1 | kind: f"{name} {of}"
    for method, name in _METHODS.items()
    for kind, of in _CLASSES.items()
}
STUN_ATTRIBUTES: Final = {int(one): one.name.replace("_", "-") for one in Attribute}
_ATTRIBUTE_HEADER: Final = 4


def _pads(length: int) -> int:
    return -length % 4


class _Attribute(StrictPacket):
    """Type, length, value, padding. Subclasses declare what the value is."""

    def post_build(self, pkt: bytes, pay: bytes) -> bytes:
        """Write the length unless it was given, and pad."""
        size = len(pkt) - _ATTRIBUTE_HEADER
        if self.length is None:
            pkt = pkt[:2] + struct.pack("!H", size & 0xFFFF) + pkt[4:]
        padding = bytes(_pads(size)) if self.padding is None else self.padding
        return pkt + padding + pay

    def do_dissect(self, s: bytes) -> bytes:
        """Read the value within its length; what the padding holds is kept beside it."""
        length = int.from_bytes(s[2:4], "big")
        end = _ATTRIBUTE_HEADER + length
        if len(s) < end or super().do_dissect(s[:end]):
            raise ValueError("an attribute reaches beyond its message")
        behind = end + _pads(length)
        self.padding = s[end:behind]
        return s[behind:]


def _attribute(kind: Attribute | int, *value: Any) -> list[Any]:
    return [
        ShortEnumField("type", int(kind), STUN_ATTRIBUTES),
        ShortField("length", None),
        *value,
        Beside("padding"),
    ]


class Digest(Octets):
    """A value that is computed by the message around it, as long as it is None."""

    __slots__ = ("blank",)

    def __init__(self, name: str, size: int) -> None:
        super().__init__(name, bytes(size), length_from=lambda pkt: pkt.length)
        self.default = None
        self.blank = bytes(size)

    def addfield(self, pkt: Any, s: bytes, val: bytes | None) -> bytes:
        """Append the value, or zeros in its place."""
        return s + (self.blank if val is None else val)


class STUNAttribute(_Attribute):
    """An attribute of any type: its value as bytes."""

    name = "STUN attribute"
    fields_desc = _attribute(0, RestField("value"))


class STUNUsername(_Attribute):
    """Of a check: `remote ufrag:local ufrag` (RFC 8445 section 7.2.2)."""

    name = "STUN USERNAME"
    fields_desc = _attribute(Attribute.USERNAME, RestField("value"))


class STUNSoftware(_Attribute):
    """Who wrote the sender."""

    name = "STUN SOFTWARE"
    fields_desc = _attribute(Attribute.SOFTWARE, RestField("value"))


class STUNPriority(_Attribute):
    """What a peer-reflexive candidate would get (RFC 8445 section 7.1.1)."""

    name = "STUN PRIORITY"
    fields_desc = _attribute(Attribute.PRIORITY, IntField("value", 0x6E001EFF))


class STUNUseCandidate(_Attribute):
    """Nominates the pair; has no value."""

    name = "STUN USE-CANDIDATE"
    fields_desc = _attribute(Attribute.USE_CANDIDATE)


class STUNIceControlled(_Attribute):
    """The sender's role and its tie-breaker."""

    name = "STUN ICE-CONTROLLED"
    fields_desc = _attribute(Attribute.ICE_CONTROLLED, XLongField("value", 0))


class STUNIceControlling(_Attribute):
    """The sender's role and its tie-breaker."""

    name = "STUN ICE-CONTROLLING"
    fields_desc = _attribute(Attribute.ICE_CONTROLLING, XLongField("value", 0))


class STUNErrorCode(_Attribute):
    """`code` is hundreds * 100 + number."""

    name = "STUN ERROR-CODE"
    fields_desc = _attribute(
        Attribute.ERROR_CODE,
        ShortField("reserved", 0),
        ByteField("hundreds", 4),
        ByteField("number", 0),
        RestField("reason"),
    )

    @property
    def code(self) -> int:
        """The code that a person reads, e.g. 487."""
        return int(self.hundreds) * 100 + int(self.number)


class STUNXorMappedAddress(_Attribute):
    """Where the request came from. Set and read it with `of` and `address`."""

    name = "STUN XOR-MAPPED-ADDRESS"
    fields_desc = _attribute(
        Attribute.XOR_MAPPED_ADDRESS,
        ByteField("reserved", 0),
        ByteEnumField("family", 1, {1: "IPv4", 2: "IPv6"}),
        RestField("masked", bytes(6)),
    )

    @classmethod
    def of(cls, host: str, port: int, transaction_id: bytes = bytes(12)) -> STUNXorMappedAddress:
        """Return the attribute for an address; the transaction id counts for IPv6 only."""
        value = encode_xor_address((host, port), transaction_id)
        return cls(family=value[1], masked=value[2:])

    def address(self, transaction_id: bytes | None = None) -> tuple[str, int] | None:
        """Return (host, port), or None when the value is none; inside a STUN its id is known."""
        if transaction_id is None:
            parent = self.parent
            transaction_id = parent.transaction_id if isinstance(parent, STUN) else bytes(12)
        try:
            return decode_xor_address(
                bytes((self.reserved, self.family)) + self.masked, transaction_id
            )
        except Discard:
            return None


class STUNDtls(_Attribute):
    """META-DTLS-IN-STUN: one DTLS datagram, or nothing (draft-hancke-webrtc-sped section 3.3)."""

    name = "STUN META-DTLS-IN-STUN"
    fields_desc = _attribute(Attribute.META_DTLS_IN_STUN, RestField("value"))

    @property
    def dtls(self) -> DTLS:
        """The datagram as a layer."""
        return DTLS(self.value)


class STUNDtlsAck(_Attribute):
    """META-DTLS-IN-STUN-ACKNOWLEDGEMENT: CRC-32 of received datagrams, four at most."""

    name = "STUN META-DTLS-IN-STUN-ACKNOWLEDGEMENT"
    fields_desc = _attribute(
        Attribute.META_DTLS_IN_STUN_ACKNOWLEDGEMENT,
        FieldListField("hashes", [], XIntField("hash", 0), count_from=lambda pkt: pkt.length // 4),
        RestField("rest"),
    )


class STUNNetworkInfo(_Attribute):
    """GOOG-NETWORK-INFO: libwebrtc's network id and cost."""

    name = "STUN GOOG-NETWORK-INFO"
    fields_desc = _attribute(
        Attribute.GOOG_NETWORK_INFO,
        ShortField("network_id", 0),
        ShortField("network_cost", 0),
    )


class STUNMessageIntegrity(_Attribute):
    """HMAC-SHA1 over what stands before it; None: computed with the key of the STUN."""

    name = "STUN MESSAGE-INTEGRITY"
    fields_desc = _attribute(Attribute.MESSAGE_INTEGRITY, Digest("value", 20))


class STUNFingerprint(_Attribute):
    """CRC-32 of what stands before it; None: computed."""

    name = "STUN FINGERPRINT"
    fields_desc = _attribute(Attribute.FINGERPRINT, XIntField("value", None))


_FIXED: Final = {
    STUNPriority: 4,
    STUNUseCandidate: 0,
    STUNIceControlled: 8,
    STUNIceControlling: 8,
    STUNNetworkInfo: 4,
    STUNFingerprint: 4,
}
_VARIABLE: Final = (
    STUNUsername,
    STUNSoftware,
    STUNErrorCode,
    STUNXorMappedAddress,
    STUNDtls,
    STUNDtlsAck,
    STUNMessageIntegrity,
)
STUN_LAYERS: Final[dict[int, type[_Attribute]]] = {
    int(layer.fields_desc[0].default or 0): layer for layer in (*_FIXED, *_VARIABLE)
}
"""The layer of each attribute that has one of its own."""


def _read_attribute(data: bytes, **options: Any) -> Packet:
    """Return the first attribute of `data`: under its own layer where its length allows that."""
    kind, length = struct.unpack_from("!HH", data)
    layer = STUN_LAYERS.get(kind, STUNAttribute)
    if _FIXED.get(layer, length) != length:
        layer = STUNAttribute
    return layer(data, **options)


class STUN(Packet):
    """A STUN message; `key` is the password that MESSAGE-INTEGRITY is computed with."""

    name = "STUN"
    fields_desc: ClassVar[list[Any]] = [
        ShortEnumField("type", 0x0001, STUN_TYPES),
        ShortField("length", None),
        XIntField("cookie", MAGIC_COOKIE),
        StrFixedLenField("transaction_id", bytes(12), 12),
        PacketListField("attributes", [], _read_attribute, length_from=lambda pkt: pkt.length),
        Beside("key"),
    ]

    def post_build(self, pkt: bytes, pay: bytes) -> bytes:
        """Write the length, MESSAGE-INTEGRITY and FINGERPRINT, as far as they were not given."""
        if self.length is None:
            pkt = pkt[:2] + struct.pack("!H", len(pkt) - HEADER_BYTES & 0xFFFF) + pkt[4:]
        at = HEADER_BYTES
        for attribute in self.attributes:
            size = len(bytes(attribute))
            if isinstance(attribute, STUNMessageIntegrity) and attribute.value is None:
                digest = self._integrity(pkt[:at])
                pkt = pkt[: at + 4] + digest + pkt[at + INTEGRITY_ATTRIBUTE_BYTES :]
            elif isinstance(attribute, STUNFingerprint) and attribute.value is None:
                value = fingerprint_of(_counting(pkt[:at], FINGERPRINT_ATTRIBUTE_BYTES))
                pkt = pkt[: at + 4] + value.to_bytes(4, "big") + pkt[at + 8 :]
            at += size
        return pkt + pay

    def _integrity(self, head: bytes) -> bytes:
        if self.key is None:
            raise ValueError(
                "MESSAGE-INTEGRITY has no value and there is no key to compute it with: "
                "give STUN(key=...) the password"
            )
        key = self.key.encode() if isinstance(self.key, str) else bytes(self.key)
        return HmacSha1(key).digest(_counting(head, INTEGRITY_ATTRIBUTE_BYTES))

    def get_attribute(self, layer: type[Packet]) -> Packet | None:
        """Return the first attribute of a layer, or None."""
        return next((one for one in self.attributes if isinstance(one, layer)), None)

    def mysummary(self) -> str:
        """Say what it is and what rides in it."""
        name = STUN_TYPES.get(self.type, f"type 0x{self.type:04x}")
        rider = self.get_attribute(STUNDtls)
        return f"STUN {name}" + (f", {len(rider.value)} bytes of DTLS" if rider else "")


def _counting(head: bytes, attribute_bytes: int) -> bytes:
    """Return `head` as digests cover it: its length counts the attribute that follows."""
    length = len(head) - HEADER_BYTES + attribute_bytes
    return head[:2] + struct.pack("!H", length & 0xFFFF) + head[4:]
