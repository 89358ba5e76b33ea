"""Versions and their cipher suites: which AEAD, which hash, whose certificates.

RFC 8446 appendix B.4 for DTLS 1.3, RFC 5289 and RFC 7905 for DTLS 1.2. Only AEADs, and in 1.2
only with an ephemeral key agreement.
"""

from __future__ import annotations

import enum
from typing import Final, NamedTuple

from warp.crypto import AeadKind


class DtlsVersion(enum.IntEnum):
    """Versions by their wire values: the newer, the lower (RFC 9147 section 5.3)."""

    DTLS12 = 0xFEFD
    DTLS13 = 0xFEFC


class CipherSuite(enum.IntEnum):
    """The suites that we can do (IANA registry)."""

    AES_128_GCM_SHA256 = 0x1301
    AES_256_GCM_SHA384 = 0x1302
    CHACHA20_POLY1305_SHA256 = 0x1303
    ECDHE_ECDSA_AES_128_GCM_SHA256 = 0xC02B
    ECDHE_ECDSA_AES_256_GCM_SHA384 = 0xC02C
    ECDHE_RSA_AES_128_GCM_SHA256 = 0xC02F
    ECDHE_RSA_AES_256_GCM_SHA384 = 0xC030
    ECDHE_RSA_CHACHA20_POLY1305_SHA256 = 0xCCA8
    ECDHE_ECDSA_CHACHA20_POLY1305_SHA256 = 0xCCA9


SUITES: Final[dict[int, CipherSuite]] = {int(suite): suite for suite in CipherSuite}
"""By number: calling the enumeration goes through three functions written in Python."""


class SuiteParameters(NamedTuple):
    """What a suite stands for; `hash_name` as in hashlib, `rsa` only has a meaning in 1.2."""

    aead: AeadKind
    hash_name: str
    rsa: bool = False


_S: Final = CipherSuite
_128: Final = AeadKind.AES_128_GCM
_256: Final = AeadKind.AES_256_GCM
_CHACHA: Final = AeadKind.CHACHA20_POLY1305

SUITES13: Final[dict[int, SuiteParameters]] = {
    _S.AES_128_GCM_SHA256: SuiteParameters(_128, "sha256"),
    _S.AES_256_GCM_SHA384: SuiteParameters(_256, "sha384"),
    _S.CHACHA20_POLY1305_SHA256: SuiteParameters(_CHACHA, "sha256"),
}
SUITES12: Final[dict[int, SuiteParameters]] = {
    _S.ECDHE_ECDSA_AES_128_GCM_SHA256: SuiteParameters(_128, "sha256"),
    _S.ECDHE_ECDSA_CHACHA20_POLY1305_SHA256: SuiteParameters(_CHACHA, "sha256"),
    _S.ECDHE_ECDSA_AES_256_GCM_SHA384: SuiteParameters(_256, "sha384"),
    _S.ECDHE_RSA_AES_128_GCM_SHA256: SuiteParameters(_128, "sha256", rsa=True),
    _S.ECDHE_RSA_CHACHA20_POLY1305_SHA256: SuiteParameters(_CHACHA, "sha256", rsa=True),
    _S.ECDHE_RSA_AES_256_GCM_SHA384: SuiteParameters(_256, "sha384", rsa=True),
}
