"""Which key may sign what; deterministic ECDSA against RFC 6979."""

from __future__ import annotations

import pytest
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, padding, rsa
from cryptography.hazmat.primitives.asymmetric.utils import decode_dss_signature

from warp.crypto import signatures
from warp.crypto.signatures import SCHEMES_BY_KIND, KeyKind, SignatureScheme, kind_of

S = SignatureScheme
P256 = ec.generate_private_key(ec.SECP256R1())
P384 = ec.generate_private_key(ec.SECP384R1())
P521 = ec.generate_private_key(ec.SECP521R1())
RSA = rsa.generate_private_key(65537, 2048)
EDWARDS = ed25519.Ed25519PrivateKey.generate()


def sign(key, scheme, data):
    return signatures.sign(key, kind_of(key), scheme, data)


def verify(key, scheme, signature, data, **how):
    return signatures.verify(key, kind_of(key), scheme, signature, data, **how)


def test_rfc6979():
    """RFC 6979 appendix A.2.5, SHA-256, "sample"."""
    x = 0xC9AFA9D845BA75166B5C215767B1D6934E50C3DB36E89B127B8A622B120F6721
    key = ec.derive_private_key(x, ec.SECP256R1())
    assert decode_dss_signature(sign(key, S.ECDSA_SECP256R1_SHA256, b"sample")) == (
        0xEFD48B2AACB6A8FD1140DD9CD45E81D69D2C877B56AAF991C34D0EA84EAF3716,
        0xF7CB1C942D657C41D436C7A1B6E29F65F3E900DBB9AFF4064DC4AB2F843ACDA8,
    )


@pytest.mark.parametrize(
    ("key", "kind"),
    [
        (P256, KeyKind.ECDSA_P256),
        (P384, KeyKind.ECDSA_P384),
        (P521, KeyKind.OTHER),
        (RSA, KeyKind.RSA),
        (EDWARDS, KeyKind.ED25519),
    ],
)
def test_a_key_verifies_its_own_schemes_alone(key, kind):
    public = key.public_key()
    assert kind_of(key) is kind_of(public) is kind
    for scheme in S:
        if scheme in SCHEMES_BY_KIND[kind]:
            signature = sign(key, scheme, b"data")
            assert verify(public, scheme, signature, b"data")
            assert not verify(public, scheme, signature, b"Data")
            assert not verify(public, scheme, b"", b"data")
            assert not verify(public, scheme, bytes(len(signature)), b"data")
        else:
            assert not verify(public, scheme, b"s" * 64, b"data")
            with pytest.raises(ValueError, match="cannot sign"):
                sign(key, scheme, b"data")


def test_unknown_schemes_and_keys():
    assert not verify(P256.public_key(), 0x0203, b"s", b"data")
    assert not verify(object(), S.ECDSA_SECP256R1_SHA256, b"s", b"data")


def test_only_dtls12_lets_a_curve_meet_another_hash():
    """RFC 8446 section 4.2.3: before 1.3 the scheme named the hash alone."""
    for key in (P384, P521):
        signature = key.sign(b"data", ec.ECDSA(hashes.SHA256()))
        public = key.public_key()
        assert not verify(public, S.ECDSA_SECP256R1_SHA256, signature, b"data")
        assert verify(public, S.ECDSA_SECP256R1_SHA256, signature, b"data", curve_bound=False)


def test_pss_salt_is_as_long_as_the_digest():
    """RFC 8446 section 4.2.3."""
    for length, good in ((32, True), (20, False)):
        pss = padding.PSS(padding.MGF1(hashes.SHA256()), length)
        signature = RSA.sign(b"data", pss, hashes.SHA256())
        assert verify(RSA.public_key(), S.RSA_PSS_RSAE_SHA256, signature, b"data") is good
