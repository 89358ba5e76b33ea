"""Direction algebra, lookups, text and back."""

from __future__ import annotations

import itertools

import pytest

from tests.unit.sdp import shapes
from warp.sdp import Direction, Setup, parse_description
from warp.sdp.model import MediaDescription, Origin, SessionDescription, TransportDescription


def test_directions_reverse() -> None:
    assert Direction.SENDONLY.reversed() is Direction.RECVONLY
    assert Direction.RECVONLY.reversed() is Direction.SENDONLY
    assert Direction.SENDRECV.reversed() is Direction.SENDRECV
    assert Direction.INACTIVE.reversed() is Direction.INACTIVE


def test_directions_intersect() -> None:
    for a, b in itertools.product(Direction, Direction):
        both = a.within(b)
        assert both is b.within(a)
        assert both.sends == (a.sends and b.sends)
        assert both.receives == (a.receives and b.receives)


def test_setup_complements() -> None:
    assert Setup.ACTIVE.complement() is Setup.PASSIVE
    assert Setup.PASSIVE.complement() is Setup.ACTIVE
    assert Setup.ACTPASS.complement() is Setup.ACTPASS


@pytest.mark.parametrize("name", sorted(shapes.ALL))
def test_shapes_round_trip(name: str) -> None:
    description = parse_description(shapes.ALL[name])
    assert parse_description(str(description)) == description


def test_lookups() -> None:
    description = parse_description(shapes.VIDEO_FIRST)
    audio = description.section("a")
    assert audio is not None and audio.codec("OPUS", 48000) is not None
    assert audio.codec("opus", 8000) is None
    assert description.section("nope") is None
    assert description.data_section() is description.media[2]
    assert description.bundle_of("d") == ("v", "a", "d")
    assert description.bundle_of(None) is None


def test_bundle_only_sections_use_the_tagged_transport() -> None:
    description = parse_description(shapes.VIDEO_FIRST)
    _, audio, _ = description.media
    assert description.transport_of(audio).ufrag == "vvvv"
    assert description.candidates_of(audio).candidates == (
        "candidate:1 1 udp 2122260223 192.0.2.7 40000 typ host",
    )


def test_candidates_of_another_ice_agent_are_not_borrowed() -> None:
    full = TransportDescription("aaaa", "p" * 22, (), (("sha-256", "x"),))
    other = TransportDescription(
        "bbbb", "q" * 22, (), (("sha-256", "x"),), candidates=("candidate:1",)
    )
    media = (
        MediaDescription("audio", 9, "UDP/TLS/RTP/SAVPF", ("0",), "0", transport=full),
        MediaDescription("audio", 9, "UDP/TLS/RTP/SAVPF", ("0",), "1", transport=other),
    )
    description = SessionDescription(Origin(1, 1), media, (("0", "1"),))
    assert description.candidates_of(media[0]).candidates == ()


def test_ipv6_connection_lines_say_so() -> None:
    media = MediaDescription("audio", 9, "RTP/AVP", ("0",), address="2001:db8::1")
    assert "c=IN IP6 2001:db8::1\r\n" in str(SessionDescription(Origin(1, 1), (media,)))
