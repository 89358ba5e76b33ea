"""STUN layers against real checks, against `warp.stun`, and against themselves."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.tools.scapy_layers.support import captured, rebuilt, through_udp
from tests.vectors import rfc5769
from warp.crypto import HmacSha1
from warp.stun import (
    BINDING,
    Attribute,
    MessageClass,
    build_message,
    decode_xor_address,
    encode_error_code,
    encode_xor_address,
    parse_message,
)
from warp_tools.scapy_layers import (
    DTLS,
    STUN,
    STUNAttribute,
    STUNDtls,
    STUNDtlsAck,
    STUNErrorCode,
    STUNFingerprint,
    STUNIceControlled,
    STUNIceControlling,
    STUNMessageIntegrity,
    STUNNetworkInfo,
    STUNPriority,
    STUNUseCandidate,
    STUNUsername,
    STUNXorMappedAddress,
)

KEY = b"a password of 22 bytes"
ID = bytes(range(12))


VECTORS = ["REQUEST", "RESPONSE_IPV4", "RESPONSE_IPV6", "LONG_TERM_REQUEST"]


@pytest.mark.parametrize("vector", VECTORS)
def test_vectors_are_built_again(vector: str) -> None:
    """RFC 5769, which pads with spaces; both digests computed once more."""
    data = getattr(rfc5769, vector)
    message = STUN(data, key=rfc5769.SHORT_TERM_PASSWORD)
    assert rebuilt(message) == data
    if vector != "LONG_TERM_REQUEST":
        for one in message.attributes:
            if isinstance(one, STUNMessageIntegrity | STUNFingerprint):
                one.value = None
        message.key = rfc5769.SHORT_TERM_PASSWORD
        assert rebuilt(message) == data
    mapped = message.get_attribute(STUNXorMappedAddress)
    if vector == "RESPONSE_IPV4":
        assert mapped.address() == ("192.0.2.1", 32853)
    if vector == "RESPONSE_IPV6":
        assert mapped.address() == ("2001:db8:1234:5678:11:2233:4455:6677", 32853)


def test_every_captured_check_is_built_again() -> None:
    messages, _ = captured()
    assert len(messages) > 200
    for data in messages:
        message = STUN(data)
        assert not message.payload
        assert rebuilt(message) == data
        fingerprint = message.get_attribute(STUNFingerprint)
        fingerprint.value = None
        assert rebuilt(message) == data


def test_a_captured_check_by_name() -> None:
    data = next(one for one in captured()[0] if parse_message(one).get(0xC070))
    message, parsed = STUN(data), parse_message(data)
    username = message.get_attribute(STUNUsername)
    rider = message.get_attribute(STUNDtls)
    assert username.value == parsed.get(Attribute.USERNAME)
    assert rider.value == parsed.get(0xC070)
    assert isinstance(rider.dtls, DTLS)
    assert rebuilt(rider.dtls) == rider.value
    assert message.summary() == f"STUN Binding request, {len(rider.value)} bytes of DTLS"


def test_a_check_from_nothing_is_one_for_the_stack() -> None:
    built = bytes(
        STUN(
            key=KEY,
            transaction_id=ID,
            attributes=[
                STUNUsername(value=b"far:near"),
                STUNNetworkInfo(network_id=1, network_cost=50),
                STUNIceControlling(value=7),
                STUNUseCandidate(),
                STUNPriority(value=0x6E001EFF),
                STUNDtlsAck(hashes=[0x01020304, 0xFFFFFFFF]),
                STUNDtls(value=b"\x16\xfe\xfd"),
                STUNMessageIntegrity(),
                STUNFingerprint(),
            ],
        )
    )
    expected = build_message(
        BINDING,
        MessageClass.REQUEST,
        ID,
        [
            (Attribute.USERNAME, b"far:near"),
            (Attribute.GOOG_NETWORK_INFO, bytes.fromhex("00010032")),
            (Attribute.ICE_CONTROLLING, (7).to_bytes(8, "big")),
            (Attribute.USE_CANDIDATE, b""),
            (Attribute.PRIORITY, bytes.fromhex("6e001eff")),
            (Attribute.META_DTLS_IN_STUN_ACKNOWLEDGEMENT, bytes.fromhex("01020304ffffffff")),
            (Attribute.META_DTLS_IN_STUN, b"\x16\xfe\xfd"),
        ],
        integrity_key=HmacSha1(KEY),
    )
    assert built == expected


@pytest.mark.parametrize("host", ["192.0.2.1", "2001:db8::1"])
def test_a_response(host: str) -> None:
    built = bytes(
        STUN(
            type=0x0101,
            transaction_id=ID,
            key=KEY.decode(),
            attributes=[
                STUNXorMappedAddress.of(host, 5000, ID),
                STUNMessageIntegrity(),
                STUNFingerprint(),
            ],
        )
    )
    mapped = (Attribute.XOR_MAPPED_ADDRESS, encode_xor_address((host, 5000), ID))
    assert built == build_message(
        BINDING, MessageClass.SUCCESS, ID, [mapped], integrity_key=HmacSha1(KEY)
    )
    read = STUN(built).get_attribute(STUNXorMappedAddress)
    assert read.address() == (host, 5000)
    assert decode_xor_address(parse_message(built).get(0x20), ID) == (host, 5000)


def test_an_error() -> None:
    error = STUNErrorCode(hundreds=4, number=87, reason=b"Role Conflict")
    assert error.code == 487
    assert bytes(error)[4:17] == encode_error_code(487, "Role Conflict")[:13]


def test_what_follows_the_integrity_is_not_covered() -> None:
    """A length that counts the fingerprint would make the digest wrong."""
    with_print = STUN(key=KEY, attributes=[STUNMessageIntegrity(), STUNFingerprint()])
    without = STUN(key=KEY, attributes=[STUNMessageIntegrity()])
    assert parse_message(bytes(with_print)).verify_integrity(HmacSha1(KEY))
    assert parse_message(bytes(without)).verify_integrity(HmacSha1(KEY))


def test_without_a_key_there_is_a_clear_error() -> None:
    with pytest.raises(ValueError, match=r"give STUN\(key=\.\.\.\) the password"):
        bytes(STUN(attributes=[STUNMessageIntegrity()]))


def test_a_key_is_not_shown() -> None:
    message = STUN(key=KEY, attributes=[STUNMessageIntegrity()])
    assert "password" not in message.show(dump=True)
    assert "password" not in repr(message)


def test_a_copy_keeps_its_key() -> None:
    message = STUN(key=KEY, attributes=[STUNMessageIntegrity(), STUNFingerprint()])
    assert bytes(message.copy()) == bytes(message)


def test_values_that_were_given_are_left_alone() -> None:
    built = bytes(
        STUN(length=3, attributes=[STUNFingerprint(value=5), STUNAttribute(type=6, length=9)])
    )
    assert built[2:4] == b"\0\3"
    assert built[20:] == bytes.fromhex("8028000400000005 00060009")


VALUES = st.binary(max_size=40)
ATTRIBUTES = st.one_of(
    st.builds(STUNUsername, value=VALUES),
    st.builds(STUNAttribute, type=st.integers(0x9000, 0xBFFF), value=VALUES),
    st.builds(STUNPriority, value=st.integers(0, 0xFFFFFFFF)),
    st.builds(STUNIceControlled, value=st.integers(0, (1 << 64) - 1)),
    st.builds(STUNUseCandidate),
    st.builds(STUNDtls, value=VALUES),
    st.builds(STUNDtlsAck, hashes=st.lists(st.integers(0, 0xFFFFFFFF), max_size=4)),
    st.builds(STUNErrorCode, hundreds=st.integers(3, 6), number=st.integers(0, 99), reason=VALUES),
    st.builds(
        STUNXorMappedAddress.of, st.ip_addresses().map(str), st.integers(0, 65535), st.just(ID)
    ),
)


@given(st.lists(ATTRIBUTES, max_size=8), st.booleans(), st.booleans())
def test_what_is_built_is_read_again(attributes: list, integrity: bool, fingerprint: bool) -> None:
    tail = [STUNMessageIntegrity()] * integrity + [STUNFingerprint()] * fingerprint
    message = STUN(key=KEY, transaction_id=ID, attributes=[*attributes, *tail])
    data = bytes(message)
    again = STUN(data)
    assert [type(one) for one in again.attributes] == [type(one) for one in message.attributes]
    for one, other in zip(again.attributes, attributes, strict=False):
        names = [field.name for field in one.fields_desc if field.name not in ("length", "padding")]
        for name in names:
            assert one.getfieldval(name) == other.getfieldval(name)
    assert rebuilt(again) == data
    parsed = parse_message(data)
    assert len(parsed.attributes) == len(attributes)
    assert parsed.verify_integrity(HmacSha1(KEY)) == integrity


@given(st.binary(max_size=120))
def test_any_bytes_are_read_and_built_again(data: bytes) -> None:
    assert through_udp(data) == data


@given(st.data())
def test_damaged_checks_are_read_and_built_again(data: st.DataObject) -> None:
    whole = bytearray(data.draw(st.sampled_from(captured()[0])))
    for _ in range(data.draw(st.integers(1, 3))):
        whole[data.draw(st.integers(0, len(whole) - 1))] = data.draw(st.integers(0, 255))
    cut = bytes(whole[: data.draw(st.integers(0, len(whole)))])
    assert through_udp(cut) == cut
