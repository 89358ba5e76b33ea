"""sctp-init and ice-options (SNAP section 4, RFC 8839 section 5.6)."""

from __future__ import annotations

import base64

import pytest

from warp.sdp import SctpInitFault, decode_sctp_init, echo_ice_options, encode_sctp_init
from warp.sdp.extensions import merge_ice_options

# the two values that the draft itself shows, and two of real Chromium descriptions
KNOWN = [
    "AQAAHols3R0AUAAA/////+B5ZR3AAAAEgAgABoLA",
    "AQAAHl+zdHQAUAAA/////6Gq3HTAAAAEgAgABoLA",
    "AQAAHsfExL0AUAAA/////3JvqmbAAAAEgAgABoLA",
    "AQAAHGVPFd8AEAAA/////9tAK2qACAAIgsBAwg==",
]


@pytest.mark.parametrize("value", KNOWN)
def test_known_values_survive_both_ways(value: str) -> None:
    chunk, fault = decode_sctp_init([value])
    assert fault is None
    assert chunk is not None and chunk[0] == 1
    assert encode_sctp_init(chunk) == value


def test_no_line_is_no_fault() -> None:
    assert decode_sctp_init([]) == (None, None)


@pytest.mark.parametrize(
    "value",
    ["*", "!!!not-valid-base64!!!", "AQ=", "AQ", "AQ==AQ==", "AQ==\t", " AQ==", "AQ-_", "ÄQ=="],
)
def test_what_is_not_base64_counts_as_absent(value: str) -> None:
    assert decode_sctp_init([value]) == (None, SctpInitFault.NOT_BASE64)


def test_an_empty_value_counts_as_absent() -> None:
    assert decode_sctp_init([""]) == (None, SctpInitFault.EMPTY)


def test_snap_14_too_long_is_refused_before_decoding() -> None:
    fits = base64.b64encode(bytes(2048)).decode()
    assert decode_sctp_init([fits])[0] == bytes(2048)
    over = base64.b64encode(bytes(2049)).decode()
    assert decode_sctp_init([over]) == (None, SctpInitFault.TOO_LONG)
    assert decode_sctp_init(["*" * 5000]) == (None, SctpInitFault.TOO_LONG)


def test_snap_14_two_lines_count_as_none() -> None:
    assert decode_sctp_init([KNOWN[0], KNOWN[0]]) == (None, SctpInitFault.REPEATED)


def test_echo_keeps_order_and_spelling_of_the_offer() -> None:
    known = ("sped", "googspedv1", "goog-sped-v1")
    assert echo_ice_options(("trickle", "googspedv1", "x", "sped"), known) == ("googspedv1", "sped")
    assert echo_ice_options(("goog-sped-v1",), known) == ("goog-sped-v1",)
    assert echo_ice_options(("SPED", "trickle"), known) == ()
    assert echo_ice_options(("sped", "sped"), known) == ("sped",)


def test_merge_keeps_each_token_once() -> None:
    assert merge_ice_options(("a", "b"), ("b", "c")) == ("a", "b", "c")
