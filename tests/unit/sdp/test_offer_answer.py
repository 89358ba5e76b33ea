"""Offers and answers, section by section (RFC 9429 section 5, RFC 3264, RFC 8842, RFC 8843)."""

from __future__ import annotations

import re

import pytest

from tests.unit.sdp import shapes
from tests.unit.sdp.build import OWN_INIT, PEER_INIT, capture, local, reparse, transport
from tests.unit.sdp.test_parse import AUDIO, DATA, HEAD
from warp.errors import InvalidConfig
from warp.sdp import (
    Direction,
    LocalAudio,
    LocalData,
    SdpError,
    SdpRule,
    Setup,
    create_answer,
    create_offer,
    parse_description,
)

ICE = f"a=ice-ufrag:abcd\r\na=ice-pwd:{'p' * 22}\r\na=fingerprint:sha-256 {shapes.FINGERPRINT}\r\n"
GOOD_AUDIO = (
    AUDIO + ICE + "a=setup:actpass\r\na=mid:0\r\na=rtcp-mux\r\na=rtpmap:111 opus/48000/2\r\n"
)
GOOD_DATA = DATA + ICE + "a=setup:actpass\r\na=mid:1\r\na=sctp-port:5000\r\n"


def offer_text(*sections: str, session: str | None = None):
    """An offer that bundles its sections, unless `session` says otherwise."""
    if session is None:
        mids = re.findall(r"a=mid:(\S+)", "".join(sections))
        session = f"a=group:BUNDLE {' '.join(mids)}\r\n"
    return parse_description(HEAD + session + "".join(sections))


# -- offers ----------------------------------------------------------------------------------------


def test_offer_has_what_jsep_asks_for() -> None:
    offer = create_offer(local())
    audio, data = offer.media
    assert offer.bundles == (("0", "1"),)
    assert (audio.mid, data.mid) == ("0", "1")
    assert audio.protocol == "UDP/TLS/RTP/SAVPF" and data.protocol == "UDP/DTLS/SCTP"
    for section in offer.media:
        assert section.transport.ufrag == "OURS"
        assert section.transport.fingerprints
        assert section.transport.setup is Setup.ACTPASS
        assert section.transport.ice_options == ("trickle",)
    assert audio.rtcp_mux and audio.rtcp_rsize and audio.extmap_allow_mixed
    assert audio.msids == ("s t",)
    assert [c.name for c in audio.codecs][:2] == ["opus", "red"]
    assert data.sctp is not None and data.sctp.port == 5000
    assert reparse(offer) == offer


def test_offer_puts_candidates_in_the_tagged_section_only() -> None:
    audio, data = create_offer(local()).media
    assert (audio.port, audio.address) == (3478, "198.51.100.4")
    assert audio.transport.candidates and audio.transport.end_of_candidates
    assert (data.port, data.address) == (9, "0.0.0.0")
    assert data.transport.candidates == () and not data.transport.end_of_candidates


def test_offer_without_an_address_has_the_discard_port() -> None:
    offer = create_offer(local(transport=transport(address=None, candidates=())))
    assert {(m.port, m.address) for m in offer.media} == {(9, "0.0.0.0")}


@pytest.mark.parametrize("setup", list(Setup))
def test_offer_setup_can_be_forced(setup: Setup) -> None:
    assert create_offer(local(setup=setup)).media[0].transport.setup is setup


def test_offer_of_data_alone_and_of_audio_alone() -> None:
    (data,) = create_offer(local(media=(LocalData(sctp_port=6001),))).media
    assert data.sctp is not None and data.sctp.port == 6001 and data.port == 3478
    (audio,) = create_offer(local(media=(LocalAudio(),))).media
    assert audio.kind == "audio"


def test_offer_announces_no_source_when_it_does_not_send() -> None:
    audio = LocalAudio(direction=Direction.RECVONLY, ssrc=5, cname="c")
    (section,) = create_offer(local(media=(audio,))).media
    assert section.sources == () and section.msids == ()


def test_snap_5_offer_carries_sctp_init_once_in_the_data_section() -> None:
    text = str(create_offer(local(), sctp_init=OWN_INIT))
    assert text.count("a=sctp-init:") == 1
    assert "a=sctp-init:" in text[text.index("m=application") :]


def test_snap_6_offer_without_data_has_no_sctp_init() -> None:
    first = create_offer(local(media=(LocalAudio(),)), sctp_init=OWN_INIT)
    assert "sctp-init" not in str(first)
    again = create_offer(local(), previous=first, sctp_init=OWN_INIT)
    assert again.media[1].sctp is not None and again.media[1].sctp.init == OWN_INIT


# -- answers ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["warp", "warp_nopqc", "default", "sped_only", "snap_only"])
def test_answer_to_chromium(name: str) -> None:
    offer = parse_description(capture(f"chromium156_{name}_offer"))
    answer = create_answer(offer, local(), sctp_init=OWN_INIT)
    audio, data = answer.media
    assert answer.bundles == (("0", "1"),)
    assert [(c.payload_type, c.name, c.clock_rate) for c in audio.codecs] == [
        (111, "opus", 48000),
        (63, "red", 48000),
        (110, "telephone-event", 48000),
        (126, "telephone-event", 8000),
    ]
    assert audio.codecs[0].feedback == ("transport-cc",)
    assert [ext.id for ext in audio.extensions] == [1, 3, 4]
    assert audio.direction is Direction.SENDRECV
    assert {m.transport.setup for m in answer.media} == {Setup.PASSIVE}
    assert {(m.port, m.address) for m in answer.media} == {(3478, "198.51.100.4")}
    assert data.sctp is not None
    assert (data.sctp.init == OWN_INIT) is (name in ("warp", "warp_nopqc", "snap_only"))
    sped = name in ("warp", "warp_nopqc", "sped_only")
    assert audio.transport.ice_options == (
        ("trickle", "sped", "googspedv1") if sped else ("trickle",)
    )
    assert reparse(answer) == answer


@pytest.mark.parametrize("name", sorted(shapes.ALL))
def test_answer_to_every_shape(name: str) -> None:
    offer = parse_description(shapes.ALL[name])
    answer = create_answer(offer, local(), sctp_init=OWN_INIT)
    assert [m.kind for m in answer.media] == [m.kind for m in offer.media]
    assert [m.mid for m in answer.media] == [m.mid for m in offer.media]
    assert [m.rejected for m in answer.media] == [m.kind == "video" for m in offer.media]
    assert reparse(answer) == answer


def test_firefox_keeps_its_payload_types() -> None:
    answer = create_answer(parse_description(shapes.FIREFOX), local())
    assert [(c.payload_type, c.name) for c in answer.media[0].codecs] == [
        (109, "opus"),
        (101, "telephone-event"),
    ]
    assert "a=fmtp:109 minptime=10;useinbandfec=1" in str(answer)


def test_legacy_data_is_answered_in_its_own_form() -> None:
    answer = create_answer(parse_description(shapes.LEGACY_DATA), local())
    text = str(answer)
    assert "m=application 3478 DTLS/SCTP 5000\r\n" in text
    assert "a=sctpmap:5000 webrtc-datachannel" in text and "a=sctp-port" not in text


def test_refused_sections_have_port_zero_and_no_use() -> None:
    answer = create_answer(parse_description(shapes.VIDEO_FIRST), local())
    video, audio, data = answer.media
    assert (video.port, video.direction, video.formats) == (0, Direction.INACTIVE, ("96",))
    assert video.transport.ufrag == "" and video.mid == "v"
    assert answer.bundles == (("a", "d"),)
    assert audio.direction is Direction.RECVONLY
    assert audio.port == data.port == 3478
    assert audio.transport.candidates and not data.transport.candidates


def test_unknown_kinds_are_refused() -> None:
    text = "m=text 9 UDP/TLS/RTP/SAVPF 98\r\na=mid:t\r\na=rtpmap:98 t140/1000\r\n"
    answer = create_answer(offer_text(GOOD_AUDIO, text, session="a=group:BUNDLE 0 t\r\n"), local())
    assert [m.rejected for m in answer.media] == [False, True]


def test_application_that_is_no_data_channel_is_refused() -> None:
    bfcp = "m=application 9 UDP/TLS/BFCP *\r\na=mid:b\r\n"
    answer = create_answer(offer_text(GOOD_AUDIO, bfcp, session="a=group:BUNDLE 0 b\r\n"), local())
    assert answer.media[1].rejected


def test_audio_without_opus_or_mux_or_rtp_is_refused() -> None:
    for bad in (
        GOOD_AUDIO.replace("a=rtpmap:111 opus/48000/2", "a=rtpmap:111 speex/16000"),
        GOOD_AUDIO.replace("a=rtcp-mux\r\n", ""),
        GOOD_AUDIO.replace("UDP/TLS/RTP/SAVPF", "UDP/QUIC/RTP/SAVPF"),
    ):
        answer = create_answer(offer_text(bad, GOOD_DATA), local())
        assert [m.rejected for m in answer.media] == [True, False]
        assert answer.bundles == (("1",),)


@pytest.mark.parametrize("profile", ["RTP/AVP", "RTP/SAVPF", "UDP/TLS/RTP/SAVP", "RTP/AVPF"])
def test_the_fingerprint_counts_not_the_profile(profile: str) -> None:
    offered = GOOD_AUDIO.replace("UDP/TLS/RTP/SAVPF", profile)
    answer = create_answer(offer_text(offered), local())
    assert answer.media[0].protocol == profile and not answer.media[0].rejected
    bare = offered.replace(f"a=fingerprint:sha-256 {shapes.FINGERPRINT}\r\n", "")
    with pytest.raises(SdpError) as caught:
        create_answer(offer_text(bare), local())
    assert caught.value.rule is SdpRule.FINGERPRINT_MISSING


def test_rtcp_mux_only_is_said_in_offers_alone() -> None:
    offer = create_offer(local())
    assert "a=rtcp-mux-only\r\n" in str(offer)
    answer = create_answer(reparse(offer), local())
    assert answer.media[0].rtcp_mux and "rtcp-mux-only" not in str(answer)


def test_nothing_to_accept_is_an_error() -> None:
    with pytest.raises(SdpError) as caught:
        create_answer(offer_text(GOOD_AUDIO, GOOD_DATA), local(media=()))
    assert caught.value.rule is SdpRule.NOTHING_LEFT


def test_sections_outside_the_bundle_are_refused() -> None:
    answer = create_answer(offer_text(GOOD_AUDIO, GOOD_DATA, session=""), local())
    assert [m.rejected for m in answer.media] == [False, True]
    assert answer.bundles == ()
    answer = create_answer(
        offer_text(GOOD_AUDIO, GOOD_DATA, session="a=group:BUNDLE 0\r\n"), local()
    )
    assert [m.rejected for m in answer.media] == [False, True]


def test_missing_transport_attributes_name_their_rule() -> None:
    for line, rule in (
        ("a=ice-ufrag:abcd\r\n", SdpRule.ICE_MISSING),
        (f"a=ice-pwd:{'p' * 22}\r\n", SdpRule.ICE_MISSING),
        (f"a=fingerprint:sha-256 {shapes.FINGERPRINT}\r\n", SdpRule.FINGERPRINT_MISSING),
    ):
        with pytest.raises(SdpError) as caught:
            create_answer(offer_text(GOOD_DATA.replace(line, ""), session=""), local())
        assert caught.value.rule is rule


def test_second_audio_takes_the_second_local_one() -> None:
    second = GOOD_AUDIO.replace("a=mid:0", "a=mid:2").replace("111", "96")
    media = (LocalAudio(ssrc=1, cname="a"), LocalAudio(ssrc=2, cname="b"), LocalData())
    offer = offer_text(GOOD_AUDIO, GOOD_DATA, second, session="a=group:BUNDLE 0 1 2\r\n")
    answer = create_answer(offer, local(media=media))
    assert [m.sources[0].ssrc for m in answer.media if m.kind == "audio"] == [1, 2]
    only_one = create_answer(offer, local())
    assert [m.rejected for m in only_one.media] == [False, False, True]


RECVONLY, SENDONLY = "a=recvonly\r\n", "a=sendonly\r\n"


@pytest.mark.parametrize(
    ("first", "second", "answered"),
    [
        (RECVONLY, "", [Direction.SENDONLY, Direction.RECVONLY]),
        (RECVONLY, SENDONLY, [Direction.SENDONLY, Direction.RECVONLY]),
        (RECVONLY, RECVONLY, [Direction.SENDONLY, Direction.INACTIVE]),
        ("a=inactive\r\n", "", [Direction.INACTIVE, Direction.RECVONLY]),
        ("", "", [Direction.SENDRECV, None]),
        (SENDONLY, "", [Direction.RECVONLY, None]),
    ],
)
def test_a_peer_that_listens_in_one_section_may_speak_in_another(
    first: str, second: str, answered: list[Direction | None]
) -> None:
    other = GOOD_AUDIO.replace("a=mid:0", "a=mid:2")
    offer = offer_text(
        GOOD_AUDIO + first, GOOD_DATA, other + second, session="a=group:BUNDLE 0 1 2\r\n"
    )
    answer = create_answer(offer, local())
    audio = [m for m in answer.media if m.kind == "audio"]
    assert [None if m.rejected else m.direction for m in audio] == answered
    # our own voice has one source, in one place
    speaks = answered[0] is not None and answered[0].sends
    assert [len(m.sources) for m in audio] == [1 if speaks else 0, 0]


def test_an_offer_of_ours_keeps_the_section_that_the_peer_speaks_in() -> None:
    other = GOOD_AUDIO.replace("a=mid:0", "a=mid:2")
    offer = offer_text(GOOD_AUDIO + RECVONLY, GOOD_DATA, other, session="a=group:BUNDLE 0 1 2\r\n")
    first = create_answer(offer, local())
    again = create_offer(local(), previous=first)
    assert [(m.mid, m.direction, m.rejected) for m in again.media if m.kind == "audio"] == [
        ("0", Direction.SENDRECV, False),
        ("2", Direction.RECVONLY, False),
    ]
    without = create_offer(local(media=(LocalData(mid="1"),)), previous=first)
    assert [m.rejected for m in without.media] == [True, False, True]


def test_a_local_mid_finds_its_section() -> None:
    second = GOOD_AUDIO.replace("a=mid:0", "a=mid:2")
    media = (LocalAudio(mid="2", ssrc=1), LocalData(mid="1"))
    offer = offer_text(GOOD_AUDIO, GOOD_DATA, second, session="a=group:BUNDLE 0 1 2\r\n")
    answer = create_answer(offer, local(media=media))
    assert [m.rejected for m in answer.media] == [True, False, False]


@pytest.mark.parametrize(
    ("offered", "ours", "answered"),
    [
        ("sendrecv", Direction.SENDRECV, Direction.SENDRECV),
        ("sendonly", Direction.SENDRECV, Direction.RECVONLY),
        ("recvonly", Direction.SENDRECV, Direction.SENDONLY),
        ("sendonly", Direction.SENDONLY, Direction.INACTIVE),
        ("inactive", Direction.SENDRECV, Direction.INACTIVE),
        ("sendrecv", Direction.RECVONLY, Direction.RECVONLY),
    ],
)
def test_answer_directions(offered: str, ours: Direction, answered: Direction) -> None:
    offer = offer_text(GOOD_AUDIO + f"a={offered}\r\n", session="")
    answer = create_answer(offer, local(media=(LocalAudio(direction=ours),)))
    assert answer.media[0].direction is answered


@pytest.mark.parametrize(
    ("offered", "wish", "answered"),
    [
        ("actpass", Setup.PASSIVE, Setup.PASSIVE),
        ("actpass", Setup.ACTIVE, Setup.ACTIVE),
        (None, Setup.PASSIVE, Setup.PASSIVE),
        ("active", Setup.ACTIVE, Setup.PASSIVE),
        ("passive", Setup.PASSIVE, Setup.ACTIVE),
    ],
)
def test_answer_setup(offered: str | None, wish: Setup, answered: Setup) -> None:
    line = f"a=setup:{offered}\r\n" if offered else ""
    offer = offer_text(GOOD_AUDIO.replace("a=setup:actpass\r\n", line), session="")
    answer = create_answer(offer, local(answer_setup=wish))
    assert answer.media[0].transport.setup is answered


def test_answer_passive_is_the_default() -> None:
    """So that the offerer, who sends the first check, is the DTLS client and can put it there."""
    assert create_answer(offer_text(GOOD_AUDIO), local()).media[0].transport.setup is Setup.PASSIVE


def test_actpass_is_no_answer() -> None:
    with pytest.raises(InvalidConfig, match="ACTIVE or"):
        create_answer(offer_text(GOOD_AUDIO), local(answer_setup=Setup.ACTPASS))


def test_roles_stay_in_a_renegotiation() -> None:
    offer = offer_text(GOOD_AUDIO)
    answer = create_answer(offer, local(role=Setup.ACTIVE))
    assert answer.media[0].transport.setup is Setup.ACTIVE
    forced = offer_text(GOOD_AUDIO.replace("a=setup:actpass", "a=setup:active"))
    with pytest.raises(SdpError) as caught:
        create_answer(forced, local(role=Setup.ACTIVE))
    assert caught.value.rule is SdpRule.SETUP_CHANGED


def test_max_message_size_of_an_answer_is_our_own() -> None:
    answer = create_answer(offer_text(GOOD_DATA), local(media=(LocalData(max_message_size=1000),)))
    assert answer.media[0].sctp is not None and answer.media[0].sctp.max_message_size == 1000


def test_ice_lite_is_said() -> None:
    answer = create_answer(offer_text(GOOD_DATA), local(transport=transport(ice_lite=True)))
    assert "a=ice-lite\r\n" in str(answer)


@pytest.mark.parametrize("tokens", ["sped", "googspedv1", "goog-sped-v1", "sped googspedv1"])
def test_sped_25_the_offered_spelling_is_echoed(tokens: str) -> None:
    offer = offer_text(GOOD_AUDIO + f"a=ice-options:trickle {tokens} other\r\n")
    answer = create_answer(offer, local())
    assert answer.media[0].transport.ice_options == ("trickle", *tokens.split())


def test_sped_25_nothing_is_answered_that_was_not_offered() -> None:
    answer = create_answer(offer_text(GOOD_AUDIO + "a=ice-options:trickle\r\n"), local())
    assert answer.media[0].transport.ice_options == ("trickle",)
    answer = create_answer(offer_text(GOOD_AUDIO), local())
    assert answer.media[0].transport.ice_options == ()


def test_sped_25_options_of_the_session_level_count() -> None:
    offer = offer_text(GOOD_AUDIO, session="a=ice-options:sped\r\n")
    assert create_answer(offer, local()).media[0].transport.ice_options == ("sped",)


def test_sped_25_sped_turned_off_is_not_echoed() -> None:
    offer = offer_text(GOOD_AUDIO + "a=ice-options:trickle sped\r\n")
    answer = create_answer(offer, local(transport=transport(answer_options=())))
    assert answer.media[0].transport.ice_options == ("trickle",)


def test_snap_8_answer_has_sctp_init_only_when_the_offer_had_one() -> None:
    bare = offer_text(GOOD_DATA, session="")
    assert "sctp-init" not in str(create_answer(bare, local(), sctp_init=OWN_INIT))
    asked = create_offer(local(), sctp_init=PEER_INIT)
    answered = create_answer(asked, local(), sctp_init=OWN_INIT)
    assert answered.media[1].sctp is not None and answered.media[1].sctp.init == OWN_INIT


def test_snap_9_without_snap_the_line_is_not_echoed() -> None:
    offer = parse_description(capture("chromium156_warp_offer"))
    assert "sctp-init" not in str(create_answer(offer, local()))


@pytest.mark.parametrize("line", ["***", "AQ=", "", "AQ==\r\na=sctp-init:AQ=="])
def test_snap_10_an_unusable_line_is_answered_without_one(line: str) -> None:
    offer = offer_text(GOOD_DATA + f"a=sctp-init:{line}\r\n", session="")
    answer = create_answer(offer, local(), sctp_init=OWN_INIT)
    assert "sctp-init" not in str(answer) and not answer.media[0].rejected


def test_an_answer_never_repeats_the_offered_chunk() -> None:
    offer = create_offer(local(), sctp_init=PEER_INIT)
    assert "sctp-init" not in str(create_answer(offer, local(), sctp_init=PEER_INIT))


# -- renegotiation ---------------------------------------------------------------------------------


def test_an_unchanged_offer_keeps_its_version() -> None:
    first = create_offer(local())
    # RFC 8843 section 7.5: later offers have one address for the whole bundle
    again = create_offer(local(), previous=first)
    assert again.media[1].port == 3478
    assert create_offer(local(), previous=again) == again
    assert again.origin.session_id == first.origin.session_id


def test_a_changed_offer_has_the_next_version() -> None:
    first = create_offer(local())
    held = LocalAudio(mid="0", direction=Direction.SENDONLY, ssrc=1234)
    again = create_offer(local(media=(held, LocalData(mid="1"))), previous=first)
    assert again.origin.session_version == first.origin.session_version + 1
    assert again.media[0].direction is Direction.SENDONLY


def test_removed_media_is_refused_in_place() -> None:
    first = create_offer(local())
    again = create_offer(local(media=(LocalData(mid="1"),)), previous=first)
    assert [m.rejected for m in again.media] == [True, False]
    assert again.media[0].mid == "0" and again.bundles == (("1",),)
    assert again.media[1].transport.candidates


def test_added_media_comes_last_with_a_new_mid() -> None:
    first = create_offer(local())
    more = LocalAudio(ssrc=9)
    media = (LocalAudio(mid="0", ssrc=1234), LocalData(mid="1"), more)
    again = create_offer(local(media=media), previous=first)
    assert [(m.kind, m.mid) for m in again.media] == [
        ("audio", "0"),
        ("application", "1"),
        ("audio", "2"),
    ]


def test_a_refused_line_is_used_again_with_another_mid() -> None:
    first = create_offer(local())
    second = create_offer(local(media=(LocalData(mid="1"),)), previous=first)
    third = create_offer(local(media=(LocalData(mid="1"), LocalAudio(ssrc=3))), previous=second)
    assert [(m.kind, m.mid, m.rejected) for m in third.media] == [
        ("audio", "2", False),
        ("application", "1", False),
    ]


def test_media_without_mids_continue_their_sections() -> None:
    first = create_answer(parse_description(shapes.FIREFOX), local())
    again = create_offer(local(), previous=first)
    assert [(m.kind, m.mid) for m in again.media] == [("audio", "0"), ("application", "1")]
    numbers = {c.name + str(c.clock_rate): c.payload_type for c in again.media[0].codecs}
    assert numbers["opus48000"] == 109 and numbers["telephone-event8000"] == 101


def test_an_ice_restart_changes_only_the_credentials() -> None:
    first = create_offer(local())
    again = create_offer(local(transport=transport(ufrag="NEWU", pwd="n" * 24)), previous=first)
    assert {m.transport.ufrag for m in again.media} == {"NEWU"}
    assert [m.mid for m in again.media] == ["0", "1"]
