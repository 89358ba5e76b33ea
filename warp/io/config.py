"""What a server or a client is told: addresses, protocols, limits. Values only."""

from __future__ import annotations

from dataclasses import dataclass, field

from warp.crypto import NamedGroup
from warp.dtls import DtlsVersion
from warp.peer import PeerConfig


@dataclass(frozen=True, slots=True, kw_only=True)
class WarpOptions:
    """Which parts of WARP take part. The defaults are all on; peers without them work as ever."""

    sped: bool = True  # DTLS inside Binding requests (draft-hancke-webrtc-sped)
    snap: bool = True  # SCTP INIT in the description (draft-hancke-tsvwg-snap)
    versions: tuple[DtlsVersion, ...] = (DtlsVersion.DTLS13, DtlsVersion.DTLS12)
    groups: tuple[NamedGroup, ...] | None = None  # None: the library's order, hybrid included
    simultaneous_open: bool = True  # both ends may send INIT (RFC 8841 section 9.3)


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerConfig:
    """One UDP port that answers any number of offers."""

    warp: WarpOptions = field(default_factory=WarpOptions)
    lite: bool = True  # ICE-lite (RFC 8445 section 2.5): right for a server with a public address
    passive: bool = True  # answer `setup:passive`: the client may start DTLS in its first check
    early_data: bool = False  # non-personal media before the client's Finished (RFC 8446 section 2)
    audio: bool = True
    advertise: tuple[str, ...] = ()  # addresses for candidates; empty: those of the bound host
    max_sessions: int = 10_000
    max_message_size: int = 262_144  # RFC 8841 section 6
    connect_timeout_s: float = 30.0


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientConfig:
    """One call to a server."""

    warp: WarpOptions = field(default_factory=WarpOptions)
    host: str = ""  # bind only this address; empty: every address of this machine
    loopback: bool = False  # offer 127.0.0.1 as well
    audio: bool = True
    data: bool = True  # offer a data section
    stun_servers: tuple[str, ...] = ()  # "host:port"
    turn_servers: tuple[str, ...] = ()  # "turn:user:password@host:port"
    max_message_size: int = 262_144
    connect_timeout_s: float = 30.0


def peer_config(
    options: WarpOptions,
    *,
    lite: bool,
    passive: bool,
    early_data: bool,
    audio: bool,
    max_message_size: int,
    connect_timeout_s: float,
) -> PeerConfig:
    """Return the peer connection's configuration for these options."""
    return PeerConfig(
        sped=options.sped,
        snap=options.snap,
        versions=options.versions,
        groups=options.groups,
        simultaneous_open=options.simultaneous_open,
        lite=lite,
        passive=passive,
        early_data=early_data,
        audio=audio,
        max_message_size=max_message_size,
        connect_timeout_s=connect_timeout_s,
    )
