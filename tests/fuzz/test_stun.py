"""The STUN parser on any bytes: a message or a discard, nothing else, in bounded time."""

from __future__ import annotations

import zlib

from hypothesis import given
from hypothesis import strategies as st

from tests.vectors import rfc5769
from tests.vectors.sped import captured_messages
from warp.errors import Discard
from warp.stun import (
    Attribute,
    build_message,
    decode_error_code,
    decode_xor_address,
    is_stun,
    parse_message,
    peek_username,
)

SEEDS = [rfc5769.REQUEST, rfc5769.RESPONSE_IPV6, *(p.raw for p in captured_messages()[:6])]


class Zero:
    """A key whose digest nobody matches by accident."""

    def digest(self, *parts: bytes) -> bytes:
        return bytes(sum(map(len, parts)) % 7 for _ in range(20))


def fuzz_parse_message(data: bytes) -> None:
    names = peek_username(data)
    assert names is None or len(names) == 2
    try:
        message = parse_message(data)
    except Discard:
        return
    assert is_stun(data) == (data[0] < 4)  # what shares its port keeps to RFC 7983
    assert message.raw is data
    assert len(message.transaction_id) == 12
    assert sum(4 + len(value) for _, value in message.attributes) <= len(data) - 20
    message.verify_integrity(Zero())
    message.verify_integrity_sha256(Zero())
    for kind, value in message.attributes:
        assert message.get(kind) is not None
        for decode in (
            lambda v: decode_xor_address(v, message.transaction_id),
            decode_error_code,
        ):
            try:
                decode(value)
            except Discard:
                continue
    if message.integrity_at == message.sha256_at == 0:
        # what was parsed without a tail is what would be built
        again = build_message(
            message.method,
            message.message_class,
            message.transaction_id,
            message.attributes,
            integrity_key=None,
        )
        assert parse_message(again).attributes == message.attributes


def reseal(data: bytes) -> bytes:
    """Make length and FINGERPRINT fit, so that damage reaches what lies behind the checks."""
    body = data[:20].ljust(20, b"\0") + data[20 : 20 + (len(data) - 20) // 4 * 4]
    head = bytes([body[0] & 0x3F, body[1]]) + (len(body) - 12).to_bytes(2, "big")
    head += b"\x21\x12\xa4\x42" + body[8:]
    return head + b"\x80\x28\0\4" + (zlib.crc32(head) ^ 0x5354554E).to_bytes(4, "big")


@given(st.binary(max_size=1500))
def test_any_bytes(data: bytes) -> None:
    fuzz_parse_message(data)


@given(st.binary(max_size=300))
def test_any_body(data: bytes) -> None:
    fuzz_parse_message(reseal(data))


@given(
    st.sampled_from(SEEDS),
    st.lists(st.tuples(st.integers(0, 1400), st.integers(0, 255)), max_size=6),
    st.integers(0, 64),
    st.booleans(),
)
def test_damaged_messages(
    seed: bytes, changes: list[tuple[int, int]], cut: int, sealed: bool
) -> None:
    damaged = bytearray(seed)
    for position, value in changes:
        damaged[position % len(damaged)] = value
    data = bytes(damaged[: len(damaged) - cut])
    fuzz_parse_message(reseal(data) if sealed else data)


def test_many_empty_attributes_are_bounded() -> None:
    fuzz_parse_message(reseal(bytes(20) + b"\x80\0\0\0" * 16_000))


def test_seeds_survive() -> None:
    for seed in SEEDS:
        assert parse_message(seed).get(Attribute.FINGERPRINT) is None
