"""What RTP says upward; media itself is drained with `AudioReceiver.frames`."""

from __future__ import annotations

from dataclasses import dataclass

from warp.contract import Event


@dataclass(frozen=True, slots=True)
class SourceBegan(Event):
    """A receiver heard its first packet of a source (or the peer replaced the source)."""

    mid: str
    ssrc: int
    previous_ssrc: int | None


@dataclass(frozen=True, slots=True)
class SourceEnded(Event):
    """The peer said BYE for a source (RFC 3550 section 6.6)."""

    mid: str
    ssrc: int
    reason: str


@dataclass(frozen=True, slots=True)
class ToneBegan(Event):
    """A telephone event began; `timestamp` extended media time, `volume` in -dBm0."""

    code: int
    timestamp: int
    volume: int


@dataclass(frozen=True, slots=True)
class ToneEnded(Event):
    """A telephone event ended; `duration` in ticks."""

    code: int
    timestamp: int
    duration: int


@dataclass(frozen=True, slots=True)
class FeedbackReceived(Event):
    """The peer reported transport-wide arrivals, for a congestion controller above."""

    base_sequence: int
    packet_count: int
    arrived: int
