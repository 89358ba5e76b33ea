"""Certificates as WebRTC uses them: a key in an envelope, known by its hash.

RFC 8827 section 6.5 and RFC 8122 section 5: no chain, no names, no dates count. Our own is made
the way browsers make theirs; of the peer's only the hash and the key are looked at, and the key
is cut out of the DER without judging what surrounds it.
"""

from __future__ import annotations

import datetime
import hashlib
import hmac
from collections.abc import Iterable
from functools import lru_cache
from typing import Final

from cryptography import x509
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    load_der_public_key,
    load_pem_private_key,
)

from warp.crypto import signatures
from warp.crypto.groups import NamedGroup, derive_private_key
from warp.crypto.signatures import SCHEMES_BY_KIND, KeyKind, PrivateKey, SignatureScheme, kind_of
from warp.entropy import Entropy, random_text

_HASHES: Final = {  # RFC 8122 section 5 has older ones too: MD5 and SHA-1 prove nothing any more
    "sha-256": hashlib.sha256,
    "sha-384": hashlib.sha384,
    "sha-512": hashlib.sha512,
}
_DAY: Final = datetime.timedelta(days=1)


def fingerprint_of(der: bytes, algorithm: str = "sha-256") -> str:
    """Return the hash of a certificate as SDP writes it, `AB:CD:..` (RFC 8122 section 5).

    Raises ValueError for an algorithm other than sha-256, sha-384 and sha-512.
    """
    make_hash = _HASHES.get(algorithm.lower())
    if make_hash is None:
        raise ValueError(f"fingerprints with {algorithm} are not supported")
    return make_hash(der).digest().hex(":").upper()


def fingerprint_matches(der: bytes, fingerprints: Iterable[tuple[str, str]]) -> bool:
    """Tell, in constant time, whether one of `(algorithm, "AB:CD:..")` is this certificate's.

    Algorithms that we do not trust never match (RFC 8122 section 5).
    """
    matched = False
    for algorithm, expected in fingerprints:
        if algorithm.lower() in _HASHES:
            actual = fingerprint_of(der, algorithm)
            matched |= hmac.compare_digest(actual.encode(), expected.strip().upper().encode())
    return matched


class Certificate:
    """Our own identity: a certificate and its private key. One may serve many connections."""

    __slots__ = ("_fingerprints", "_key", "der", "key_kind", "schemes")

    def __init__(self, der: bytes, key: PrivateKey) -> None:
        self._key: Final = key
        self._fingerprints: Final[dict[str, str]] = {}  # every session of a server says it
        self.der: Final = der
        self.key_kind: Final[KeyKind] = kind_of(key)
        self.schemes: Final[tuple[SignatureScheme, ...]] = SCHEMES_BY_KIND[self.key_kind]

    @classmethod
    def generate(cls, entropy: Entropy, wall_time_s: float) -> Certificate:
        """Return a new self-signed P-256 certificate, valid from a day ago for thirty days more.

        `wall_time_s` is seconds since 1970. The form is what browsers mint: random name, random
        64-bit serial, no extensions (RFC 8827 section 6.5 asks for nothing more).
        """
        key = derive_private_key(NamedGroup.SECP256R1, entropy)
        name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, random_text(entropy, 16))])
        now = datetime.datetime.fromtimestamp(int(wall_time_s), datetime.UTC)
        # a serial is positive (RFC 5280 section 4.1.2.2)
        serial = int.from_bytes(entropy.random_bytes(8), "big") >> 1 | 1
        certificate = (
            x509.CertificateBuilder()
            .subject_name(name)
            .issuer_name(name)
            .public_key(key.public_key())
            .serial_number(serial)
            .not_valid_before(now - _DAY)
            .not_valid_after(now + 30 * _DAY)
            .sign(key, hashes.SHA256(), ecdsa_deterministic=True)
        )
        return cls(certificate.public_bytes(Encoding.DER), key)

    @classmethod
    def from_pem(cls, cert_pem: bytes, key_pem: bytes) -> Certificate:
        """Return the identity kept in two PEM texts.

        Raises ValueError when they cannot be read, do not belong together, or hold a key that we
        cannot sign with (P-256, P-384, RSA and Ed25519 are supported).
        """
        try:
            key = load_pem_private_key(key_pem, password=None)
        except (TypeError, UnsupportedAlgorithm) as error:  # TypeError: the key is encrypted
            raise ValueError("the private key cannot be read") from error
        if (
            not isinstance(
                key, ec.EllipticCurvePrivateKey | rsa.RSAPrivateKey | ed25519.Ed25519PrivateKey
            )
            or kind_of(key) is KeyKind.OTHER
        ):
            raise ValueError("the private key is of a kind that we cannot sign with")
        try:
            certificate = x509.load_pem_x509_certificate(cert_pem)
            public_key = certificate.public_key()
        except (x509.InvalidVersion, UnsupportedAlgorithm) as error:
            raise ValueError("the certificate cannot be read") from error
        if public_key != key.public_key():
            raise ValueError("the certificate and the private key do not belong together")
        return cls(certificate.public_bytes(Encoding.DER), key)

    def to_pem(self) -> tuple[bytes, bytes]:
        """Return certificate and private key (PKCS#8, not encrypted) as PEM texts."""
        certificate = x509.load_der_x509_certificate(self.der)
        return (
            certificate.public_bytes(Encoding.PEM),
            self._key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()),
        )

    def fingerprint(self, algorithm: str = "sha-256") -> str:
        """Return our hash as SDP writes it."""
        known = self._fingerprints.get(algorithm)
        if known is None:
            known = self._fingerprints[algorithm] = fingerprint_of(self.der, algorithm)
        return known

    def sign(self, scheme: int, data: bytes) -> bytes:
        """Return our signature of `data`; `scheme` is one of `schemes`, else ValueError."""
        return signatures.sign(self._key, self.key_kind, scheme, data)

    def __repr__(self) -> str:
        return f"Certificate({self.fingerprint()})"


class PeerCertificate:
    """A peer's certificate: its hash and its key, nothing else is believed or judged."""

    __slots__ = ("_key", "der", "key_kind")

    def __init__(self, der: bytes) -> None:
        """Cut the key out. Raises ValueError when there is none that the library can read."""
        self.der: Final = der
        try:
            self._key: Final = load_der_public_key(_public_key_info(der))
        except UnsupportedAlgorithm as error:
            raise ValueError("the certificate's key is of an unknown kind") from error
        self.key_kind: Final[KeyKind] = kind_of(self._key)

    def fingerprint(self, algorithm: str = "sha-256") -> str:
        """Return the hash as SDP writes it."""
        return fingerprint_of(self.der, algorithm)

    def verify(
        self, scheme: int, signature: bytes, data: bytes, *, curve_bound: bool = True
    ) -> bool:
        """Tell whether `signature` over `data` is this key's; see `signatures.verify`."""
        return signatures.verify(
            self._key, self.key_kind, scheme, signature, data, curve_bound=curve_bound
        )


@lru_cache(maxsize=128)
def read_certificate(der: bytes) -> PeerCertificate:
    """Return `PeerCertificate(der)`; that of a peer who calls again is known. Raises as it does.

    A certificate is public, and what was read of it never changes.
    """
    return PeerCertificate(der)


def _element(der: bytes, pos: int, end: int) -> tuple[int, int, int]:
    """Return tag, start of the contents and end of the DER element at `pos` (X.690 section 8.1)."""
    if pos + 2 > end:
        raise ValueError("truncated certificate")
    length = der[pos + 1]
    start = pos + 2
    if length & 0x80:
        size = length & 0x7F
        if not 1 <= size <= 3 or start + size > end:
            raise ValueError("unusable length in certificate")
        length = int.from_bytes(der[start : start + size], "big")
        start += size
    if start + length > end:
        raise ValueError("truncated certificate")
    return der[pos], start, start + length


def _skip(der: bytes, pos: int, end: int, count: int) -> int:
    """Return the end of the last of `count` elements."""
    for _ in range(count):
        if pos + 2 <= end and der[pos + 1] < 0x80 and pos + 2 + der[pos + 1] <= end:
            pos += 2 + der[pos + 1]
        else:
            _, _, pos = _element(der, pos, end)
    return pos


def _public_key_info(der: bytes) -> bytes:
    """Return the SubjectPublicKeyInfo of a certificate (RFC 5280 section 4.1), DER as it stands.

    What precedes it is skipped unread: an odd serial, name or date does not matter when the hash
    of the whole is what identifies the peer.
    """
    tag, start, end = _element(der, 0, len(der))
    if tag != 0x30 or end != len(der):
        raise ValueError("not a certificate")
    tag, pos, end = _element(der, start, end)
    if tag != 0x30:
        raise ValueError("not a certificate")
    tag, _, after = _element(der, pos, end)
    if tag == 0xA0:  # version is optional
        pos = after
    pos = _skip(der, pos, end, 5)  # serial, signature algorithm, issuer, validity, subject
    tag, _, after = _element(der, pos, end)
    if tag != 0x30:
        raise ValueError("certificate without a public key")
    return der[pos:after]
