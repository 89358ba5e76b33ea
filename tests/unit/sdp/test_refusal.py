"""What is said of sections that are refused, and to whom it is said in full."""

from __future__ import annotations

import re

import pytest

from tests.unit.sdp import shapes
from tests.unit.sdp.build import capture, local
from warp.sdp import (
    Direction,
    LocalAudio,
    SessionDescription,
    Setup,
    create_answer,
    create_offer,
    negotiate,
    parse_description,
)
from warp.sdp.refusal import reads_refused_sections

AIORTC = capture("aiortc116_chromium156_offer")


def with_video(offer: str, *, first: bool = False) -> str:
    """An offer with a video section like its audio section, behind it or before it."""
    head, audio, *rest = re.split(r"(?m)^(?=m=)", offer)
    video = re.sub(r"m=audio (\d+) (\S+) .*", r"m=video \1 \2 97", audio)
    video = re.sub(r"a=(rtpmap|fmtp|rtcp-fb|ssrc).*\r?\n", "", video)
    video = re.sub(r"a=mid:\S+", "a=mid:v", video) + "a=rtpmap:97 VP8/90000\r\n"
    mids = re.search(r"a=group:BUNDLE (.*?)\r?\n", head)
    assert mids is not None
    named = f"v {mids[1]}" if first else f"{mids[1]} v"
    head = head.replace(mids[1], named)
    return "".join([head, video, audio, *rest] if first else [head, audio, *rest, video])


def answer_to(offer: str) -> SessionDescription:
    return create_answer(parse_description(offer), local())


@pytest.mark.parametrize("first", [False, True])
def test_aiortc_finds_the_lines_of_a_live_section_in_a_refused_one(first: bool) -> None:
    answer = answer_to(with_video(AIORTC, first=first))
    [video] = [media for media in answer.media if media.rejected]
    assert (video.kind, video.port, video.direction) == ("video", 0, Direction.INACTIVE)
    assert video.transport.ufrag == "OURS" and video.transport.pwd and video.rtcp_mux
    assert video.transport.setup is Setup.PASSIVE
    assert [codec.name for codec in video.codecs] == ["VP8"]
    # of the bundle, in the offer's order; each section shows the candidates
    assert answer.bundles == (tuple(media.mid for media in answer.media),)
    assert all(media.transport.candidates for media in answer.media)


def test_what_was_agreed_with_aiortc_is_without_the_video() -> None:
    offer = parse_description(with_video(AIORTC, first=True))
    answer = create_answer(offer, local())
    agreed = negotiate(answer, offer, is_offerer=False)
    assert agreed.refused == (0,)
    assert agreed.data is not None and len(agreed.audio) == 1


def test_what_was_refused_in_full_stays_so_in_an_offer_of_ours() -> None:
    answer = answer_to(with_video(AIORTC))
    mids = [media.mid for media in answer.media if not media.rejected]
    audio = LocalAudio(ssrc=1234, cname="us", stream_id="s", track_id="t", mid=mids[0])
    again = create_offer(local(media=(audio, *local().media[1:])), previous=answer)
    [video] = [media for media in again.media if media.rejected]
    assert video.transport.ufrag == "OURS" and video.codecs
    assert video.mid in again.bundles[0]


@pytest.mark.parametrize(
    "offer",
    [
        shapes.VIDEO_FIRST,
        with_video(capture("chromium156_default_offer")),
        with_video(re.sub(r"a=fingerprint:sha-384.*\r?\n", "", AIORTC)),
        with_video(AIORTC).replace("a=setup", "a=ice-options:trickle\r\na=setup"),
    ],
    ids=["shape", "chromium", "two digests", "with ice-options"],
)
def test_nobody_else_is_told_more_than_that_it_is_refused(offer: str) -> None:
    answer = answer_to(offer)
    [video] = [media for media in answer.media if media.rejected]
    assert not video.transport.ufrag and not video.rtcp_mux
    assert video.mid not in answer.bundles[0]
    assert sum(bool(media.transport.candidates) for media in answer.media) == 1


def test_of_the_formats_the_first_stays_with_its_name() -> None:
    text = (
        "m=video 9 UDP/TLS/RTP/SAVPF 97 98\r\na=mid:v\r\na=rtpmap:97 VP8/90000\r\n"
        "a=rtcp-fb:97 nack\r\na=rtpmap:98 rtx/90000\r\na=fmtp:98 apt=97\r\n"
    )
    answer = str(answer_to(capture("chromium156_default_offer") + text))
    refused_section = answer[answer.index("m=video") :].splitlines()
    assert refused_section[0] == "m=video 0 UDP/TLS/RTP/SAVPF 97"
    assert "a=rtpmap:97 VP8/90000" in refused_section
    assert not any("98" in line or "rtcp-fb" in line for line in refused_section)


def test_an_offer_without_sections_is_nobodys() -> None:
    assert not reads_refused_sections(SessionDescription(parse_description(AIORTC).origin))
