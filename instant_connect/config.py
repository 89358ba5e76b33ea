"""What signalling is told: limits, origins, servers for the client. Values only."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Final

from warp.errors import InvalidConfig

EVENTS: Final = "oai-events"
"""Label of the channel that carries events, as clients of `/v1/realtime/calls` name it."""
MAX_DCID: Final = 65_534
_SERVER_URL: Final = re.compile(r"(stuns?|turns?):[!#-;=?-~]+")
_QUOTABLE: Final = re.compile(r"[ !#-\[\]-~]*")
_ORIGIN: Final = re.compile(r"[a-z][a-z0-9+.-]*://[^/?#\s,;]+")
_TRIAL: Final = re.compile(r"[A-Za-z0-9+/=]+")


@dataclass(frozen=True, slots=True, kw_only=True)
class IceServer:
    """A STUN or TURN server for the client, told in the answer (RFC 9725 section 4.6)."""

    url: str  # "stun:host[:port]", "turn[s]:host[:port][?transport=tcp]" (RFC 7064, RFC 7065)
    username: str = ""
    credential: str = field(default="", repr=False)

    def __post_init__(self) -> None:
        if _SERVER_URL.fullmatch(self.url) is None:
            raise InvalidConfig(f"an ICE server is stun:host or turn:host, not {self.url!r}")
        if not (_QUOTABLE.fullmatch(self.username) and _QUOTABLE.fullmatch(self.credential)):
            raise InvalidConfig("username and credential are ASCII without quotes and backslashes")

    def link(self) -> str:
        """Return the value of the Link header."""
        parts = [f'<{self.url}>; rel="ice-server"']
        if self.username:
            parts.append(f'username="{self.username}"; credential="{self.credential}"')
            parts.append('credential-type="password"')
        return "; ".join(parts)


@dataclass(frozen=True, slots=True, kw_only=True)
class SignallingConfig:
    """How offers are taken. Raises `InvalidConfig` for values that no server can have."""

    max_calls: int = 1_000  # live sessions, whether they came through these routes or by a ticket
    max_sdp_bytes: int = 65_536
    max_session_bytes: int = 65_536  # of the JSON object that comes with an offer
    read_timeout_s: float = 10.0  # for one request, from its head to its last byte
    retry_after_s: int = 2  # told to whoever finds the server full (RFC 9110 section 10.2.3)
    rate_per_s: float = 50.0  # offers and bundles of one address, and of one token
    burst: int = 250  # of them at once
    cors_origins: tuple[str, ...] = ()  # of pages elsewhere that may call; "*": any
    ice_servers: tuple[IceServer, ...] = ()
    origin_trials: tuple[str, ...] = field(default=(), repr=False)  # tokens sent with the page
    dcid: int = 4  # stream id that our own page negotiates its events channel on
    pages: bool = True  # serve our own page at the root

    def __post_init__(self) -> None:
        for name in ("cors_origins", "ice_servers", "origin_trials"):
            # a text is a tuple of its letters
            if isinstance(getattr(self, name), str):
                raise InvalidConfig(f"{name} is a tuple of texts, not one text")
        for name in ("max_calls", "max_sdp_bytes", "max_session_bytes", "burst"):
            if getattr(self, name) < 1:
                raise InvalidConfig(f"{name} must be at least 1, not {getattr(self, name)}")
        if not self.rate_per_s > 0:
            raise InvalidConfig(f"rate_per_s must be above 0, not {self.rate_per_s}")
        if not 0 <= self.dcid <= MAX_DCID:
            raise InvalidConfig(f"dcid is 0 to {MAX_DCID}, not {self.dcid}")
        for origin in self.cors_origins:
            if origin != "*" and _ORIGIN.fullmatch(origin) is None:
                raise InvalidConfig(
                    f"an origin is scheme://host[:port] without a path, or *, not {origin!r}"
                )
        for token in self.origin_trials:
            if _TRIAL.fullmatch(token) is None:
                raise InvalidConfig("an origin-trial token is base64: letters, digits, + / =")

    @property
    def max_body_bytes(self) -> int:
        """Bytes of the largest request that is read: a form with both parts."""
        return self.max_sdp_bytes + self.max_session_bytes + 4_096
