"""What a connection is told (W3C RTCConfiguration), and what of it gathering needs."""

from __future__ import annotations

import enum
from dataclasses import dataclass, replace

from warp.compat.aiortc.exceptions import NotSupportedError
from warp.io.gathering import GatherConfig, parse_stun_server, parse_turn_server
from warp.io.relay import TurnServer


class RTCBundlePolicy(enum.Enum):
    """How media of a peer without BUNDLE is treated; everything is bundled whatever is said."""

    BALANCED = "balanced"
    MAX_COMPAT = "max-compat"
    MAX_BUNDLE = "max-bundle"


class RTCIceTransportPolicy(enum.Enum):
    """Which candidates may be used."""

    ALL = "all"
    RELAY = "relay"


@dataclass
class RTCIceServer:
    """A STUN or TURN server: `stun:host[:port]`, `turn[s]:host[:port][?transport=tcp]`."""

    urls: str | list[str]
    username: str | None = None
    credential: str | None = None
    credentialType: str = "password"


@dataclass
class RTCConfiguration:
    """Options of an `RTCPeerConnection`. Without `iceServers` no server is asked."""

    iceServers: list[RTCIceServer] | None = None
    iceTransportPolicy: RTCIceTransportPolicy = RTCIceTransportPolicy.ALL
    bundlePolicy: RTCBundlePolicy = RTCBundlePolicy.BALANCED
    alwaysNegotiateDataChannels: bool = False


def gathering_of(configuration: RTCConfiguration) -> GatherConfig:
    """Return where candidates come from besides this machine's addresses.

    Raises `NotSupportedError` for what cannot be done and `InvalidConfig` for a URL that cannot
    be read; neither repeats a credential.
    """
    if RTCIceTransportPolicy(configuration.iceTransportPolicy) is RTCIceTransportPolicy.RELAY:
        raise NotSupportedError("iceTransportPolicy 'relay' is not supported: use 'all'")
    stun, turn = [], []
    for server in configuration.iceServers or []:
        urls = [server.urls] if isinstance(server.urls, str) else server.urls
        for url in urls:
            if url.startswith("stun:"):
                stun.append(parse_stun_server(url))
            elif url.startswith(("turn:", "turns:")):
                turn.append(_turn_server(url, server))
            else:
                raise NotSupportedError(f"an ICE server is stun:, turn: or turns:, not {url!r}")
    return GatherConfig(stun_servers=tuple(stun), turn_servers=tuple(turn))


def _turn_server(url: str, server: RTCIceServer) -> TurnServer:
    if server.credentialType != "password" or not server.username or not server.credential:
        raise NotSupportedError(f"{url!r} needs a username and a password as its credential")
    scheme, _, rest = url.partition(":")
    # names and passwords may hold what separates them in a URL
    parsed = parse_turn_server(f"{scheme}:user:password@{rest.replace('?transport=udp', '')}")
    return replace(parsed, username=server.username, password=server.credential)
