"""What stands in a datagram, whole or cut: STUN with riders, records, fragments, media headers."""

from __future__ import annotations

import pytest

from tests.captures.pcap import read_pcap
from warp.stun import Attribute, MessageClass, build_message
from warp_tools.capture.contents import GOOG_PING, Contents, is_check, read_contents
from warp_tools.capture.records import is_dtls, read_records

WARP = [packet.payload for packet in read_pcap("stun/chromium156_warp.pcap")]
AIORTC = [packet.payload for packet in read_pcap("dtls/aiortc116_chromium156.pcap")]
NSS = [packet.payload for packet in read_pcap("dtls/nssff153_aes256.pcap")]


def contents(data: bytes, kept: int | None = None) -> Contents:
    return read_contents(data[:kept], len(data))


def test_a_check_with_half_a_client_hello() -> None:
    found = contents(WARP[0])
    stun, dtls = found.stun, found.dtls
    assert stun is not None and dtls is not None
    assert stun.is_request and stun.username == ("sWwm", "B8NT")
    assert (stun.controlling, stun.use_candidate, stun.google) == (False, False, True)
    assert (stun.rider_bytes, stun.acks) == (900, ())
    ((record,),) = (dtls.records,)
    ((piece,),) = (record.pieces,)
    assert (piece.kind, piece.length, piece.offset, piece.size) == (1, 1413, 0, 875)
    assert piece.random is not None and not piece.whole


def test_an_answer_that_acknowledges_it() -> None:
    first, answer = contents(WARP[0]), contents(WARP[1]).stun
    assert answer is not None and answer.message_class is MessageClass.SUCCESS
    assert answer.acks == (first.dtls.crc,)
    assert answer.mapped == ("127.0.0.1", 34174)


def test_many_records_of_one_datagram() -> None:
    dtls = contents(AIORTC[10]).dtls
    kinds = [piece.kind for record in dtls.records for piece in record.pieces]
    assert kinds == [2, 11, 11, 11, 12, 13, 14] and dtls.fault is None
    last = contents(AIORTC[11]).dtls.records[-1]
    assert (last.content_type, last.epoch, last.sequence, last.protected) == (22, 1, 0, True)


def test_the_unified_header() -> None:
    dtls = contents(NSS[1]).dtls
    assert [record.unified for record in dtls.records] == [False, True, True, True, True, True]
    assert {record.epoch for record in dtls.records[1:]} == {2}


def test_media_headers() -> None:
    (packet,) = [p for p in WARP if contents(p).kind == "rtp"][:1]
    media = contents(packet).media
    assert (media.rtcp, media.kind, media.ssrc) == (False, 111, 0xA2E18A1B)
    (report,) = [p for p in WARP if contents(p).kind == "rtcp"][:1]
    assert contents(report).media.kind == 205


@pytest.mark.parametrize("kept", range(0, 1004, 9))
def test_a_check_that_was_cut_says_what_is_left(kept: int) -> None:
    found = contents(WARP[0], kept)
    if found.stun is None:
        assert kept < 20
        return
    assert found.stun.cut and found.stun.fault is None
    if kept >= 36:
        assert found.stun.username == ("sWwm", "B8NT")
    assert (found.dtls is None) == (kept < 972)  # the rider ends there


@pytest.mark.parametrize("kept", range(0, 263, 5))
def test_a_hello_that_was_cut_keeps_its_headers(kept: int) -> None:
    hello = WARP[4]  # 563 bytes: the second half of the ClientHello
    dtls = contents(hello, kept).dtls
    if kept >= 25:
        (piece,) = dtls.records[0].pieces
        assert (piece.offset, piece.size, len(piece.data)) == (875, 538, kept - 25)
        assert dtls.fault is None
    elif dtls is not None:
        assert dtls.records == () or dtls.records[0].pieces == ()


def test_damage_is_named() -> None:
    wrong = bytearray(WARP[0])
    wrong[40] ^= 1
    stun = contents(bytes(wrong)).stun
    assert stun.fault == "FINGERPRINT does not match" and stun.acks == ()
    bad = build_message(
        1, MessageClass.SUCCESS, bytes(12),
        [(Attribute.META_DTLS_IN_STUN_ACKNOWLEDGEMENT, b"abc")], integrity_key=None,
    )  # fmt: skip
    stun = contents(bad).stun
    assert stun.acks == () and "CRC" in stun.fault
    short = contents(NSS[1][:-1] + b"", None).dtls
    assert short.fault == "a record is longer than its datagram"
    assert contents(WARP[5] + b"\x16").dtls.fault == "a record is cut short"


def test_binding_and_its_short_form_are_checks() -> None:
    ping = build_message(GOOG_PING, MessageClass.REQUEST, bytes(12), [], integrity_key=None)
    allocate = build_message(3, MessageClass.REQUEST, bytes(12), [], integrity_key=None)
    assert is_check(contents(ping).stun) and is_check(contents(WARP[0]).stun)
    assert not is_check(contents(allocate).stun)


@pytest.mark.parametrize("data", [b"", b"\0", b"\x16", b"\x90\x6f", b"\x50" * 30, b"\x01" * 40])
def test_anything_else_is_other_or_next_to_nothing(data: bytes) -> None:
    found = contents(data)
    assert found.stun is None and found.media is None
    assert found.dtls is None or not found.dtls.records


def test_dtls_beyond_doubt() -> None:
    assert is_dtls(WARP[4], len(WARP[4])) and is_dtls(NSS[3], len(NSS[3]))
    assert is_dtls(WARP[4][:60], len(WARP[4]))
    assert not is_dtls(b"\x16\x03\x01" + bytes(40), 43)  # TLS
    assert not is_dtls(b"\x2f" + bytes(40), 41)
    assert not is_dtls(b"\x16\xfe\xfd", 3)


def test_records_are_bounded() -> None:
    empty = b"\x16\xfe\xfd" + bytes(10)
    found = read_records(empty * 200, 13 * 200)
    assert len(found.records) == 64 and found.fault is not None
