"""RFC 7983 section 7: the first byte decides; RFC 5761 section 4 tells RTCP from RTP."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from warp.peer import Kind, classify


def test_ranges() -> None:
    expected = {0: Kind.STUN, 3: Kind.STUN, 4: Kind.UNKNOWN, 19: Kind.UNKNOWN, 20: Kind.DTLS}
    expected |= {63: Kind.DTLS, 64: Kind.UNKNOWN, 127: Kind.UNKNOWN, 128: Kind.RTP}
    expected |= {191: Kind.RTP, 192: Kind.UNKNOWN, 255: Kind.UNKNOWN}
    assert {first: classify(bytes([first, 0])) for first in expected} == expected


def test_rtcp_by_packet_type() -> None:
    assert classify(bytes([128, 191])) is Kind.RTP
    assert classify(bytes([128, 192])) is Kind.RTCP
    assert classify(bytes([128, 223])) is Kind.RTCP
    assert classify(bytes([128, 224])) is Kind.RTP


@given(st.binary(max_size=64))
def test_any_bytes_have_a_kind(data: bytes) -> None:
    assert classify(data) in Kind
