"""What a server refuses, and what it answers: the ClientHello and the client's last flight."""

from __future__ import annotations

import itertools

import pytest

from tests.unit.dtls.ends import (
    CLIENT_CERTIFICATE,
    CURVE,
    RETRY,
    THIRTEEN,
    alert_of,
    carry,
    client,
    failure,
    message,
    plain,
    server,
    shake,
    tamper,
)
from warp.crypto import Certificate, NamedGroup, SignatureScheme
from warp.dtls import Alert, DtlsDiscard, DtlsRule, DtlsState
from warp.dtls import extensions as ext
from warp.dtls import messages as codec
from warp.dtls.extensions import ExtensionType as Ext
from warp.dtls.hello import decode_client_hello
from warp.dtls.messages import HandshakeType as Kind

A, R = Alert, DtlsRule
ILLEGAL = A.ILLEGAL_PARAMETER


def hello_with(**changes):
    """Change a ClientHello: extension bodies by type, or fields by name."""

    def change(body: bytes) -> bytes:
        hello = decode_client_hello(body)
        for name, value in changes.items():
            if name == "extensions":
                hello.extensions.update(value)
            elif name == "without":
                for kind in value:
                    del hello.extensions[kind]
            else:
                setattr(hello, name, value)
        return hello.encode()

    return change


def refusal(monkeypatch, changes, *, one=None, two=None) -> tuple[Alert | None, object]:
    """Run a handshake with a client that lies; return the server's alert and the broken rule."""
    one, two = one or client(**THIRTEEN), two or server(**THIRTEEN)
    tamper(monkeypatch, one, changes)
    one.start(0.0)
    for _ in range(4):
        for datagram in one.datagrams_to_send(0.0):
            two.receive_datagram(datagram, 0.0)
        if two.state is DtlsState.FAILED:
            break
        carry(two, one)
    assert two.state is DtlsState.FAILED
    error = failure(two)
    return alert_of(two, one), getattr(error, "rule", type(error).__name__)


TWO_SHARES = ext.encode_key_share(0x1D, bytes(32)) * 2


@pytest.mark.parametrize(
    ("change", "alert", "rule"),
    [
        (hello_with(cookie=b"old"), ILLEGAL, R.LEGACY_COOKIE),
        (hello_with(compressions=b"\1"), ILLEGAL, R.COMPRESSION),
        (hello_with(compressions=b"\0\1"), ILLEGAL, R.COMPRESSION),
        (hello_with(without=[Ext.KEY_SHARE]), A.MISSING_EXTENSION, R.MISSING_EXTENSION),
        (hello_with(without=[Ext.SUPPORTED_GROUPS]), A.MISSING_EXTENSION, R.MISSING_EXTENSION),
        (hello_with(without=[Ext.SIGNATURE_ALGORITHMS]), A.MISSING_EXTENSION, R.MISSING_EXTENSION),
        (
            hello_with(extensions={Ext.KEY_SHARE: ext.encode_key_shares({0x1D: bytes(32)})}),
            ILLEGAL,
            R.BAD_KEY_SHARE,
        ),
        (
            hello_with(extensions={Ext.KEY_SHARE: ext.encode_key_shares({0x1D: bytes(33)})}),
            ILLEGAL,
            R.BAD_KEY_SHARE,
        ),
        (
            hello_with(extensions={Ext.KEY_SHARE: ext.encode_key_shares({0x17: bytes(65)})}),
            ILLEGAL,
            R.BAD_KEY_SHARE,
        ),
        (
            hello_with(extensions={Ext.KEY_SHARE: len(TWO_SHARES).to_bytes(2, "big") + TWO_SHARES}),
            ILLEGAL,
            R.BAD_KEY_SHARE,
        ),
        (hello_with(suites=(0x1304, 0x00FF)), A.HANDSHAKE_FAILURE, "PeerIncompatible"),
        (
            hello_with(extensions={Ext.SIGNATURE_ALGORITHMS: ext.encode_u16_list([0x0804])}),
            A.HANDSHAKE_FAILURE,
            "PeerIncompatible",
        ),
        (
            hello_with(extensions={Ext.USE_SRTP: b"\0\3\0\7\0\0"}),
            A.DECODE_ERROR,
            R.MALFORMED_MESSAGE,
        ),
    ],
)
def test_client_hello(monkeypatch, change, alert, rule):
    assert refusal(monkeypatch, {Kind.CLIENT_HELLO: change}) == (alert, rule)


def test_no_group_in_common(monkeypatch):
    curve = (NamedGroup.SECP384R1,)
    two = server(**THIRTEEN | {"groups": curve, "share_groups": curve})
    found = refusal(monkeypatch, {}, two=two)
    assert found == (A.HANDSHAKE_FAILURE, "PeerIncompatible")


def test_hybrid_share_of_a_wrong_length(monkeypatch):
    group = NamedGroup.X25519MLKEM768
    hybrid = {"groups": (group,), "share_groups": (group,), **THIRTEEN}
    for length in (1215, 1217, 32):
        body = ext.encode_key_shares({group: bytes(length)})
        change = hello_with(extensions={Ext.KEY_SHARE: body})
        found = refusal(
            monkeypatch, {Kind.CLIENT_HELLO: change}, one=client(**hybrid), two=server(**hybrid)
        )
        assert found == (ILLEGAL, R.BAD_KEY_SHARE)


def test_srtp_required(monkeypatch):
    found = refusal(
        monkeypatch,
        {},
        one=client(**THIRTEEN, srtp_profiles=(1,)),
        two=server(**THIRTEEN, srtp_profiles=(7,), require_srtp=True),
    )
    assert found == (A.HANDSHAKE_FAILURE, R.SRTP_MISSING)


@pytest.mark.parametrize(
    ("ours", "theirs", "chosen"),
    [((7, 8, 1), (1, 8, 7), 7), ((1,), (7, 8, 1, 2), 1), ((8,), (7,), None), ((), (7,), None)],
)
def test_our_preference_decides_the_profile(ours, theirs, chosen):
    one = client(**THIRTEEN, srtp_profiles=theirs)
    two = server(**THIRTEEN, srtp_profiles=ours)
    shake(one, two)
    assert one.state is two.state is DtlsState.CONNECTED
    assert one.srtp_profile == two.srtp_profile == chosen


def test_an_offered_mki_is_ignored(monkeypatch):
    one, two = client(**THIRTEEN), server(**THIRTEEN)
    change = hello_with(extensions={Ext.USE_SRTP: b"\0\2\0\7\3mki"})
    tamper(monkeypatch, one, {Kind.CLIENT_HELLO: change})
    shake(one, two)
    assert two.srtp_profile == 7


def grease(body: bytes) -> bytes:
    hello = decode_client_hello(body)
    hello.suites = (0x0A0A, 0x5600, *hello.suites, 0x00FF)
    hello.session_id = bytes(32)
    hello.extensions = {
        0x1A1A: b"",
        Ext.SUPPORTED_VERSIONS: ext.encode_versions([0x7F2B, 0x0303, 0xFEFC, 0x2A2A]),
        **{k: v for k, v in hello.extensions.items() if k != Ext.SUPPORTED_VERSIONS},
        Ext.SUPPORTED_GROUPS: ext.encode_u16_list([0x3A3A, 0x0100, 0x1D]),
        Ext.SIGNATURE_ALGORITHMS: ext.encode_u16_list([0x0402, 0x0203, 0xFAFA, 0x0403]),
        0xFAFA: b"\0",
    }
    hello.extensions[Ext.KEY_SHARE] = (
        (len(hello.extensions[Ext.KEY_SHARE]) - 2 + 5).to_bytes(2, "big")
        + ext.encode_key_share(0x3A3A, b"x")
        + hello.extensions[Ext.KEY_SHARE][2:]
    )
    return hello.encode()


def test_unknown_things_are_ignored_and_the_session_id_is_not_echoed(monkeypatch):
    one, two = client(**THIRTEEN), server(**THIRTEEN)
    tamper(monkeypatch, one, {Kind.CLIENT_HELLO: grease})
    shake(one, two)
    assert two.state is DtlsState.CONNECTED
    assert one.state is DtlsState.CONNECTED  # its own check would have refused an echo


@pytest.mark.parametrize("seed", range(6))
def test_extension_order_is_irrelevant(monkeypatch, seed):
    def shuffle(body: bytes) -> bytes:
        hello = decode_client_hello(body)
        orders = itertools.islice(itertools.permutations(hello.extensions.items()), seed * 20, None)
        hello.extensions = dict(next(orders))
        return hello.encode()

    one, two = client(**THIRTEEN), server(**THIRTEEN)
    tamper(monkeypatch, one, {Kind.CLIENT_HELLO: shuffle})
    shake(one, two)
    assert two.state is DtlsState.CONNECTED


def test_the_server_prefers_a_share_that_is_there_to_a_round_trip():
    groups = (NamedGroup.SECP256R1, NamedGroup.X25519)
    one, two = (
        client(**THIRTEEN | {"groups": groups, "share_groups": groups[1:]}),
        server(**THIRTEEN | {"groups": groups, "share_groups": groups}),
    )
    shake(one, two)
    assert two.outcome.group is NamedGroup.X25519


# the client's last flight -----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kind", "change", "alert", "rule"),
    [
        (
            Kind.CERTIFICATE,
            lambda b: codec.encode_certificate13(()),
            A.CERTIFICATE_REQUIRED,
            R.CERTIFICATE_MISSING,
        ),
        (Kind.CERTIFICATE, lambda b: None, A.UNEXPECTED_MESSAGE, R.UNEXPECTED_MESSAGE),
        (Kind.CERTIFICATE, lambda b: b"\1x" + b[1:], ILLEGAL, R.MALFORMED_MESSAGE),
        (
            Kind.CERTIFICATE,
            lambda b: b[:-2] + b"\0\4\0\5\0\0",
            A.DECODE_ERROR,
            R.MALFORMED_MESSAGE,
        ),
        (Kind.CERTIFICATE_VERIFY, lambda b: None, A.UNEXPECTED_MESSAGE, R.UNEXPECTED_MESSAGE),
        (Kind.CERTIFICATE_VERIFY, lambda b: b"\4\1" + b[2:], ILLEGAL, R.SCHEME_NOT_OFFERED),
        (
            Kind.CERTIFICATE_VERIFY,
            lambda b: b[:-1] + bytes([b[-1] ^ 1]),
            A.DECRYPT_ERROR,
            R.BAD_SIGNATURE,
        ),
        (Kind.FINISHED, lambda b: bytes(32), A.DECRYPT_ERROR, R.BAD_FINISHED),
    ],
)
def test_last_flight(monkeypatch, kind, change, alert, rule):
    assert refusal(monkeypatch, {kind: change}) == (alert, rule)


def test_signature_with_the_servers_context_string(monkeypatch):
    one = client(**THIRTEEN)

    def sign(body: bytes) -> bytes:
        content = b" " * 64 + b"TLS 1.3, server CertificateVerify\0"
        content += one._handshake.transcript.digest()
        scheme = SignatureScheme.ECDSA_SECP256R1_SHA256
        return codec.encode_certificate_verify(scheme, CLIENT_CERTIFICATE.sign(scheme, content))

    found = refusal(monkeypatch, {Kind.CERTIFICATE_VERIFY: sign}, one=one)
    assert found == (A.DECRYPT_ERROR, R.BAD_SIGNATURE)


def test_wrong_fingerprint(monkeypatch):
    two = server(**THIRTEEN, known=False)
    two.set_peer_fingerprints([("sha-256", "AA:BB")], 0.0)
    found = refusal(monkeypatch, {}, two=two)
    assert found == (A.BAD_CERTIFICATE, "FingerprintMismatch")
    assert two.received_data() == []
    assert not two.can_send


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["P-384", "RSA"])
def test_other_kinds_of_certificates(kind):
    other = Certificate.from_pem(*pems(kind))
    one, two = client(**THIRTEEN, known=False), server(**THIRTEEN, certificate=other)
    one.set_peer_fingerprints([("sha-256", other.fingerprint())], 0.0)
    shake(one, two)
    assert one.state is two.state is DtlsState.CONNECTED


def pems(kind: str) -> tuple[bytes, bytes]:
    import datetime

    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec, rsa

    key = (
        ec.generate_private_key(ec.SECP384R1())
        if kind == "P-384"
        else rsa.generate_private_key(65537, 2048)
    )
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "odd/name, of <nobody>")])
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(datetime.datetime(2040, 1, 1))
        .not_valid_after(datetime.datetime(2041, 1, 1))
        .sign(key, hashes.SHA256())
    )
    encoding = serialization.Encoding.PEM
    return certificate.public_bytes(encoding), key.private_bytes(
        encoding, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )


# HelloRetryRequest ------------------------------------------------------------------------------


def second_hello(monkeypatch, change, **config) -> tuple[Alert | None, object]:
    """Change only the hello that answers a retry request."""
    count = []

    def only_second(body: bytes) -> bytes:
        count.append(body)
        return body if len(count) == 1 else change(body)

    if config:
        one, two = client(**THIRTEEN), server(**THIRTEEN, **config)
    else:
        one, two = client(**THIRTEEN | RETRY["client"]), server(**THIRTEEN | RETRY["server"])
    return refusal(monkeypatch, {Kind.CLIENT_HELLO: only_second}, one=one, two=two)


@pytest.mark.parametrize(
    "change",
    [
        hello_with(random=bytes(32)),
        hello_with(suites=(0x1301,)),
        hello_with(session_id=b"x"),
        hello_with(without=[Ext.USE_SRTP]),
        hello_with(extensions={0x1234: b""}),
    ],
)
def test_second_hello_that_changes_too_much(monkeypatch, change):
    assert second_hello(monkeypatch, change) == (ILLEGAL, R.CHANGED_HELLO)


def test_second_hello_without_the_share_that_was_asked_for(monkeypatch):
    old = hello_with(extensions={Ext.KEY_SHARE: ext.encode_key_shares({0x1D: b"\x09" + bytes(31)})})
    assert second_hello(monkeypatch, old)[0] is ILLEGAL


@pytest.mark.parametrize(
    "change",
    [
        hello_with(extensions={Ext.COOKIE: ext.encode_cookie(b"forged")}),
        hello_with(without=[Ext.COOKIE]),
    ],
)
def test_second_hello_with_a_bad_cookie(monkeypatch, change):
    found = second_hello(monkeypatch, change, require_cookie=True)
    assert found == (ILLEGAL, R.INVALID_COOKIE)


def test_second_hello_may_not_change_its_share_for_a_cookie_alone(monkeypatch):
    other = hello_with(extensions={Ext.KEY_SHARE: ext.encode_key_shares({0x1D: b"\x09" * 32})})
    found = second_hello(monkeypatch, other, require_cookie=True)
    assert found == (ILLEGAL, R.CHANGED_HELLO)


def test_retry_request_is_repeated_for_each_repeated_hello_but_by_no_timer():
    one, two = client(**THIRTEEN | RETRY["client"]), server(**THIRTEEN | RETRY["server"])
    one.start(0.0)
    carry(one, two)
    (first,) = two.datagrams_to_send(0.0)
    assert two.get_timer() == pytest.approx(30.0)  # the deadline alone
    one.handle_timer(one.get_timer())
    carry(one, two, 0.4)
    (second,) = two.datagrams_to_send(0.4)
    assert second != first  # a new record number
    assert second[13:] == first[13:]
    one.receive_datagram(second, 0.4)
    one.receive_datagram(first, 0.4)
    shake(one, two, 0.5)
    assert one.state is two.state is DtlsState.CONNECTED


# before and beside the hello --------------------------------------------------------------------


def test_undecodable_hello_is_as_if_it_had_not_come():
    one, two = client(**THIRTEEN), server(**THIRTEEN)
    two.receive_datagram(plain(22, message(1, 0, b"\xfe\xfdshort")), 0.0)
    two.receive_datagram(plain(22, message(5, 0, b"what?"), 1), 0.0)
    assert two.discards == {
        DtlsDiscard.UNDECODABLE_HELLO: 1,
        DtlsDiscard.MISPLACED_MESSAGE: 1,
    }
    shake(one, two)
    assert one.state is two.state is DtlsState.CONNECTED


def test_strict_servers_say_what_is_wrong():
    two = server(**THIRTEEN, strict_plaintext=True)
    two.receive_datagram(plain(22, message(1, 0, b"\xfe\xfdshort")), 0.0)
    assert failure(two).rule is R.MALFORMED_MESSAGE
    two = server(**THIRTEEN, strict_plaintext=True)
    two.receive_datagram(plain(22, b"\1\0\0"), 0.0)  # half the header of a fragment
    assert failure(two).rule is R.MALFORMED_MESSAGE
    two = server(**THIRTEEN, strict_plaintext=True)
    two.receive_datagram(plain(22, message(5, 0, b"what?")), 0.0)
    assert failure(two).rule is R.UNEXPECTED_MESSAGE
    one, two = client(**THIRTEEN), server(**THIRTEEN, strict_plaintext=True)
    one.start(0.0)
    carry(one, two)
    two.receive_datagram(plain(22, message(11, 1, b"\0\0\0\0"), 9), 0.0)  # keys are known
    assert failure(two).rule is R.UNEXPECTED_MESSAGE


def fragments_of(datagram: bytes, size: int) -> list[bytes]:
    body = datagram[25:]
    return [
        plain(22, message(1, 0, body[at : at + size], at, len(body)), 100 + at)
        for at in range(0, len(body), size)
    ]


@pytest.mark.parametrize("size", [1, 7, 40, 100])
def test_hello_in_fragments_reversed_and_doubled(size):
    """The version is chosen from the whole hello, whichever part comes last."""
    one, two = client(), server()
    one.start(0.0)
    (hello,) = one.datagrams_to_send(0.0)
    parts = fragments_of(hello, size) if size > 2 else fragments_of(hello, 3)
    for part in [*parts[::-1], *parts]:
        two.receive_datagram(part, 0.0)
    shake(one, two)
    assert one.state is two.state is DtlsState.CONNECTED
    assert two.version.name == "DTLS13"


def test_only_one_flight_for_many_copies_of_a_hello():
    one, two = client(**CURVE), server(**CURVE)
    one.start(0.0)
    (hello,) = one.datagrams_to_send(0.0)
    for _ in range(5):
        two.receive_datagram(hello, 0.0)
    assert len(two.datagrams_to_send(0.0)) == 1
    assert two.discards == {DtlsDiscard.REPLAY: 4}
