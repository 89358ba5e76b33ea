"""Handshake bodies after the hellos: 1.2 from captures, all of them against bad input."""

from __future__ import annotations

import pytest

from tests.unit.dtls.plaintext import handshake_messages
from warp.crypto import PeerCertificate
from warp.dtls import messages as m
from warp.dtls.faults import Alert, HandshakeFault

CERTIFICATE, SERVER_KEY_EXCHANGE, CERTIFICATE_REQUEST, CLIENT_KEY_EXCHANGE, VERIFY = (
    11, 12, 13, 16, 15,
)  # fmt: skip


@pytest.mark.parametrize("capture", ["aiortc116_chromium156.pcap", "chromium156_aiortc116.pcap"])
def test_dtls12_of_browsers(capture):
    found = dict(reversed(handshake_messages(f"dtls/{capture}")))
    chain = m.decode_certificate12(found[CERTIFICATE])
    assert m.encode_certificate12(chain) == found[CERTIFICATE]
    exchange = m.decode_server_key_exchange(found[SERVER_KEY_EXCHANGE])
    assert m.server_ecdh_parameters(exchange.group, exchange.public) == exchange.parameters
    assert (
        m.encode_server_key_exchange(exchange.parameters, exchange.scheme, exchange.signature)
        == found[SERVER_KEY_EXCHANGE]
    )
    assert 0x0403 in m.decode_certificate_request12(found[CERTIFICATE_REQUEST])
    public = m.decode_client_key_exchange(found[CLIENT_KEY_EXCHANGE])
    assert m.encode_client_key_exchange(public) == found[CLIENT_KEY_EXCHANGE]
    scheme, signature = m.decode_certificate_verify(found[VERIFY])
    assert m.encode_certificate_verify(scheme, signature) == found[VERIFY]


def test_the_key_exchange_of_chromium_verifies():
    """RFC 8422 section 5.4: the signature covers both randoms and the parameters."""
    found = handshake_messages("dtls/chromium156_aiortc116.pcap")
    client, server = (next(b for k, b in reversed(found) if k == kind) for kind in (1, 2))
    chain = next(b for k, b in found if k == CERTIFICATE)
    exchange = m.decode_server_key_exchange(next(b for k, b in found if k == SERVER_KEY_EXCHANGE))
    signed = client[2:34] + server[2:34] + exchange.parameters
    peer = PeerCertificate(m.decode_certificate12(chain)[0])
    assert peer.verify(exchange.scheme, exchange.signature, signed)
    assert not peer.verify(exchange.scheme, exchange.signature, signed + b"x")


ROUND_TRIPS = [
    (m.decode_certificate13, m.encode_certificate13((b"leaf", b"ca")), (b"", (b"leaf", b"ca"))),
    (m.decode_certificate13, m.encode_certificate13((), b"ctx"), (b"ctx", ())),
    (m.decode_certificate12, m.encode_certificate12([b"leaf"]), [b"leaf"]),
    (m.decode_certificate12, m.encode_certificate12([]), []),
    (m.decode_certificate_verify, m.encode_certificate_verify(0x403, b"s"), (0x403, b"s")),
    (m.decode_certificate_request13, m.encode_certificate_request13([1, 2]), (b"", (1, 2))),
    (m.decode_certificate_request12, m.encode_certificate_request12([1, 2]), (1, 2)),
    (m.decode_client_key_exchange, m.encode_client_key_exchange(b"p"), b"p"),
    (m.decode_encrypted_extensions, b"\0\5\0\x0e\0\1x", {14: b"x"}),
    (
        m.decode_new_session_ticket,
        b"\0\0\0\x09" + b"\1\2\3\4" + b"\1n" + b"\0\1t" + b"\0\0",
        m.NewSessionTicket(9, b"n", b"t"),
    ),
]


@pytest.mark.parametrize(("decode", "body", "value"), ROUND_TRIPS)
def test_round_trips_and_truncations(decode, body, value):
    assert decode(body) == value
    for wrong in [body[:end] for end in range(len(body))] + [body + b"\0"]:
        with pytest.raises(HandshakeFault) as caught:
            decode(wrong)
        assert caught.value.alert is Alert.DECODE_ERROR


def alert_of(decode, body) -> Alert:
    with pytest.raises(HandshakeFault) as caught:
        decode(body)
    return caught.value.alert


def test_key_update():
    assert m.decode_key_update(m.encode_key_update(True)) is True
    assert m.decode_key_update(m.encode_key_update(False)) is False
    assert alert_of(m.decode_key_update, b"\x02") is Alert.ILLEGAL_PARAMETER
    assert alert_of(m.decode_key_update, b"") is Alert.DECODE_ERROR
    assert alert_of(m.decode_key_update, b"\0\0") is Alert.DECODE_ERROR


def test_a_certificate_with_extensions_that_nobody_asked_for():
    body = b"\0" + (9 + 1).to_bytes(3, "big") + b"\0\0\1c" + b"\0\4\0\5\0\0"
    assert alert_of(m.decode_certificate13, body) is Alert.UNSUPPORTED_EXTENSION


def test_certificate_request_needs_schemes():
    assert alert_of(m.decode_certificate_request13, b"\0\0\0") is Alert.MISSING_EXTENSION


def test_only_named_curves():
    assert alert_of(m.decode_server_key_exchange, b"\x01\0\x1d\0") is Alert.ILLEGAL_PARAMETER


def test_empty_things():
    m.decode_empty(b"")
    assert alert_of(m.decode_empty, b"x") is Alert.DECODE_ERROR
    assert alert_of(m.decode_certificate12, b"\0\0\3\0\0\0") is Alert.DECODE_ERROR
    assert alert_of(m.decode_certificate_request12, b"\0\0\2\4\3\0\0") is Alert.DECODE_ERROR
    ticket = b"\0" * 8 + b"\0" + b"\0\0" + b"\0\0"
    assert alert_of(m.decode_new_session_ticket, ticket) is Alert.DECODE_ERROR
