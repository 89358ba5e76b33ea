from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from warp.stun import BINDING, Attribute, MessageClass, build_message
from warp_tools.dissect import describe, dtls_contents

ID = bytes(12)


def handshake(kind: int, length: int, offset: int = 0, size: int | None = None) -> bytes:
    size = length if size is None else size
    fields = [bytes([kind]), length.to_bytes(3, "big"), bytes(2)]
    fields += [offset.to_bytes(3, "big"), size.to_bytes(3, "big"), bytes(size)]
    return b"".join(fields)


def record(content: int, body: bytes, epoch: int = 0) -> bytes:
    head = bytes([content, 254, 253]) + epoch.to_bytes(2, "big") + bytes(6)
    return head + len(body).to_bytes(2, "big") + body


CLIENT_HELLO = record(22, handshake(1, 60))
UNIFIED = bytes([0x2E]) + bytes(2) + (20).to_bytes(2, "big") + bytes(20)


@pytest.mark.parametrize(
    ("data", "text"),
    [
        (CLIENT_HELLO, "ClientHello"),
        (record(22, handshake(1, 900, 0, 400)), "ClientHello[0..400 of 900]"),
        (record(22, handshake(2, 60) + handshake(14, 0)), "ServerHello + ServerHelloDone"),
        (record(22, handshake(2, 60)) + UNIFIED * 3, "ServerHello + encrypted×3"),
        (record(20, b"\x01") + record(22, bytes(40), 1), "ChangeCipherSpec + encrypted"),
        (record(26, bytes(4)), "ACK"),
        (record(21, bytes(2)), "Alert"),
        (record(23, bytes(9), 1), "data"),
        (bytes([0x28]) + bytes(50), "encrypted"),
        (b"\x16", "cut record"),
        (record(22, b"\x01"), "cut handshake"),
        (b"", "nothing"),
    ],
)
def test_dtls(data: bytes, text: str) -> None:
    assert dtls_contents(data) == text


def test_a_check_shows_what_rides_in_it() -> None:
    request = build_message(
        BINDING,
        MessageClass.REQUEST,
        ID,
        [
            (Attribute.USE_CANDIDATE, b""),
            (Attribute.META_DTLS_IN_STUN_ACKNOWLEDGEMENT, bytes(8)),
            (Attribute.META_DTLS_IN_STUN, CLIENT_HELLO),
        ],
        integrity_key=None,
    )
    assert describe(request) == (
        "stun",
        f"Binding request, use-candidate, carries ClientHello ({len(CLIENT_HELLO)}), acks 2",
    )
    response = build_message(BINDING, MessageClass.SUCCESS, ID, [], integrity_key=None)
    assert describe(response).text == "Binding response"
    assert describe(response[:-1] + b"\x00").text.startswith("STUN, unreadable")


def test_the_other_kinds() -> None:
    assert describe(CLIENT_HELLO) == ("dtls", "DTLS ClientHello")
    assert describe(b"\x80\x6f" + bytes(20)).kind == "rtp"
    assert describe(b"\x80\xc8" + bytes(20)).kind == "rtcp"
    assert describe(b"\xff").kind == "other"
    assert describe(b"").kind == "empty"


@given(st.binary(max_size=400))
def test_any_bytes_are_described(data: bytes) -> None:
    kind, text = describe(data)
    assert kind
    assert text
    assert dtls_contents(data)
