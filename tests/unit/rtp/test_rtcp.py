"""RTCP: the layouts of RFC 3550 section 6 and RFC 4585 section 6."""

from __future__ import annotations

import pytest

from warp.errors import Discard, InvalidConfig
from warp.rtp import RtcpDiscard, build_rtcp, parse_rtcp
from warp.rtp.rtcp import (
    SDES_CNAME,
    SDES_MID,
    CongestionFeedback,
    GenericNack,
    Goodbye,
    PictureLossIndication,
    ReceiverReport,
    ReportBlock,
    RtcpPacket,
    SenderReport,
    SourceDescription,
    UnknownRtcp,
    lost_sequences,
)
from warp.rtp.transport_feedback import TransportFeedback

BLOCK = ReportBlock(0x0BADCAFE, 64, -2, 0x0001_FFFE, 7, 0x11223344, 0x00010000)
SR = SenderReport(0xCAFEBABE, 0xE900_0000_8000_0000, 960, 2, 160, (BLOCK,))
RR = ReceiverReport(1, (BLOCK, BLOCK))
SDES = SourceDescription(((1, ((SDES_CNAME, b"name"), (SDES_MID, b"0"))), (2, ())))


def reason(data: bytes, *, reduced_size: bool = True) -> RtcpDiscard:
    with pytest.raises(Discard) as caught:
        parse_rtcp(data, reduced_size=reduced_size)
    assert isinstance(caught.value.reason, RtcpDiscard)
    return caught.value.reason


def test_sender_report_layout() -> None:
    data = bytes.fromhex(
        "81c8000c cafebabe e900000080000000 000003c0 00000002 000000a0"
        "0badcafe 40fffffe 0001fffe 00000007 11223344 00010000".replace(" ", "")
    )
    assert SR.serialize() == data
    assert parse_rtcp(data) == [SR]


def test_receiver_report_layout() -> None:
    block = "0badcafe40fffffe0001fffe000000071122334400010000"
    data = bytes.fromhex("82c9000d00000001" + block + block)
    assert RR.serialize() == data
    assert parse_rtcp(data) == [RR]
    assert parse_rtcp(bytes.fromhex("80c9000100000001")) == [ReceiverReport(1)]


def test_profile_extensions_of_reports_are_skipped() -> None:
    data = bytes.fromhex("80c90002 00000001 deadbeef".replace(" ", ""))
    assert parse_rtcp(data) == [ReceiverReport(1)]


def test_loss_is_clamped_to_24_bits_signed() -> None:
    for lost, kept in ((1 << 30, 0x7FFFFF), (-(1 << 30), -0x800000), (-1, -1)):
        block = BLOCK._replace(cumulative_lost=lost)
        (parsed,) = parse_rtcp(ReceiverReport(1, (block,)).serialize())
        assert isinstance(parsed, ReceiverReport)
        assert parsed.blocks[0].cumulative_lost == kept


def test_source_description_layout() -> None:
    data = bytes.fromhex("82ca0006 00000001 01046e61 6d650f01 30000000 00000002 00000000"
                         .replace(" ", ""))  # fmt: skip
    assert SDES.serialize() == data
    assert parse_rtcp(data) == [SDES]
    assert SDES.item(1, SDES_CNAME) == b"name" and SDES.item(2, SDES_CNAME) is None
    assert SDES.item(3, SDES_CNAME) is None


def test_a_cname_that_fills_the_word_still_ends_with_a_null() -> None:
    packet = SourceDescription(((1, ((SDES_CNAME, b"ab"),)),))
    assert packet.serialize().hex() == "81ca000300000001" + "01026162" + "00000000"
    assert parse_rtcp(packet.serialize()) == [packet]


def test_goodbye_layout() -> None:
    packet = Goodbye((1, 2), b"bye!")
    assert packet.serialize().hex() == "82cb0004" + "0000000100000002" + "046279652100" + "0000"
    assert parse_rtcp(packet.serialize()) == [packet]
    assert parse_rtcp(bytes.fromhex("80cb0000")) == [Goodbye(())]
    assert Goodbye((1,), b"x" * 300).serialize()[8] == 255


def test_nack_layout() -> None:
    packet = GenericNack(1, 2, (100, 101, 116, 117, 65535))
    data = packet.serialize()
    assert data.hex() == "81cd0005" + "0000000100000002" + "00648001" + "00750000" + "ffff0000"
    assert parse_rtcp(data) == [packet]
    wrapped = GenericNack(1, 2, (65535, 0, 15))
    assert parse_rtcp(wrapped.serialize()) == [wrapped]
    assert len(wrapped.serialize()) == 16


def test_what_nacks_ask_of_a_source() -> None:
    packets: list[RtcpPacket] = [
        GenericNack(1, 2, (5, 6)), RR, GenericNack(1, 3, (9,)), GenericNack(1, 2, (6, 4)),
    ]  # fmt: skip
    assert lost_sequences(packets, 2) == [5, 6, 4]


def test_other_feedback_is_recognised_or_kept() -> None:
    pli = PictureLossIndication(1, 2)
    assert pli.serialize().hex() == "81ce00020000000100000002"
    xr = UnknownRtcp(207, 0, bytes.fromhex("00000001040000020000000000000000"))
    remb = UnknownRtcp(206, 15, bytes(8) + b"REMB" + bytes(4))
    app = UnknownRtcp(204, 3, bytes(4) + b"name")
    packets: list[RtcpPacket] = [RR, pli, xr, remb, app]
    assert parse_rtcp(build_rtcp(packets)) == packets


def test_compound_of_everything() -> None:
    feedback = TransportFeedback(65535, 2, -5, 255, ((0, -1280), (1, -1000)))
    packets: list[RtcpPacket] = [
        SR, RR, SDES, GenericNack(1, 2, (3,)), CongestionFeedback(1, 2, feedback), Goodbye((1,)),
    ]  # fmt: skip
    data = build_rtcp(packets)
    assert parse_rtcp(data, reduced_size=False) == packets


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        ("", RtcpDiscard.TOO_SHORT),
        ("80c900", RtcpDiscard.TOO_SHORT),
        ("40c9000100000001", RtcpDiscard.VERSION),
        ("80c9000200000001", RtcpDiscard.LENGTH),
        ("80c900010000000180", RtcpDiscard.LENGTH),
        ("80c900010000000100cb0000", RtcpDiscard.VERSION),
        ("a0c9000100000000", RtcpDiscard.PADDING),
        ("a0c9000100000005", RtcpDiscard.PADDING),
        ("a0c90000", RtcpDiscard.PADDING),
    ],
)
def test_frames_that_do_not_add_up(data: str, expected: RtcpDiscard) -> None:
    assert reason(bytes.fromhex(data)) is expected


def test_a_compound_begins_with_a_report() -> None:
    assert reason(SDES.serialize(), reduced_size=False) is RtcpDiscard.FIRST_PACKET
    assert parse_rtcp(SDES.serialize()) == [SDES]


def test_padding_is_removed_even_by_single_bytes() -> None:
    """libwebrtc pads transport feedback so; see the first bytes of the captured packets."""
    assert parse_rtcp(bytes.fromhex("a0c900020000000100000004")) == [ReceiverReport(1)]
    body = "0000000100000002000100020000050020020a0b"
    assert parse_rtcp(bytes.fromhex("8fcd0005" + body)) == parse_rtcp(
        bytes.fromhex("afcd0006" + body + "00000004")
    )


@pytest.mark.parametrize(
    "data",
    [
        "81c9000100000001",  # a block is promised
        "80c8000200000001deadbeef",  # no room for sender info
        "81ca000100000001",  # no item list
        "81ca000200000001010a6e61",  # item beyond the packet
        "81cb0000",  # no SSRC
        "81cb00020000000109616263",  # reason beyond the packet
        "81cd0001000000010000",  # not even two SSRCs (length fixed below)
        "8fcd00020000000100000002",  # no feedback body
        "81ce000100000001",
    ],
)
def test_a_bad_body_does_not_harm_its_neighbours(data: str) -> None:
    bad = bytes.fromhex(data)
    bad = bad[: 4 * (len(bad) // 4)]
    bad = bad[:2] + (len(bad) // 4 - 1).to_bytes(2, "big") + bad[4:]
    first, middle, last = parse_rtcp(RR.serialize() + bad + SDES.serialize())
    assert (first, last) == (RR, SDES)
    assert isinstance(middle, UnknownRtcp) and middle.malformed


def test_what_cannot_be_written_is_the_callers_mistake() -> None:
    with pytest.raises(InvalidConfig):
        build_rtcp([ReceiverReport(1 << 32)])
    with pytest.raises(InvalidConfig):
        build_rtcp([ReceiverReport(1, (BLOCK,) * 32)])
    with pytest.raises(InvalidConfig):
        build_rtcp([SourceDescription(((1, ((SDES_CNAME, b"x" * 256),)),))])
