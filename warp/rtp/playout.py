"""What a jitter buffer is told and what it tells the player: delays, steps, counts.

`warp.rtp.jitter` speaks in these; Opus durations are RFC 6716's, ticks those of RFC 7587's 48 kHz.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass
from typing import NamedTuple

from warp.errors import InvalidConfig


class Placing(enum.Enum):
    """What became of an inserted packet."""

    KEPT = "kept"
    DUPLICATE = "a copy"
    LATE = "its time has been played"
    LEAPT = "its timestamp does not fit; another like it would begin anew"
    REFUSED = "not an Opus packet of up to 120 ms"


class Action(enum.Enum):
    """What the player does for the next stretch of time."""

    PLAY = "play"
    RECOVER = "recover"
    CONCEAL = "conceal"
    COMFORT = "comfort"


class Step(NamedTuple):
    """The next stretch: `ticks` of media at 48 kHz.

    PLAY: decode `payload`, leave out the first `skip` ticks, `ticks` remain. RECOVER: from the
    redundancy of `payload`, which comes again. CONCEAL, COMFORT: make up so much.
    """

    action: Action
    ticks: int
    payload: bytes = b""
    skip: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class JitterConfig:
    """How long packets are waited for."""

    min_delay_s: float = 0.02  # of the wanted delay
    max_delay_s: float = 0.2
    start_delay_s: float = 0.04  # until something has been measured
    ceiling_s: float = 0.3  # of the delay itself: beyond it media is left out
    window_s: float = 2.0  # of the jitter measured
    quantile: float = 0.95
    frame_s: float = 0.02  # the player's: what it asks for at once
    capacity: int = 128  # packets

    def __post_init__(self) -> None:
        if not 0 < self.min_delay_s <= self.max_delay_s < self.ceiling_s:
            raise InvalidConfig("delays rise: 0 < min_delay_s <= max_delay_s < ceiling_s")
        if not 0 < self.quantile < 1 or self.window_s <= 0 or self.capacity < 2:
            raise InvalidConfig("quantile lies within 0..1, window_s is positive, capacity above 1")
        if not 0 < self.frame_s <= 0.12 or self.start_delay_s < 0:
            raise InvalidConfig("frame_s is above 0 and up to 0.12, start_delay_s not negative")


@dataclass(slots=True)
class JitterCounts:
    """What has happened since the beginning; packets unless the name says ms."""

    received: int = 0
    played: int = 0
    lost: int = 0
    recovered: int = 0
    late: int = 0
    duplicates: int = 0
    reordered: int = 0
    refused: int = 0
    leapt: int = 0
    overflowed: int = 0
    restarts: int = 0
    stalls: int = 0
    """How often a packet was due and none was there."""
    concealed_ms: float = 0.0
    comfort_ms: float = 0.0
    skipped_ms: float = 0.0
    """Media left out because the delay had reached its ceiling."""
