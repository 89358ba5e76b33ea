"""Foreign stacks on both ends, opened by our records, reassembly, transcript and key schedule."""

from __future__ import annotations

import pytest

from tests.captures.dtls_tap import Tap
from tests.unit.dtls.ends import server
from warp.crypto import NamedGroup
from warp.dtls.extensions import ExtensionType
from warp.dtls.flight import AckEffect, Flight
from warp.dtls.hello import RETRY_REQUEST_RANDOM, decode_client_hello, decode_server_hello
from warp.dtls.messages import HandshakeType, decode_new_session_ticket
from warp.dtls.records import DtlsDiscard
from warp.dtls.suites import CipherSuite, DtlsVersion

LABEL = b"EXTRACTOR-dtls_srtp"
WHOLE = {
    "bssl_basic": 0x1301,
    "bssl_hrr": 0x1301,
    "bssl_ku": 0x1301,
    "bssl_mtu300": 0x1301,
    "bssl_pq": 0x1301,
    "bssl_tickets": 0x1301,
    "nssff153_aes256": 0x1302,
    "nssff153_basic": 0x1301,
    "nssff153_chacha": 0x1303,
    "nssff153_hrr": 0x1301,
    "nssff153_ku": 0x1301,
    "nssff153_nopq": 0x1301,
    "nssff153_nst": 0x1301,
    "nssff153_p384": 0x1301,
}
CLIENT_LEG, SERVER_LEG = 4440, 4441


def tap(stem: str, port: int | None = None) -> Tap:
    return Tap(f"dtls/{stem}.pcap", f"dtls/{stem}.keylog", port)


@pytest.mark.parametrize("stem", WHOLE)
def test_every_record_opens_and_every_signature_holds(stem: str) -> None:
    seen = tap(stem)
    assert seen.suite == CipherSuite(WHOLE[stem])
    assert seen.finished == [True, True]
    assert seen.signatures == [True, True]
    assert seen.discards() == {"client": {}, "server": {}}
    assert seen.data


@pytest.mark.parametrize("drop", ["c2", "s1", "s2", "s3"])
@pytest.mark.parametrize("leg", [CLIENT_LEG, SERVER_LEG])
def test_retransmissions_reassemble_on_both_legs(drop: str, leg: int) -> None:
    """The same message_seq, new record numbers, perhaps other boundaries: one transcript."""
    seen = tap(f"loss_bb_{drop}", leg)
    assert seen.finished == [True, True]
    assert seen.signatures == [True, True]
    lost = {reason for side in seen.discards().values() for reason in side}
    assert lost <= {DtlsDiscard.HELD}


def test_message_sequence_without_and_with_retry_request() -> None:
    plain, retried = tap("nssff153_nopq"), tap("nssff153_hrr")
    for seen, extra in ((plain, 0), (retried, 1)):
        numbers = {(side, m.message_type): m.message_seq for side, m in seen.messages}
        assert numbers["server", HandshakeType.ENCRYPTED_EXTENSIONS] == 1 + extra
        assert numbers["client", HandshakeType.CERTIFICATE] == 1 + extra


def test_retry_request_changes_the_share_and_brings_the_cookie_back() -> None:
    seen = tap("nssff153_hrr")
    hellos = [m.body for _, m in seen.messages if m.message_type == HandshakeType.CLIENT_HELLO]
    first, second = map(decode_client_hello, hellos)
    answers = [m.body for _, m in seen.messages if m.message_type == HandshakeType.SERVER_HELLO]
    request = decode_server_hello(answers[0])
    assert request.random == RETRY_REQUEST_RANDOM
    assert second.random == first.random
    assert second.retry_cookie() == request.retry_cookie() is not None


@pytest.mark.parametrize("stem", ["nssff153_basic", "bssl_pq"])
def test_hybrid_shares(stem: str) -> None:
    seen = tap(stem)
    kinds = {m.message_type: m.body for _, m in seen.messages}
    shares = decode_client_hello(kinds[HandshakeType.CLIENT_HELLO]).key_shares()
    group, share = decode_server_hello(kinds[HandshakeType.SERVER_HELLO]).key_share()
    assert group == NamedGroup.X25519MLKEM768
    assert (len(shares[group]), len(share)) == (1216, 1120)


def test_key_update_opens_the_next_epoch() -> None:
    seen = tap("nssff153_ku")
    assert max(record.epoch for record in seen.records) == 4
    assert HandshakeType.KEY_UPDATE in {m.message_type for _, m in seen.messages}


def test_tickets_parse() -> None:
    for stem in ("nssff153_nst", "bssl_tickets"):
        bodies = [
            m.body
            for _, m in tap(stem).messages
            if m.message_type == HandshakeType.NEW_SESSION_TICKET
        ]
        assert bodies
        assert all(decode_new_session_ticket(body).ticket for body in bodies)


def test_acks_name_handshake_records_only() -> None:
    for stem in WHOLE:
        seen = tap(stem)
        kinds = {(r.side, r.epoch, r.sequence): r.content_type for r in seen.records}
        for side, _, numbers in seen.acks:
            other = "server" if side == "client" else "client"
            assert all(kinds[(other, *number)] == 22 for number in numbers)


@pytest.mark.parametrize(
    ("stem", "first16"),
    [
        ("nssff153_nopq", "090fbffeb5127e3678f0272e750f2bd9"),
        ("nssff153_aes256", "e8776b250d5cfa4cc64fa869142817a3"),
        ("nssff153_chacha", "dc7cc132a5fb32e0bd3fba64150816f0"),
    ],
)
def test_exporter_agrees_with_nss(stem: str, first16: str) -> None:
    """What SSL_ExportKeyingMaterial printed beside the capture (first 16 of 60 bytes)."""
    assert tap(stem).exporter().export(LABEL, 60)[:16].hex() == first16


def test_plaintext_ack_of_protected_records_acknowledges_nothing() -> None:
    """NSS acknowledges an epoch 2 record from epoch 0: neither fatal nor believed."""
    seen = tap("loss_bn_mtu400_s5", SERVER_LEG)
    (ack,) = seen.acks
    side, epoch, numbers = ack
    assert (side, epoch) == ("client", 0)
    assert any(number[0] == 2 for number in numbers)
    assert seen.alerts == [("server", bytes((2, 47)))]
    flight = Flight(seen.sides["server"].context, seen.sides["server"].epochs)
    believed = [number for number in numbers if number[0] <= epoch]
    assert flight.receive_ack(believed, 0.0) is AckEffect.NOTHING


def test_unknown_extensions_and_lists_pass() -> None:
    """Firefox's libraries advertise DSA, SHA-1, FFDHE groups and version 0303."""
    seen = tap("nssff153_basic")
    (body,) = [m.body for _, m in seen.messages if m.message_type == HandshakeType.CLIENT_HELLO]
    hello = decode_client_hello(body)
    assert set(hello.extensions) - set(ExtensionType)
    assert hello.versions()
    assert hello.schemes()


FIRST_HELLOS = [stem for stem in WHOLE if stem not in ("nssff153_hrr", "bssl_hrr")]


def client_part(stem: str) -> list[bytes]:
    """The client's datagrams up to the first answer."""
    datagrams = []
    for side, data in tap(stem).datagrams:
        if side == "server":
            break
        datagrams.append(data)
    return datagrams


@pytest.mark.parametrize("stem", FIRST_HELLOS)
def test_our_server_answers_foreign_hellos_at_once(stem: str) -> None:
    """Whole or in pieces, with the hybrid share or without, each gets a flight or a retry."""
    end = server(groups=tuple(NamedGroup), share_groups=(), versions=(DtlsVersion.DTLS13,))
    for datagram in client_part(stem):
        assert end.datagrams_to_send(0.0) == []
        end.receive_datagram(datagram, 0.0)
    flight = end.datagrams_to_send(0.0)
    assert end.version is DtlsVersion.DTLS13
    assert end.srtp_profile in (None, 1, 7, 8)
    assert end.discards == {}
    assert flight[0][13] == HandshakeType.SERVER_HELLO


@pytest.mark.parametrize("stem", ["nssff153_hrr", "bssl_hrr"])
def test_our_server_answers_foreign_hellos_without_a_usable_share(stem: str) -> None:
    shares = decode_client_hello(
        next(m.body for _, m in tap(stem).messages if m.message_type == HandshakeType.CLIENT_HELLO)
    ).key_shares()
    others = tuple(group for group in NamedGroup if group not in shares)
    end = server(groups=others, share_groups=(), versions=(DtlsVersion.DTLS13,))
    for datagram in client_part(stem):
        end.receive_datagram(datagram, 0.0)
    (request,) = end.datagrams_to_send(0.0)
    assert decode_server_hello(request[25:]).is_retry_request
