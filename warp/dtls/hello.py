"""ClientHello, ServerHello (also as HelloRetryRequest) and HelloVerifyRequest, as bodies.

RFC 9147 section 5.3 and RFC 6347 section 4.2.1. The framing (type, length, message_seq, fragment)
is not here: a body is what a complete handshake message holds. Called by the version decision
and by the client and server machines of both versions.
"""

from __future__ import annotations

from typing import Final

from warp.dtls import extensions as ext
from warp.dtls.extensions import Extensions, ExtensionType, strict
from warp.dtls.faults import Alert, DtlsRule, misbehaved
from warp.dtls.suites import DtlsVersion
from warp.octets import OctetsError, Reader, vector8, vector16

RETRY_REQUEST_RANDOM: Final = bytes.fromhex(
    "cf21ad74e59a6111be1d8c021e65b891c2a211167abb8c5e079e09e2c8a8339c"
)
"""The random that makes a ServerHello a HelloRetryRequest (RFC 8446 section 4.1.3)."""

DOWNGRADE_SENTINEL: Final = b"DOWNGRD\x01"
"""Last eight random bytes of a server that chose 1.2 though it speaks 1.3 (section 4.1.3)."""

_RANDOM_LENGTH: Final = 32
_SESSION_ID_LIMIT: Final = 32
_FIXED_LENGTH: Final = 2 + _RANDOM_LENGTH + 1 + 1 + 2 + 1 + 2  # version, random, five lengths


class ClientHello:
    """A ClientHello; its extensions stay undecoded until one is asked for.

    Each accessor returns None when the extension is absent, and raises `HandshakeFault` when its
    body is malformed.
    """

    __slots__ = (
        "compressions",
        "cookie",
        "extensions",
        "legacy_version",
        "random",
        "session_id",
        "suites",
    )

    def __init__(
        self,
        *,
        random: bytes,
        suites: tuple[int, ...],
        extensions: Extensions,
        legacy_version: int = DtlsVersion.DTLS12,
        session_id: bytes = b"",
        cookie: bytes = b"",
        compressions: bytes = b"\x00",
    ) -> None:
        self.legacy_version = legacy_version
        self.random = random
        self.session_id = session_id
        self.cookie = cookie
        self.suites = suites
        self.compressions = compressions
        self.extensions = extensions

    def encode(self) -> bytes:
        """Return the body."""
        return b"".join(
            (
                self.legacy_version.to_bytes(2, "big"),
                self.random,
                vector8(self.session_id),
                vector8(self.cookie),
                vector16(ext.u16_bytes(self.suites)),
                vector8(self.compressions),
                ext.encode_extensions(self.extensions.items()),
            )
        )

    def encoded_length(self) -> int:
        """Return the length of the body."""
        fixed = _FIXED_LENGTH + len(self.session_id) + len(self.cookie) + len(self.compressions)
        bodies = sum(map(len, self.extensions.values()))
        return fixed + 2 * len(self.suites) + 4 * len(self.extensions) + bodies

    def versions(self) -> tuple[int, ...] | None:
        """Return the content of supported_versions."""
        body = self.extensions.get(ExtensionType.SUPPORTED_VERSIONS)
        return None if body is None else ext.decode_versions(body)

    def groups(self) -> tuple[int, ...] | None:
        """Return the content of supported_groups."""
        body = self.extensions.get(ExtensionType.SUPPORTED_GROUPS)
        return None if body is None else ext.decode_u16_list(body)

    def schemes(self) -> tuple[int, ...] | None:
        """Return the content of signature_algorithms."""
        body = self.extensions.get(ExtensionType.SIGNATURE_ALGORITHMS)
        return None if body is None else ext.decode_u16_list(body)

    def key_shares(self) -> dict[int, bytes] | None:
        """Return the shares by group."""
        body = self.extensions.get(ExtensionType.KEY_SHARE)
        return None if body is None else ext.decode_key_shares(body)

    def srtp_profiles(self) -> tuple[int, ...] | None:
        """Return the profiles of use_srtp; an offered MKI is not looked at (RFC 5764 4.1.1)."""
        body = self.extensions.get(ExtensionType.USE_SRTP)
        return None if body is None else ext.decode_use_srtp(body)[0]

    def retry_cookie(self) -> bytes | None:
        """Return the content of the cookie extension (DTLS 1.3's cookie)."""
        body = self.extensions.get(ExtensionType.COOKIE)
        return None if body is None else ext.decode_cookie(body)

    def refuse_legacy_fields(self) -> None:
        """Raise illegal_parameter for fields that DTLS 1.3 keeps empty (RFC 9147 section 5.3).

        To be called once 1.3 is chosen: an answer to a HelloVerifyRequest has a cookie.
        """
        if self.cookie:
            raise misbehaved(
                Alert.ILLEGAL_PARAMETER, DtlsRule.LEGACY_COOKIE, "RFC 9147 section 5.3"
            )
        if self.compressions != b"\x00":
            raise misbehaved(
                Alert.ILLEGAL_PARAMETER, DtlsRule.COMPRESSION, "RFC 8446 section 4.1.2"
            )


@strict("RFC 9147 section 5.3", "ClientHello")
def decode_client_hello(body: bytes) -> ClientHello:
    """Return the ClientHello of a body."""
    reader = Reader(body)
    legacy_version = reader.u16()
    random = reader.take(_RANDOM_LENGTH)
    session_id = _session_id(reader)
    cookie = reader.vector8()
    suites = ext.u16_list(reader.vector16())
    compressions = reader.vector8()
    # RFC 5246 section 7.4.1.2: the block may be absent altogether
    extensions = ext.decode_extensions(reader.vector16()) if reader.remaining() else {}
    reader.expect_end()
    if 0 not in compressions:
        raise misbehaved(Alert.ILLEGAL_PARAMETER, DtlsRule.COMPRESSION, "RFC 5246 section 7.4.1.2")
    return ClientHello(
        legacy_version=legacy_version,
        random=random,
        session_id=session_id,
        cookie=cookie,
        suites=suites,
        compressions=compressions,
        extensions=extensions,
    )


class ServerHello:
    """A ServerHello, or a HelloRetryRequest, which has the same form."""

    __slots__ = ("extensions", "random", "session_id", "suite", "version")

    def __init__(
        self,
        *,
        random: bytes,
        suite: int,
        extensions: Extensions,
        version: int = DtlsVersion.DTLS12,
        session_id: bytes = b"",
    ) -> None:
        self.version = version
        self.random = random
        self.session_id = session_id
        self.suite = suite
        self.extensions = extensions

    @property
    def is_retry_request(self) -> bool:
        """Tell whether this is a HelloRetryRequest (RFC 8446 section 4.1.4)."""
        return self.random == RETRY_REQUEST_RANDOM

    def encode(self) -> bytes:
        """Return the body."""
        return b"".join(
            (
                self.version.to_bytes(2, "big"),
                self.random,
                vector8(self.session_id),
                self.suite.to_bytes(2, "big"),
                b"\x00",
                ext.encode_extensions(self.extensions.items()),
            )
        )

    def selected_version(self) -> int:
        """Return the version: supported_versions if it is there, else the legacy field."""
        body = self.extensions.get(ExtensionType.SUPPORTED_VERSIONS)
        return self.version if body is None else ext.decode_u16(body)

    def key_share(self) -> tuple[int, bytes] | None:
        """Return group and share (of a ServerHello)."""
        body = self.extensions.get(ExtensionType.KEY_SHARE)
        return None if body is None else ext.decode_key_share(body)

    def selected_group(self) -> int | None:
        """Return the group that a HelloRetryRequest asks for."""
        body = self.extensions.get(ExtensionType.KEY_SHARE)
        return None if body is None else ext.decode_u16(body)

    def retry_cookie(self) -> bytes | None:
        """Return the cookie of a HelloRetryRequest."""
        body = self.extensions.get(ExtensionType.COOKIE)
        return None if body is None else ext.decode_cookie(body)


@strict("RFC 9147 section 5.4", "ServerHello")
def decode_server_hello(body: bytes) -> ServerHello:
    """Return the ServerHello or HelloRetryRequest of a body."""
    reader = Reader(body)
    version = reader.u16()
    random = reader.take(_RANDOM_LENGTH)
    session_id = _session_id(reader)
    suite = reader.u16()
    if reader.u8():
        raise misbehaved(Alert.ILLEGAL_PARAMETER, DtlsRule.COMPRESSION, "RFC 5246 section 7.4.1.3")
    extensions = ext.decode_extensions(reader.vector16()) if reader.remaining() else {}
    reader.expect_end()
    return ServerHello(
        version=version, random=random, session_id=session_id, suite=suite, extensions=extensions
    )


def _session_id(reader: Reader) -> bytes:
    session_id = reader.vector8()
    if len(session_id) > _SESSION_ID_LIMIT:
        raise OctetsError("session id longer than 32 bytes")
    return session_id


@strict("RFC 6347 section 4.2.1", "HelloVerifyRequest")
def decode_hello_verify_request(body: bytes) -> bytes:
    """Return the cookie of a HelloVerifyRequest; its version says nothing (section 4.2.1)."""
    reader = Reader(body)
    reader.u16()
    cookie = reader.vector8()
    reader.expect_end()
    return cookie
