"""Signature schemes of TLS (RFC 8446 section 4.2.3): which key may use which, sign and verify.

Called through `Certificate` and `PeerCertificate`. PKCS#1 v1.5 is for DTLS 1.2 alone: the DTLS
1.3 machines refuse it before they come here (RFC 8446 section 4.2.3).
"""

from __future__ import annotations

import enum
from functools import lru_cache
from typing import Final, TypeAlias, cast

from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, padding, rsa
from cryptography.hazmat.primitives.asymmetric.types import PublicKeyTypes

from warp.names import Name

PrivateKey: TypeAlias = ec.EllipticCurvePrivateKey | rsa.RSAPrivateKey | ed25519.Ed25519PrivateKey


class SignatureScheme(enum.IntEnum):
    """The schemes that we verify (IANA registry)."""

    RSA_PKCS1_SHA256 = 0x0401
    RSA_PKCS1_SHA384 = 0x0501
    RSA_PKCS1_SHA512 = 0x0601
    ECDSA_SECP256R1_SHA256 = 0x0403
    ECDSA_SECP384R1_SHA384 = 0x0503
    RSA_PSS_RSAE_SHA256 = 0x0804
    RSA_PSS_RSAE_SHA384 = 0x0805
    RSA_PSS_RSAE_SHA512 = 0x0806
    ED25519 = 0x0807


class KeyKind(Name):
    """What a certificate's key is."""

    ECDSA_P256 = "P-256"
    ECDSA_P384 = "P-384"
    RSA = "RSA"
    ED25519 = "Ed25519"
    OTHER = "other"


_S: Final = SignatureScheme

SCHEMES_BY_KIND: Final[dict[KeyKind, tuple[SignatureScheme, ...]]] = {
    KeyKind.ECDSA_P256: (_S.ECDSA_SECP256R1_SHA256,),
    KeyKind.ECDSA_P384: (_S.ECDSA_SECP384R1_SHA384,),
    KeyKind.RSA: (
        _S.RSA_PSS_RSAE_SHA256, _S.RSA_PSS_RSAE_SHA384, _S.RSA_PSS_RSAE_SHA512,
        _S.RSA_PKCS1_SHA256, _S.RSA_PKCS1_SHA384, _S.RSA_PKCS1_SHA512,
    ),
    KeyKind.ED25519: (_S.ED25519,),
    KeyKind.OTHER: (),
}  # fmt: skip
"""Schemes of a kind of key, preferred first."""

_HASHES: Final[dict[int, hashes.HashAlgorithm]] = {
    _S.RSA_PKCS1_SHA256: hashes.SHA256(),
    _S.RSA_PKCS1_SHA384: hashes.SHA384(),
    _S.RSA_PKCS1_SHA512: hashes.SHA512(),
    _S.ECDSA_SECP256R1_SHA256: hashes.SHA256(),
    _S.ECDSA_SECP384R1_SHA384: hashes.SHA384(),
    _S.RSA_PSS_RSAE_SHA256: hashes.SHA256(),
    _S.RSA_PSS_RSAE_SHA384: hashes.SHA384(),
    _S.RSA_PSS_RSAE_SHA512: hashes.SHA512(),
}
_PKCS1: Final = frozenset((_S.RSA_PKCS1_SHA256, _S.RSA_PKCS1_SHA384, _S.RSA_PKCS1_SHA512))
_ECDSA: Final = (_S.ECDSA_SECP256R1_SHA256, _S.ECDSA_SECP384R1_SHA384)
# RFC 6979: a signature then depends on key and data alone, and a run can be replayed
_ECDSA_SIGN: Final[dict[int, ec.ECDSA]] = {
    scheme: ec.ECDSA(_HASHES[scheme], deterministic_signing=True) for scheme in _ECDSA
}
_ECDSA_VERIFY: Final[dict[int, ec.ECDSA]] = {scheme: ec.ECDSA(_HASHES[scheme]) for scheme in _ECDSA}


_CURVES: Final = {"secp256r1": KeyKind.ECDSA_P256, "secp384r1": KeyKind.ECDSA_P384}


class _Family(enum.Enum):
    """What the class of a key says; an elliptic key's kind depends on its curve besides."""

    ELLIPTIC = enum.auto()
    RSA = enum.auto()
    ED25519 = enum.auto()
    OTHER = enum.auto()


@lru_cache(maxsize=32)
def _family(key_type: type) -> _Family:
    # the library's classes are abstract: asking them of every key costs more than the rest
    if issubclass(key_type, ec.EllipticCurvePublicKey | ec.EllipticCurvePrivateKey):
        return _Family.ELLIPTIC
    if issubclass(key_type, rsa.RSAPublicKey | rsa.RSAPrivateKey):
        return _Family.RSA
    if issubclass(key_type, ed25519.Ed25519PublicKey | ed25519.Ed25519PrivateKey):
        return _Family.ED25519
    return _Family.OTHER


def kind_of(key: PrivateKey | PublicKeyTypes) -> KeyKind:
    """Return the kind of a private or public key of the library."""
    family = _family(type(key))
    if family is _Family.ELLIPTIC:
        return _CURVES.get(cast(ec.EllipticCurvePublicKey, key).curve.name, KeyKind.OTHER)
    if family is _Family.RSA:
        return KeyKind.RSA
    return KeyKind.ED25519 if family is _Family.ED25519 else KeyKind.OTHER


def _rsa_padding(scheme: int) -> padding.AsymmetricPadding:
    if scheme in _PKCS1:
        return padding.PKCS1v15()
    # the salt is as long as the digest (RFC 8446 section 4.2.3)
    return padding.PSS(padding.MGF1(_HASHES[scheme]), padding.PSS.DIGEST_LENGTH)


def sign(key: PrivateKey, kind: KeyKind, scheme: int, data: bytes) -> bytes:
    """Return the signature of `data`; ECDSA is deterministic (RFC 6979).

    `kind` is `kind_of(key)`. Raises ValueError when the key cannot use the scheme.
    """
    if scheme not in SCHEMES_BY_KIND[kind]:
        raise ValueError(f"this key cannot sign with scheme 0x{scheme:04x}")
    if _family(type(key)) is _Family.ELLIPTIC:
        return cast(ec.EllipticCurvePrivateKey, key).sign(data, _ECDSA_SIGN[scheme])
    if kind is KeyKind.RSA:
        padded = _rsa_padding(scheme)
        return cast(rsa.RSAPrivateKey, key).sign(data, padded, _HASHES[scheme])
    return cast(ed25519.Ed25519PrivateKey, key).sign(data)


def verify(
    key: PublicKeyTypes,
    kind: KeyKind,
    scheme: int,
    signature: bytes,
    data: bytes,
    *,
    curve_bound: bool = True,
) -> bool:
    """Tell whether `signature` is the key's over `data` under `scheme`.

    `kind` is `kind_of(key)`. A scheme that the key cannot use verifies nothing. In DTLS 1.2 an
    ECDSA scheme names only the hash, not the curve (RFC 8446 section 4.2.3): pass
    `curve_bound=False` there.
    """
    usable = scheme in SCHEMES_BY_KIND[kind]
    try:
        if _family(type(key)) is _Family.ELLIPTIC:
            if not usable and (curve_bound or scheme not in _ECDSA_VERIFY):
                return False
            cast(ec.EllipticCurvePublicKey, key).verify(signature, data, _ECDSA_VERIFY[scheme])
        elif not usable:
            return False
        elif kind is KeyKind.RSA:
            padded = _rsa_padding(scheme)
            cast(rsa.RSAPublicKey, key).verify(signature, data, padded, _HASHES[scheme])
        else:
            cast(ed25519.Ed25519PublicKey, key).verify(signature, data)
    except (InvalidSignature, UnsupportedAlgorithm, ValueError):
        return False
    return True
