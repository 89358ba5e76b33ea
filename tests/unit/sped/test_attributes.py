from __future__ import annotations

import pytest

from tests.vectors.sped import captured_messages, captured_packets
from warp.errors import Discard
from warp.sped import (
    SpedDiscard,
    datagram_hash,
    decode_acknowledgement,
    echo_options,
    encode_acknowledgement,
    is_dtls,
    is_handshake_datagram,
    room_for_attributes,
)
from warp.stun import Attribute, parse_message

DATA = Attribute.META_DTLS_IN_STUN
ACK = Attribute.META_DTLS_IN_STUN_ACKNOWLEDGEMENT


def test_hash_is_plain_crc32() -> None:
    """RFC 1952: the check value, and no XOR with FINGERPRINT's constant."""
    assert datagram_hash(b"123456789") == 0xCBF43926


def test_captured_acknowledgements_name_captured_datagrams() -> None:
    """Every hash that Chromium sent is our hash of a datagram of the same call."""
    known: dict[str, set[int]] = {}
    for packet in captured_packets():
        if packet.kind == "DTLS":
            known.setdefault(packet.capture, set()).add(datagram_hash(packet.raw))
        else:
            data = parse_message(packet.raw).get(DATA)
            if data is not None:
                known.setdefault(packet.capture, set()).add(datagram_hash(data))
    checked = 0
    for packet in captured_messages():
        value = parse_message(packet.raw).get(ACK)
        assert value is not None, "Chromium acknowledges in every message while active"
        hashes = decode_acknowledgement(value)
        assert hashes == packet.acks
        assert encode_acknowledgement(hashes) == value
        for acknowledged in hashes:
            assert acknowledged in known[packet.capture]
            checked += 1
    assert checked == 20
    assert 0xB9B50F68 in known["c_on_passive_lite_cls_snap"]


@pytest.mark.parametrize("size", [1, 2, 3, 5, 19, 68, 1000])
def test_malformed_acknowledgements(size: int) -> None:
    with pytest.raises(Discard) as caught:
        decode_acknowledgement(bytes(size))
    assert caught.value.reason is SpedDiscard.MALFORMED_ACKNOWLEDGEMENT


def test_five_acknowledgements_do_no_harm() -> None:
    assert decode_acknowledgement(bytes(20)) == (0,) * 5


def test_is_dtls() -> None:
    """RFC 9443 section 3: 20 to 63; a record header is 13 bytes."""
    assert [first for first in range(256) if is_dtls(bytes([first]) + bytes(12))] == list(
        range(20, 64)
    )
    assert not is_dtls(b"\x16" + bytes(11))
    assert not is_dtls(b"")
    for packet in captured_packets():
        assert is_dtls(packet.raw) == (packet.kind == "DTLS")


def test_handshake_datagrams_of_real_calls() -> None:
    """Of the captured bare datagrams, only the 40 and 66 byte ones are of epoch 3."""
    seen = {(len(p.raw), is_handshake_datagram(p.raw)) for p in captured_packets()
            if p.kind == "DTLS"}  # fmt: skip
    assert {size for size, handshake in seen if not handshake} == {40, 66}
    assert {size for size, handshake in seen if handshake} >= {629, 456, 900, 563}


@pytest.mark.parametrize(
    ("first", "expected"),
    [(22, True), (20, True), (21, False), (23, False), (26, False), (0x2E, True), (0x2F, False),
     (0x32, True), (0x2D, False), (19, False), (64, False)],
)  # fmt: skip
def test_handshake_datagram_by_first_byte(first: int, expected: bool) -> None:
    assert is_handshake_datagram(bytes([first]) + bytes(30)) is expected


@pytest.mark.parametrize(
    ("offered", "echoed"),
    [
        ("trickle sped googspedv1", ["sped", "googspedv1"]),
        ("trickle goog-sped-v1", ["goog-sped-v1"]),
        ("googspedv1", ["googspedv1"]),
        ("trickle", []),
        ("", []),
        ("SPED sped2 ice2", []),
    ],
)
def test_echo_options(offered: str, echoed: list[str]) -> None:
    assert echo_options(offered.split()) == echoed


def test_room_for_attributes() -> None:
    assert room_for_attributes(100) == 1068
    assert room_for_attributes(1168) == 0
    assert room_for_attributes(5000) == 0
