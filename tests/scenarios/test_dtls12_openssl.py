"""DTLS 1.2 with OpenSSL at the other end: suites, groups, SRTP, exporter, cookie, renegotiation."""

from __future__ import annotations

import datetime

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from OpenSSL import SSL

from tests.scenarios.openssl_peer import OpenSslPeer
from tests.sim.network import LinkConfig, drop, duplicate
from tests.sim.pair import Pair
from warp.crypto import Certificate, NamedGroup, fingerprint_of
from warp.dtls import (
    CipherSuite,
    Connected,
    DtlsConfig,
    DtlsConnection,
    DtlsRole,
    DtlsVersion,
    Terminated,
)
from warp.entropy import SeededEntropy
from warp.errors import FingerprintMismatch

OWN = Certificate.generate(SeededEntropy(1), 1.7e9)
PEER = Certificate.generate(SeededEntropy(2), 1.7e9)
ECDSA_SUITES = {
    CipherSuite.ECDHE_ECDSA_AES_128_GCM_SHA256: "ECDHE-ECDSA-AES128-GCM-SHA256",
    CipherSuite.ECDHE_ECDSA_CHACHA20_POLY1305_SHA256: "ECDHE-ECDSA-CHACHA20-POLY1305",
    CipherSuite.ECDHE_ECDSA_AES_256_GCM_SHA384: "ECDHE-ECDSA-AES256-GCM-SHA384",
}
RSA_SUITES = {
    CipherSuite.ECDHE_RSA_AES_128_GCM_SHA256: "ECDHE-RSA-AES128-GCM-SHA256",
    CipherSuite.ECDHE_RSA_CHACHA20_POLY1305_SHA256: "ECDHE-RSA-CHACHA20-POLY1305",
    CipherSuite.ECDHE_RSA_AES_256_GCM_SHA384: "ECDHE-RSA-AES256-GCM-SHA384",
}
SUITES = ECDSA_SUITES | RSA_SUITES
LABEL = b"EXTRACTOR-dtls_srtp"
HANDSHAKE = 22


def rsa_identity() -> Certificate:
    key = rsa.generate_private_key(65537, 2048)
    name = x509.Name([])
    start = datetime.datetime(2020, 1, 1)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(start)
        .not_valid_after(start + datetime.timedelta(days=20000))
        .sign(key, hashes.SHA256())
    )
    pem = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    return Certificate.from_pem(certificate.public_bytes(Encoding.PEM), pem)


RSA = rsa_identity()


class Call:
    """One connection of ours and one of OpenSSL's, on a clean link unless told otherwise."""

    def __init__(
        self,
        role: DtlsRole,
        *,
        own=OWN,
        peer=PEER,
        fingerprint=None,
        link=None,
        keylog=None,
        **config,
    ):
        openssl = {key[8:]: config.pop(key) for key in list(config) if key.startswith("openssl_")}
        self.ours = DtlsConnection(
            role,
            DtlsConfig(**config),
            certificate=own,
            entropy=SeededEntropy(7),
            keylog=keylog,
        )
        is_client = role is DtlsRole.CLIENT
        self.openssl = OpenSslPeer(server=is_client, certificate=peer, **openssl)
        ends = (self.ours, self.openssl) if is_client else (self.openssl, self.ours)
        self.pair = Pair(*ends, config=link or LinkConfig(delay_s=0.01))
        self.node = self.pair.client if is_client else self.pair.server
        expected = fingerprint or fingerprint_of(peer.der)
        self.ours.set_peer_fingerprints([("sha-256", expected)], 0.0)
        ends[0].start(self.pair.now)

    def connect(self) -> Connected:
        self.pair.run(until=lambda: bool(self.node.named(Connected)) and self.openssl.connected)
        assert self.openssl.connected
        return self.node.named(Connected)[0][1]

    def exchange_data(self) -> None:
        self.ours.send_data(b"ping", self.pair.now)
        self.openssl.send_data(b"pong")
        self.pair.run_for(0.1)
        assert self.openssl.received == [b"ping"]
        assert self.ours.received_data() == [b"pong"]


@pytest.mark.parametrize("role", list(DtlsRole))
@pytest.mark.parametrize("suite", list(SUITES))
def test_every_suite(suite, role):
    identity = RSA if suite in RSA_SUITES else None
    server_is_ours = role is DtlsRole.SERVER
    call = Call(
        role,
        own=identity if identity and server_is_ours else OWN,
        peer=identity if identity and not server_is_ours else PEER,
        openssl_ciphers=SUITES[suite],
    )
    connected = call.connect()
    assert (connected.version, connected.suite) == (DtlsVersion.DTLS12, suite)
    assert call.openssl.ssl.get_cipher_name() == SUITES[suite]
    call.exchange_data()


def test_two_of_ours_take_the_newer_version():
    """The same configuration that meets OpenSSL in 1.2 meets itself in 1.3."""
    ends = [
        DtlsConnection(role, DtlsConfig(), certificate=own, entropy=SeededEntropy(role.value))
        for role, own in ((DtlsRole.CLIENT, OWN), (DtlsRole.SERVER, PEER))
    ]
    for end, other in zip(ends, (PEER, OWN), strict=True):
        end.set_peer_fingerprints([("sha-256", other.fingerprint())], 0.0)
    pair = Pair(*ends)
    ends[0].start(pair.now)
    pair.run(
        until=lambda: bool(pair.client.named(Connected)) and bool(pair.server.named(Connected))
    )
    assert ends[0].version is ends[1].version is DtlsVersion.DTLS13


@pytest.mark.parametrize("role", list(DtlsRole))
@pytest.mark.parametrize(
    ("group", "name"),
    [
        (NamedGroup.X25519, "x25519"),
        (NamedGroup.SECP256R1, "secp256r1"),
        (NamedGroup.SECP384R1, "secp384r1"),
    ],
)
def test_every_group(group, name, role):
    # a client that leaves the curve of a server's certificate out cannot use it (RFC 8422 4)
    groups = dict.fromkeys((group, NamedGroup.SECP256R1))
    call = Call(role, groups=tuple(groups), share_groups=(group,))
    assert call.connect().group is group
    assert call.openssl.ssl.get_group_name().lower().replace("prime256v1", "secp256r1") == name
    call.exchange_data()


@pytest.mark.parametrize("role", list(DtlsRole))
@pytest.mark.parametrize(
    ("profile", "name", "length"),
    [
        (0x0001, "SRTP_AES128_CM_SHA1_80", 60),
        (0x0007, "SRTP_AEAD_AES_128_GCM", 56),
        (0x0008, "SRTP_AEAD_AES_256_GCM", 88),
    ],
)
def test_srtp_keys_are_the_same_on_both_sides(profile, name, length, role):
    call = Call(role, srtp_profiles=(profile,), openssl_srtp=name)
    assert call.connect().srtp_profile == profile
    assert call.openssl.ssl.get_selected_srtp_profile() == name.encode()
    theirs = call.openssl.ssl.export_keying_material(LABEL, length)
    assert call.ours.export_keying_material(LABEL, length) == theirs
    assert call.ours.srtp_keying_material() == theirs


@pytest.mark.parametrize("role", list(DtlsRole))
def test_without_srtp(role):
    call = Call(role, openssl_srtp=None)
    assert call.connect().srtp_profile is None


@pytest.mark.parametrize("role", list(DtlsRole))
def test_needing_srtp_that_the_peer_does_not_have(role):
    call = Call(role, openssl_srtp=None, require_srtp=True)
    call.pair.run(timeout_s=1.0)
    assert call.node.named(Terminated) and not call.node.named(Connected)


def test_hello_verify_request():
    """RFC 6347 section 4.2.1: the second ClientHello brings the cookie, and nothing else new."""
    call = Call(DtlsRole.CLIENT, openssl_cookie=b"a cookie of seventeen")
    call.connect()
    call.exchange_data()
    hellos = [step.data for step in call.pair.sent("client") if step.data[13] == 1]
    first, second = (b"".join(hello[25:] for hello in part) for part in _by_message(hellos))
    assert second == first[:35] + b"\x15a cookie of seventeen" + first[36:]


def _by_message(hellos: list[bytes]) -> tuple[list[bytes], list[bytes]]:
    return (
        [hello for hello in hellos if hello[17:19] == b"\0\0"],
        [hello for hello in hellos if hello[17:19] == b"\0\1"],
    )


@pytest.mark.parametrize("index", range(4))
def test_hello_verify_request_with_a_lost_hello(index):
    call = Call(DtlsRole.CLIENT, openssl_cookie=b"cookie")
    call.pair.up.rules.append(drop(index))
    call.connect()
    call.exchange_data()


@pytest.mark.parametrize("role", list(DtlsRole))
def test_wrong_fingerprint(role):
    call = Call(role, fingerprint=fingerprint_of(OWN.der))
    call.pair.run(timeout_s=1.0)
    ((_, terminated),) = call.node.named(Terminated)
    assert isinstance(terminated.error, FingerprintMismatch)
    assert not call.openssl.connected or role is DtlsRole.CLIENT
    assert call.ours.received_data() == []


@pytest.mark.parametrize("role", list(DtlsRole))
def test_late_fingerprint(role):
    call = Call(role)
    call.ours = DtlsConnection(role, DtlsConfig(), certificate=OWN, entropy=SeededEntropy(7))
    call.openssl = OpenSslPeer(server=role is DtlsRole.CLIENT, certificate=PEER)
    ends = (call.ours, call.openssl) if role is DtlsRole.CLIENT else (call.openssl, call.ours)
    call.pair = Pair(*ends, config=LinkConfig(delay_s=0.01))
    call.node = call.pair.client if role is DtlsRole.CLIENT else call.pair.server
    ends[0].start(call.pair.now)
    call.pair.run(until=lambda: call.openssl.connected)
    call.openssl.send_data(b"early")
    call.pair.run_for(0.2)
    assert not call.node.named(Connected)
    assert call.ours.received_data() == []
    call.ours.set_peer_fingerprints([("sha-256", fingerprint_of(PEER.der))], call.pair.now)
    call.pair.run_for(0.1)
    assert call.node.named(Connected)
    assert call.ours.received_data() == [b"early"]


def test_our_server_repeats_its_first_flight():
    """OpenSSL sends nothing again here: all repair is ours."""
    call = Call(DtlsRole.SERVER)
    call.pair.down.rules += [drop(0), drop(1)]
    call.connect()
    call.exchange_data()


@pytest.mark.parametrize("role", list(DtlsRole))
@pytest.mark.parametrize("index", range(5))
def test_duplicates_of_either_side_are_harmless(index, role):
    call = Call(role)
    call.pair.down.rules += [duplicate(index)]
    call.pair.up.rules += [duplicate(index)]
    call.connect()
    call.exchange_data()


def test_hello_request_is_ignored():
    """RFC 5246 section 7.4.1.1 lets a client do so; the connection goes on."""
    call = Call(DtlsRole.CLIENT)
    call.connect()
    sent = len(call.pair.sent("client"))
    call.openssl.ssl.renegotiate()
    call.openssl.ssl.do_handshake()
    call.pair.run_for(1.0)
    assert len(call.pair.sent("client")) == sent
    call.exchange_data()


def test_renegotiation_comes_to_nothing():
    """RFC 9325 section 3.5: no renegotiation. The connection that stands is not disturbed."""
    call = Call(DtlsRole.SERVER)
    call.connect()
    call.exchange_data()
    sent = len(call.pair.sent("server"))
    call.openssl.ssl.renegotiate()
    with pytest.raises(SSL.WantReadError):
        call.openssl.ssl.do_handshake()
    call.pair.run_for(1.0)
    answers = [step.data[0] for step in call.pair.sent("server")[sent:]]
    assert HANDSHAKE not in answers
    assert not call.node.named(Terminated)
    assert call.ours.can_send


def test_either_side_may_be_told_not_to_ask():
    """RFC 8827 wants both certificates, but only the server can ask."""
    for role in DtlsRole:
        call = Call(role, request_client_certificate=False, openssl_ask_certificate=False)
        call.connect()
        call.exchange_data()


@pytest.mark.parametrize("role", list(DtlsRole))
def test_key_log_names_the_connection_and_its_master_secret(role):
    """RFC 9850 section 3: CLIENT_RANDOM, the random, the master secret."""
    lines: list[str] = []
    call = Call(role, keylog=lines.append)
    call.connect()
    ssl = call.openssl.ssl
    expected = f"CLIENT_RANDOM {ssl.client_random().hex()} {ssl.master_key().hex()}\n"
    assert lines == [expected]


def test_close_notify():
    for role in DtlsRole:
        call = Call(role)
        call.connect()
        call.ours.close(call.pair.now)
        call.pair.run_for(0.2)
        assert call.openssl.closed
