"""What an SRTP context is told."""

from __future__ import annotations

from dataclasses import dataclass

from warp.errors import InvalidConfig


@dataclass(frozen=True, slots=True, kw_only=True)
class SrtpConfig:
    """Limits of one context; the defaults suit a voice call."""

    replay_window_packets: int = 512
    """10 s of voice, twice what NACKs may ask for; RFC 3711 section 3.3.2 wants 64 at least."""
    max_sources: int = 32  # SSRCs the peer may open; each costs libsrtp a stream

    def __post_init__(self) -> None:
        if not 64 <= self.replay_window_packets < 0x8000:
            raise InvalidConfig("replay_window_packets must be 64..32767 (RFC 3711 3.3.2)")
        if self.max_sources < 1:
            raise InvalidConfig("max_sources must be at least 1")
