"""Hellos of Chrome, Firefox's NSS, BoringSSL and aiortc, and what a decoder must refuse."""

from __future__ import annotations

import pytest

from tests.unit.dtls.plaintext import handshake_messages
from warp.crypto import NamedGroup
from warp.dtls.extensions import (
    ExtensionType,
    check_point_formats,
    check_renegotiation_info,
    decode_extensions,
    decode_key_shares,
    decode_use_srtp,
    encode_extensions,
    encode_key_share,
    encode_key_shares,
    encode_use_srtp,
    refuse_unoffered,
)
from warp.dtls.faults import Alert, DtlsRule, HandshakeFault
from warp.dtls.hello import (
    DOWNGRADE_SENTINEL,
    ClientHello,
    decode_client_hello,
    decode_hello_verify_request,
    decode_server_hello,
)
from warp.octets import vector16

CLIENT_HELLO, SERVER_HELLO = 1, 2


def bodies(capture: str, kind: int) -> list[bytes]:
    return [body for found, body in handshake_messages(f"dtls/{capture}") if found == kind]


CAPTURES = [
    "aiortc116_chromium156.pcap",
    "chromium156_aiortc116.pcap",
    "bssl_basic.pcap",
    "bssl_hrr.pcap",
    "bssl_mtu300.pcap",
    "bssl_pq.pcap",
    "nssff153_basic.pcap",
    "nssff153_hrr.pcap",
    "nssff153_nopq.pcap",
    "nssff153_p384.pcap",
    "illustrated/capture.pcap",
]


@pytest.mark.parametrize("capture", CAPTURES)
def test_real_hellos_survive_decoding_and_encoding(capture):
    clients, servers = bodies(capture, CLIENT_HELLO), bodies(capture, SERVER_HELLO)
    assert clients and servers
    for body in clients:
        assert decode_client_hello(body).encode() == body
    for body in servers:
        assert decode_server_hello(body).encode() == body


def test_chromium_client_hello():
    hello = decode_client_hello(bodies("aiortc116_chromium156.pcap", CLIENT_HELLO)[0])
    assert hello.versions() == (0xFEFC, 0xFEFD)
    assert hello.groups() == (0x11EC, 0x001D, 0x0017, 0x0018)
    assert hello.srtp_profiles() == (0x0001, 0x0008, 0x0007)
    assert hello.schemes()[0] == 0x0403
    assert hello.suites[:4] == (0x1301, 0x1302, 0x1303, 0xC02B)
    shares = hello.key_shares()
    assert [(g, len(s)) for g, s in shares.items()] == [(0x11EC, 1216), (0x001D, 32)]
    assert hello.retry_cookie() is None
    hello.refuse_legacy_fields()
    check_point_formats(hello.extensions[ExtensionType.EC_POINT_FORMATS])
    check_renegotiation_info(hello.extensions[ExtensionType.RENEGOTIATION_INFO])


def test_nss_client_hello_lists_versions_and_schemes_that_nobody_else_knows():
    hello = decode_client_hello(bodies("nssff153_basic.pcap", CLIENT_HELLO)[0])
    assert {0xFEFC, 0xFEFD} <= set(hello.versions())
    assert set(hello.schemes()) - {0x0401, 0x0403, 0x0501, 0x0503, 0x0601, 0x0804, 0x0805, 0x0806}


def test_retry_request_with_cookie_and_group():
    hellos = [decode_server_hello(body) for body in bodies("nssff153_hrr.pcap", SERVER_HELLO)]
    retry = next(hello for hello in hellos if hello.is_retry_request)
    answer = next(hello for hello in hellos if not hello.is_retry_request)
    assert retry.selected_version() == 0xFEFC
    group, share = answer.key_share()
    assert group in set(NamedGroup) and share
    second = decode_client_hello(bodies("nssff153_hrr.pcap", CLIENT_HELLO)[-1])
    assert second.retry_cookie() == retry.retry_cookie()
    if retry.selected_group() is not None:
        assert retry.selected_group() in second.key_shares()


def test_chromium_answers_an_old_client_with_the_sentinel():
    hello = decode_server_hello(bodies("chromium156_aiortc116.pcap", SERVER_HELLO)[0])
    assert hello.selected_version() == 0xFEFD
    assert hello.random.endswith(DOWNGRADE_SENTINEL)


def sample(**changes) -> ClientHello:
    fields = {
        "random": bytes(32),
        "suites": (0x1301, 0xC02B),
        "extensions": {0x0A0A: b"", ExtensionType.SUPPORTED_GROUPS: b"\x00\x02\x00\x1d"},
    }
    return ClientHello(**(fields | changes))


def fault(decode, body) -> HandshakeFault:
    with pytest.raises(HandshakeFault) as caught:
        decode(body)
    return caught.value


def test_every_truncation_is_a_decode_error():
    body = sample(cookie=b"abc", session_id=b"x" * 32).encode()
    # without the extension block it is a legal old-style hello (RFC 5246 section 7.4.1.2)
    bare = len(body) - len(encode_extensions(sample().extensions.items()))
    for end in range(len(body)):
        if end != bare:
            assert fault(decode_client_hello, body[:end]).alert is Alert.DECODE_ERROR
    assert fault(decode_client_hello, body + b"\0").alert is Alert.DECODE_ERROR
    assert decode_client_hello(body[:bare]).extensions == {}


def test_unknown_things_are_passed_on():
    hello = decode_client_hello(sample(suites=(0x0A0A, 0x1301, 0xFFFF)).encode())
    assert hello.suites == (0x0A0A, 0x1301, 0xFFFF)
    assert 0x0A0A in hello.extensions


def test_duplicate_extension():
    block = encode_extensions([(0x0A0A, b""), (0x0A0A, b"x")])[2:]
    found = fault(decode_extensions, block)
    assert found.alert is Alert.ILLEGAL_PARAMETER
    assert found.error.rule is DtlsRule.DUPLICATE_EXTENSION


def test_compression_must_offer_null():
    assert fault(decode_client_hello, sample(compressions=b"\x01").encode()).alert is (
        Alert.ILLEGAL_PARAMETER
    )
    both = decode_client_hello(sample(compressions=b"\x00\x01").encode())
    with pytest.raises(HandshakeFault):
        both.refuse_legacy_fields()  # RFC 8446 section 4.1.2: exactly null in 1.3


def test_legacy_cookie_is_for_old_versions():
    hello = decode_client_hello(sample(cookie=b"c").encode())
    with pytest.raises(HandshakeFault) as caught:
        hello.refuse_legacy_fields()
    assert caught.value.error.rule is DtlsRule.LEGACY_COOKIE


def test_session_id_has_a_limit():
    body = sample(session_id=b"x" * 33).encode()
    assert fault(decode_client_hello, body).alert is Alert.DECODE_ERROR


def test_two_shares_for_one_group():
    body = vector16(encode_key_share(29, b"a") + encode_key_share(29, b"b"))
    assert fault(decode_key_shares, body).alert is Alert.ILLEGAL_PARAMETER
    assert fault(decode_key_shares, encode_key_shares({29: b""})).alert is Alert.DECODE_ERROR
    assert decode_key_shares(b"\0\0") == {}


def test_use_srtp():
    assert decode_use_srtp(encode_use_srtp((7, 1))) == ((7, 1), b"")
    assert decode_use_srtp(vector16(b"\0\1") + b"\x02ab") == ((1,), b"ab")
    assert fault(decode_use_srtp, vector16(b"\0\1")).alert is Alert.DECODE_ERROR
    assert fault(decode_use_srtp, b"\0\0\0").alert is Alert.DECODE_ERROR


@pytest.mark.parametrize("body", [b"", b"\0\0", b"\0\1\0", b"\0\3\0\1\2", b"\0\2\0\x1d\0"])
def test_bad_number_lists(body):
    hello = sample(extensions={ExtensionType.SUPPORTED_GROUPS: body})
    with pytest.raises(HandshakeFault):
        hello.groups()


def test_unoffered_answers():
    refuse_unoffered([1, 2], [2, 1, 3], "RFC 8446 section 4.2")
    with pytest.raises(HandshakeFault) as caught:
        refuse_unoffered([1, 9], [1], "RFC 8446 section 4.2")
    assert caught.value.alert is Alert.UNSUPPORTED_EXTENSION


def test_renegotiation_info_of_a_later_handshake():
    assert fault(check_renegotiation_info, b"\x01x").alert is Alert.HANDSHAKE_FAILURE


def test_hello_verify_request():
    assert decode_hello_verify_request(b"\xfe\xff\x03abc") == b"abc"
    assert fault(decode_hello_verify_request, b"\xfe\xff\x03ab").alert is Alert.DECODE_ERROR
