"""Our own certificate as browsers mint theirs, and a peer's as an envelope around a key."""

from __future__ import annotations

import base64
import datetime
import hashlib

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec, ed448, rsa
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    NoEncryption,
    PrivateFormat,
)
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.dtls.plaintext import handshake_messages
from warp.crypto import (
    Certificate,
    KeyKind,
    PeerCertificate,
    SignatureScheme,
    fingerprint_matches,
    fingerprint_of,
)
from warp.dtls.messages import decode_certificate12
from warp.entropy import SeededEntropy

NOW = 1_764_400_000.0
OWN = Certificate.generate(SeededEntropy(1), NOW)


def test_generated_certificate():
    parsed = x509.load_der_x509_certificate(OWN.der)
    now = datetime.datetime.fromtimestamp(NOW, datetime.UTC)
    assert parsed.version is x509.Version.v3
    assert parsed.issuer == parsed.subject
    assert 0 < parsed.serial_number < 1 << 64
    assert now - parsed.not_valid_before_utc == datetime.timedelta(days=1)
    assert parsed.not_valid_after_utc - now == datetime.timedelta(days=30)
    assert list(parsed.extensions) == []
    parsed.verify_directly_issued_by(parsed)


def test_the_seed_makes_the_identity():
    assert Certificate.generate(SeededEntropy(1), NOW).der == OWN.der
    assert Certificate.generate(SeededEntropy(2), NOW).der != OWN.der


def test_sign_and_verify():
    assert OWN.schemes == (SignatureScheme.ECDSA_SECP256R1_SHA256,)
    peer = PeerCertificate(OWN.der)
    assert peer.key_kind is OWN.key_kind is KeyKind.ECDSA_P256
    signature = OWN.sign(OWN.schemes[0], b"data")
    assert signature == OWN.sign(OWN.schemes[0], b"data")
    assert peer.verify(OWN.schemes[0], signature, b"data")
    assert not peer.verify(OWN.schemes[0], signature, b"other")
    with pytest.raises(ValueError, match="cannot sign"):
        OWN.sign(SignatureScheme.RSA_PSS_RSAE_SHA256, b"data")


def test_pem_and_back():
    again = Certificate.from_pem(*OWN.to_pem())
    assert again.der == OWN.der
    assert again.sign(again.schemes[0], b"d") == OWN.sign(OWN.schemes[0], b"d")


def _pem(key, encryption=None) -> bytes:
    return key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, encryption or NoEncryption())


def test_pem_that_cannot_be_used():
    cert_pem, _ = OWN.to_pem()
    key = ec.generate_private_key(ec.SECP256R1())
    bad = [
        (_pem(key), "belong together"),
        (_pem(key, BestAvailableEncryption(b"pw")), "cannot be read"),
        (_pem(ed448.Ed448PrivateKey.generate()), "kind"),
        (_pem(ec.generate_private_key(ec.SECP521R1())), "kind"),
        (b"nonsense", "."),
    ]
    for key_pem, why in bad:
        with pytest.raises(ValueError, match=why):
            Certificate.from_pem(cert_pem, key_pem)


def test_a_certificate_that_was_damaged_is_a_value_error():
    """Whatever the library calls it: X.509 versions have an exception of their own."""
    cert_pem, key_pem = OWN.to_pem()
    body = bytearray(OWN.der)
    body[body.index(b"\x02\x01\x02") + 2] = 63
    damaged = x509_pem(bytes(body))
    for bad in (damaged, cert_pem[:100], b"", cert_pem.replace(b"M", b"N", 1)):
        with pytest.raises(ValueError, match=r"."):
            Certificate.from_pem(bad, key_pem)


def x509_pem(der: bytes) -> bytes:
    text = base64.encodebytes(der)
    return b"-----BEGIN CERTIFICATE-----\n" + text + b"-----END CERTIFICATE-----\n"


def test_fingerprints():
    digest = hashlib.sha256(OWN.der).hexdigest().upper()
    assert OWN.fingerprint().replace(":", "") == digest
    assert OWN.fingerprint() == fingerprint_of(OWN.der) == PeerCertificate(OWN.der).fingerprint()
    assert OWN.fingerprint() in repr(OWN)
    for algorithm in ("sha-256", "sha-384", "SHA-512"):
        good = fingerprint_of(OWN.der, algorithm)
        assert fingerprint_matches(OWN.der, [(algorithm, good.lower())])
        assert fingerprint_matches(OWN.der, [("sha-256", "00:11"), (algorithm, good)])
        assert not fingerprint_matches(OWN.der, [(algorithm, good[:-1] + "x")])
    assert not fingerprint_matches(OWN.der, [])


def test_old_hashes_prove_nothing():
    """RFC 8122 section 5 lists them; nobody should believe them."""
    sha1 = hashlib.sha1(OWN.der).digest().hex(":").upper()
    assert not fingerprint_matches(OWN.der, [("sha-1", sha1)])
    assert not fingerprint_matches(OWN.der, [("md5", hashlib.md5(OWN.der).digest().hex(":"))])
    with pytest.raises(ValueError, match="not supported"):
        fingerprint_of(OWN.der, "sha-1")


def test_fingerprints_with_odd_characters_do_not_match():
    assert not fingerprint_matches(OWN.der, [("sha-256", "Ä" * 95)])


@pytest.mark.parametrize("capture", ["aiortc116_chromium156.pcap", "chromium156_aiortc116.pcap"])
def test_certificates_of_browsers(capture):
    chains = [b for kind, b in handshake_messages(f"dtls/{capture}") if kind == 11]
    assert len(chains) >= 2
    for chain in chains:
        der = decode_certificate12(chain)[0]
        expected = x509.load_der_x509_certificate(der).public_key()
        assert PeerCertificate(der)._key == expected


def _sign(key, algorithm, **parts) -> bytes:
    name = x509.Name(parts.get("name", []))
    start = parts.get("start", datetime.datetime(2020, 1, 1))
    return (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(parts.get("serial", 1))
        .not_valid_before(start)
        .not_valid_after(start + datetime.timedelta(days=1))
        .sign(key, algorithm)
        .public_bytes(Encoding.DER)
    )


def test_dates_names_and_serials_do_not_matter():
    """RFC 8827 section 6.5: the hash is the identity."""
    key = ec.generate_private_key(ec.SECP256R1())
    long_name = [x509.NameAttribute(x509.NameOID.COMMON_NAME, "x" * 64)] * 40
    for parts in (
        {"start": datetime.datetime(1990, 1, 1)},
        {"start": datetime.datetime(2090, 1, 1)},
        {"name": long_name},
        {"serial": (1 << 159) - 1},
    ):
        peer = PeerCertificate(_sign(key, hashes.SHA256(), **parts))
        assert peer.key_kind is KeyKind.ECDSA_P256
    der = bytearray(_sign(key, hashes.SHA256(), serial=1))
    at = der.index(b"\x02\x01\x01\x30")
    der[at + 2] = 0xFF  # a negative serial, which parsers that judge complain about
    assert PeerCertificate(bytes(der)).key_kind is KeyKind.ECDSA_P256


def test_rsa_peer():
    key = rsa.generate_private_key(65537, 2048)
    assert PeerCertificate(_sign(key, hashes.SHA256())).key_kind is KeyKind.RSA


def test_what_is_not_a_certificate():
    for end in range(len(OWN.der)):
        with pytest.raises(ValueError):
            PeerCertificate(OWN.der[:end])
    for bad in (OWN.der + b"\0", b"\x30\x80", b"\x30\x02\x05\x00", b"\x31" + OWN.der[1:]):
        with pytest.raises(ValueError):
            PeerCertificate(bad)


@given(st.integers(0, len(OWN.der) - 1), st.integers(1, 255))
def test_a_flipped_byte_gives_a_certificate_or_a_value_error(position, flip):
    der = bytearray(OWN.der)
    der[position] ^= flip
    try:
        PeerCertificate(bytes(der))
    except ValueError:
        return


@given(st.binary(max_size=300))
def test_any_bytes_give_a_certificate_or_a_value_error(data):
    with pytest.raises(ValueError):
        PeerCertificate(b"\x30\x82" + len(data).to_bytes(2, "big") + data)
