"""Any bytes as RTCP: packets or Discard, and what was read can be written again."""

from __future__ import annotations

import struct

from hypothesis import example, given
from hypothesis import strategies as st

from warp.entropy import SeededEntropy
from warp.errors import Discard
from warp.rtp import RtcpDiscard, RtpSession, SenderConfig, build_rtcp, parse_rtcp
from warp.rtp.rtcp import CongestionFeedback, GenericNack, RtcpPacket, UnknownRtcp
from warp.rtp.transport_feedback import (
    FeedbackDiscard,
    TransportFeedback,
    build_feedback,
    parse_feedback,
)


def fuzz_rtcp(data: bytes) -> None:
    try:
        packets = parse_rtcp(data)
    except Discard as discard:
        assert isinstance(discard.reason, RtcpDiscard)
        return
    assert len(packets) <= len(data) // 4
    # feedback has more than one spelling, and a body that lost its padding may end inside a word
    known = [p for p in packets if not isinstance(p, CongestionFeedback | UnknownRtcp)]
    assert not known or _meanings(parse_rtcp(build_rtcp(known))) == _meanings(known)


def _meanings(packets: list[RtcpPacket]) -> list[object]:
    """What packets say: the items of a NACK name a set (RFC 4585 section 6.2.1)."""
    return [
        (p.sender_ssrc, p.media_ssrc, set(p.lost)) if isinstance(p, GenericNack) else p
        for p in packets
    ]


def fuzz_rtcp_session(data: bytes) -> None:
    session = RtpSession(entropy=SeededEntropy(1))
    sender = session.add_sender(SenderConfig(ssrc=7, nack_history=5))
    for i in range(8):
        sender.packetize(b"x", i, 0.0)
    session.receive_rtcp(data, 1.0)
    assert len(session.rtp_to_send()) <= 5 * (1 + len(data) // 4)
    assert len(session.events()) <= 1 + len(data) // 4


def fuzz_transport_feedback(data: bytes) -> None:
    try:
        feedback = parse_feedback(data)
    except Discard as discard:
        assert isinstance(discard.reason, FeedbackDiscard)
        return
    assert len(feedback.arrivals) <= len(data)
    again = parse_feedback(build_feedback(feedback))
    assert again == feedback


# one that names the same packet twice
REPEATED_NACK = bytes.fromhex("81cd0007070707070707070700e10000000000000c3100000c00000700e10000")
SEEDS = (REPEATED_NACK,)


@example(REPEATED_NACK)
@given(st.binary(max_size=200))
def test_any_bytes(data: bytes) -> None:
    fuzz_rtcp(data)
    fuzz_rtcp_session(data)
    fuzz_transport_feedback(data)


BODIES = st.tuples(
    st.integers(0, 31), st.sampled_from([200, 201, 202, 203, 204, 205, 206, 207]),
    st.one_of(st.binary(max_size=64), st.just(struct.pack("!IIHH", 1, 7, 3, 0xFFFF))),
)  # fmt: skip


@given(st.lists(BODIES, max_size=4))
def test_plausible_compounds(parts: list[tuple[int, int, bytes]]) -> None:
    data = b""
    for count, kind, body in parts:
        body += bytes(-len(body) % 4)
        data += struct.pack("!BBH", 0x80 | count, kind, len(body) // 4) + body
    fuzz_rtcp(data)
    fuzz_rtcp_session(data)


@given(st.integers(0, 400), st.lists(st.integers(0, 0xFFFF), max_size=8), st.binary(max_size=40))
def test_plausible_feedback(count: int, chunks: list[int], deltas: bytes) -> None:
    data = struct.pack("!HHI", 65500, count, 0x12345678)
    fuzz_transport_feedback(data + b"".join(c.to_bytes(2, "big") for c in chunks) + deltas)


@given(
    st.integers(0, 0xFFFF), st.integers(-0x800000, 0x7FFFFF), st.integers(0, 255),
    st.lists(st.tuples(st.integers(1, 40), st.integers(-0x8000, 0x7FFF)), min_size=1, max_size=60),
)  # fmt: skip
def test_feedback_round_trip(
    base: int, reference: int, count: int, steps: list[tuple[int, int]]
) -> None:
    offset, time = -1, reference * 256
    arrivals = []
    for ahead, delta in steps:
        offset, time = offset + ahead, time + delta
        arrivals.append((offset, time))
    feedback = TransportFeedback(base, offset + 1, reference, count, tuple(arrivals))
    assert parse_feedback(build_feedback(feedback)) == feedback
