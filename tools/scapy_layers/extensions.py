"""Extensions of DTLS hellos for scapy (RFC 8446 section 4.2, RFC 5764 section 4.1.1).

    DTLSSupportedVersions(versions=[0xFEFC, 0xFEFD])  DTLSKeyShares(shares=[DTLSKeyShare(...)])

Those that decide how a WebRTC call starts have layers of their own, the others keep their bytes.
Lengths are computed when they are None. Numbers have the names of `warp.dtls` and `warp.crypto`.
"""

from __future__ import annotations

import struct
from typing import Any, Final

from scapy.fields import (
    FieldLenField,
    FieldListField,
    PacketListField,
    ShortEnumField,
    ShortField,
    XShortEnumField,
)
from scapy.packet import Raw

from warp.crypto import NamedGroup, SignatureScheme
from warp.dtls.extensions import ExtensionType
from warp.dtls.suites import CipherSuite, DtlsVersion
from warp.srtp import SrtpProfile
from warp_tools.scapy_layers.base import Octets, Packet, RestField, StrictPacket

DTLS_EXTENSIONS: Final = {int(one): one.name.lower() for one in ExtensionType}
DTLS_GROUPS: Final = {int(one): one.name for one in NamedGroup}
DTLS_SCHEMES: Final = {int(one): one.name.lower() for one in SignatureScheme}
DTLS_SUITES: Final = {int(one): one.name for one in CipherSuite}
DTLS_VERSIONS: Final = {0xFEFF: "DTLS 1.0", **{int(one): one.name for one in DtlsVersion}}
SRTP_PROFILES: Final = {int(one): one.name for one in SrtpProfile}
_HEADER: Final = 4


def numbers(name: str, default: list[int], names: dict[int, str], length_of: str) -> FieldListField:
    """Return a list of 16-bit numbers whose length in bytes stands in another field."""
    values: Any = default
    return FieldListField(
        name,
        values,
        XShortEnumField(name, 0, names),
        length_from=lambda pkt: pkt.getfieldval(length_of),
    )


class _Extension(StrictPacket):
    """Type, length, body. Subclasses declare what the body is."""

    def post_build(self, pkt: bytes, pay: bytes) -> bytes:
        """Write the length unless it was given."""
        if self.length is None:
            pkt = pkt[:2] + struct.pack("!H", len(pkt) - _HEADER & 0xFFFF) + pkt[4:]
        return pkt + pay

    def do_dissect(self, s: bytes) -> bytes:
        """Read the body within its length."""
        end = _HEADER + int.from_bytes(s[2:4], "big")
        if len(s) < end or super().do_dissect(s[:end]):
            raise ValueError("an extension reaches beyond its block")
        return s[end:]


def _extension(kind: ExtensionType | int, *body: Any) -> list[Any]:
    return [
        ShortEnumField("type", int(kind), DTLS_EXTENSIONS),
        ShortField("length", None),
        *body,
    ]


class DTLSExtension(_Extension):
    """An extension of any type: its body as bytes."""

    name = "DTLS extension"
    fields_desc = _extension(0, RestField("data"))


class DTLSSupportedVersions(_Extension):
    """Of a ClientHello: what it can do, in its order."""

    name = "DTLS supported_versions"
    fields_desc = _extension(
        ExtensionType.SUPPORTED_VERSIONS,
        FieldLenField("size", None, fmt="B", length_of="versions"),
        numbers("versions", [0xFEFC, 0xFEFD], DTLS_VERSIONS, "size"),
    )


class DTLSSelectedVersion(_Extension):
    """Of a ServerHello: what it chose."""

    name = "DTLS supported_versions (chosen)"
    fields_desc = _extension(
        ExtensionType.SUPPORTED_VERSIONS, XShortEnumField("version", 0xFEFC, DTLS_VERSIONS)
    )


class DTLSSupportedGroups(_Extension):
    """Groups for the key agreement, the preferred first."""

    name = "DTLS supported_groups"
    fields_desc = _extension(
        ExtensionType.SUPPORTED_GROUPS,
        FieldLenField("size", None, length_of="groups"),
        numbers("groups", [int(NamedGroup.X25519)], DTLS_GROUPS, "size"),
    )


class DTLSSignatureAlgorithms(_Extension):
    """Signature schemes that the sender can verify."""

    name = "DTLS signature_algorithms"
    fields_desc = _extension(
        ExtensionType.SIGNATURE_ALGORITHMS,
        FieldLenField("size", None, length_of="schemes"),
        numbers("schemes", [0x0403], DTLS_SCHEMES, "size"),
    )


class DTLSKeyShare(StrictPacket):
    """One share: a group and the public key in it."""

    name = "DTLS key share"
    fields_desc = [  # noqa: RUF012 - scapy's way to declare a layer
        XShortEnumField("group", int(NamedGroup.X25519), DTLS_GROUPS),
        FieldLenField("size", None, length_of="key"),
        Octets("key", b"", length_from=lambda pkt: pkt.size),
    ]


class DTLSKeyShares(_Extension):
    """Of a ClientHello: a share for each group that it bets on."""

    name = "DTLS key_share"
    fields_desc = _extension(
        ExtensionType.KEY_SHARE,
        FieldLenField("size", None, length_of="shares"),
        PacketListField("shares", [], DTLSKeyShare, length_from=lambda pkt: pkt.size),
    )


class DTLSServerKeyShare(_Extension):
    """Of a ServerHello: the server's share."""

    name = "DTLS key_share (server)"
    fields_desc = _extension(
        ExtensionType.KEY_SHARE,
        XShortEnumField("group", int(NamedGroup.X25519), DTLS_GROUPS),
        FieldLenField("size", None, length_of="key"),
        Octets("key", b"", length_from=lambda pkt: pkt.size),
    )


class DTLSSelectedGroup(_Extension):
    """Of a HelloRetryRequest: the group that it wants a share of."""

    name = "DTLS key_share (wanted)"
    fields_desc = _extension(
        ExtensionType.KEY_SHARE,
        XShortEnumField("group", int(NamedGroup.X25519), DTLS_GROUPS),
    )


class DTLSUseSRTP(_Extension):
    """SRTP protection profiles; an answer has one."""

    name = "DTLS use_srtp"
    fields_desc = _extension(
        ExtensionType.USE_SRTP,
        FieldLenField("size", None, length_of="profiles"),
        numbers("profiles", [int(SrtpProfile.AEAD_AES_128_GCM)], SRTP_PROFILES, "size"),
        FieldLenField("mki_size", None, fmt="B", length_of="mki"),
        Octets("mki", b"", length_from=lambda pkt: pkt.mki_size),
    )


class DTLSCookie(_Extension):
    """The cookie of a HelloRetryRequest, and of the ClientHello that answers it."""

    name = "DTLS cookie"
    fields_desc = _extension(
        ExtensionType.COOKIE,
        FieldLenField("size", None, length_of="cookie"),
        Octets("cookie", b"", length_from=lambda pkt: pkt.size),
    )


_BOTH: Final[dict[int, type[_Extension]]] = {
    ExtensionType.SUPPORTED_GROUPS: DTLSSupportedGroups,
    ExtensionType.SIGNATURE_ALGORITHMS: DTLSSignatureAlgorithms,
    ExtensionType.USE_SRTP: DTLSUseSRTP,
    ExtensionType.COOKIE: DTLSCookie,
}
_CLIENT: Final[dict[int, type[_Extension]]] = {
    **_BOTH,
    ExtensionType.SUPPORTED_VERSIONS: DTLSSupportedVersions,
    ExtensionType.KEY_SHARE: DTLSKeyShares,
}
_SERVER: Final[dict[int, type[_Extension]]] = {
    **_BOTH,
    ExtensionType.SUPPORTED_VERSIONS: DTLSSelectedVersion,
    ExtensionType.KEY_SHARE: DTLSServerKeyShare,
}
_RETRY_LENGTH: Final = 2


def _read(data: bytes, layers: dict[int, type[_Extension]], options: dict[str, Any]) -> Packet:
    kind, length = struct.unpack_from("!HH", data)
    layer = layers.get(kind, DTLSExtension)
    if layer is DTLSServerKeyShare and length == _RETRY_LENGTH:
        layer = DTLSSelectedGroup
    try:
        found = layer(data, **options)
    except Exception:
        # fields raise whatever they like about bytes that are not theirs
        return DTLSExtension(data, **options)
    return DTLSExtension(data, **options) if found.haslayer(Raw) else found


def read_client_extension(data: bytes, **options: Any) -> Packet:
    """Return the first extension of `data`, as a ClientHello means it."""
    return _read(data, _CLIENT, options)


def read_server_extension(data: bytes, **options: Any) -> Packet:
    """Return the first extension of `data`, as a ServerHello means it."""
    return _read(data, _SERVER, options)
