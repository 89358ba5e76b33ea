"""Fragments of RFC 9725 section 4.3 (the examples are its own) and what is none."""

from __future__ import annotations

import pytest

from instant_connect.sdpfrag import (
    MAX_CANDIDATES,
    Fragment,
    credentials_of,
    fragment_of,
    parse_sdpfrag,
    restarted_offer,
)
from tests.unit.sdp import shapes
from tests.unit.sdp.build import OWN_INIT, capture, local
from warp.sdp import SdpError, SdpRule, create_answer, parse_description

TRICKLE = """a=group:BUNDLE 0 1
m=audio 9 UDP/TLS/RTP/SAVPF 111
a=mid:0
a=ice-ufrag:EsAw
a=ice-pwd:P2uYro0UCOQ4zxjKXaWCBui1
a=candidate:1387637174 1 udp 2122260223 192.0.2.1 61764 typ host generation 0 ufrag EsAw
a=candidate:3471623853 1 udp 2122194687 198.51.100.2 61765 typ host generation 0 ufrag EsAw
a=end-of-candidates
"""
RESTART = "a=ice-ufrag:ysXw\r\na=ice-pwd:vw5LmwG4y/e6dPP/zAP9Gp5k\r\n"


def rule(text: str) -> tuple[SdpRule, int | None]:
    with pytest.raises(SdpError) as caught:
        parse_sdpfrag(text)
    return caught.value.rule, caught.value.line


@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_candidates_are_read_with_the_credentials_that_they_belong_to(end: str) -> None:
    fragment = parse_sdpfrag(TRICKLE.replace("\n", end))
    assert (fragment.ufrag, fragment.pwd) == ("EsAw", "P2uYro0UCOQ4zxjKXaWCBui1")
    assert [line.split()[4] for line in fragment.candidates] == ["192.0.2.1", "198.51.100.2"]
    assert fragment.end_of_candidates


def test_credentials_may_stand_above_the_sections() -> None:
    assert parse_sdpfrag(RESTART) == Fragment("ysXw", "vw5LmwG4y/e6dPP/zAP9Gp5k")


def test_the_same_credentials_may_stand_in_every_section() -> None:
    section = f"m=audio 9 RTP/AVP 0\r\na=mid:0\r\n{RESTART}"
    assert parse_sdpfrag(section + section.replace("mid:0", "mid:1")).ufrag == "ysXw"


def test_what_is_unknown_is_skipped() -> None:
    assert parse_sdpfrag("a=ice-lite\r\na=x-new:1\r\na=mid:0\r\na=end-of-candidates\r\n") == (
        Fragment(end_of_candidates=True)
    )


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("v=0", (SdpRule.LINE_SHAPE, 1)),
        ("a=mid:0\r\nnonsense", (SdpRule.LINE_SHAPE, 2)),
        ("a=mid:0\r\n\r\na=x", (SdpRule.LINE_SHAPE, 2)),
        ("{}", (SdpRule.LINE_SHAPE, 1)),
        ("m=audio 9", (SdpRule.MEDIA_LINE, 1)),
        ("a=ice-ufrag:abc", (SdpRule.ICE_UFRAG, 1)),
        ("a=ice-ufrag:" + "a" * 257, (SdpRule.ICE_UFRAG, 1)),
        ("a=ice-ufrag:abcd\r\na=ice-pwd:short", (SdpRule.ICE_PWD, 2)),
        ("a=ice-ufrag:abcd\r\na=ice-ufrag:efgh", (SdpRule.NOT_BUNDLED, 2)),
        ("a=ice-pwd:vw5LmwG4y/e6dPP/zAP9Gp5k", (SdpRule.ICE_MISSING, None)),
        ("a=x\0", (SdpRule.BAD_CHARACTER, 1)),
        ("a=x:" + "y" * 9_000, (SdpRule.LINE_TOO_LONG, 1)),
        ("a=candidate:x\r\n" * (MAX_CANDIDATES + 1), (SdpRule.TOO_MANY_LINES, MAX_CANDIDATES + 1)),
    ],
)
def test_what_is_no_fragment_is_named_with_its_line(
    text: str, expected: tuple[SdpRule, int | None]
) -> None:
    assert rule(text) == expected


def test_an_error_shows_no_password() -> None:
    with pytest.raises(SdpError) as caught:
        parse_sdpfrag(RESTART + RESTART.replace("vw5", "xx5"))
    assert "Gp5k" not in str(caught.value)


@pytest.mark.parametrize("ufrag", ["abcd", "a" * 256])
def test_a_restart_is_the_offer_with_other_credentials(ufrag: str) -> None:
    offer = capture("chromium156_warp_offer")
    line = "candidate:1 1 udp 2122260223 192.0.2.9 4000 typ host"
    fragment = Fragment(ufrag, "p" * 24, (line,), True)
    before, after = parse_description(offer), parse_description(restarted_offer(offer, fragment))
    assert {m.transport.ufrag for m in after.media} == {ufrag}
    assert {m.transport.pwd for m in after.media} == {"p" * 24}
    assert [m.transport.candidates for m in after.media] == [(line,), ()]
    assert after.origin.session_version == before.origin.session_version + 1
    kept = [m.transport.fingerprints for m in before.media]
    assert [m.transport.fingerprints for m in after.media] == kept
    # a negotiated sctp-init is repeated unchanged (SNAP section 5)
    assert [m.sctp for m in after.media] == [m.sctp for m in before.media]
    assert credentials_of(restarted_offer(offer, fragment)) == (ufrag, "p" * 24)


@pytest.mark.parametrize("name", sorted(shapes.ALL))
def test_any_offer_can_be_restarted_and_answered(name: str) -> None:
    again = restarted_offer(shapes.ALL[name], Fragment("fresh", "p" * 24))
    assert credentials_of(again) == ("fresh", "p" * 24)
    answer = create_answer(parse_description(again), local(), sctp_init=OWN_INIT)
    assert fragment_of(str(answer))


def test_a_section_that_was_refused_stays_so() -> None:
    offer = capture("chromium156_warp_offer").replace("m=audio 58108", "m=audio 0")
    after = parse_description(restarted_offer(offer, Fragment("fresh", "p" * 24)))
    assert after.media[0].rejected
    assert after.media[0].transport.ufrag == "sWwm"
    assert credentials_of(str(after)) == ("fresh", "p" * 24)


def test_a_description_without_live_sections_has_no_credentials() -> None:
    assert credentials_of("v=0\r\no=- 1 2 IN IP4 0.0.0.0\r\ns=-\r\nt=0 0\r\n") == ("", "")


def test_the_fragment_of_an_answer_names_its_ice_session_and_nothing_else() -> None:
    answer = str(create_answer(parse_description(shapes.FIREFOX), local()))
    assert fragment_of(answer) == (
        "a=ice-options:trickle\r\n"
        "a=group:BUNDLE 0 1\r\n"
        "m=audio 3478 UDP/TLS/RTP/SAVPF 109 101\r\n"
        "a=mid:0\r\n"
        "a=ice-ufrag:OURS\r\n"
        "a=ice-pwd:oursoursoursoursoursours\r\n"
        "a=candidate:1 1 udp 2130706431 198.51.100.4 3478 typ host\r\n"
        "a=end-of-candidates\r\n"
    )
    assert parse_sdpfrag(fragment_of(answer)) == Fragment(
        "OURS",
        "ours" * 6,
        ("candidate:1 1 udp 2130706431 198.51.100.4 3478 typ host",),
        True,
    )
