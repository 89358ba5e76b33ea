"""Any bytes as an RTP packet, to the parser and to a session that is in a call."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from tests.captures.pcap import CAPTURES
from warp.entropy import SeededEntropy
from warp.errors import Discard
from warp.rtp import (
    ExtensionMap,
    PayloadKind,
    ReceiverConfig,
    RtpDiscard,
    RtpSession,
    SessionConfig,
    parse_extensions,
    parse_rtp,
)
from warp.rtp.header_extensions import learn_layout
from warp.rtp.packet import payload_bounds

IDS = ExtensionMap(mid=4, audio_level=1, transport_cc=3)
KINDS = {111: PayloadKind.AUDIO, 63: PayloadKind.RED, 110: PayloadKind.TELEPHONE_EVENT}
HEADER = bytes.fromhex("6f0001000003c000000007")
GOOD = b"\x80" + HEADER + b"voice"
SEEDS = [
    bytes.fromhex(line.split()[2])
    for line in (CAPTURES / "rtp" / "chromium_audio.txt").read_text().splitlines()
]


def fuzz_rtp(data: bytes) -> None:
    try:
        packet = parse_rtp(data)
        again = parse_rtp(packet.serialize())
        assert (again.payload, again.extension, again.csrcs) == (
            packet.payload, packet.extension, packet.csrcs,
        )  # fmt: skip
        parse_extensions(IDS, packet.extension_profile, packet.extension)
    except Discard as discard:
        assert isinstance(discard.reason, RtpDiscard)


def fuzz_rtp_session(data: bytes) -> None:
    session = RtpSession(SessionConfig(extensions=IDS), entropy=SeededEntropy(1))
    receiver = session.add_receiver(ReceiverConfig(mid="0", payload_kinds=KINDS, nack=True))
    session.receive_rtp(GOOD, 0.0)
    session.receive_rtp(data, 0.01)
    session.receive_rtp(data, 0.02)
    session.handle_timer(1.0)
    deadline = session.get_timer()
    assert deadline is None or deadline > 1.0
    session.rtcp_to_send(1.0)
    session.events()
    frames = receiver.frames()
    assert len(frames) < 10
    numbers = [f.sequence for f in frames]
    assert numbers == sorted(numbers)


def fuzz_layout(data: bytes) -> None:
    """The shape of a packet reads exactly what the careful parser reads."""
    packet = b"\x90" + HEADER + data
    try:
        end = payload_bounds(packet)[0]
        layout = learn_layout(IDS, packet, end)
        found = parse_extensions(IDS, int.from_bytes(packet[12:14], "big"), packet[16:end])
    except Discard:
        return
    assert int.from_bytes(packet[12:end], "big") & layout.mask == layout.pattern
    level = packet[layout.level_at] if layout.level_at else None
    assert (None if level is None else level & 0x7F) == found.audio_level
    number = None
    if layout.sequence_at:
        number = int.from_bytes(packet[layout.sequence_at : layout.sequence_at + 2], "big")
    assert number == found.transport_sequence


@given(st.binary(max_size=200))
def test_any_bytes(data: bytes) -> None:
    fuzz_rtp(data)
    fuzz_rtp_session(data)


@given(st.integers(128, 191), st.binary(max_size=60))
def test_plausible_headers(first: int, rest: bytes) -> None:
    data = bytes([first]) + HEADER + rest
    fuzz_rtp(data)
    fuzz_rtp_session(data)


@given(st.sampled_from([b"\x6f", b"\x3f", b"\x6e", b"\xef"]), st.binary(max_size=40))
def test_plausible_payloads(kind: bytes, payload: bytes) -> None:
    fuzz_rtp_session(b"\x80" + kind + HEADER[1:] + payload)


@given(
    st.sampled_from([b"\xbe\xde", b"\x10\x00", b"\x12\x34"]), st.integers(0, 6),
    st.lists(st.sampled_from([b"\x10\x7f", b"\x31\xab\xcd", b"\x400", b"\0", b"\x01\x01\x20",
                              b"\x03\x02\xab\xcd", b"\x22abc", b"\xf0", b"\x13"]), max_size=6),
    st.binary(max_size=12),
)  # fmt: skip
def test_layouts(profile: bytes, words: int, elements: list[bytes], rest: bytes) -> None:
    fuzz_layout(profile + words.to_bytes(2, "big") + b"".join(elements) + rest)
