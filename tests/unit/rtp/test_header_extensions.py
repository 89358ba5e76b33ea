"""Header extensions of RFC 8285 and the three that a call reads."""

from __future__ import annotations

import pytest

from warp.errors import Discard, InvalidConfig
from warp.rtp import (
    AUDIO_LEVEL_URI,
    MID_URI,
    TRANSPORT_CC_URI,
    ExtensionMap,
    HeaderExtensions,
    RtpDiscard,
    build_extensions,
    parse_extensions,
)
from warp.rtp.header_extensions import iterate_elements, learn_layout

IDS = ExtensionMap(mid=4, audio_level=1, transport_cc=3)


def elements(profile: int, block: bytes) -> list[tuple[int, bytes]]:
    return [(n, block[start:end]) for n, start, end in iterate_elements(profile, block)]


def test_ids_come_from_the_extmap_lines() -> None:
    uris = {AUDIO_LEVEL_URI: 1, "urn:ietf:params:rtp-hdrext:toffset": 2, TRANSPORT_CC_URI: 3,
            MID_URI: 4}  # fmt: skip
    assert ExtensionMap.from_uris(uris) == IDS
    assert ExtensionMap.from_uris({}) == ExtensionMap(0, 0, 0)


@pytest.mark.parametrize("number", [0, 15, 256, -1])
def test_ids_that_rfc_8285_forbids(number: int) -> None:
    with pytest.raises(InvalidConfig):
        ExtensionMap.from_uris({MID_URI: number})
    assert ExtensionMap.from_uris({"urn:something-else": number}) == ExtensionMap()


def test_one_byte_form() -> None:
    block = bytes.fromhex("10ff 00 31beef 40 30 0000".replace(" ", ""))
    assert elements(0xBEDE, block) == [(1, b"\xff"), (3, b"\xbe\xef"), (4, b"0")]
    assert parse_extensions(IDS, 0xBEDE, block) == HeaderExtensions("0", 127, True, 0xBEEF)


def test_two_byte_form_with_application_bits() -> None:
    block = bytes.fromhex("01 01 14 00 03 02 beef 04 05 6175646930".replace(" ", "")) + b"\x09\x00"
    assert elements(0x1007, block)[-1] == (9, b"")
    assert parse_extensions(IDS, 0x1007, block) == HeaderExtensions("audi0", 20, False, 0xBEEF)


def test_id_15_ends_the_one_byte_form() -> None:
    assert elements(0xBEDE, bytes.fromhex("10aaf0bb40300000")) == [(1, b"\xaa")]


def test_unknown_profiles_and_elements_are_ignored() -> None:
    nothing = HeaderExtensions()
    assert parse_extensions(IDS, 0x1234, b"\x10\xff\0\0") == nothing
    assert parse_extensions(IDS, None, b"") == nothing
    assert parse_extensions(IDS, 0xBEDE, bytes.fromhex("21abcd00")) == nothing
    assert parse_extensions(ExtensionMap(), 0xBEDE, bytes.fromhex("10ff0000")) == nothing


def test_elements_of_a_wrong_length_are_ignored() -> None:
    assert parse_extensions(IDS, 0xBEDE, bytes.fromhex("11ffff00")).audio_level is None
    assert parse_extensions(IDS, 0xBEDE, bytes.fromhex("30ff0000")).transport_sequence is None


@pytest.mark.parametrize(
    ("profile", "block"),
    [(0xBEDE, "1fff0000"), (0xBEDE, "0000001f"), (0xBEDE, "01000000"), (0x1000, "0105ffff"),
     (0x1000, "00000001")],
)  # fmt: skip
def test_elements_that_overrun_the_block(profile: int, block: str) -> None:
    with pytest.raises(Discard) as caught:
        elements(profile, bytes.fromhex(block))
    assert caught.value.reason is RtpDiscard.EXTENSION


def test_mid_beyond_ascii_matches_nothing() -> None:
    assert parse_extensions(IDS, 0xBEDE, b"\x41\xc3\xa4\0").mid == "\ufffd\ufffd"


def test_build_chooses_the_form() -> None:
    assert build_extensions({1: b"\x7f", 4: b"0"}) == (0xBEDE, bytes.fromhex("107f4030"))
    profile, block = build_extensions({16: b"\x7f", 4: b"long" * 5})
    assert profile == 0x1000 and len(block) % 4 == 0
    assert elements(profile, block) == [(16, b"\x7f"), (4, b"long" * 5)]
    for bad in ({0: b"x"}, {256: b"x"}, {1: bytes(256)}):
        with pytest.raises(InvalidConfig):
            build_extensions(bad)


def packet(block: bytes, profile: int = 0xBEDE) -> bytes:
    return bytes(12) + profile.to_bytes(2, "big") + (len(block) // 4).to_bytes(2, "big") + block


def matches(layout: tuple[int, int, int, int, int], data: bytes) -> bool:
    return int.from_bytes(data[12 : layout[0]], "big") & layout[1] == layout[2]


def test_a_layout_recognises_its_own_shape_only() -> None:
    first = packet(bytes.fromhex("221cea31310001403010ff00"))
    layout = learn_layout(IDS, first, len(first))
    assert matches(layout, first)
    # other values of what is read or not known, same shape
    second = packet(bytes.fromhex("22ffffff31abcd4030107f00")) + b"payload"
    assert matches(layout, second)
    assert second[layout.level_at] == 0x7F
    assert second[layout.sequence_at : layout.sequence_at + 2] == b"\xab\xcd"
    for other in (
        "221cea31310001403110ff00",  # another mid
        "221cea31310001403020ff00",  # another id
        "221cea313100014030",  # shorter
        "221cea31310001403010ff0000000000",  # longer
        "221cea31310001403010ffaa",  # something where padding was
    ):
        assert not matches(layout, packet(bytes.fromhex(other)))
    assert not matches(layout, first[:15])
    assert not matches(layout, packet(bytes.fromhex("221cea31310001403010ff00"), 0x1000))


def test_a_layout_of_an_unknown_profile_accepts_any_content() -> None:
    first = packet(b"abcd", 0x7777)
    layout = learn_layout(IDS, first, len(first))
    assert matches(layout, packet(b"efgh", 0x7777)) and layout.level_at == 0
    assert not matches(layout, packet(b"abcd", 0x7778))
