"""What a client refuses: every message of the server changed in the way that a rule forbids."""

from __future__ import annotations

import pytest

from tests.unit.dtls.ends import (
    CURVE,
    RETRY,
    SERVER_CERTIFICATE,
    THIRTEEN,
    alert_of,
    carry,
    client,
    failure,
    server,
    shake,
    tamper,
)
from warp.crypto import Certificate, NamedGroup, SignatureScheme
from warp.dtls import Alert, DtlsRule, DtlsState, DtlsVersion, exchange13
from warp.dtls import extensions as ext
from warp.dtls import messages as codec
from warp.dtls.extensions import ExtensionType as Ext
from warp.dtls.hello import decode_client_hello, decode_server_hello
from warp.dtls.messages import HandshakeType as Kind
from warp.entropy import SeededEntropy

A, R = Alert, DtlsRule


def refusal(monkeypatch, changes, *, one=None, two=None) -> tuple[Alert | None, object]:
    """Run a handshake with a server that lies; return the client's alert and the broken rule."""
    one, two = one or client(**THIRTEEN), two or server(**THIRTEEN)
    tamper(monkeypatch, two, changes)
    one.start(0.0)
    for _ in range(4):
        carry(one, two)
        for datagram in two.datagrams_to_send(0.0):
            one.receive_datagram(datagram, 0.0)
        if one.state is DtlsState.FAILED:
            break
    assert one.state is DtlsState.FAILED
    error = failure(one)
    return alert_of(one, two), getattr(error, "rule", error)


def hello_with(**changes):
    """Change a ServerHello: extension bodies by type, or fields by name."""

    def change(body: bytes) -> bytes:
        hello = decode_server_hello(body)
        for name, value in changes.items():
            if name == "extensions":
                hello.extensions.update(value)
            elif name == "without":
                for kind in value:
                    hello.extensions.pop(kind, None)
            else:
                setattr(hello, name, value)
        return hello.encode()

    return change


def share(group: int, public: bytes) -> dict[int, bytes]:
    return {Ext.KEY_SHARE: ext.encode_key_share(group, public)}


ILLEGAL = A.ILLEGAL_PARAMETER


@pytest.mark.parametrize(
    ("change", "alert", "rule"),
    [
        (hello_with(session_id=b"echo"), ILLEGAL, R.SESSION_ID_ECHOED),
        (hello_with(suite=0x1304), ILLEGAL, R.SUITE_NOT_OFFERED),
        (hello_with(suite=0xC02B), ILLEGAL, R.SUITE_NOT_OFFERED),
        (hello_with(without=[Ext.KEY_SHARE]), A.MISSING_EXTENSION, R.MISSING_EXTENSION),
        (hello_with(extensions=share(0x17, b"\x04" + bytes(64))), ILLEGAL, R.GROUP_NOT_OFFERED),
        (hello_with(extensions=share(0x1D, bytes(32))), ILLEGAL, R.BAD_KEY_SHARE),
        (hello_with(extensions=share(0x1D, bytes(31))), ILLEGAL, R.BAD_KEY_SHARE),
        (hello_with(extensions={0x1234: b""}), A.UNSUPPORTED_EXTENSION, R.UNSOLICITED_EXTENSION),
        (hello_with(extensions={Ext.USE_SRTP: b"\0\2\0\7\0"}), ILLEGAL, R.UNSOLICITED_EXTENSION),
        (
            hello_with(extensions={Ext.SUPPORTED_VERSIONS: b"\xfe\xfb"}),
            ILLEGAL,
            R.VERSION_NOT_OFFERED,
        ),
        (
            hello_with(extensions={Ext.SUPPORTED_VERSIONS: b"\xfe\xfd"}),
            A.PROTOCOL_VERSION,
            R.VERSION_NOT_OFFERED,
        ),
    ],
)  # fmt: skip
def test_server_hello(monkeypatch, change, alert, rule):
    assert refusal(monkeypatch, {Kind.SERVER_HELLO: change}) == (alert, rule)


def test_hybrid_share_of_a_wrong_length(monkeypatch):
    hybrid = {
        "groups": (NamedGroup.X25519MLKEM768,),
        "share_groups": (NamedGroup.X25519MLKEM768,),
        **THIRTEEN,
    }
    for length in (1119, 1121, 32):
        change = hello_with(extensions=share(NamedGroup.X25519MLKEM768, bytes(length)))
        found = refusal(
            monkeypatch, {Kind.SERVER_HELLO: change}, one=client(**hybrid), two=server(**hybrid)
        )
        assert found == (ILLEGAL, R.BAD_KEY_SHARE)


def extensions_body(found: dict[int, bytes]) -> bytes:
    return ext.encode_extensions(found.items())


@pytest.mark.parametrize(
    ("found", "alert", "rule"),
    [
        ({Ext.USE_SRTP: b"\0\2\0\x05\0"}, ILLEGAL, R.PROFILE_NOT_OFFERED),
        ({Ext.USE_SRTP: b"\0\4\0\7\0\x08\0"}, ILLEGAL, R.PROFILE_NOT_OFFERED),
        ({Ext.USE_SRTP: b"\0\2\0\7\1x"}, ILLEGAL, R.PROFILE_NOT_OFFERED),
        ({Ext.USE_SRTP: b"\0\2\0\7\0\0"}, A.DECODE_ERROR, R.MALFORMED_MESSAGE),
        ({0x4321: b""}, A.UNSUPPORTED_EXTENSION, R.UNSOLICITED_EXTENSION),
        ({Ext.KEY_SHARE: b"\0\x1d\0\0"}, ILLEGAL, R.UNSOLICITED_EXTENSION),
    ],
)
def test_encrypted_extensions(monkeypatch, found, alert, rule):
    changes = {Kind.ENCRYPTED_EXTENSIONS: lambda _: extensions_body(found)}
    assert refusal(monkeypatch, changes) == (alert, rule)


def test_politely_ignored_extensions(monkeypatch):
    """NSS answers supported_groups, which was offered and means nothing to us."""
    one, two = client(**THIRTEEN), server(**THIRTEEN)
    groups = {Ext.SUPPORTED_GROUPS: ext.encode_u16_list([0x1D, 0x17])}
    tamper(monkeypatch, two, {Kind.ENCRYPTED_EXTENSIONS: lambda _: extensions_body(groups)})
    shake(one, two)
    assert one.state is DtlsState.CONNECTED
    assert one.srtp_profile is None


def test_srtp_required(monkeypatch):
    changes = {Kind.ENCRYPTED_EXTENSIONS: lambda _: b"\0\0"}
    found = refusal(monkeypatch, changes, one=client(**THIRTEEN, require_srtp=True))
    assert found == (A.HANDSHAKE_FAILURE, R.SRTP_MISSING)


@pytest.mark.parametrize(
    ("kind", "change", "alert", "rule"),
    [
        (Kind.CERTIFICATE_REQUEST, lambda b: b"\1x" + b[1:], ILLEGAL, R.MALFORMED_MESSAGE),
        (Kind.CERTIFICATE_REQUEST, lambda b: b"\0\0\0", A.MISSING_EXTENSION, R.MISSING_EXTENSION),
        (Kind.CERTIFICATE_REQUEST, lambda b: b + b"x", A.DECODE_ERROR, R.MALFORMED_MESSAGE),
        (
            Kind.CERTIFICATE, lambda b: codec.encode_certificate13(()),
            A.DECODE_ERROR,
            R.CERTIFICATE_MISSING,
        ),
        (Kind.CERTIFICATE, lambda b: b"\1x" + b[1:], ILLEGAL, R.MALFORMED_MESSAGE),
        (
            Kind.CERTIFICATE, lambda b: codec.encode_certificate13((b"junk",)),
            A.BAD_CERTIFICATE,
            R.BAD_CERTIFICATE,
        ),
        (Kind.CERTIFICATE_VERIFY, lambda b: b"\x04\x01" + b[2:], ILLEGAL, R.SCHEME_NOT_OFFERED),
        (Kind.CERTIFICATE_VERIFY, lambda b: b"\x02\x03" + b[2:], ILLEGAL, R.SCHEME_NOT_OFFERED),
        (Kind.CERTIFICATE_VERIFY, lambda b: b"\x05\x03" + b[2:], A.DECRYPT_ERROR, R.BAD_SIGNATURE),
        (
            Kind.CERTIFICATE_VERIFY, lambda b: b[:-1] + bytes([b[-1] ^ 1]),
            A.DECRYPT_ERROR,
            R.BAD_SIGNATURE,
        ),
        (Kind.CERTIFICATE_VERIFY, lambda b: None, A.UNEXPECTED_MESSAGE, R.UNEXPECTED_MESSAGE),
        (Kind.CERTIFICATE, lambda b: None, A.UNEXPECTED_MESSAGE, R.UNEXPECTED_MESSAGE),
        (Kind.ENCRYPTED_EXTENSIONS, lambda b: None, A.UNEXPECTED_MESSAGE, R.UNEXPECTED_MESSAGE),
        (Kind.FINISHED, lambda b: b[:-1] + bytes([b[-1] ^ 1]), A.DECRYPT_ERROR, R.BAD_FINISHED),
        (Kind.FINISHED, lambda b: b[:-1], A.DECRYPT_ERROR, R.BAD_FINISHED),
        (Kind.FINISHED, lambda b: b"", A.DECRYPT_ERROR, R.BAD_FINISHED),
    ],
)  # fmt: skip
def test_authentication(monkeypatch, kind, change, alert, rule):
    assert refusal(monkeypatch, {kind: change}) == (alert, rule)


def test_context_string_of_the_other_side(monkeypatch):
    wrong = dict.fromkeys(exchange13._SIGNED_HEADS, b"TLS 1.3, client CertificateVerify\0")
    two = server(**THIRTEEN)

    def sign(body: bytes) -> bytes:
        digest = two._handshake.transcript.digest()
        content = b" " * 64 + wrong[two.role] + digest
        signature = SERVER_CERTIFICATE.sign(SignatureScheme.ECDSA_SECP256R1_SHA256, content)
        return codec.encode_certificate_verify(0x0403, signature)

    found = refusal(monkeypatch, {Kind.CERTIFICATE_VERIFY: sign}, two=two)
    assert found == (A.DECRYPT_ERROR, R.BAD_SIGNATURE)


def test_context_strings():
    assert set(exchange13._SIGNED_HEADS.values()) == {
        b" " * 64 + b"TLS 1.3, client CertificateVerify\0",
        b" " * 64 + b"TLS 1.3, server CertificateVerify\0",
    }


def test_wrong_fingerprint():
    one, two = client(**THIRTEEN, known=False), server(**THIRTEEN)
    one.set_peer_fingerprints([("sha-256", ":".join(["AA"] * 32))], 0.0)
    shake(one, two)
    assert one.state is DtlsState.FAILED
    assert two.state is not DtlsState.CONNECTED
    assert one.received_data() == []


def test_client_without_a_fitting_certificate_says_so(monkeypatch):
    """An empty chain; a server that wants to know whom it talks to refuses it."""
    request = codec.encode_certificate_request13([SignatureScheme.RSA_PSS_RSAE_SHA256])
    one, two = client(**THIRTEEN), server(**THIRTEEN)
    tamper(monkeypatch, two, {Kind.CERTIFICATE_REQUEST: lambda _: request})
    shake(one, two)
    assert two.state is DtlsState.FAILED
    assert failure(two).rule is R.CERTIFICATE_MISSING


def test_server_that_does_not_ask():
    """RFC 8827 wants both certificates, but only a server can ask for ours."""
    one, two = client(**THIRTEEN), server(**THIRTEEN, request_client_certificate=False)
    shake(one, two)
    assert one.state is two.state is DtlsState.CONNECTED
    assert two.peer_certificate is None


# HelloRetryRequest ------------------------------------------------------------------------------


def retry_pair():
    return client(**THIRTEEN | RETRY["client"]), server(**THIRTEEN | RETRY["server"])


def test_retry_for_a_group():
    one, two = retry_pair()
    shake(one, two)
    assert one.state is two.state is DtlsState.CONNECTED
    assert one.outcome.group is NamedGroup.SECP256R1


@pytest.mark.parametrize("both", [False, True])
def test_retry_with_a_cookie(both):
    one, two = retry_pair() if both else (client(**THIRTEEN), None)
    groups = RETRY["server"] if both else CURVE
    two = server(**THIRTEEN | groups, require_cookie=True)
    hellos = []
    one.start(0.0)
    for _ in range(5):
        for datagram in one.datagrams_to_send(0.0):
            if datagram[0] == 22 and datagram[13] == 1:
                hellos.append(decode_client_hello(datagram[25:]))
            two.receive_datagram(datagram, 0.0)
        carry(two, one)
    assert one.state is two.state is DtlsState.CONNECTED
    first, second = hellos
    assert second.random == first.random
    assert second.retry_cookie() and not first.retry_cookie()
    same_share = first.key_shares() == second.key_shares()
    assert same_share is not both  # a cookie alone changes nothing else, byte for byte
    assert [k for k in second.extensions if k != Ext.COOKIE] == list(first.extensions)


@pytest.mark.parametrize(
    ("change", "alert", "rule"),
    [
        (hello_with(without=[Ext.KEY_SHARE]), ILLEGAL, R.USELESS_RETRY_REQUEST),
        (hello_with(extensions={Ext.KEY_SHARE: b"\0\x1d"}), ILLEGAL, R.USELESS_RETRY_REQUEST),
        (hello_with(extensions={Ext.KEY_SHARE: b"\0\x18"}), ILLEGAL, R.GROUP_NOT_OFFERED),
        (hello_with(extensions={Ext.KEY_SHARE: b"\0\x99"}), ILLEGAL, R.GROUP_NOT_OFFERED),
        (hello_with(extensions={Ext.COOKIE: b"\0\0"}), A.DECODE_ERROR, R.MALFORMED_MESSAGE),
        (hello_with(session_id=b"x"), ILLEGAL, R.SESSION_ID_ECHOED),
    ],
)  # fmt: skip
def test_retry_requests_that_make_no_sense(monkeypatch, change, alert, rule):
    one, two = retry_pair()
    assert refusal(monkeypatch, {Kind.SERVER_HELLO: change}, one=one, two=two) == (alert, rule)


def test_a_second_retry_request(monkeypatch):
    one, two = retry_pair()
    requests = []

    def repeat(body: bytes) -> bytes:
        requests.append(body)
        return requests[0]

    found = refusal(monkeypatch, {Kind.SERVER_HELLO: repeat}, one=one, two=two)
    assert found == (A.UNEXPECTED_MESSAGE, R.SECOND_RETRY_REQUEST)


@pytest.mark.parametrize(
    ("change", "rule"),
    [
        (hello_with(suite=0x1302), R.SUITE_NOT_OFFERED),
        (
            hello_with(version=DtlsVersion.DTLS12,
            without=[Ext.SUPPORTED_VERSIONS]),
            R.VERSION_NOT_OFFERED,
        ),
        (hello_with(extensions=share(0x1D, b"\x09" + bytes(31))), R.GROUP_NOT_OFFERED),
    ],
)  # fmt: skip
def test_server_hello_that_forgets_its_retry_request(monkeypatch, change, rule):
    one, two = retry_pair()
    count = []

    def only_second(body: bytes) -> bytes:
        count.append(1)
        return body if len(count) == 1 else change(body)

    found = refusal(monkeypatch, {Kind.SERVER_HELLO: only_second}, one=one, two=two)
    assert found[1] is rule
    assert found[0] is ILLEGAL


def test_extension_order_is_irrelevant(monkeypatch):
    one, two = client(**THIRTEEN), server(**THIRTEEN)

    def shuffle(body: bytes) -> bytes:
        hello = decode_server_hello(body)
        hello.extensions = dict(reversed(hello.extensions.items()))
        return hello.encode()

    tamper(monkeypatch, two, {Kind.SERVER_HELLO: shuffle})
    shake(one, two)
    assert one.state is DtlsState.CONNECTED


def test_any_certificate_will_do_if_its_hash_is_the_promised_one():
    """Expired for decades: no dates, no names, no chain are looked at."""
    old = Certificate.generate(SeededEntropy("old"), 1.0e8)
    one, two = client(**THIRTEEN, known=False), server(**THIRTEEN, certificate=old)
    one.set_peer_fingerprints([("sha-1", "00"), ("sha-384", old.fingerprint("sha-384"))], 0.0)
    shake(one, two)
    assert one.state is two.state is DtlsState.CONNECTED
