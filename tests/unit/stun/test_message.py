from __future__ import annotations

import hashlib
import hmac
import zlib

import pytest

from tests.vectors import rfc5769
from tests.vectors.sped import captured_messages
from warp.errors import Discard
from warp.stun import (
    BINDING,
    Attribute,
    MessageClass,
    StunDiscard,
    build_message,
    is_stun,
    long_term_key,
    parse_message,
    peek_username,
)

TRANSACTION = bytes(range(12))


class Hmac:
    """A keyed context made of the standard library alone, so that no code under test vouches."""

    def __init__(self, key: bytes, algorithm: str = "sha1") -> None:
        self._key, self._algorithm = key, algorithm

    def digest(self, *parts: bytes) -> bytes:
        return hmac.digest(self._key, b"".join(parts), self._algorithm)


KEY = Hmac(b"password-of-the-receiver")


def with_fingerprint(head: bytes) -> bytes:
    head = head[:2] + (len(head) - 12).to_bytes(2, "big") + head[4:]
    return head + b"\x80\x28\x00\x04" + (zlib.crc32(head) ^ 0x5354554E).to_bytes(4, "big")


def resized(message: bytes) -> bytes:
    return message[:2] + (len(message) - 20).to_bytes(2, "big") + message[4:]


@pytest.mark.parametrize(
    "raw", [rfc5769.REQUEST, rfc5769.RESPONSE_IPV4, rfc5769.RESPONSE_IPV6], ids=len
)
def test_rfc5769_short_term(raw: bytes) -> None:
    message = parse_message(raw)
    assert message.method == BINDING
    assert message.transaction_id.hex() == "b7e7a701bc34d686fa87dfae"
    assert message.verify_integrity(Hmac(rfc5769.SHORT_TERM_PASSWORD))
    assert not message.verify_integrity(Hmac(b"another"))
    assert message.raw == raw


def test_rfc5769_request_fields() -> None:
    message = parse_message(rfc5769.REQUEST)
    assert message.message_class is MessageClass.REQUEST
    assert message.get(Attribute.SOFTWARE) == b"STUN test client"
    assert message.get(Attribute.PRIORITY) == bytes.fromhex("6e0001ff")
    assert message.get(Attribute.ICE_CONTROLLED) == bytes.fromhex("932ff9b151263b36")
    assert message.get(Attribute.USERNAME) == b"evtj:h6vY"
    assert message.get(Attribute.NONCE) is None
    assert peek_username(rfc5769.REQUEST) == ("evtj", "h6vY")


def test_rfc5769_long_term() -> None:
    message = parse_message(rfc5769.LONG_TERM_REQUEST)
    key = long_term_key(
        rfc5769.LONG_TERM_USERNAME, rfc5769.LONG_TERM_REALM, rfc5769.LONG_TERM_PASSWORD
    )
    assert message.get(Attribute.NONCE) == rfc5769.LONG_TERM_NONCE
    assert message.verify_integrity(Hmac(key))
    built = build_message(
        BINDING,
        MessageClass.REQUEST,
        message.transaction_id,
        message.attributes,
        integrity_key=Hmac(key),
        fingerprint=False,
    )
    assert built == rfc5769.LONG_TERM_REQUEST


def test_captured_messages_verify_and_rebuild_byte_for_byte() -> None:
    count = 0
    for packet in captured_messages():
        message = parse_message(packet.raw)
        key = Hmac(packet.key)
        assert message.verify_integrity(key), packet
        rebuilt = build_message(
            message.method,
            message.message_class,
            message.transaction_id,
            message.attributes,
            integrity_key=key,
        )
        assert rebuilt == packet.raw
        count += 1
    assert count == 30


@pytest.mark.parametrize("message_class", list(MessageClass))
@pytest.mark.parametrize("method", [1, 3, 4, 8, 9, 0xFFF])
def test_every_method_and_class_survives(method: int, message_class: MessageClass) -> None:
    raw = build_message(method, message_class, TRANSACTION, [], integrity_key=None)
    message = parse_message(raw)
    assert (message.method, message.message_class) == (method, message_class)
    assert message.transaction_id == TRANSACTION
    assert not message.has_integrity


@pytest.mark.parametrize("size", range(9))
def test_values_are_padded(size: int) -> None:
    value = b"x" * size
    raw = build_message(
        BINDING, MessageClass.REQUEST, TRANSACTION, [(0x8000, value)], integrity_key=KEY
    )
    message = parse_message(raw)
    assert len(raw) % 4 == 0
    assert message.attributes == [(0x8000, value)]
    assert message.verify_integrity(KEY)


def test_first_of_equal_attributes_counts() -> None:
    raw = build_message(
        BINDING, MessageClass.REQUEST, TRANSACTION, [(6, b"a:b"), (6, b"c:d")], integrity_key=None
    )
    assert parse_message(raw).get(Attribute.USERNAME) == b"a:b"


def test_attributes_behind_integrity_are_ignored() -> None:
    """RFC 8489 section 14.5: only MESSAGE-INTEGRITY-SHA256 and FINGERPRINT may follow."""
    raw = build_message(
        BINDING,
        MessageClass.REQUEST,
        TRANSACTION,
        [(Attribute.USERNAME, b"a:b")],
        integrity_key=KEY,
        fingerprint=False,
    )
    spoofed = with_fingerprint(raw + b"\xc0\x70\x00\x05hello\0\0\0")
    message = parse_message(spoofed)
    assert message.attributes == [(6, b"a:b")]
    assert message.verify_integrity(KEY)


def test_a_second_integrity_is_ignored() -> None:
    raw = build_message(
        BINDING, MessageClass.REQUEST, TRANSACTION, [], integrity_key=KEY, fingerprint=False
    )
    message = parse_message(resized(raw + b"\x00\x08\x00\x14" + bytes(20)))
    assert message.verify_integrity(KEY)


def test_integrity_sha256() -> None:
    """RFC 8489 section 14.6, full length and truncated to 16 bytes."""
    key = Hmac(b"password", "sha256")
    for length in (32, 20, 16):
        raw = build_message(
            BINDING, MessageClass.REQUEST, TRANSACTION, [(6, b"a:b")], integrity_key=None,
            fingerprint=False,
        )  # fmt: skip
        head = raw[:2] + (len(raw) - 20 + 4 + length).to_bytes(2, "big") + raw[4:]
        mac = key.digest(head)[:length]
        whole = with_fingerprint(head + b"\x00\x1c" + length.to_bytes(2, "big") + mac)
        message = parse_message(whole)
        assert message.verify_integrity_sha256(key)
        assert not message.verify_integrity_sha256(KEY)
        assert not message.verify_integrity(KEY)
        assert message.attributes == [(6, b"a:b")]


def test_missing_integrity_never_verifies() -> None:
    raw = build_message(BINDING, MessageClass.REQUEST, TRANSACTION, [], integrity_key=None)
    message = parse_message(raw)
    assert not message.verify_integrity(KEY)
    assert not message.verify_integrity_sha256(KEY)


def test_no_flipped_bit_passes_as_authentic() -> None:
    """A flip may hide FINGERPRINT inside another attribute; MESSAGE-INTEGRITY still notices."""
    raw = rfc5769.REQUEST
    key = Hmac(rfc5769.SHORT_TERM_PASSWORD)
    survivors = []
    for position in range(len(raw)):
        for bit in range(8):
            damaged = bytearray(raw)
            damaged[position] ^= 1 << bit
            try:
                message = parse_message(bytes(damaged))
            except Discard:
                continue
            if message.verify_integrity(key):
                survivors.append(position)
    assert set(survivors) <= {100, 101}  # the type of FINGERPRINT, behind the integrity


@pytest.mark.parametrize(
    ("raw", "reason"),
    [
        (b"", StunDiscard.NOT_STUN),
        (rfc5769.REQUEST[:19], StunDiscard.NOT_STUN),
        (b"\x40" + rfc5769.REQUEST[1:], StunDiscard.NOT_STUN),
        (rfc5769.REQUEST[:4] + b"\0\0\0\0" + rfc5769.REQUEST[8:], StunDiscard.NOT_STUN),
        (rfc5769.REQUEST[:-4], StunDiscard.BAD_LENGTH),
        (rfc5769.REQUEST + b"\0\0\0\0", StunDiscard.BAD_LENGTH),
        (resized(rfc5769.REQUEST + b"\0"), StunDiscard.BAD_LENGTH),
        (rfc5769.REQUEST[:-1] + b"\0", StunDiscard.WRONG_FINGERPRINT),
        (resized(rfc5769.REQUEST + b"\0\6\0\0"), StunDiscard.AFTER_FINGERPRINT),
        (resized(rfc5769.REQUEST[:20] + b"\0\6\0\5aaaa"), StunDiscard.BAD_ATTRIBUTE),
        (resized(rfc5769.REQUEST[:20] + b"\0\6\xff\xffaaaa"), StunDiscard.BAD_ATTRIBUTE),
        (resized(rfc5769.REQUEST[:20] + b"\0\x08\0\x14aaaa"), StunDiscard.BAD_ATTRIBUTE),
        (resized(rfc5769.REQUEST[:20] + b"\0\x08\0\4aaaa"), StunDiscard.BAD_INTEGRITY_LENGTH),
        (resized(rfc5769.REQUEST[:20] + b"\0\x1c\0\4aaaa"), StunDiscard.BAD_INTEGRITY_LENGTH),
        (resized(rfc5769.REQUEST[:20] + b"\x80\x28\0\3aaa\0"), StunDiscard.AFTER_FINGERPRINT),
        (resized(rfc5769.REQUEST[:20] + b"\x80\0\0\0" * 65), StunDiscard.TOO_MANY_ATTRIBUTES),
    ],
)
def test_bad_messages_say_why(raw: bytes, reason: StunDiscard) -> None:
    with pytest.raises(Discard) as caught:
        parse_message(raw)
    assert caught.value.reason is reason


def test_is_stun() -> None:
    assert is_stun(rfc5769.REQUEST)
    assert not is_stun(rfc5769.REQUEST[:19])
    assert not is_stun(b"\x16" + rfc5769.REQUEST[1:])
    assert not is_stun(bytes(20))


def test_peek_username_is_for_binding_requests_only() -> None:
    assert peek_username(rfc5769.RESPONSE_IPV4) is None
    assert peek_username(rfc5769.LONG_TERM_REQUEST) is None
    assert peek_username(rfc5769.REQUEST[:60]) is None
    assert peek_username(b"") is None
    for packet in captured_messages():
        if packet.raw[:2] == b"\0\1":
            name = parse_message(packet.raw).get(Attribute.USERNAME)
            assert peek_username(packet.raw) == tuple((name or b"").decode().split(":"))


def test_peek_username_ends_on_a_chain_of_empty_attributes() -> None:
    raw = resized(rfc5769.REQUEST[:20] + b"\x80\0\0\0" * 300 + b"\0\6\0\3a:b\0")
    assert peek_username(raw) is None


def test_message_repr_shows_no_values() -> None:
    text = repr(parse_message(rfc5769.REQUEST))
    assert "0006/9" in text and "evtj" not in text


def test_digest_is_sha1_over_adjusted_length() -> None:
    """The length field in the digest ends with MESSAGE-INTEGRITY, FINGERPRINT not counted."""
    raw = build_message(BINDING, MessageClass.REQUEST, TRANSACTION, [], integrity_key=KEY)
    head = raw[:2] + (24).to_bytes(2, "big") + raw[4:20]
    expected = hmac.new(b"password-of-the-receiver", head, hashlib.sha1).digest()
    assert raw[24:44] == expected
