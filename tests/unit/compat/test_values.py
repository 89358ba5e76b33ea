"""Configurations, descriptions and candidates: what is taken, what is refused."""

from __future__ import annotations

import pytest

from warp.compat.aiortc import (
    NotSupportedError,
    RTCConfiguration,
    RTCIceCandidate,
    RTCIceServer,
    RTCIceTransportPolicy,
    RTCPeerConnection,
    RTCSessionDescription,
)
from warp.compat.aiortc.rtcconfiguration import gathering_of
from warp.compat.aiortc.sdp import candidate_from_sdp, candidate_to_sdp
from warp.errors import InvalidConfig

LINE = "6815297761 1 udp 659136 1.2.3.4 31102 typ srflx raddr 0.0.0.0 rport 9"
TCP = "1 1 tcp 1015021823 192.168.99.58 9 typ host tcptype active"


@pytest.mark.parametrize("line", [LINE, TCP])
def test_a_candidate_is_its_text(line: str) -> None:
    candidate = candidate_from_sdp(line)
    assert candidate_to_sdp(candidate) == line
    assert candidate_from_sdp(f"candidate:{line}") == candidate


def test_a_candidate_has_its_fields() -> None:
    assert candidate_from_sdp(LINE) == RTCIceCandidate(
        component=1, foundation="6815297761", ip="1.2.3.4", port=31102, priority=659136,
        protocol="udp", type="srflx", relatedAddress="0.0.0.0", relatedPort=9,
    )  # fmt: skip
    with pytest.raises(InvalidConfig):
        candidate_from_sdp("1 1 udp")


def test_a_description_has_one_of_four_types() -> None:
    assert RTCSessionDescription("v=0", "offer") == RTCSessionDescription(sdp="v=0", type="offer")
    with pytest.raises(ValueError, match="bogus"):
        RTCSessionDescription("v=0", "bogus")


def test_servers_are_asked_where_they_are_named() -> None:
    assert gathering_of(RTCConfiguration()).stun_servers == ()
    found = gathering_of(
        RTCConfiguration(
            iceServers=[
                RTCIceServer("stun:stun.example.org"),
                RTCIceServer(
                    ["turn:turn.example.org:99?transport=udp", "turns:turn.example.org"],
                    username="a:b@c",
                    credential="d@e:f",
                ),
            ]
        )
    )
    assert found.stun_servers == (("stun.example.org", 3478),)
    udp, tls = found.turn_servers
    assert (udp.host, udp.port, udp.transport) == ("turn.example.org", 99, "udp")
    assert (tls.port, tls.transport) == (5349, "tls")
    assert (udp.username, udp.password) == ("a:b@c", "d@e:f")


@pytest.mark.parametrize(
    "configuration",
    [
        RTCConfiguration(iceTransportPolicy=RTCIceTransportPolicy.RELAY),
        RTCConfiguration(iceServers=[RTCIceServer("http://example.org")]),
        RTCConfiguration(iceServers=[RTCIceServer("turn:example.org", username="a")]),
        RTCConfiguration(iceServers=[RTCIceServer("turn:h", "a", "secret", "oauth")]),
    ],
)
def test_what_cannot_be_done_is_refused_at_once(configuration: RTCConfiguration) -> None:
    with pytest.raises(NotSupportedError) as caught:
        RTCPeerConnection(configuration)
    assert "secret" not in str(caught.value)


def test_a_url_that_cannot_be_read_is_refused() -> None:
    with pytest.raises(InvalidConfig):
        RTCPeerConnection(RTCConfiguration(iceServers=[RTCIceServer("stun:example.org:x")]))
