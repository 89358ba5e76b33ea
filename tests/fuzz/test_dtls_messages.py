"""Handshake bodies and certificates from any bytes: a value or a fault, and values encode back."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from warp.crypto import AeadKind, Certificate, PeerCertificate
from warp.dtls import messages
from warp.dtls.faults import HandshakeFault
from warp.dtls.hello import (
    ClientHello,
    ServerHello,
    decode_client_hello,
    decode_hello_verify_request,
    decode_server_hello,
)
from warp.dtls.record12 import ReadKeys12, WriteKeys12
from warp.entropy import SeededEntropy
from warp.errors import Discard

OWN = Certificate.generate(SeededEntropy(1), 1.7e9)


def fuzz_client_hello(data: bytes) -> None:
    try:
        hello = decode_client_hello(data)
    except HandshakeFault:
        return
    assert hello.encode() == data or not hello.extensions
    for read in (
        hello.versions,
        hello.groups,
        hello.schemes,
        hello.key_shares,
        hello.srtp_profiles,
        hello.retry_cookie,
        hello.refuse_legacy_fields,
    ):
        try:
            read()
        except HandshakeFault:
            continue


def fuzz_server_hello(data: bytes) -> None:
    try:
        hello = decode_server_hello(data)
    except HandshakeFault:
        return
    assert hello.encode() == data or not hello.extensions
    for read in (
        hello.selected_version,
        hello.key_share,
        hello.selected_group,
        hello.retry_cookie,
    ):
        try:
            read()
        except HandshakeFault:
            continue


DECODERS = (
    decode_hello_verify_request,
    messages.decode_encrypted_extensions,
    messages.decode_certificate_request13,
    messages.decode_certificate13,
    messages.decode_new_session_ticket,
    messages.decode_key_update,
    messages.decode_certificate_verify,
    messages.decode_empty,
    messages.decode_certificate12,
    messages.decode_server_key_exchange,
    messages.decode_certificate_request12,
    messages.decode_client_key_exchange,
)


def fuzz_handshake_body(data: bytes) -> None:
    """The first byte picks the message."""
    if not data:
        return
    try:
        DECODERS[data[0] % len(DECODERS)](data[1:])
    except HandshakeFault:
        return


def fuzz_peer_certificate(data: bytes) -> None:
    try:
        peer = PeerCertificate(data)
    except ValueError:
        return
    assert not peer.verify(0x0403, b"signature", b"data")


def fuzz_record12(data: bytes) -> None:
    """The first byte picks the cipher; nothing opens that the keys did not seal."""
    if not data:
        return
    kind = list(AeadKind)[data[0] % 3]
    iv = bytes(12 if kind is AeadKind.CHACHA20_POLY1305 else 4)
    read = ReadKeys12(kind, bytes(kind.key_length), iv)
    write = WriteKeys12(kind, bytes(kind.key_length), iv)
    good = write.seal(23, data)
    try:
        read.open(data + bytes(13), 0, len(data) + 13)
    except Discard:
        assert read.open(good, 0, len(good))[2] == data


def hello_bytes(hello: ClientHello | ServerHello, position: int, value: int) -> bytes:
    body = bytearray(hello.encode())
    body[position % len(body)] = value
    return bytes(body)


CLIENT = ClientHello(
    random=bytes(32),
    suites=(0x1301, 0xC02B),
    extensions={
        43: b"\x04\xfe\xfc\xfe\xfd",
        10: b"\0\2\0\x1d",
        13: b"\0\2\4\3",
        51: b"\0\x06\0\x1d\0\2ab",
        14: b"\0\2\0\7\0",
        44: b"\0\1c",
    },
)
SERVER = ServerHello(
    random=bytes(32), suite=0x1301, extensions={43: b"\xfe\xfc", 51: b"\0\x1d\0\2ab", 44: b"\0\1c"}
)
BYTES = st.binary(max_size=300)
SEEDS = [CLIENT.encode(), SERVER.encode(), OWN.der]


@given(BYTES)
def test_hellos(data: bytes) -> None:
    fuzz_client_hello(data)
    fuzz_server_hello(data)


@given(st.integers(0, 500), st.integers(0, 255))
def test_damaged_hellos(position: int, value: int) -> None:
    fuzz_client_hello(hello_bytes(CLIENT, position, value))
    fuzz_server_hello(hello_bytes(SERVER, position, value))


@given(BYTES)
def test_other_bodies(data: bytes) -> None:
    fuzz_handshake_body(data)


@given(BYTES, st.integers(0, len(OWN.der)))
def test_certificates(data: bytes, cut: int) -> None:
    fuzz_peer_certificate(data)
    fuzz_peer_certificate(OWN.der[:cut] + data)


@given(BYTES)
def test_records(data: bytes) -> None:
    fuzz_record12(data)
