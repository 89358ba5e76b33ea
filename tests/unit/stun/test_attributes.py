from __future__ import annotations

import pytest

from tests.vectors import rfc5769
from warp.errors import Discard
from warp.stun import (
    Attribute,
    StunDiscard,
    decode_error_code,
    decode_xor_address,
    encode_error_code,
    encode_xor_address,
    parse_message,
    split_username,
)

TRANSACTION = bytes.fromhex("b7e7a701bc34d686fa87dfae")


@pytest.mark.parametrize(
    ("raw", "address"),
    [
        (rfc5769.RESPONSE_IPV4, ("192.0.2.1", 32853)),
        (rfc5769.RESPONSE_IPV6, ("2001:db8:1234:5678:11:2233:4455:6677", 32853)),
    ],
)
def test_rfc5769_mapped_address(raw: bytes, address: tuple[str, int]) -> None:
    value = parse_message(raw).get(Attribute.XOR_MAPPED_ADDRESS)
    assert value is not None
    assert decode_xor_address(value, TRANSACTION) == address
    assert encode_xor_address(address, TRANSACTION) == value


@pytest.mark.parametrize(
    "host", ["0.0.0.0", "127.0.0.1", "255.255.255.255", "::", "::1", "fe80::1"]
)
@pytest.mark.parametrize("port", [0, 1, 65535])
def test_address_survives(host: str, port: int) -> None:
    value = encode_xor_address((host, port), TRANSACTION)
    assert decode_xor_address(value, TRANSACTION) == (host, port)


@pytest.mark.parametrize("value", ["", "00010000", "0001000001020304ff", "00020000" + "00" * 4,
                                   "00030000" + "00" * 4, "0002" + "00" * 17])  # fmt: skip
def test_bad_address_is_a_discard(value: str) -> None:
    with pytest.raises(Discard) as caught:
        decode_xor_address(bytes.fromhex(value), TRANSACTION)
    assert caught.value.reason is StunDiscard.BAD_ADDRESS


def test_names_are_no_addresses() -> None:
    with pytest.raises(ValueError, match="does not appear to be"):
        encode_xor_address(("host.local", 1), TRANSACTION)


def test_error_code() -> None:
    assert encode_error_code(487, "Role Conflict") == b"\0\0\x04\x57Role Conflict"
    assert decode_error_code(b"\0\0\x04\x57Role Conflict") == (487, "Role Conflict")
    assert decode_error_code(b"\0\0\x04\x01\xff") == (401, "\ufffd")


@pytest.mark.parametrize("value", [b"", b"\0\0\4", b"\0\0\2\0", b"\0\0\7\0", b"\0\0\4\x64"])
def test_bad_error_code_is_a_discard(value: bytes) -> None:
    with pytest.raises(Discard) as caught:
        decode_error_code(value)
    assert caught.value.reason is StunDiscard.BAD_ERROR_CODE


@pytest.mark.parametrize(
    ("value", "parts"),
    [
        (b"evtj:h6vY", ("evtj", "h6vY")),
        (b"a:b:c", ("a", "b:c")),
        (b"evtj", None),
        (b":h6vY", None),
        (b"evtj:", None),
        (b"", None),
        ("é:b".encode(), None),
        (b"a" * 256 + b":" + b"b" * 255, ("a" * 256, "b" * 255)),
        (b"a" * 256 + b":" + b"b" * 256, None),
    ],
)
def test_split_username(value: bytes, parts: tuple[str, str] | None) -> None:
    assert split_username(value) == parts


def test_codes_of_the_riders() -> None:
    """IANA "STUN Attributes": comprehension-optional, 0xC070 and 0xC071."""
    assert Attribute.META_DTLS_IN_STUN == 0xC070
    assert Attribute.META_DTLS_IN_STUN_ACKNOWLEDGEMENT == 0xC071
