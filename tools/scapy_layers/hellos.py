"""Handshake messages of DTLS for scapy: bodies, without the header that `dtls` puts in front.

RFC 9147 section 5 (1.3), RFC 6347 section 4.2 (1.2). The hellos with their extensions as fields,
and those that a capture shows in the clear; whatever else there is stays bytes.
"""

from __future__ import annotations

from typing import Any, ClassVar, Final

from scapy.fields import (
    ByteField,
    FieldLenField,
    PacketListField,
    ShortField,
    StrFixedLenField,
    XShortEnumField,
)

from warp.dtls.hello import RETRY_REQUEST_RANDOM
from warp.dtls.messages import HandshakeType
from warp_tools.scapy_layers.base import Octets, Packet, RestField, StrictPacket, Uint
from warp_tools.scapy_layers.extensions import (
    DTLS_GROUPS,
    DTLS_SCHEMES,
    DTLS_SUITES,
    DTLS_VERSIONS,
    numbers,
    read_client_extension,
    read_server_extension,
)

HANDSHAKE_TYPES: Final = {int(one): one.name.lower() for one in HandshakeType}


class _Size16(ShortField):
    """The length of the extensions; with None they may be absent altogether (RFC 5246 7.4.1.2)."""

    def addfield(self, pkt: Any, s: Any, val: int | None) -> Any:
        """Append the length unless there is nothing to be long."""
        if val is None:
            extensions = pkt.getfieldval("extensions")
            if not extensions:
                return s
            val = sum(len(bytes(one)) for one in extensions)
        return super().addfield(pkt, s, val)

    def getfield(self, pkt: Any, s: Any) -> Any:
        """Take the length, if there is one."""
        return (s, None) if len(s) < 2 else super().getfield(pkt, s)


class DTLSClientHello(StrictPacket):
    """A ClientHello; `cookie` is that of DTLS 1.2, 1.3 has it in an extension."""

    name = "DTLS ClientHello"
    fields_desc: ClassVar[list[Any]] = [
        XShortEnumField("version", 0xFEFD, DTLS_VERSIONS),
        StrFixedLenField("random", bytes(32), 32),
        FieldLenField("session_id_size", None, fmt="B", length_of="session_id"),
        Octets("session_id", b"", length_from=lambda pkt: pkt.session_id_size),
        FieldLenField("cookie_size", None, fmt="B", length_of="cookie"),
        Octets("cookie", b"", length_from=lambda pkt: pkt.cookie_size),
        FieldLenField("suites_size", None, length_of="suites"),
        numbers("suites", [0x1301], DTLS_SUITES, "suites_size"),
        FieldLenField("compressions_size", None, fmt="B", length_of="compressions"),
        Octets("compressions", b"\0", length_from=lambda pkt: pkt.compressions_size),
        _Size16("extensions_size", None),
        PacketListField(
            "extensions",
            [],
            read_client_extension,
            length_from=lambda pkt: pkt.extensions_size or 0,
        ),
    ]


class DTLSServerHello(StrictPacket):
    """A ServerHello, or a HelloRetryRequest, which has a random of its own."""

    name = "DTLS ServerHello"
    fields_desc: ClassVar[list[Any]] = [
        XShortEnumField("version", 0xFEFD, DTLS_VERSIONS),
        StrFixedLenField("random", bytes(32), 32),
        FieldLenField("session_id_size", None, fmt="B", length_of="session_id"),
        Octets("session_id", b"", length_from=lambda pkt: pkt.session_id_size),
        XShortEnumField("suite", 0x1301, DTLS_SUITES),
        ByteField("compression", 0),
        _Size16("extensions_size", None),
        PacketListField(
            "extensions",
            [],
            read_server_extension,
            length_from=lambda pkt: pkt.extensions_size or 0,
        ),
    ]

    @property
    def is_retry_request(self) -> bool:
        """Whether this is a HelloRetryRequest (RFC 8446 section 4.1.4)."""
        return bool(self.random == RETRY_REQUEST_RANDOM)


class DTLSHelloVerifyRequest(StrictPacket):
    """The cookie exchange of DTLS 1.2."""

    name = "DTLS HelloVerifyRequest"
    fields_desc: ClassVar[list[Any]] = [
        XShortEnumField("version", 0xFEFF, DTLS_VERSIONS),
        FieldLenField("cookie_size", None, fmt="B", length_of="cookie"),
        Octets("cookie", b"", length_from=lambda pkt: pkt.cookie_size),
    ]


class DTLSEncryptedExtensions(StrictPacket):
    """The extensions that a DTLS 1.3 server answers under protection."""

    name = "DTLS EncryptedExtensions"
    fields_desc: ClassVar[list[Any]] = [
        FieldLenField("extensions_size", None, length_of="extensions"),
        PacketListField(
            "extensions", [], read_server_extension, length_from=lambda pkt: pkt.extensions_size
        ),
    ]


class DTLSCertificateEntry(StrictPacket):
    """One certificate, DER."""

    name = "DTLS certificate"
    fields_desc: ClassVar[list[Any]] = [
        Uint("size", None, 3),
        Octets("der", b"", length_from=lambda pkt: pkt.size),
    ]

    def post_build(self, pkt: bytes, pay: bytes) -> bytes:
        """Write the length unless it was given."""
        if self.size is None:
            pkt = len(self.der).to_bytes(3, "big") + pkt[3:]
        return pkt + pay


class DTLSCertificate(StrictPacket):
    """The certificates of DTLS 1.2; 1.3 has another form, which stays bytes."""

    name = "DTLS Certificate"
    fields_desc: ClassVar[list[Any]] = [
        Uint("size", None, 3),
        PacketListField("certificates", [], DTLSCertificateEntry, length_from=lambda pkt: pkt.size),
    ]

    def post_build(self, pkt: bytes, pay: bytes) -> bytes:
        """Write the length unless it was given."""
        if self.size is None:
            pkt = (len(pkt) - 3).to_bytes(3, "big") + pkt[3:]
        return pkt + pay


class DTLSServerKeyExchange(StrictPacket):
    """The ephemeral key of a DTLS 1.2 server, and its signature (RFC 8422 section 5.4)."""

    name = "DTLS ServerKeyExchange"
    fields_desc: ClassVar[list[Any]] = [
        ByteField("curve_type", 3),
        XShortEnumField("group", 0x001D, DTLS_GROUPS),
        FieldLenField("public_size", None, fmt="B", length_of="public"),
        Octets("public", b"", length_from=lambda pkt: pkt.public_size),
        XShortEnumField("scheme", 0x0403, DTLS_SCHEMES),
        FieldLenField("signature_size", None, length_of="signature"),
        Octets("signature", b"", length_from=lambda pkt: pkt.signature_size),
    ]


class DTLSClientKeyExchange(StrictPacket):
    """The ephemeral key of a DTLS 1.2 client."""

    name = "DTLS ClientKeyExchange"
    fields_desc: ClassVar[list[Any]] = [
        FieldLenField("public_size", None, fmt="B", length_of="public"),
        Octets("public", b"", length_from=lambda pkt: pkt.public_size),
    ]


class DTLSCertificateVerify(StrictPacket):
    """The signature that proves who holds the certificate's key."""

    name = "DTLS CertificateVerify"
    fields_desc: ClassVar[list[Any]] = [
        XShortEnumField("scheme", 0x0403, DTLS_SCHEMES),
        FieldLenField("signature_size", None, length_of="signature"),
        Octets("signature", b"", length_from=lambda pkt: pkt.signature_size),
    ]


class DTLSFinished(StrictPacket):
    """The sum of the handshake."""

    name = "DTLS Finished"
    fields_desc: ClassVar[list[Any]] = [RestField("verify_data")]


class DTLSKeyUpdate(StrictPacket):
    """New keys; `request` asks the peer for the same."""

    name = "DTLS KeyUpdate"
    fields_desc: ClassVar[list[Any]] = [ByteField("request", 0)]


DTLS_MESSAGES: Final[dict[int, type[Packet]]] = {
    HandshakeType.CLIENT_HELLO: DTLSClientHello,
    HandshakeType.SERVER_HELLO: DTLSServerHello,
    HandshakeType.HELLO_VERIFY_REQUEST: DTLSHelloVerifyRequest,
    HandshakeType.ENCRYPTED_EXTENSIONS: DTLSEncryptedExtensions,
    HandshakeType.CERTIFICATE: DTLSCertificate,
    HandshakeType.SERVER_KEY_EXCHANGE: DTLSServerKeyExchange,
    HandshakeType.CLIENT_KEY_EXCHANGE: DTLSClientKeyExchange,
    HandshakeType.CERTIFICATE_VERIFY: DTLSCertificateVerify,
    HandshakeType.FINISHED: DTLSFinished,
    HandshakeType.KEY_UPDATE: DTLSKeyUpdate,
}
"""The layer of each message that has one of its own."""
