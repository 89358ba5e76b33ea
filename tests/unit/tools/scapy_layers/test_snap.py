"""The INIT of a description, as Chromium, libwebrtc and our stack write it."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.captures.pcap import CAPTURES
from tests.unit.tools.scapy_layers.support import rebuilt
from warp.entropy import SeededEntropy
from warp.sctp import SctpConfig, local_init, parse_init
from warp.sdp import parse_description
from warp_tools.scapy_layers import (
    SNAPForwardTSN,
    SNAPInit,
    SNAPParameter,
    SNAPSupportedExtensions,
    SNAPZeroChecksum,
)

DESCRIPTIONS = [path for path in sorted(CAPTURES.rglob("*.sdp")) if "sctp-init" in path.read_text()]


@pytest.mark.parametrize("path", DESCRIPTIONS, ids=lambda path: path.stem)
def test_real_descriptions(path) -> None:
    text = path.read_text()
    chunk = SNAPInit.from_sdp(text)
    value = parse_description(text).data_section().sctp.init
    assert rebuilt(chunk) == value
    assert chunk.to_line() in text
    read = parse_init(value)
    assert chunk.initiate_tag == read.initiate_tag
    assert chunk.initial_tsn == read.initial_tsn
    assert chunk.a_rwnd == read.a_rwnd
    assert [one.type for one in chunk.parameters] == [kind for kind, _ in read.parameters]
    kinds = [type(one) for one in chunk.parameters]
    assert SNAPForwardTSN in kinds
    assert SNAPSupportedExtensions in kinds


def test_there_are_real_descriptions() -> None:
    assert len(DESCRIPTIONS) >= 6


@pytest.mark.parametrize("interleaving", [False, True])
def test_a_chunk_from_nothing_is_the_stacks(interleaving: bool) -> None:
    ours = local_init(SctpConfig(interleaving=interleaving), SeededEntropy(3))
    chunks = [0x82, 0xC0, *([0x40, 0xC2] if interleaving else [])]
    built = SNAPInit(
        initiate_tag=ours.initiate_tag,
        initial_tsn=ours.initial_tsn,
        parameters=[SNAPForwardTSN(), SNAPZeroChecksum(), SNAPSupportedExtensions(chunks=chunks)],
    )
    assert bytes(built) == ours.to_bytes()
    assert parse_init(bytes(built)) == ours
    again = SNAPInit.from_sdp(built.to_line())
    assert [type(one) for one in again.parameters] == [type(one) for one in built.parameters]


def test_the_ways_to_name_it() -> None:
    line = SNAPInit(initiate_tag=7).to_line()
    value = line.removeprefix("a=sctp-init:")
    for text in (line, value, f"v=0\r\n{line}\r\na=setup:active\r\n"):
        assert SNAPInit.from_sdp(text).initiate_tag == 7


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("v=0\r\ns=-\r\n", "there is no a=sctp-init line"),
        ("", "there is no"),
        ("a=sctp-init:?", "not base64"),
        ("a=sctp-init:AAAA\na=sctp-init:AAAA", "more than one"),
    ],
)
def test_none_there(text: str, says: str) -> None:
    with pytest.raises(ValueError, match=says):
        SNAPInit.from_sdp(text)


PARAMETERS = st.one_of(
    st.builds(SNAPParameter, type=st.integers(0x100, 0x7FFF), value=st.binary(max_size=20)),
    st.builds(SNAPForwardTSN),
    st.builds(SNAPZeroChecksum, error_detection=st.integers(0, 0xFFFFFFFF)),
    st.builds(SNAPSupportedExtensions, chunks=st.lists(st.integers(0, 255), max_size=7)),
)


@given(st.lists(PARAMETERS, max_size=6), st.integers(0, 0xFFFFFFFF))
def test_what_is_built_is_read_again(parameters: list, tag: int) -> None:
    built = SNAPInit(initiate_tag=tag, parameters=parameters)
    data = bytes(built)
    assert int.from_bytes(data[2:4], "big") == len(data)
    again = SNAPInit(data)
    assert [type(one) for one in again.parameters] == [type(one) for one in parameters]
    assert rebuilt(again) == data


@given(st.binary(max_size=60))
def test_any_parameters_are_read_and_built_again(data: bytes) -> None:
    head = bytes(SNAPInit())[:2] + (20 + len(data)).to_bytes(2, "big") + bytes(SNAPInit())[4:]
    assert rebuilt(SNAPInit(head + data)) == head + data
