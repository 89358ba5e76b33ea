"""Key agreement: X25519, P-256, P-384 and the hybrid X25519MLKEM768.

RFC 8446 section 4.2.8.2 gives the shares of the curves, draft-ietf-tls-ecdhe-mlkem those of the
hybrid. Called by both DTLS versions. Every private key is made from the entropy handed in, save
the message that ML-KEM encapsulates, which the library draws itself.

    client  generate_share(group) ── public ──▶  respond(group, public) → (public, secret)  server
            share.finish(public)  ◀─ public ──
"""

from __future__ import annotations

import enum
from collections.abc import Sequence
from typing import Final, Protocol

from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.mlkem import MLKEM768PrivateKey, MLKEM768PublicKey
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from warp.entropy import Entropy


class NamedGroup(enum.IntEnum):
    """TLS supported groups that we can do (IANA registry)."""

    SECP256R1 = 0x0017
    SECP384R1 = 0x0018
    X25519 = 0x001D
    X25519MLKEM768 = 0x11EC


_MLKEM_PUBLIC_LENGTH: Final = 1184
_MLKEM_CIPHERTEXT_LENGTH: Final = 1088
_MLKEM_SEED_LENGTH: Final = 64
_X25519_LENGTH: Final = 32

_ORDERS: Final = {  # SEC 2 version 2, sections 2.4.2 and 2.5.1
    NamedGroup.SECP256R1: 0xFFFFFFFF00000000FFFFFFFFFFFFFFFFBCE6FAADA7179E84F3B9CAC2FC632551,
    NamedGroup.SECP384R1: int(
        "FFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFF"
        "C7634D81F4372DDF581A0DB248B0A77AECEC196ACCC52973",
        16,
    ),
}
_CURVES: Final[dict[NamedGroup, ec.EllipticCurve]] = {
    NamedGroup.SECP256R1: ec.SECP256R1(),
    NamedGroup.SECP384R1: ec.SECP384R1(),
}
_POINT_LENGTHS: Final = {NamedGroup.SECP256R1: 65, NamedGroup.SECP384R1: 97}
_ECDH: Final = ec.ECDH()


class KeyShare(Protocol):
    """Our half of a key agreement: used once, never for a second connection."""

    @property
    def group(self) -> NamedGroup:
        """The group of this share."""

    @property
    def public(self) -> bytes:
        """What travels to the peer."""

    def finish(self, peer_public: bytes) -> bytes:
        """Return the shared secret. Raises ValueError for a share that the group forbids."""


def derive_private_key(group: NamedGroup, entropy: Entropy) -> ec.EllipticCurvePrivateKey:
    """Return a private key on P-256 or P-384, made from the entropy.

    64 bits more than the order are drawn, so that the reduction leaves no bias
    (FIPS 186-5 appendix A.2.1).
    """
    order = _ORDERS[group]
    drawn = entropy.random_bytes((order.bit_length() + 7) // 8 + 8)
    return ec.derive_private_key(int.from_bytes(drawn, "big") % (order - 1) + 1, _CURVES[group])


def _point(group: NamedGroup, public: bytes) -> ec.EllipticCurvePublicKey:
    # only the uncompressed form is allowed (RFC 8446 section 4.2.8.2); off-curve points raise
    if len(public) != _POINT_LENGTHS[group] or public[0] != 4:
        raise ValueError("not an uncompressed point of this curve")
    return ec.EllipticCurvePublicKey.from_encoded_point(_CURVES[group], public)


class _X25519Share:
    __slots__ = ("_private", "group", "public")

    def __init__(self, entropy: Entropy) -> None:
        self.group: Final = NamedGroup.X25519
        self._private: Final = X25519PrivateKey.from_private_bytes(
            entropy.random_bytes(_X25519_LENGTH)
        )
        self.public: Final = self._private.public_key().public_bytes_raw()

    def finish(self, peer_public: bytes) -> bytes:
        # the library raises ValueError on a wrong length and on an all-zero secret, as
        # RFC 8446 section 7.4.2 wants
        return self._private.exchange(X25519PublicKey.from_public_bytes(peer_public))


class _CurveShare:
    __slots__ = ("_private", "group", "public")

    def __init__(self, group: NamedGroup, entropy: Entropy) -> None:
        self.group: Final = group
        self._private: Final = derive_private_key(group, entropy)
        self.public: Final = self._private.public_key().public_bytes(
            Encoding.X962, PublicFormat.UncompressedPoint
        )

    def finish(self, peer_public: bytes) -> bytes:
        return self._private.exchange(_ECDH, _point(self.group, peer_public))


class _HybridShare:
    """ML-KEM-768 first, X25519 second, in shares and in the secret."""

    __slots__ = ("_curve", "_private", "group", "public")

    def __init__(self, curve: _X25519Share, entropy: Entropy) -> None:
        self.group: Final = NamedGroup.X25519MLKEM768
        self._private: Final = MLKEM768PrivateKey.from_seed_bytes(
            entropy.random_bytes(_MLKEM_SEED_LENGTH)
        )
        self._curve: Final = curve
        self.public: Final = self._private.public_key().public_bytes_raw() + self._curve.public

    def finish(self, peer_public: bytes) -> bytes:
        if len(peer_public) != _MLKEM_CIPHERTEXT_LENGTH + _X25519_LENGTH:
            raise ValueError("hybrid share has a wrong length")
        curve_secret = self._curve.finish(peer_public[_MLKEM_CIPHERTEXT_LENGTH:])
        return self._private.decapsulate(peer_public[:_MLKEM_CIPHERTEXT_LENGTH]) + curve_secret


def _respond_hybrid(peer_public: bytes, entropy: Entropy) -> tuple[bytes, bytes]:
    if len(peer_public) != _MLKEM_PUBLIC_LENGTH + _X25519_LENGTH:
        raise ValueError("hybrid share has a wrong length")
    encapsulation_key = MLKEM768PublicKey.from_public_bytes(peer_public[:_MLKEM_PUBLIC_LENGTH])
    curve = _X25519Share(entropy)
    curve_secret = curve.finish(peer_public[_MLKEM_PUBLIC_LENGTH:])
    secret, ciphertext = encapsulation_key.encapsulate()
    return ciphertext + curve.public, secret + curve_secret


def _hybrid_works() -> bool:
    # builds against an OpenSSL before 3.5 have no ML-KEM: the group is then not offered
    try:
        MLKEM768PrivateKey.from_seed_bytes(bytes(_MLKEM_SEED_LENGTH))
    except UnsupportedAlgorithm:
        return False
    return True


_SUPPORTED: Final = (
    *((NamedGroup.X25519MLKEM768,) if _hybrid_works() else ()),
    NamedGroup.X25519,
    NamedGroup.SECP256R1,
    NamedGroup.SECP384R1,
)


def supported_groups() -> tuple[NamedGroup, ...]:
    """Return the groups that this build can do, strongest first."""
    return _SUPPORTED


def generate_share(group: NamedGroup, entropy: Entropy) -> KeyShare:
    """Return a fresh key share. Raises ValueError when this build lacks the group."""
    if group is NamedGroup.X25519:
        return _X25519Share(entropy)
    if group not in _SUPPORTED:
        raise ValueError(f"{group.name} is not supported by this build")
    if group is NamedGroup.X25519MLKEM768:
        return _HybridShare(_X25519Share(entropy), entropy)
    return _CurveShare(group, entropy)


def generate_shares(groups: Sequence[NamedGroup], entropy: Entropy) -> list[KeyShare]:
    """Return a share for each group, all for one and the same hello.

    The hybrid and X25519 use one X25519 key between them, which is safe within one hello and
    saves its making (draft-ietf-tls-hybrid-design section 3.2).
    """
    if not {NamedGroup.X25519, NamedGroup.X25519MLKEM768} <= set(groups):
        return [generate_share(group, entropy) for group in groups]
    curve = _X25519Share(entropy)
    shares: list[KeyShare] = []
    for group in groups:
        if group is NamedGroup.X25519:
            shares.append(curve)
        elif group is NamedGroup.X25519MLKEM768 and group in _SUPPORTED:
            shares.append(_HybridShare(curve, entropy))
        else:
            shares.append(generate_share(group, entropy))
    return shares


def respond(group: NamedGroup, peer_public: bytes, entropy: Entropy) -> tuple[bytes, bytes]:
    """Return our public share and the shared secret that answer the peer's share.

    Raises ValueError for a share that the group forbids (wrong length, off the curve, zero).
    """
    if group is NamedGroup.X25519MLKEM768 and group in _SUPPORTED:
        return _respond_hybrid(peer_public, entropy)
    share = generate_share(group, entropy)
    return share.public, share.finish(peer_public)
