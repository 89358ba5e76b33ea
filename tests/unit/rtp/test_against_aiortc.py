"""aiortc reads what we write, and we read what aiortc writes."""

from __future__ import annotations

import pytest
from aiortc import rtp as aiortc
from aiortc.rtcrtpparameters import RTCRtpHeaderExtensionParameters, RTCRtpParameters
from hypothesis import given
from hypothesis import strategies as st

from warp.entropy import SeededEntropy
from warp.rtp import (
    AUDIO_LEVEL_URI,
    MID_URI,
    TRANSPORT_CC_URI,
    AudioSender,
    ExtensionMap,
    RtpPacket,
    SenderConfig,
    build_rtcp,
    parse_extensions,
    parse_rtcp,
    parse_rtp,
)
from warp.rtp.rtcp import (
    SDES_CNAME,
    GenericNack,
    Goodbye,
    PictureLossIndication,
    ReceiverReport,
    ReportBlock,
    RtcpPacket,
    SenderReport,
    SourceDescription,
)

IDS = ExtensionMap(mid=4, audio_level=1, transport_cc=3)
U8, U16, U32 = (st.integers(0, (1 << bits) - 1) for bits in (8, 16, 32))


def extension_map() -> aiortc.HeaderExtensionsMap:
    out = aiortc.HeaderExtensionsMap()
    out.configure(
        RTCRtpParameters(
            headerExtensions=[
                RTCRtpHeaderExtensionParameters(id=1, uri=AUDIO_LEVEL_URI),
                RTCRtpHeaderExtensionParameters(id=3, uri=TRANSPORT_CC_URI),
                RTCRtpHeaderExtensionParameters(id=4, uri=MID_URI),
            ]
        )
    )
    return out


@given(
    st.integers(0, 127), st.booleans(), U16, U32, U32, st.binary(max_size=60),
    st.lists(U32, max_size=15), st.integers(0, 9),
)  # fmt: skip
def test_it_reads_our_packets(
    kind: int, marker: bool, sequence: int, timestamp: int, ssrc: int, payload: bytes,
    csrcs: list[int], padding: int,
) -> None:  # fmt: skip
    ours = RtpPacket(
        kind, sequence, timestamp, ssrc, payload, marker, tuple(csrcs), padding=padding
    )
    theirs = aiortc.RtpPacket.parse(ours.serialize())
    assert (theirs.payload_type, theirs.marker) == (kind, int(marker))
    assert (theirs.sequence_number, theirs.timestamp, theirs.ssrc) == (sequence, timestamp, ssrc)
    assert (theirs.payload, theirs.csrc, theirs.padding_size) == (payload, csrcs, padding)


@given(
    st.integers(0, 127), st.booleans(), U16, U32, U32, st.binary(max_size=60),
    st.lists(U32, max_size=15), st.integers(0, 127), st.booleans(), U16,
)  # fmt: skip
def test_we_read_its_packets(
    kind: int, marker: bool, sequence: int, timestamp: int, ssrc: int, payload: bytes,
    csrcs: list[int], level: int, voice: bool, number: int,
) -> None:  # fmt: skip
    theirs = aiortc.RtpPacket(
        payload_type=kind, marker=int(marker), sequence_number=sequence, timestamp=timestamp,
        ssrc=ssrc, payload=payload,
    )  # fmt: skip
    theirs.csrc = csrcs
    theirs.extensions.mid = "audio"
    theirs.extensions.audio_level = (voice, level)
    theirs.extensions.transport_sequence_number = number
    ours = parse_rtp(theirs.serialize(extension_map()))
    assert (ours.payload_type, ours.marker, ours.payload) == (kind, marker, payload)
    assert (ours.sequence, ours.timestamp, ours.ssrc) == (sequence, timestamp, ssrc)
    assert ours.csrcs == tuple(csrcs)
    found = parse_extensions(IDS, ours.extension_profile, ours.extension)
    assert found == ("audio", level, voice, number)


@pytest.mark.parametrize("level", [0, 20, 127, 0x80 | 20])
def test_it_reads_our_senders_extensions(level: int) -> None:
    sender = AudioSender(SenderConfig(mid="audio", extensions=IDS), entropy=SeededEntropy(1))
    theirs = aiortc.RtpPacket.parse(
        sender.packetize(b"voice", 960, 0.0, audio_level=level), extension_map()
    )
    assert theirs.extensions.mid == "audio"
    assert theirs.extensions.audio_level == (level > 0x7F, level & 0x7F)
    assert theirs.payload == b"voice"


BLOCKS = st.builds(
    ReportBlock, U32, U8, st.integers(-0x800000, 0x7FFFFF), U32, U32, U32, U32
)  # fmt: skip


def reports_of(packet: aiortc.RtcpSrPacket | aiortc.RtcpRrPacket) -> list[tuple[int, ...]]:
    return [
        (r.ssrc, r.fraction_lost, r.packets_lost, r.highest_sequence, r.jitter, r.lsr, r.dlsr)
        for r in packet.reports
    ]


@given(U32, st.integers(0, (1 << 64) - 1), U32, U32, U32, st.lists(BLOCKS, max_size=31))
def test_reports(
    ssrc: int, ntp: int, timestamp: int, packets: int, octets: int, blocks: list[ReportBlock]
) -> None:
    ours: list[RtcpPacket] = [
        SenderReport(ssrc, ntp, timestamp, packets, octets, tuple(blocks)),
        ReceiverReport(ssrc, tuple(blocks)),
    ]
    sr, rr = aiortc.RtcpPacket.parse(build_rtcp(ours))
    assert isinstance(sr, aiortc.RtcpSrPacket) and isinstance(rr, aiortc.RtcpRrPacket)
    info = sr.sender_info
    assert (info.ntp_timestamp, info.rtp_timestamp) == (ntp, timestamp)
    assert (info.packet_count, info.octet_count, sr.ssrc, rr.ssrc) == (packets, octets, ssrc, ssrc)
    assert reports_of(sr) == reports_of(rr) == [tuple(b) for b in blocks]
    assert parse_rtcp(bytes(sr) + bytes(rr)) == ours


@given(U32, st.binary(max_size=255), st.lists(U32, min_size=1, max_size=31))
def test_names_and_goodbyes(ssrc: int, name: bytes, gone: list[int]) -> None:
    # one chunk only: it does not align the second (RFC 3550 section 6.5)
    ours: list[RtcpPacket] = [
        SourceDescription(((ssrc, ((SDES_CNAME, name),)),)),
        Goodbye(tuple(gone)),
    ]
    sdes, bye = aiortc.RtcpPacket.parse(build_rtcp(ours))
    assert isinstance(sdes, aiortc.RtcpSdesPacket) and isinstance(bye, aiortc.RtcpByePacket)
    assert [(c.ssrc, c.items) for c in sdes.chunks] == [(ssrc, [(1, name)])]
    assert bye.sources == gone
    assert parse_rtcp(bytes(sdes) + bytes(bye)) == ours


@given(U32, U32, st.sets(U16, min_size=1, max_size=40))
def test_feedback(sender: int, media: int, lost: set[int]) -> None:
    ours = build_rtcp(
        [GenericNack(sender, media, tuple(sorted(lost))), PictureLossIndication(sender, media)]
    )
    nack, pli = aiortc.RtcpPacket.parse(ours)
    assert isinstance(nack, aiortc.RtcpRtpfbPacket) and isinstance(pli, aiortc.RtcpPsfbPacket)
    assert (nack.fmt, nack.ssrc, nack.media_ssrc) == (1, sender, media)
    assert set(nack.lost) == lost
    assert (pli.fmt, pli.ssrc, pli.media_ssrc) == (1, sender, media)
    back, _ = parse_rtcp(bytes(nack) + bytes(pli))
    assert isinstance(back, GenericNack) and set(back.lost) == lost
