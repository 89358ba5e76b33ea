"""Extensions of the DTLS handshake: the block, and the bodies that we read and write.

RFC 8446 section 4.2, RFC 5764 section 4.1.1 (use_srtp), RFC 5746 (renegotiation_info),
RFC 7627 (extended_master_secret), RFC 8422 section 5.1 (ec_point_formats). Called by the
message codecs. Strict about form, deaf to what it does not know: unknown extensions and unknown
code points inside lists are passed on, never refused (RFC 8446 section 4.1.2).
"""

from __future__ import annotations

import enum
import functools
import struct
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final, TypeAlias, TypeVar

from warp.dtls.faults import Alert, DtlsRule, misbehaved
from warp.octets import OctetsError, Reader, vector8, vector16


class ExtensionType(enum.IntEnum):
    """The extensions that we read or write (IANA registry)."""

    SUPPORTED_GROUPS = 10
    EC_POINT_FORMATS = 11
    SIGNATURE_ALGORITHMS = 13
    USE_SRTP = 14
    EXTENDED_MASTER_SECRET = 23
    SUPPORTED_VERSIONS = 43
    PADDING = 21  # RFC 7685
    COOKIE = 44
    KEY_SHARE = 51
    RENEGOTIATION_INFO = 0xFF01


Extensions: TypeAlias = dict[int, bytes]
"""Bodies by type, in the order of the wire."""

_HEAD: Final = struct.Struct("!HH")
REMEMBERED: Final = 16
"""How many bodies a decoder remembers that has the same few to read in every handshake."""

_R = TypeVar("_R")


def strict(section: str, what: str) -> Callable[[Callable[[bytes], _R]], Callable[[bytes], _R]]:
    """Turn running out of bytes, or having some left, into a fatal decode_error."""

    def decorate(decode: Callable[[bytes], _R]) -> Callable[[bytes], _R]:
        @functools.wraps(decode)
        def checked(body: bytes) -> _R:
            try:
                return decode(body)
            except OctetsError as error:
                detail = f"{what}: {error}"
                raise misbehaved(
                    Alert.DECODE_ERROR, DtlsRule.MALFORMED_MESSAGE, section, detail
                ) from error

        return checked

    return decorate


def decode_extensions(block: bytes) -> Extensions:
    """Return the extensions of a block (without its length). Raises OctetsError on slack.

    A type that appears twice is an illegal_parameter (RFC 8446 section 4.2).
    """
    found: Extensions = {}
    pos, end = 0, len(block)
    while pos < end:
        start = pos + 4
        if start > end:
            raise OctetsError("truncated extension")
        kind, length = _HEAD.unpack_from(block, pos)
        pos = start + length
        if pos > end:
            raise OctetsError("extension reaches beyond its block")
        if kind in found:
            raise misbehaved(
                Alert.ILLEGAL_PARAMETER,
                DtlsRule.DUPLICATE_EXTENSION,
                "RFC 8446 section 4.2",
                f"type {kind}",
            )
        found[kind] = block[start:pos]
    return found


def encode_extensions(extensions: Iterable[tuple[int, bytes]]) -> bytes:
    """Return the block with its two-byte length."""
    return vector16(b"".join([_HEAD.pack(kind, len(body)) + body for kind, body in extensions]))


def refuse_unoffered(answered: Iterable[int], offered: Iterable[int], section: str) -> None:
    """Raise unsupported_extension when an answer holds an extension that was not offered."""
    extra = set(answered).difference(offered)
    if extra:
        raise misbehaved(
            Alert.UNSUPPORTED_EXTENSION,
            DtlsRule.UNSOLICITED_EXTENSION,
            section,
            f"types {sorted(extra)}",
        )


def require(extensions: Extensions, kind: ExtensionType, section: str) -> bytes:
    """Return the body of a mandatory extension, or raise missing_extension."""
    body = extensions.get(kind)
    if body is None:
        raise misbehaved(
            Alert.MISSING_EXTENSION, DtlsRule.MISSING_EXTENSION, section, kind.name.lower()
        )
    return body


# lists of 16-bit numbers ------------------------------------------------------------------------


def u16_list(body: bytes) -> tuple[int, ...]:
    """Return the numbers of a list without its length. Raises OctetsError when odd or empty."""
    if not body or len(body) & 1:
        raise OctetsError("a list of 16-bit numbers is empty or odd")
    return struct.unpack(f"!{len(body) // 2}H", body)


def u16_bytes(values: Iterable[int]) -> bytes:
    """Return the numbers behind one another, without a length."""
    numbers = tuple(values)
    return struct.pack(f"!{len(numbers)}H", *numbers)


@functools.lru_cache(REMEMBERED)
@strict("RFC 8446 section 4.2.1", "supported_versions")
def decode_versions(body: bytes) -> tuple[int, ...]:
    """Return the versions that a ClientHello offers, in its order of preference."""
    reader = Reader(body)
    values = u16_list(reader.vector8())
    reader.expect_end()
    return values


def encode_versions(values: Sequence[int]) -> bytes:
    """Return the body of a ClientHello's supported_versions."""
    return vector8(u16_bytes(values))


@strict("RFC 8446 section 4.2.1", "selected value")
def decode_u16(body: bytes) -> int:
    """Return the single number of a supported_versions or key_share answer."""
    if len(body) != 2:
        raise OctetsError(f"{len(body)} bytes for a 16-bit number")
    return body[0] << 8 | body[1]


@functools.lru_cache(REMEMBERED)
@strict("RFC 8446 section 4.2", "supported_groups or signature_algorithms")
def decode_u16_list(body: bytes) -> tuple[int, ...]:
    """Return the numbers of supported_groups or signature_algorithms."""
    reader = Reader(body)
    values = u16_list(reader.vector16())
    reader.expect_end()
    return values


def encode_u16_list(values: Iterable[int]) -> bytes:
    """Return the body of supported_groups or signature_algorithms."""
    return vector16(u16_bytes(values))


# key_share --------------------------------------------------------------------------------------


@strict("RFC 8446 section 4.2.8", "key_share")
def decode_key_shares(body: bytes) -> dict[int, bytes]:
    """Return a ClientHello's shares by group, in its order; may be empty.

    Two shares for one group are an illegal_parameter (RFC 8446 section 4.2.8).
    """
    pos, end = 2, len(body)
    if end < 2 or (body[0] << 8 | body[1]) != end - 2:
        raise OctetsError("key shares of another length than they say")
    shares: dict[int, bytes] = {}
    while pos < end:
        start = pos + 4
        if start > end:
            raise OctetsError("truncated key share")
        group, length = _HEAD.unpack_from(body, pos)
        pos = start + length
        if not length or pos > end:
            raise OctetsError("a key share that is empty, or reaches beyond its list")
        if group in shares:
            raise misbehaved(
                Alert.ILLEGAL_PARAMETER,
                DtlsRule.BAD_KEY_SHARE,
                "RFC 8446 section 4.2.8",
                "two shares for one group",
            )
        shares[group] = body[start:pos]
    return shares


def encode_key_shares(shares: Mapping[int, bytes]) -> bytes:
    """Return the body of a ClientHello's key_share; `shares` by group, in that order."""
    return vector16(b"".join(encode_key_share(group, share) for group, share in shares.items()))


@strict("RFC 8446 section 4.2.8", "key_share")
def decode_key_share(body: bytes) -> tuple[int, bytes]:
    """Return group and share of a ServerHello."""
    if len(body) < 5 or (body[2] << 8 | body[3]) != len(body) - 4:
        raise OctetsError("a key share that is empty, or of another length than it says")
    return body[0] << 8 | body[1], body[4:]


def encode_key_share(group: int, share: bytes) -> bytes:
    """Return one share: the body of a ServerHello's key_share, or an entry of a ClientHello's."""
    return _HEAD.pack(group, len(share)) + share


# the small ones ---------------------------------------------------------------------------------


@strict("RFC 8446 section 4.2.2", "cookie")
def decode_cookie(body: bytes) -> bytes:
    """Return the cookie of the extension (DTLS 1.3)."""
    reader = Reader(body)
    cookie = reader.vector16()
    reader.expect_end()
    if not cookie:
        raise OctetsError("empty cookie")
    return cookie


def encode_cookie(cookie: bytes) -> bytes:
    """Return the body of the cookie extension."""
    return vector16(cookie)


@functools.lru_cache(REMEMBERED)
@strict("RFC 5764 section 4.1.1", "use_srtp")
def decode_use_srtp(body: bytes) -> tuple[tuple[int, ...], bytes]:
    """Return the SRTP profiles and the MKI."""
    reader = Reader(body)
    profiles = u16_list(reader.vector16())
    mki = reader.vector8()
    reader.expect_end()
    return profiles, mki


def encode_use_srtp(profiles: Iterable[int]) -> bytes:
    """Return the body of use_srtp with an empty MKI (WebRTC has none: RFC 8827 section 6.5)."""
    return vector16(u16_bytes(profiles)) + b"\x00"


UNCOMPRESSED_POINTS: Final = b"\x01\x00"
"""Body of ec_point_formats: uncompressed alone (RFC 8422 section 5.1.2)."""


@strict("RFC 8422 section 5.1.2", "ec_point_formats")
def check_point_formats(body: bytes) -> None:
    """Raise illegal_parameter when uncompressed points are not among the formats."""
    reader = Reader(body)
    formats = reader.vector8()
    reader.expect_end()
    if 0 not in formats:
        raise misbehaved(
            Alert.ILLEGAL_PARAMETER,
            DtlsRule.BAD_KEY_SHARE,
            "RFC 8422 section 5.1.2",
            "no uncompressed points",
        )


FIRST_RENEGOTIATION_INFO: Final = b"\x00"
"""Body of renegotiation_info in a first handshake (RFC 5746 section 3.4)."""


def check_renegotiation_info(body: bytes) -> None:
    """Raise handshake_failure unless this is a first handshake (RFC 5746 sections 3.4 and 3.6)."""
    if body != FIRST_RENEGOTIATION_INFO:
        raise misbehaved(
            Alert.HANDSHAKE_FAILURE, DtlsRule.BAD_RENEGOTIATION_INFO, "RFC 5746 section 3.4"
        )


@strict("RFC 7627 section 5.1", "extended_master_secret")
def check_empty(body: bytes) -> None:
    """Raise decode_error when an extension that has no body has one."""
    if body:
        raise OctetsError("body where none belongs")
