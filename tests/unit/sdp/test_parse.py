"""Text to values, rule by rule; the text is the shape of real peers."""

from __future__ import annotations

import pytest

from tests.unit.sdp import shapes
from tests.unit.sdp.build import capture
from warp.sdp import (
    Codec,
    Direction,
    HeaderExtension,
    SctpInitFault,
    SdpError,
    SdpRule,
    Setup,
    Source,
    parse_description,
)

HEAD = "v=0\r\no=- 1 2 IN IP4 127.0.0.1\r\ns=-\r\nt=0 0\r\n"
AUDIO = "m=audio 9 UDP/TLS/RTP/SAVPF 111\r\n"
DATA = "m=application 9 UDP/DTLS/SCTP webrtc-datachannel\r\n"


def fails(text: str) -> tuple[SdpRule, int | None]:
    with pytest.raises(SdpError) as caught:
        parse_description(text)
    return caught.value.rule, caught.value.line


def one(lines: str, section: str = AUDIO):
    return parse_description(HEAD + section + lines).media[0]


def test_chromium_warp_offer_field_by_field() -> None:
    description = parse_description(capture("chromium156_warp_offer"))
    assert description.origin.session_id == 8272462950963554789
    assert description.bundles == (("0", "1"),)
    audio, data = description.media
    assert (audio.kind, audio.port, audio.mid, audio.direction) == (
        "audio", 58108, "0", Direction.SENDRECV,
    )  # fmt: skip
    assert audio.transport.ufrag == "sWwm"
    assert audio.transport.pwd == "YfaXBybTLrDss7COhKwflRSq"
    assert audio.transport.ice_options == ("trickle", "sped", "googspedv1")
    assert audio.transport.setup is Setup.ACTPASS
    assert audio.transport.fingerprints[0][0] == "sha-256"
    assert audio.transport.candidates[0].startswith("candidate:4040100742 1 udp 2122260223 ")
    assert audio.codecs[0] == Codec(
        111, "opus", 48000, 2, "minptime=10;useinbandfec=1", ("transport-cc",)
    )
    assert audio.codecs[1] == Codec(63, "red", 48000, 2, "111/111")
    assert [c.name for c in audio.codecs[2:6]] == ["G722", "PCMU", "PCMA", "CN"]
    assert audio.extensions[0] == HeaderExtension(1, "urn:ietf:params:rtp-hdrext:ssrc-audio-level")
    assert audio.extmap_allow_mixed and audio.rtcp_mux and audio.rtcp_rsize
    assert audio.sources == (
        Source(
            2732689947,
            "TOEjMjkDHFhEV8Eu",
            "65f8d5d5-9abc-4f36-8127-322a15f220c2 82d5d532-cca4-41b9-92e8-8bea45d202ef",
        ),
    )
    assert audio.msids == (audio.sources[0].msid,)
    assert data.sctp is not None
    assert (data.sctp.port, data.sctp.max_message_size) == (5000, 262144)
    assert data.sctp.init is not None and data.sctp.init[4:8].hex() == "6cd3c230"


def test_firefox_session_level_attributes_reach_every_section() -> None:
    audio, data = parse_description(shapes.FIREFOX).media
    for section in (audio, data):
        assert section.transport.fingerprints == (("sha-256", shapes.FINGERPRINT),)
        assert section.transport.ice_options == ("trickle",)
        assert section.transport.ufrag == "b1c2d3e4"
    assert audio.codec("opus", 48000) == Codec(
        109, "opus", 48000, 2, "maxplaybackrate=48000;stereo=1;useinbandfec=1"
    )
    assert audio.extensions[1].direction is Direction.RECVONLY
    assert data.sctp is not None and data.sctp.send_limit == 1073741823


def test_libdatachannel_session_level_transport() -> None:
    (data,) = parse_description(shapes.LIBDATACHANNEL).media
    assert data.transport.ufrag == "6JmN"
    assert data.transport.setup is Setup.ACTPASS
    # it joins its options with a comma: one unknown token, no error
    assert data.transport.ice_options == ("ice2,trickle",)


def test_sped_26_odd_ice_options_are_no_error() -> None:
    section = one("a=ice-options:trickle goog-sped-v1 x-y.z ??\r\n")
    assert section.transport.ice_options == ("trickle", "goog-sped-v1", "x-y.z", "??")


def test_legacy_data_section() -> None:
    (data,) = parse_description(shapes.LEGACY_DATA).media
    assert data.is_data and data.sctp is not None
    assert (data.sctp.port, data.sctp.send_limit) == (5001, 65536)


def test_missing_sctp_port_means_5000() -> None:
    section = one("", DATA)
    assert section.sctp is not None
    assert (section.sctp.port, section.sctp.effective_port) == (None, 5000)


@pytest.mark.parametrize(
    ("line", "limit"), [("", 65536), ("0", None), ("100", 100), ("9999999", 9999999)]
)
def test_max_message_size(line: str, limit: int | None) -> None:
    section = one(f"a=max-message-size:{line}\r\n" if line else "", DATA)
    assert section.sctp is not None and section.sctp.send_limit == limit


def test_bundle_only_is_not_rejected() -> None:
    video, audio, data = parse_description(shapes.VIDEO_FIRST).media
    assert audio.port == 0 and audio.bundle_only and not audio.rejected
    assert data.port == 0 and not data.rejected
    assert one("", "m=audio 0 UDP/TLS/RTP/SAVPF 111\r\n").rejected
    assert video.kind == "video"


def test_unknown_attributes_leave_no_trace() -> None:
    text = HEAD + "a=x-session:1\r\n" + AUDIO + "a=x-media:2\r\na=sctp-init:AQ==\r\n" + DATA
    again = str(parse_description(text))
    assert "x-" not in again and "sctp-init" not in again


def test_rtcp_feedback_of_all_formats() -> None:
    section = one(
        "a=rtpmap:111 opus/48000/2\r\na=rtcp-fb:* nack\r\na=rtcp-fb:111 transport-cc\r\n"
        "a=rtcp-fb:111 nack\r\na=rtcp-fb:7 ccm fir\r\n"
    )
    assert section.codecs[0].feedback == ("nack", "transport-cc")


def test_formats_that_look_like_rtcp_are_none() -> None:
    """RFC 5761 section 4: payload types 64 to 95 cannot be told from RTCP on one port."""
    text = "m=audio 9 UDP/TLS/RTP/SAVPF 72 95 96\r\n"
    text += "".join(f"a=rtpmap:{n} opus/48000/2\r\n" for n in (72, 95, 96))
    [section] = parse_description(HEAD + text).media
    assert [codec.payload_type for codec in section.codecs] == [96]


def test_static_formats_need_no_rtpmap() -> None:
    section = one("", "m=audio 9 UDP/TLS/RTP/SAVPF 0 8 9 13 77\r\n")
    assert [c.name for c in section.codecs] == ["PCMU", "PCMA", "G722", "CN"]


def test_fmtp_parameters() -> None:
    codec = Codec(1, "opus", 48000, 2, "minptime=10; UseInbandFec=1;cbr ;")
    assert codec.parameters() == {"minptime": "10", "useinbandfec": "1", "cbr": ""}
    assert Codec(1, "opus", 48000).parameters() == {}


def test_a_bad_sctp_init_never_refuses_the_description() -> None:
    section = one("a=sctp-init:***\r\n", DATA)
    assert section.sctp is not None
    assert (section.sctp.init, section.sctp.init_fault) == (None, SctpInitFault.NOT_BASE64)
    section = one("a=sctp-init:AQ==\r\na=sctp-init:AQ==\r\n", DATA)
    assert section.sctp is not None and section.sctp.init_fault is SctpInitFault.REPEATED


def test_snap_5_sctp_init_outside_a_data_section_means_nothing() -> None:
    text = HEAD + "a=sctp-init:AQ==\r\n" + AUDIO + "a=sctp-init:AQ==\r\n" + DATA
    audio, data = parse_description(text).media
    assert audio.sctp is None
    assert data.sctp is not None and data.sctp.init is None


@pytest.mark.parametrize(
    ("text", "rule", "line"),
    [
        ("", SdpRule.VERSION, 1),
        ("v=1\r\n", SdpRule.VERSION, 1),
        ("hello", SdpRule.VERSION, 1),
        ("v=0\r\no=- 1 2 IN IP4\r\n", SdpRule.ORIGIN, 2),
        ("v=0\r\no=- x 2 IN IP4 h\r\n", SdpRule.NUMBER, 2),
        ("v=0\r\ns=-\r\nt=0 0\r\n", SdpRule.MISSING_LINE, None),
        (HEAD.replace("t=0 0\r\n", "") + AUDIO, SdpRule.MISSING_LINE, None),
        (HEAD + "q=1\r\n", SdpRule.UNKNOWN_TYPE, 5),
        (HEAD + "rubbish\r\n", SdpRule.LINE_SHAPE, 5),
        (HEAD + "\r\n" + AUDIO, SdpRule.LINE_SHAPE, 5),
        (HEAD + "m=audio 9 RTP/AVP\r\n", SdpRule.MEDIA_LINE, 5),
        (HEAD + "m=audio 65536 RTP/AVP 0\r\n", SdpRule.NUMBER, 5),
        (HEAD + "m=audio 9 RTP/AVP 128\r\n", SdpRule.NUMBER, 5),
        (HEAD + AUDIO + "c=IN IP4\r\n", SdpRule.CONNECTION, 6),
        (HEAD + AUDIO + "a=mid:\r\n", SdpRule.TOKEN, 6),
        (HEAD + AUDIO + "a=mid:a b\r\n", SdpRule.TOKEN, 6),
        (HEAD + AUDIO + "a=mid:0\r\na=mid:0\r\n", SdpRule.DUPLICATE, 7),
        (HEAD + AUDIO + "a=mid:0\r\n" + DATA + "a=mid:0\r\n", SdpRule.MID, None),
        (HEAD + "a=group:BUNDLE 0\r\n" + AUDIO, SdpRule.GROUP, None),
        (HEAD + "a=group:BUNDLE 0 0\r\n" + AUDIO + "a=mid:0\r\n", SdpRule.GROUP, None),
        (HEAD + AUDIO + "a=ice-ufrag:abc\r\n", SdpRule.ICE_UFRAG, 6),
        (HEAD + AUDIO + "a=ice-pwd:short\r\n", SdpRule.ICE_PWD, 6),
        (HEAD + AUDIO + "a=fingerprint:sha-256 12\r\n", SdpRule.FINGERPRINT, 6),
        (HEAD + AUDIO + "a=setup:holdconn\r\n", SdpRule.SETUP, 6),
        (HEAD + AUDIO + "a=setup:active\r\na=setup:passive\r\n", SdpRule.DUPLICATE, 7),
        (HEAD + AUDIO + "a=rtpmap:111 opus\r\n", SdpRule.RTPMAP, 6),
        (HEAD + AUDIO + "a=rtpmap:300 opus/48000\r\n", SdpRule.NUMBER, 6),
        (HEAD + AUDIO + "a=fmtp:111\r\n", SdpRule.FMTP, 6),
        (HEAD + AUDIO + "a=rtcp-fb:111\r\n", SdpRule.FEEDBACK, 6),
        (HEAD + AUDIO + "a=extmap:0 urn:x\r\n", SdpRule.NUMBER, 6),
        (HEAD + AUDIO + "a=extmap:1\r\n", SdpRule.EXTMAP, 6),
        (HEAD + AUDIO + "a=extmap:1/sideways urn:x\r\n", SdpRule.EXTMAP, 6),
        (HEAD + AUDIO + "a=ssrc:4294967296 cname:x\r\n", SdpRule.NUMBER, 6),
        (HEAD + AUDIO + "a=ssrc:1\r\n", SdpRule.SSRC, 6),
        (HEAD + AUDIO + "a=msid:\r\n", SdpRule.MSID, 6),
        (HEAD + AUDIO + "a=mid:\u00e9\r\n", SdpRule.TOKEN, 6),
        (HEAD + DATA + "a=sctp-port:70000\r\n", SdpRule.NUMBER, 6),
        (HEAD + DATA + "a=sctp-port:0\r\n", SdpRule.NUMBER, 6),
        (HEAD + DATA + "a=max-message-size:-1\r\n", SdpRule.NUMBER, 6),
        (HEAD + DATA + "a=sctpmap:5000\r\n", SdpRule.SCTPMAP, 6),
    ],
)
def test_errors_name_line_and_rule(text: str, rule: SdpRule, line: int | None) -> None:
    assert fails(text) == (rule, line)


def test_the_error_text_says_where_and_what() -> None:
    with pytest.raises(SdpError, match=r"line 6: an ice-ufrag has 4 to 256"):
        parse_description(HEAD + AUDIO + "a=ice-ufrag:a\r\n")


def test_ignored_lines_do_no_harm() -> None:
    text = (
        "v=0\r\no=- 1 2 IN IP4 127.0.0.1\r\ns= \r\ni=info\r\nu=http://x\r\ne=a@b\r\np=1\r\nb=AS:5\r\n"
        "t=0 0\r\nr=1\r\nz=0\r\nk=clear\r\n" + AUDIO + "i=title\r\nb=TIAS:9\r\n"
    )
    assert parse_description(text).media[0].kind == "audio"


def test_fractional_ptime_is_legal() -> None:
    section = one("a=ptime:20.5\r\na=maxptime:60\r\n")
    assert (section.ptime_ms, section.maxptime_ms) == (20, 60)


def test_sections_that_are_alike_keep_what_is_their_own() -> None:
    common = "a=mid:a\r\na=sendonly\r\na=rtpmap:111 opus/48000/2\r\na=rtcp-mux\r\n"
    own = "a=ice-ufrag:user{n}\r\na=candidate:{n} x\r\na=ssrc:{n} cname:c{n}\r\na=msid:m{n}\r\n"
    texts = [
        HEAD + f"m=audio {4000 + n} UDP/TLS/RTP/SAVPF 111\r\nc=IN IP4 10.0.0.{n}\r\n"
        + own.format(n=n) + common for n in (1, 2)
    ]  # fmt: skip
    for n, text in enumerate(texts + texts, 1):
        n = (n - 1) % 2 + 1
        section = parse_description(text).media[0]
        assert (section.port, section.address) == (4000 + n, f"10.0.0.{n}")
        assert section.transport.ufrag == f"user{n}"
        assert section.transport.candidates == (f"candidate:{n} x",)
        assert section.sources == (Source(n, f"c{n}"),)
        assert section.msids == (f"m{n}",)
        assert section.codecs == (Codec(111, "opus", 48000, 2),)
        assert (section.mid, section.direction) == ("a", Direction.SENDONLY)


def test_the_first_bad_line_is_named_whatever_sort_it_is() -> None:
    bad_own, bad_common = "a=ice-ufrag:x\r\n", "a=ptime:x\r\n"
    assert fails(HEAD + AUDIO + bad_own + bad_common) == (SdpRule.ICE_UFRAG, 6)
    assert fails(HEAD + AUDIO + bad_common + bad_own) == (SdpRule.NUMBER, 6)
    assert fails(HEAD + AUDIO + DATA + bad_common) == (SdpRule.NUMBER, 7)
    assert fails(HEAD + bad_common + bad_own) == (SdpRule.NUMBER, 5)


def test_names_that_only_begin_like_those_of_a_session() -> None:
    lines = "a=ice-pacing:50\r\na=ssrc-group:FID 1 2\r\na=msid-semantic:WMS *\r\n"
    section = one(lines + "a=candidates:none\r\n")
    assert section.sources == section.msids == section.transport.candidates == ()
    for line, rule in (("a=msid", SdpRule.MSID), ("a=ssrc", SdpRule.SSRC)):
        assert fails(HEAD + AUDIO + line + "\r\n") == (rule, 6)


def test_a_late_fault_among_many_lines_is_found_in_no_time() -> None:
    many = "".join(f"a=candidate:{n} x\r\n" for n in range(9000))
    assert fails(HEAD + AUDIO + many + "a=ice-ufrag:x\r\n") == (SdpRule.ICE_UFRAG, 9006)
