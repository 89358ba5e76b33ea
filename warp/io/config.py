"""What a server or a client is told: addresses, protocols, limits. Values only."""

from __future__ import annotations

import ipaddress
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TypeVar

from warp.crypto import NamedGroup
from warp.dtls import DtlsVersion
from warp.errors import InvalidConfig
from warp.io.gathering import GatherConfig, parse_stun_server, parse_turn_server
from warp.peer import PeerConfig

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class WarpOptions:
    """Which parts of WARP take part. The defaults are all on; peers without them work as ever."""

    sped: bool = True  # DTLS inside Binding requests (draft-hancke-webrtc-sped)
    snap: bool = True  # SCTP INIT in the description (draft-hancke-tsvwg-snap)
    versions: tuple[DtlsVersion, ...] = (DtlsVersion.DTLS13, DtlsVersion.DTLS12)
    groups: tuple[NamedGroup, ...] | None = None  # None: the library's order, hybrid included
    simultaneous_open: bool = True  # both ends may send INIT (RFC 8841 section 9.3)

    def __post_init__(self) -> None:
        if not self.versions:
            raise InvalidConfig("versions is empty: name at least one DTLS version")


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerConfig:
    """One UDP port that answers any number of offers.

    Raises `InvalidConfig` for values that no server can have.
    """

    warp: WarpOptions = field(default_factory=WarpOptions)
    lite: bool = True  # ICE-lite (RFC 8445 section 2.5): right for a server with a public address
    passive: bool = True  # answer `setup:passive`: the client may start DTLS in its first check
    early_data: bool = False  # non-personal media before the client's Finished (RFC 8446 section 2)
    audio: bool = True
    audio_in_order: bool = True  # False: frames as they come, for a player with a jitter buffer
    data: bool = True  # accept a data section
    advertise: tuple[str, ...] = ()  # numeric addresses for candidates; empty: those listened on
    advertise_port: int = 0  # of candidates, where what is in front has another port; 0: our own
    max_sessions: int = 10_000
    max_message_size: int = 262_144  # bytes of one message that we take (RFC 8841 section 6)
    connect_timeout_s: float = 30.0

    def __post_init__(self) -> None:
        if self.max_sessions < 1:
            raise InvalidConfig(f"max_sessions must be at least 1, not {self.max_sessions}")
        if not 0 <= self.advertise_port < 65_536:
            raise InvalidConfig(f"advertise_port is a port, not {self.advertise_port}")
        for address in self.advertise:
            try:
                wildcard = ipaddress.ip_address(address).is_unspecified
            except ValueError:
                wildcard = True
            if wildcard:
                raise InvalidConfig(
                    f"advertise takes numeric addresses that clients can reach, not {address!r}"
                )
        self.peer()

    def peer(self, *, wall_offset_s: float = 0.0) -> PeerConfig:
        """Return the configuration of each of its connections."""
        return _peer_config(
            self,
            lite=self.lite,
            passive=self.passive,
            early_data=self.early_data,
            wall_offset_s=wall_offset_s,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientConfig:
    """Calls to servers.

    Raises `InvalidConfig` for values that no client can have; it never repeats a password.
    """

    warp: WarpOptions = field(default_factory=WarpOptions)
    host: str = ""  # bind only this address; empty: every address of this machine
    loopback: bool = False  # offer 127.0.0.1 as well
    audio: bool = True
    audio_in_order: bool = True  # False: frames as they come, for a player with a jitter buffer
    data: bool = True  # offer a data section
    stun_servers: tuple[str, ...] = ()  # "[stun:]host[:port]" (RFC 7064)
    # "turn[s]:user:password@host[:port][?transport=tcp]"
    turn_servers: tuple[str, ...] = field(default=(), repr=False)
    rtt_hint_s: float | None = None  # round-trip time of an earlier call to the same server
    gather_timeout_s: float = 5.0  # then servers that have not answered are given up
    max_message_size: int = 262_144  # bytes of one message that we take (RFC 8841 section 6)
    connect_timeout_s: float = 30.0

    def __post_init__(self) -> None:
        if self.gather_timeout_s <= 0:
            raise InvalidConfig("gather_timeout_s must be above 0")
        for name in ("stun_servers", "turn_servers"):
            # a text is a tuple of its letters
            if isinstance(getattr(self, name), str):
                raise InvalidConfig(f"{name} is a tuple of texts, not one text")
        self.peer()
        self.gathering()

    def peer(self, *, wall_offset_s: float = 0.0) -> PeerConfig:
        """Return the configuration of each of its connections."""
        return _peer_config(
            self,
            lite=False,
            passive=True,
            early_data=False,
            wall_offset_s=wall_offset_s,
            rtt_hint_s=self.rtt_hint_s,
        )

    def gathering(self) -> GatherConfig:
        """Return where candidates come from besides the machine's own addresses."""
        return GatherConfig(
            stun_servers=tuple(
                _parsed(parse_stun_server, text, f"stun_servers[{index}]")
                for index, text in enumerate(self.stun_servers)
            ),
            turn_servers=tuple(
                _parsed(parse_turn_server, text, f"turn_servers[{index}]")
                for index, text in enumerate(self.turn_servers)
            ),
            timeout_s=self.gather_timeout_s,
        )


def _parsed(parse: Callable[[str], T], text: str, place: str) -> T:
    try:
        return parse(text)
    except InvalidConfig as error:
        raise InvalidConfig(f"{place}: {error}") from None


def _peer_config(
    config: ServerConfig | ClientConfig,
    *,
    lite: bool,
    passive: bool,
    early_data: bool,
    wall_offset_s: float,
    rtt_hint_s: float | None = None,
) -> PeerConfig:
    options = config.warp
    return PeerConfig(
        sped=options.sped,
        snap=options.snap,
        versions=options.versions,
        groups=options.groups,
        simultaneous_open=options.simultaneous_open,
        lite=lite,
        passive=passive,
        early_data=early_data,
        audio=config.audio,
        audio_in_order=config.audio_in_order,
        data=config.data,
        max_message_size=config.max_message_size,
        connect_timeout_s=config.connect_timeout_s,
        rtt_hint_s=rtt_hint_s,
        wall_offset_s=wall_offset_s,
    )
