from __future__ import annotations

import pytest

from instant_connect.config import SignallingConfig
from instant_connect.exchange import FORM, SDP, Ask, Refusal
from instant_connect.offers import (
    MAX_CANDIDATES,
    MAX_SECTIONS,
    Kind,
    Offer,
    described,
    offer_key,
    parse_dcid,
    parse_object,
    read_offer,
)
from tests.unit.sdp import shapes
from tests.unit.sdp.build import capture
from warp.sdp import parse_description

CONFIG = SignallingConfig(max_sdp_bytes=4_000, max_session_bytes=100)
OFFER = shapes.FIREFOX


def sdp(text: str = OFFER, **query: str) -> Ask:
    return Ask(content_type=SDP, body=text.encode(), query=query)


def form(**parts: bytes) -> Ask:
    return Ask(content_type=f"{FORM}; boundary=x", parts=parts)


def refused(ask: Ask, kind: Kind = Kind.REALTIME) -> tuple[int, str]:
    with pytest.raises(Refusal) as caught:
        read_offer(ask, kind, CONFIG)
    return caught.value.status, caught.value.code


@pytest.mark.parametrize("kind", list(Kind))
def test_an_offer_may_be_the_whole_body(kind: Kind) -> None:
    offer = read_offer(sdp(), kind, CONFIG)
    assert (offer.sdp, offer.session, offer.dcid) == (OFFER, {}, None)
    assert offer.key is not None


def test_an_offer_may_come_with_a_session() -> None:
    ask = form(sdp=OFFER.encode(), session=b'{"type": "realtime", "model": "echo"}')
    offer = read_offer(ask, Kind.REALTIME, CONFIG)
    assert offer.session == {"type": "realtime", "model": "echo"}
    assert read_offer(form(sdp=OFFER.encode()), Kind.REALTIME, CONFIG).session == {}


@pytest.mark.parametrize("dcid", ["0", "4", "65534"])
def test_the_events_channel_may_be_negotiated(dcid: str) -> None:
    assert read_offer(sdp(dcid=dcid), Kind.REALTIME, CONFIG).dcid == int(dcid)


def test_whip_knows_no_events() -> None:
    assert read_offer(sdp(dcid="nonsense"), Kind.WHIP, CONFIG).dcid is None


@pytest.mark.parametrize("text", ["", "-1", "65535", "1e3", " 1", "٣", "0x1", "1" * 400])
def test_a_stream_id_is_a_plain_number(text: str) -> None:
    with pytest.raises(Refusal, match="0 to 65534") as caught:
        parse_dcid(text)
    assert (caught.value.status, caught.value.code) == (400, "invalid_dcid")


@pytest.mark.parametrize(
    ("ask", "kind", "expected"),
    [
        (form(sdp=OFFER.encode()), Kind.WHIP, (415, "unsupported_media_type")),
        (Ask(content_type="application/json"), Kind.REALTIME, (415, "unsupported_media_type")),
        (Ask(body=OFFER.encode()), Kind.REALTIME, (415, "unsupported_media_type")),
        (sdp(""), Kind.WHIP, (400, "empty_body")),
        (sdp("x" * 4_001), Kind.WHIP, (413, "too_large")),
        (sdp("nonsense"), Kind.WHIP, (400, "invalid_sdp")),
        (form(), Kind.REALTIME, (400, "missing_part")),
        (form(session=b"{}"), Kind.REALTIME, (400, "missing_part")),
        (form(sdp=b""), Kind.REALTIME, (400, "empty_body")),
        (form(sdp=b"\xff"), Kind.REALTIME, (400, "invalid_utf8")),
        (form(sdp=OFFER.encode(), session=b""), Kind.REALTIME, (400, "empty_body")),
        (form(sdp=OFFER.encode(), session=b"{"), Kind.REALTIME, (400, "invalid_json")),
        (form(sdp=OFFER.encode(), session=b"[]"), Kind.REALTIME, (400, "invalid_session")),
        (form(sdp=OFFER.encode(), session=b"7" * 101), Kind.REALTIME, (413, "too_large")),
    ],
)
def test_what_carries_no_offer(ask: Ask, kind: Kind, expected: tuple[int, str]) -> None:
    assert refused(ask, kind) == expected


@pytest.mark.parametrize("text", ["", "nul", "{'a': 1}", "[" * 50_000, '{"a":1}x', "1" * 5_000])
def test_what_is_no_object_is_refused(text: str) -> None:
    with pytest.raises(Refusal) as caught:
        parse_object(text)
    assert caught.value.details == {"param": "session"}
    assert len(str(caught.value)) < 300


def test_a_negotiated_channel_needs_a_section_to_carry_it() -> None:
    audio_only = OFFER[: OFFER.index("m=application")].replace("BUNDLE 0 1", "BUNDLE 0")
    assert read_offer(sdp(audio_only), Kind.REALTIME, CONFIG).dcid is None
    assert refused(sdp(audio_only, dcid="0")) == (400, "no_data_section")


@pytest.mark.parametrize(
    "line",
    ["m=audio 9 UDP/TLS/RTP/SAVPF 0\r\n", "a=candidate:1 1 udp 1 192.0.2.1 9 typ host\r\n"],
)
def test_many_lines_are_refused_before_they_are_read(line: str) -> None:
    limit = MAX_SECTIONS if line.startswith("m=") else MAX_CANDIDATES
    with pytest.raises(Refusal, match=f"at most {limit}") as caught:
        described(OFFER + line * (limit + 1))
    assert (caught.value.status, caught.value.code) == (400, "too_many_lines")
    described(OFFER + line * (limit // 2))


def key(text: str, kind: Kind = Kind.WHIP, dcid: int | None = None) -> str | None:
    return offer_key(kind, parse_description(text), dcid)


def test_a_retry_is_known_by_its_credentials_and_certificate() -> None:
    first = capture("chromium156_warp_offer")
    assert key(first) == key(first)
    # candidates that were found meanwhile change nothing
    more = first.replace("a=ice-ufrag", "a=candidate:9 1 udp 9 192.0.2.9 9 typ host\r\na=ice-ufrag")
    assert key(more) == key(first)
    others = [
        key(first.replace("sWwm", "sWwn")),
        key(first.replace("YfaXB", "YfaXC")),
        key(first.replace("5B:AB", "5B:AC")),
        key(first, Kind.REALTIME),
        key(first, Kind.REALTIME, 0),
        key(first, Kind.REALTIME, 1),
    ]
    assert len({key(first), *others}) == 7


def test_another_offer_of_the_same_client_is_no_retry() -> None:
    """An answer has the sections of its own offer: it is none to an offer with others."""
    first = capture("chromium156_warp_offer")
    head, _, channels = first.partition("m=application")
    others = [
        head.replace("BUNDLE 0 1", "BUNDLE 0"),
        first + "m=application" + channels.replace("a=mid:1", "a=mid:2"),
        first.replace("a=sendrecv", "a=recvonly"),
        first.replace("SAVPF 111 63", "SAVPF 63 111"),
        first.replace("m=audio 58108", "m=audio 0"),
    ]
    assert None not in map(key, others)
    assert len({key(text) for text in [first, *others]}) == 6


def test_a_key_tells_no_secret() -> None:
    told = key(OFFER) or ""
    assert len(told) == 64
    assert "ab2f54e0" not in told


def test_an_offer_without_a_transport_has_no_key() -> None:
    for missing in ("a=ice-ufrag", "a=ice-pwd", "a=fingerprint"):
        lines = [line for line in OFFER.split("\r\n") if not line.startswith(missing)]
        assert key("\r\n".join(lines)) is None
    assert key("v=0\r\no=- 1 2 IN IP4 0.0.0.0\r\ns=-\r\nt=0 0\r\n") is None


def test_a_refused_section_has_no_say() -> None:
    """A page with a camera: the bundle's credentials stand where the video was."""
    assert key(shapes.VIDEO_FIRST) == key(shapes.VIDEO_FIRST)
    assert key(OFFER.replace("m=audio 9", "m=audio 0")) is not None


def test_an_offer_is_a_value() -> None:
    assert Offer("a", None, {}, None) == Offer("a", None, {}, None)
