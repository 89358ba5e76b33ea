"""SPED's attributes and the piggyback on any bytes: a value or a discard, bounded, never harm."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from warp.errors import Discard
from warp.sped import (
    Piggyback,
    SpedConfig,
    decode_acknowledgement,
    encode_acknowledgement,
    is_dtls,
    is_handshake_datagram,
)
from warp.stun import BINDING, Attribute, MessageClass, build_message, parse_message

FLIGHT = bytes([22]) + bytes(99)


def fuzz_decode_acknowledgement(data: bytes) -> None:
    assert is_dtls(data) or not is_handshake_datagram(data)
    try:
        hashes = decode_acknowledgement(data)
    except Discard:
        return
    assert len(hashes) <= 16
    assert encode_acknowledgement(hashes) == data


def fuzz_receive_message(data: bytes) -> None:
    """The first byte splits the rest into an acknowledgement and a datagram."""
    if not data:
        return
    cut = 1 + data[0]
    attributes = [
        (int(Attribute.META_DTLS_IN_STUN_ACKNOWLEDGEMENT), data[1:cut]),
        (int(Attribute.META_DTLS_IN_STUN), data[cut:1200]),
    ]
    raw = build_message(BINDING, MessageClass.REQUEST, bytes(12), attributes, integrity_key=None)
    sped = Piggyback(SpedConfig())
    sped.capture_flight([FLIGHT], new_flight=True)
    injected = sped.receive_message(parse_message(raw), 0.0)
    assert all(is_dtls(datagram) for datagram in injected)
    sent = sped.attributes_to_send(MessageClass.SUCCESS, bytes(12), 1000)
    assert len(sent[0][1]) == 4 * len(injected)
    assert sped.active


@given(st.binary(max_size=200))
def test_acknowledgements(data: bytes) -> None:
    fuzz_decode_acknowledgement(data)


@given(st.binary(max_size=400))
def test_messages(data: bytes) -> None:
    fuzz_receive_message(data)
