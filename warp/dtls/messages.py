"""Bodies of the handshake messages after the hellos, of both versions.

RFC 8446 sections 4.3 to 4.6 (DTLS 1.3 takes them over: RFC 9147 section 5), RFC 5246 section 7.4
and RFC 8422 section 5.4 (DTLS 1.2). Called by the client and server machines. A decoder returns
plain values, or raises `HandshakeFault` with decode_error.

                        1.3                                  1.2
    client hello ─────────▶                    client hello ───────────▶
       ◀── server hello, encrypted extensions,    ◀── server hello, certificate, server key
           certificate request, certificate,          exchange, certificate request,
           certificate verify, finished               server hello done
    certificate, certificate verify,           certificate, client key exchange,
    finished ─────────────▶                    certificate verify, [ccs] finished ──▶
       ◀── (ack)                                  ◀── [ccs] finished
"""

from __future__ import annotations

import enum
import struct
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Final, NamedTuple

from warp.dtls import extensions as ext
from warp.dtls.extensions import ExtensionType, strict
from warp.dtls.faults import Alert, DtlsRule, misbehaved
from warp.octets import OctetsError, Reader, vector8, vector16, vector24


class HandshakeType(enum.IntEnum):
    """Types of handshake messages (IANA registry)."""

    HELLO_REQUEST = 0
    CLIENT_HELLO = 1
    SERVER_HELLO = 2
    HELLO_VERIFY_REQUEST = 3
    NEW_SESSION_TICKET = 4
    REQUEST_CONNECTION_ID = 9
    NEW_CONNECTION_ID = 10
    ENCRYPTED_EXTENSIONS = 8
    CERTIFICATE = 11
    SERVER_KEY_EXCHANGE = 12
    CERTIFICATE_REQUEST = 13
    SERVER_HELLO_DONE = 14
    CERTIFICATE_VERIFY = 15
    CLIENT_KEY_EXCHANGE = 16
    FINISHED = 20
    KEY_UPDATE = 24
    MESSAGE_HASH = 254


# DTLS 1.3 ---------------------------------------------------------------------------------------


@lru_cache(ext.REMEMBERED)
@strict("RFC 8446 section 4.3.1", "EncryptedExtensions")
def decode_encrypted_extensions(body: bytes) -> Mapping[int, bytes]:
    """Return the extensions."""
    reader = Reader(body)
    found = ext.decode_extensions(reader.vector16())
    reader.expect_end()
    return found


@lru_cache(ext.REMEMBERED)
@strict("RFC 8446 section 4.3.2", "CertificateRequest")
def decode_certificate_request13(body: bytes) -> tuple[bytes, tuple[int, ...]]:
    """Return the context and the signature schemes; other extensions say nothing to us."""
    reader = Reader(body)
    context = reader.vector8()
    found = ext.decode_extensions(reader.vector16())
    reader.expect_end()
    schemes = ext.require(found, ExtensionType.SIGNATURE_ALGORITHMS, "RFC 8446 section 4.3.2")
    return context, ext.decode_u16_list(schemes)


def encode_certificate_request13(schemes: Iterable[int]) -> bytes:
    """Return a request with an empty context, as during a handshake."""
    algorithms = (ExtensionType.SIGNATURE_ALGORITHMS, ext.encode_u16_list(schemes))
    return b"\x00" + ext.encode_extensions((algorithms,))


@lru_cache(ext.REMEMBERED)
@strict("RFC 8446 section 4.4.2", "Certificate")
def decode_certificate13(body: bytes) -> tuple[bytes, tuple[bytes, ...]]:
    """Return the context and the DER certificates, the peer's own first.

    We offer none of the extensions that a certificate may carry, so any is unsolicited.
    """
    outer = Reader(body)
    context = outer.vector8()
    reader = Reader(outer.vector24())
    outer.expect_end()
    chain: list[bytes] = []
    while reader.remaining():
        chain.append(_certificate(reader))
        block = reader.vector16()
        if block:
            found = ext.decode_extensions(block)
            ext.refuse_unoffered(found, (), "RFC 8446 section 4.4.2")
    return context, tuple(chain)


@lru_cache(ext.REMEMBERED)
def encode_certificate13(chain: tuple[bytes, ...], context: bytes = b"") -> bytes:
    """Return a Certificate message; an empty chain says that we have none to show."""
    return vector8(context) + vector24(b"".join(vector24(der) + b"\x00\x00" for der in chain))


class NewSessionTicket(NamedTuple):
    """A ticket that a server hands out; we ack it and resume nothing."""

    lifetime_s: int
    nonce: bytes
    ticket: bytes


@strict("RFC 8446 section 4.6.1", "NewSessionTicket")
def decode_new_session_ticket(body: bytes) -> NewSessionTicket:
    """Return the ticket (DTLS 1.3)."""
    reader = Reader(body)
    lifetime_s = reader.u32()
    reader.u32()
    nonce, ticket = reader.vector8(), reader.vector16()
    ext.decode_extensions(reader.vector16())
    reader.expect_end()
    if not ticket:
        raise OctetsError("empty ticket")
    return NewSessionTicket(lifetime_s, nonce, ticket)


@strict("RFC 8446 section 4.6.3", "KeyUpdate")
def decode_key_update(body: bytes) -> bool:
    """Return whether the peer wants us to update our keys too."""
    if len(body) != 1:
        raise OctetsError("KeyUpdate has one byte")
    if body[0] > 1:
        raise misbehaved(Alert.ILLEGAL_PARAMETER, DtlsRule.BAD_KEY_UPDATE, "RFC 8446 section 4.6.3")
    return body == b"\x01"


def encode_key_update(request: bool) -> bytes:
    """Return a KeyUpdate, with or without the request that the peer do the same."""
    return b"\x01" if request else b"\x00"


_SCHEME_HEAD: Final = struct.Struct("!HH")  # scheme, length of the signature


# both versions ----------------------------------------------------------------------------------


@strict("RFC 8446 section 4.4.3", "CertificateVerify")
def decode_certificate_verify(body: bytes) -> tuple[int, bytes]:
    """Return scheme and signature."""
    if len(body) < 4 or (body[2] << 8 | body[3]) != len(body) - 4:
        raise OctetsError("a signature of another length than it says")
    return body[0] << 8 | body[1], body[4:]


def encode_certificate_verify(scheme: int, signature: bytes) -> bytes:
    """Return a CertificateVerify."""
    return _SCHEME_HEAD.pack(scheme, len(signature)) + signature


@strict("RFC 5246 section 7.4", "message")
def decode_empty(body: bytes) -> None:
    """Raise decode_error when HelloRequest or ServerHelloDone has a body."""
    if body:
        raise OctetsError("body where none belongs")


def _certificate(reader: Reader) -> bytes:
    der = reader.vector24()
    if not der:
        raise OctetsError("empty certificate")
    return der


# DTLS 1.2 ---------------------------------------------------------------------------------------

_NAMED_CURVE: Final = 3  # RFC 8422 section 5.4
_CERTIFICATE_TYPES: Final = b"\x02\x40\x01"  # ecdsa_sign, rsa_sign (RFC 8422 section 5.5)


@strict("RFC 5246 section 7.4.2", "Certificate")
def decode_certificate12(body: bytes) -> list[bytes]:
    """Return the DER certificates, the peer's own first."""
    outer = Reader(body)
    reader = Reader(outer.vector24())
    outer.expect_end()
    chain: list[bytes] = []
    while reader.remaining():
        chain.append(_certificate(reader))
    return chain


def encode_certificate12(chain: Sequence[bytes]) -> bytes:
    """Return a Certificate message; an empty chain says that we have none to show."""
    return vector24(b"".join(map(vector24, chain)))


class ServerKeyExchange(NamedTuple):
    """The server's ephemeral key and its signature (RFC 8422 section 5.4)."""

    group: int
    public: bytes
    scheme: int
    signature: bytes
    parameters: bytes
    """The bytes that the signature covers behind the two randoms."""


def server_ecdh_parameters(group: int, public: bytes) -> bytes:
    """Return the ServerECDHParams of a named curve."""
    return bytes((_NAMED_CURVE,)) + group.to_bytes(2, "big") + vector8(public)


@strict("RFC 8422 section 5.4", "ServerKeyExchange")
def decode_server_key_exchange(body: bytes) -> ServerKeyExchange:
    """Return the parts of a ServerKeyExchange."""
    reader = Reader(body)
    if reader.u8() != _NAMED_CURVE:
        raise misbehaved(
            Alert.ILLEGAL_PARAMETER, DtlsRule.GROUP_NOT_OFFERED, "RFC 8422 section 5.4"
        )
    group, public = reader.u16(), reader.vector8()
    parameters = body[: reader.position]
    scheme, signature = reader.u16(), reader.vector16()
    reader.expect_end()
    return ServerKeyExchange(group, public, scheme, signature, parameters)


def encode_server_key_exchange(parameters: bytes, scheme: int, signature: bytes) -> bytes:
    """Return a ServerKeyExchange of `server_ecdh_parameters` and their signature."""
    return parameters + encode_certificate_verify(scheme, signature)


@strict("RFC 5246 section 7.4.4", "CertificateRequest")
def decode_certificate_request12(body: bytes) -> tuple[int, ...]:
    """Return the signature schemes; types and authorities say nothing more to us."""
    reader = Reader(body)
    if not reader.vector8():
        raise OctetsError("no certificate types")
    schemes = ext.u16_list(reader.vector16())
    authorities = Reader(reader.vector16())
    while authorities.remaining():
        authorities.vector16()
    reader.expect_end()
    return schemes


def encode_certificate_request12(schemes: Iterable[int]) -> bytes:
    """Return a request for an ECDSA or RSA certificate of any issuer."""
    return _CERTIFICATE_TYPES + ext.encode_u16_list(schemes) + vector16(b"")


@strict("RFC 8422 section 5.7", "ClientKeyExchange")
def decode_client_key_exchange(body: bytes) -> bytes:
    """Return the client's ephemeral public key."""
    reader = Reader(body)
    public = reader.vector8()
    reader.expect_end()
    return public


def encode_client_key_exchange(public: bytes) -> bytes:
    """Return a ClientKeyExchange."""
    return vector8(public)
