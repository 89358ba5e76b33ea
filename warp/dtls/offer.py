"""What a client offers: its ClientHello, and the key shares that go with it.

RFC 9147 section 5.3. Made by the hello stage, kept until the server has chosen. One hello offers
every version that is configured; its bytes never change, save for what a server asks to change.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Final

from warp.crypto import KeyShare, NamedGroup, SignatureScheme, generate_shares
from warp.dtls import extensions as ext
from warp.dtls.config import DtlsConfig
from warp.dtls.extensions import Extensions, ExtensionType
from warp.dtls.hello import ClientHello
from warp.dtls.suites import SUITES12, SUITES13, CipherSuite, DtlsVersion
from warp.entropy import Entropy

EXTENSION_HEADER: Final = 4

SCHEMES13: Final = (
    SignatureScheme.ECDSA_SECP256R1_SHA256,
    SignatureScheme.ECDSA_SECP384R1_SHA384,
    SignatureScheme.RSA_PSS_RSAE_SHA256,
    SignatureScheme.RSA_PSS_RSAE_SHA384,
    SignatureScheme.RSA_PSS_RSAE_SHA512,
    SignatureScheme.ED25519,
)
"""Schemes that we verify in CertificateVerify of DTLS 1.3: never PKCS#1 (RFC 8446 4.2.3)."""

SCHEMES12: Final = (
    SignatureScheme.ECDSA_SECP256R1_SHA256,
    SignatureScheme.ECDSA_SECP384R1_SHA384,
    SignatureScheme.RSA_PSS_RSAE_SHA256,
    SignatureScheme.RSA_PSS_RSAE_SHA384,
    SignatureScheme.RSA_PSS_RSAE_SHA512,
    SignatureScheme.RSA_PKCS1_SHA256,
    SignatureScheme.RSA_PKCS1_SHA384,
    SignatureScheme.RSA_PKCS1_SHA512,
)
"""Schemes that we verify in DTLS 1.2."""


class ClientOffer:
    """The hello that stands, and the private halves of its shares."""

    __slots__ = ("hello", "shares")

    def __init__(self, config: DtlsConfig, entropy: Entropy) -> None:
        groups = config.usable_groups()
        thirteen = DtlsVersion.DTLS13 in config.versions
        self.shares: list[KeyShare] = (
            generate_shares([group for group in config.share_groups if group in groups], entropy)
            if thirteen
            else []
        )
        self.hello: ClientHello = ClientHello(
            random=entropy.random_bytes(32),
            suites=_suites(config.versions, config.suites),
            extensions=_extensions(config, groups, self.shares),
        )
        if config.min_hello:
            room = config.min_hello - self.hello.encoded_length() - EXTENSION_HEADER
            if room >= 0:
                self.hello.extensions[ExtensionType.PADDING] = bytes(room)

    def share_for(self, group: int) -> KeyShare | None:
        """Return our half for a group, if we sent one."""
        return next((share for share in self.shares if share.group == group), None)

    def replace_share(self, share: KeyShare) -> None:
        """Offer one other share instead, as a HelloRetryRequest asks (RFC 8446 section 4.1.2)."""
        self.shares = [share]
        body = ext.encode_key_shares({share.group: share.public})
        self.hello.extensions[ExtensionType.KEY_SHARE] = body

    def add_retry_cookie(self, cookie: bytes) -> None:
        """Bring the cookie of a HelloRetryRequest back."""
        self.hello.extensions[ExtensionType.COOKIE] = ext.encode_cookie(cookie)

    def add_verify_cookie(self, cookie: bytes) -> None:
        """Bring the cookie of a HelloVerifyRequest back (RFC 6347 section 4.2.1)."""
        self.hello.cookie = cookie


@lru_cache(maxsize=16)
def _suites(versions: tuple[DtlsVersion, ...], suites: tuple[CipherSuite, ...]) -> tuple[int, ...]:
    wanted: set[int] = set()
    if DtlsVersion.DTLS13 in versions:
        wanted.update(SUITES13)
    if DtlsVersion.DTLS12 in versions:
        wanted.update(SUITES12)
    return tuple(suite for suite in suites if suite in wanted)


def _extensions(
    config: DtlsConfig, groups: tuple[NamedGroup, ...], shares: list[KeyShare]
) -> Extensions:
    found = _lasting_extensions(config.versions, groups, config.srtp_profiles).copy()
    if DtlsVersion.DTLS13 in config.versions:
        # the largest last: whoever reads only a first fragment finds the rest before it
        found[ExtensionType.KEY_SHARE] = ext.encode_key_shares(
            {share.group: share.public for share in shares}
        )
    return found


@lru_cache(maxsize=16)
def _lasting_extensions(
    versions: tuple[DtlsVersion, ...],
    groups: tuple[NamedGroup, ...],
    srtp_profiles: tuple[int, ...],
) -> Extensions:
    """Return what is the same in every hello of a configuration."""
    twelve = DtlsVersion.DTLS12 in versions
    found: Extensions = {}
    if DtlsVersion.DTLS13 in versions:
        found[ExtensionType.SUPPORTED_VERSIONS] = ext.encode_versions(sorted(versions))
    found[ExtensionType.SUPPORTED_GROUPS] = ext.encode_u16_list(groups)
    schemes = dict.fromkeys((*SCHEMES13, *(SCHEMES12 if twelve else ())))
    found[ExtensionType.SIGNATURE_ALGORITHMS] = ext.encode_u16_list(schemes)
    if srtp_profiles:
        found[ExtensionType.USE_SRTP] = ext.encode_use_srtp(srtp_profiles)
    if twelve:
        found[ExtensionType.EXTENDED_MASTER_SECRET] = b""
        found[ExtensionType.RENEGOTIATION_INFO] = ext.FIRST_RENEGOTIATION_INFO
        found[ExtensionType.EC_POINT_FORMATS] = ext.UNCOMPRESSED_POINTS
    return found
