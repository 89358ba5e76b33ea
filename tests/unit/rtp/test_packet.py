"""RTP packets: the layout of RFC 3550 section 5.1, and every way to be too short for it."""

from __future__ import annotations

import pytest

from warp.errors import Discard, InvalidConfig
from warp.rtp import RtpDiscard, RtpPacket, is_rtcp, parse_rtp

PLAIN = bytes.fromhex("806f1234000003c0cafebabe") + b"payload"


def reason(data: bytes) -> RtpDiscard:
    with pytest.raises(Discard) as caught:
        parse_rtp(data)
    assert isinstance(caught.value.reason, RtpDiscard)
    return caught.value.reason


def fields(packet: RtpPacket) -> tuple[object, ...]:
    return tuple(getattr(packet, name) for name in RtpPacket.__slots__)


def test_fixed_header() -> None:
    packet = parse_rtp(PLAIN)
    assert (packet.payload_type, packet.marker) == (111, False)
    assert (packet.sequence, packet.timestamp, packet.ssrc) == (0x1234, 0x3C0, 0xCAFEBABE)
    assert packet.payload == b"payload"
    assert packet.csrcs == () and packet.extension_profile is None and packet.padding == 0
    assert parse_rtp(b"\x80\xef" + PLAIN[2:]).marker is True
    assert parse_rtp(PLAIN[:12]).payload == b""


def test_everything_at_once() -> None:
    data = bytes.fromhex(
        "b2ef ffff ffffffff 00000001 0000000a 0000000b bede0001 10ff0000".replace(" ", "")
    ) + b"voice" + b"\0\0\3"  # fmt: skip
    packet = parse_rtp(data)
    assert packet.csrcs == (10, 11)
    assert (packet.extension_profile, packet.extension) == (0xBEDE, bytes.fromhex("10ff0000"))
    assert (packet.payload, packet.padding) == (b"voice", 3)
    assert packet.serialize() == data


def test_padding_may_be_the_whole_payload() -> None:
    data = b"\xa0" + PLAIN[1:12] + b"\0\0\0\4"
    assert parse_rtp(data).payload == b""
    assert parse_rtp(data).serialize() == data


@pytest.mark.parametrize("length", range(12))
def test_shorter_than_a_header(length: int) -> None:
    assert reason(PLAIN[:length]) is RtpDiscard.TOO_SHORT


@pytest.mark.parametrize("version", [0, 1, 3])
def test_other_versions(version: int) -> None:
    assert reason(bytes([version << 6]) + PLAIN[1:]) is RtpDiscard.VERSION


def test_csrcs_extension_and_padding_may_not_overrun() -> None:
    header = PLAIN[1:12]
    assert reason(b"\x81" + header + b"\0\0\0") is RtpDiscard.TOO_SHORT
    assert reason(b"\x90" + header + b"\xbe\xde\0") is RtpDiscard.TOO_SHORT
    assert reason(b"\x90" + header + b"\xbe\xde\0\2" + bytes(7)) is RtpDiscard.TOO_SHORT
    assert reason(b"\x90" + header + b"\xbe\xde\xff\xff" + bytes(70)) is RtpDiscard.TOO_SHORT
    assert reason(b"\xa0" + header) is RtpDiscard.PADDING
    assert reason(b"\xa0" + header + b"\0") is RtpDiscard.PADDING
    assert reason(b"\xa0" + header + b"ab\4") is RtpDiscard.PADDING
    # padding may not reach back into the extension
    assert reason(b"\xb0" + header + b"\xbe\xde\0\1\0\0\0\0\2") is RtpDiscard.PADDING


def test_extension_is_padded_to_words() -> None:
    packet = RtpPacket(111, 1, 2, 3, b"x", extension_profile=0xBEDE, extension=b"\x10\x7f\x20")
    assert parse_rtp(packet.serialize()).extension == b"\x10\x7f\x20\x00"


@pytest.mark.parametrize(
    "change",
    [
        {"sequence": 65536}, {"sequence": -1}, {"timestamp": 1 << 32}, {"ssrc": 1 << 32},
        {"payload_type": 128}, {"payload_type": -1}, {"csrcs": (1,) * 16}, {"csrcs": (1 << 32,)},
        {"padding": 256}, {"extension_profile": 1 << 16},
        {"extension_profile": 1, "extension": bytes(4 * 65536)},
    ],
)  # fmt: skip
def test_fields_that_do_not_fit_are_the_callers_mistake(change: dict[str, object]) -> None:
    good = {"payload_type": 111, "sequence": 1, "timestamp": 2, "ssrc": 3}
    with pytest.raises(InvalidConfig):
        RtpPacket(**{**good, **change}).serialize()


def test_round_trip_keeps_every_field() -> None:
    packet = RtpPacket(
        0, 65535, 0xFFFFFFFF, 0xFFFFFFFF, b"\xff" * 200, True, (1, 2, 3), 0x1000, b"\1\2\3\4", 5
    )
    assert fields(parse_rtp(packet.serialize())) == fields(packet)


def test_rtcp_on_the_same_port() -> None:
    for kind in (*range(64), *range(96, 128)):
        for marker in (False, True):
            assert not is_rtcp(RtpPacket(kind, 1, 2, 3, marker=marker).serialize())
    for packet_type in range(200, 208):
        assert is_rtcp(bytes((0x80, packet_type, 0, 0)))
    assert not is_rtcp(b"") and not is_rtcp(b"\x80")
