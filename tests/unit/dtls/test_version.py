from __future__ import annotations

import pytest

from tests.unit.dtls.ends import (
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
from warp.dtls import Alert, DtlsDiscard, DtlsRule, DtlsState, DtlsVersion
from warp.dtls import extensions as ext
from warp.dtls.extensions import ExtensionType as Ext
from warp.dtls.hello import DOWNGRADE_SENTINEL, decode_client_hello, decode_server_hello
from warp.dtls.messages import HandshakeType as Kind
from warp.errors import PeerIncompatible

TWELVE = {"versions": (DtlsVersion.DTLS12,)}


@pytest.mark.parametrize(
    ("one", "two", "chosen"),
    [
        ({}, {}, "DTLS13"),
        (TWELVE, {}, "DTLS12"),
        ({}, TWELVE, "DTLS12"),
        (THIRTEEN, {}, "DTLS13"),
        ({}, THIRTEEN, "DTLS13"),
    ],
)
def test_the_newest_version_in_common(one, two, chosen):
    first, second = client(**one), server(**two)
    shake(first, second)
    assert first.state is second.state is DtlsState.CONNECTED
    assert first.version.name == second.version.name == chosen


@pytest.mark.parametrize(("one", "two"), [(TWELVE, THIRTEEN), (THIRTEEN, TWELVE)])
def test_no_version_in_common(one, two):
    first, second = client(**one), server(**two)
    shake(first, second)
    assert second.state is DtlsState.FAILED
    assert first.state is DtlsState.FAILED
    assert failure(first).description == Alert.PROTOCOL_VERSION


def versions(*values: int):
    def change(body: bytes) -> bytes:
        hello = decode_client_hello(body)
        hello.extensions[Ext.SUPPORTED_VERSIONS] = ext.encode_versions(values)
        return hello.encode()

    return change


@pytest.mark.parametrize(
    ("offered", "chosen"),
    [
        ((0x1A1A, 0x0303, 0xFEFC, 0xFEFD), DtlsVersion.DTLS13),
        ((0xFEFD, 0xFEFC), DtlsVersion.DTLS13),
        ((0x0303, 0xFEFD, 0x5A5A), DtlsVersion.DTLS12),
        ((0x0303, 0x0304, 0xFEFF), None),
    ],
)
def test_unknown_versions_are_tolerated(monkeypatch, offered, chosen):
    one, two = client(), server()
    tamper(monkeypatch, one, {Kind.CLIENT_HELLO: versions(*offered)})
    one.start(0.0)
    carry(one, two)
    assert two.version is chosen
    assert (two.state is DtlsState.FAILED) is (chosen is None)


@pytest.mark.parametrize(
    ("legacy", "chosen"),
    [
        (0xFEFD, DtlsVersion.DTLS12),
        (0xFEFF, None),
        (0x0303, None),
        (0xFEFC, DtlsVersion.DTLS12),
        (0xFDFF, DtlsVersion.DTLS12),
    ],
)
def test_without_supported_versions_the_legacy_field_decides(monkeypatch, legacy, chosen):
    def change(body: bytes) -> bytes:
        hello = decode_client_hello(body)
        del hello.extensions[Ext.SUPPORTED_VERSIONS]
        hello.legacy_version = legacy
        return hello.encode()

    one, two = client(), server()
    tamper(monkeypatch, one, {Kind.CLIENT_HELLO: change})
    one.start(0.0)
    carry(one, two)
    assert two.version is chosen
    if chosen is None:
        assert alert_of(two, one) is Alert.PROTOCOL_VERSION


def test_the_version_is_not_guessed_from_a_first_fragment():
    """supported_versions may lie in the last fragment, even be cut in two."""
    one, two = client(), server()
    one.start(0.0)
    (hello,) = one.datagrams_to_send(0.0)
    body = hello[25:]
    cut = body.index(b"\0\x2b\0\5") + 6  # inside supported_versions
    first = plain(22, message(1, 0, body[:cut], 0, len(body)), 10)
    rest = plain(22, message(1, 0, body[cut:], cut, len(body)), 11)
    two.receive_datagram(first, 0.0)
    assert two.version is None
    assert two.datagrams_to_send(0.0) == []
    two.receive_datagram(rest, 0.0)
    assert two.version is DtlsVersion.DTLS13


def test_sentinel_of_a_server_that_could_do_better():
    one, two = client(**TWELVE), server()
    one.start(0.0)
    carry(one, two)
    hello = decode_server_hello(two.datagrams_to_send(0.0)[0][25 : 25 + server_hello_length(two)])
    assert hello.random.endswith(DOWNGRADE_SENTINEL)


def server_hello_length(two) -> int:
    return len(two._handshake.flight.outstanding[0].body)


def test_downgrade_is_noticed(monkeypatch):
    """Someone has taken 1.3 out of our hello; the server's random gives it away."""
    one, two = client(), server()
    one.start(0.0)
    (hello,) = one.datagrams_to_send(0.0)
    body = versions(0xFEFD)(hello[25:])
    two.receive_datagram(plain(22, message(1, 0, body)), 0.0)
    carry(two, one)
    assert failure(one).rule is DtlsRule.DOWNGRADE
    assert alert_of(one, two) is Alert.ILLEGAL_PARAMETER


def test_record_versions():
    """FEFF as long as no version is known, retransmissions included; FEFD ever after."""
    one, two = client(**THIRTEEN), server(**THIRTEEN, require_cookie=True)
    one.start(0.0)
    (first,) = one.datagrams_to_send(0.0)
    one.handle_timer(one.get_timer())
    (again,) = one.datagrams_to_send(0.4)
    assert first[1:3] == again[1:3] == b"\xfe\xff"
    two.receive_datagram(first, 0.0)
    (request,) = carry(two, one, 0.4)
    (second,) = carry(one, two, 0.4)
    (answer,) = carry(two, one, 0.4)
    assert request[1:3] == second[1:3] == answer[1:3] == b"\xfe\xfd"
    # the second hello goes on counting records and messages
    assert int.from_bytes(second[5:11], "big") == 2
    assert second[17:19] == b"\0\1"


def test_no_change_cipher_spec_in_13():
    one, two = client(**THIRTEEN), server(**THIRTEEN)
    one.start(0.0)
    for _ in range(4):
        for source, target in ((one, two), (two, one)):
            target.receive_datagram(plain(20, b"\1", 77), 0.0)
            for datagram in source.datagrams_to_send(0.0):
                assert datagram[0] != 20
                target.receive_datagram(datagram, 0.0)
    assert one.state is two.state is DtlsState.CONNECTED
    assert one.discards[DtlsDiscard.CHANGE_CIPHER_SPEC] >= 1


def test_hello_verify_request_of_a_13_only_client():
    one = client(**THIRTEEN)
    one.start(0.0)
    one.receive_datagram(plain(22, message(3, 0, b"\xfe\xff\4abcd")), 0.0)
    assert isinstance(failure(one), PeerIncompatible)
    (alert,) = one.datagrams_to_send(0.0)[1:]
    assert alert[13:] == bytes((2, Alert.PROTOCOL_VERSION))


def test_second_hello_verify_request():
    one = client()
    one.start(0.0)
    for seq in (0, 1):
        one.receive_datagram(plain(22, message(3, seq, b"\xfe\xff\4abcd"), seq), 0.0)
    assert failure(one).rule is DtlsRule.UNEXPECTED_MESSAGE


def test_hello_verify_request_rules_13_out(monkeypatch):
    one, two = client(), server()
    one.start(0.0)
    (hello,) = one.datagrams_to_send(0.0)
    one.receive_datagram(plain(22, message(3, 0, b"\xfe\xff\4abcd")), 0.0)
    (second,) = one.datagrams_to_send(0.0)
    first, again = decode_client_hello(hello[25:]), decode_client_hello(second[25:])
    assert second[1:3] == b"\xfe\xff"  # whatever a HelloVerifyRequest says is no version
    assert again.cookie == b"abcd"
    assert (again.random, again.extensions) == (first.random, first.extensions)
    two.receive_datagram(plain(22, message(1, 0, hello[25:])), 0.0)
    answer = two.datagrams_to_send(0.0)[0]
    length = server_hello_length(two)
    one.receive_datagram(plain(22, message(2, 1, answer[25 : 25 + length]), 5), 0.0)
    assert failure(one).rule is DtlsRule.VERSION_NOT_OFFERED


def test_retry_request_of_a_server_that_chose_12(monkeypatch):
    one, two = client(), server(require_cookie=True)

    def change(body: bytes) -> bytes:
        hello = decode_server_hello(body)
        hello.extensions[Ext.SUPPORTED_VERSIONS] = b"\xfe\xfd"
        return hello.encode()

    tamper(monkeypatch, two, {Kind.SERVER_HELLO: change})
    one.start(0.0)
    carry(one, two)
    carry(two, one)
    assert failure(one).rule is DtlsRule.VERSION_NOT_OFFERED
