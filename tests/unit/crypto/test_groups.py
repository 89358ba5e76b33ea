"""Key agreement against RFC 7748, against the library as the other side, and bad shares."""

from __future__ import annotations

import pytest
from cryptography.hazmat.primitives.asymmetric import ec, x25519
from cryptography.hazmat.primitives.asymmetric.mlkem import MLKEM768PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from warp.crypto import NamedGroup, generate_share, generate_shares, respond, supported_groups
from warp.entropy import SeededEntropy

h = bytes.fromhex
LENGTHS = {  # share of the client, share of the server, secret
    NamedGroup.X25519: (32, 32, 32),
    NamedGroup.SECP256R1: (65, 65, 32),
    NamedGroup.SECP384R1: (97, 97, 48),
    NamedGroup.X25519MLKEM768: (1216, 1120, 64),
}


class FixedEntropy:
    """Hands out given bytes."""

    def __init__(self, data: bytes) -> None:
        self.data = data

    def random_bytes(self, length: int) -> bytes:
        out, self.data = self.data[:length], self.data[length:]
        return out


def test_the_wheel_does_the_hybrid():
    assert supported_groups()[0] is NamedGroup.X25519MLKEM768
    assert set(supported_groups()) == set(NamedGroup)


def test_x25519_of_rfc7748():
    """RFC 7748 section 6.1."""
    alice_private = h("77076d0a7318a57d3c16c17251b26645df4c2f87ebc0992ab177fba51db92c2a")
    bob_private = h("5dab087e624a8a4b79e17f8b83800ee66f3bb1292618b6fd1c2f8b27ff88e0eb")
    secret = h("4a5d9d5ba4ce2de1728e3bf480350f25e07e21c947d19e3376f09b3c1e161742")
    alice = generate_share(NamedGroup.X25519, FixedEntropy(alice_private))
    assert alice.public == h("8520f0098930a754748b7ddcb43ef75a0dbf3a0d26381af4eba4a98eaa9b4e6a")
    bob_public, bob_secret = respond(NamedGroup.X25519, alice.public, FixedEntropy(bob_private))
    assert bob_public == h("de9edb7d7b7dc1b4d35b61c2ece435373f8343c85b78674dadfc7e146f882b4f")
    assert alice.finish(bob_public) == bob_secret == secret


@pytest.mark.parametrize("group", supported_groups())
def test_both_sides_agree(group):
    entropy = SeededEntropy(7)
    share = generate_share(group, entropy)
    public, secret = respond(group, share.public, entropy)
    assert share.finish(public) == secret
    assert (len(share.public), len(public), len(secret)) == LENGTHS[group]
    assert share.group is group


@pytest.mark.parametrize("group", supported_groups())
def test_the_same_entropy_makes_the_same_share(group):
    assert generate_share(group, SeededEntropy(1)).public == (
        generate_share(group, SeededEntropy(1)).public
    )
    assert generate_share(group, SeededEntropy(1)).public != (
        generate_share(group, SeededEntropy(2)).public
    )


def test_curves_agree_with_the_library():
    for group, curve in (
        (NamedGroup.SECP256R1, ec.SECP256R1()),
        (NamedGroup.SECP384R1, ec.SECP384R1()),
    ):
        other = ec.generate_private_key(curve)
        point = other.public_key().public_bytes(Encoding.X962, PublicFormat.UncompressedPoint)
        public, secret = respond(group, point, SeededEntropy(3))
        ours = ec.EllipticCurvePublicKey.from_encoded_point(curve, public)
        assert other.exchange(ec.ECDH(), ours) == secret


def test_hybrid_order_is_mlkem_then_x25519():
    """draft-ietf-tls-ecdhe-mlkem: in shares and in the secret alike."""
    kem, curve = MLKEM768PrivateKey.generate(), x25519.X25519PrivateKey.generate()
    client = kem.public_key().public_bytes_raw() + curve.public_key().public_bytes_raw()
    public, secret = respond(NamedGroup.X25519MLKEM768, client, SeededEntropy(4))
    assert secret[:32] == kem.decapsulate(public[:1088])
    assert secret[32:] == curve.exchange(x25519.X25519PublicKey.from_public_bytes(public[1088:]))


@pytest.mark.parametrize("group", supported_groups())
def test_bad_shares(group):
    entropy = SeededEntropy(5)
    share = generate_share(group, entropy)
    public, _ = respond(group, share.public, entropy)
    for bad in (b"", share.public[:-1], share.public + b"\0", bytes(len(share.public))):
        with pytest.raises(ValueError):
            respond(group, bad, entropy)
    for bad in (b"", public[:-1], public + b"\0", bytes(len(public))):
        with pytest.raises(ValueError):
            share.finish(bad)


def test_points_are_uncompressed_and_on_the_curve():
    """RFC 8446 section 4.2.8.2."""
    other = ec.generate_private_key(ec.SECP256R1()).public_key()
    compressed = other.public_bytes(Encoding.X962, PublicFormat.CompressedPoint)
    point = bytearray(other.public_bytes(Encoding.X962, PublicFormat.UncompressedPoint))
    point[-1] ^= 1
    for bad in (compressed, compressed + bytes(32), bytes(point)):
        with pytest.raises(ValueError):
            respond(NamedGroup.SECP256R1, bad, SeededEntropy(6))


def test_private_scalars_are_drawn_wider_than_the_order():
    """FIPS 186-5 appendix A.2.1: 64 bits more, so that no bias is left."""
    entropy = FixedEntropy(bytes(1000))
    generate_share(NamedGroup.SECP256R1, entropy)
    assert len(entropy.data) == 1000 - 40


def test_shares_of_one_hello_use_one_x25519_key():
    """draft-ietf-tls-hybrid-design section 3.2."""
    hybrid, curve, other = generate_shares(
        (NamedGroup.X25519MLKEM768, NamedGroup.X25519, NamedGroup.SECP256R1), SeededEntropy(8)
    )
    assert hybrid.public[-32:] == curve.public
    for share in (hybrid, curve, other):
        public, secret = respond(share.group, share.public, SeededEntropy(9))
        assert share.finish(public) == secret
    alone = generate_shares((NamedGroup.X25519,), SeededEntropy(8))
    assert alone[0].public == generate_share(NamedGroup.X25519, SeededEntropy(8)).public
