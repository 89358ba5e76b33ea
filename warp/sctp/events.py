"""What an association says upward. Messages do not travel here: see `Association.messages`."""

from __future__ import annotations

import enum
from dataclasses import dataclass

from warp.contract import Event
from warp.errors import AssociationLost, WarpError


class PeerAborted(AssociationLost):
    """The peer sent ABORT; `cause` is its first error cause code (RFC 9260 section 3.3.10)."""

    def __init__(self, cause: int | None, detail: str = "") -> None:
        named = "no cause" if cause is None else f"cause {cause}"
        super().__init__(f"peer aborted the association ({named})" + (detail and f": {detail}"))
        self.cause = cause
        self.detail = detail


class ResetResult(enum.IntEnum):
    """How a re-configuration request ended (RFC 6525 section 4.4)."""

    NOTHING_TO_DO = 0
    PERFORMED = 1
    DENIED = 2
    WRONG_SSN = 3
    ALREADY_IN_PROGRESS = 4
    BAD_SEQUENCE_NUMBER = 5
    IN_PROGRESS = 6


@dataclass(frozen=True, slots=True)
class Established(Event):
    """Messages can be sent and received; the stream counts are what both sides agreed."""

    outbound_streams: int
    inbound_streams: int


@dataclass(frozen=True, slots=True)
class Restarted(Event):
    """The peer started anew (RFC 9260 section 5.2.4.1): what was in flight may be lost."""


@dataclass(frozen=True, slots=True)
class StreamsReset(Event):
    """Streams start again at sequence 0. An empty incoming list means every stream."""

    stream_ids: tuple[int, ...]
    incoming: bool


@dataclass(frozen=True, slots=True)
class StreamsResetFailed(Event):
    """The peer refused our reset, or cannot do it; the streams go on as before."""

    stream_ids: tuple[int, ...]
    result: ResetResult


@dataclass(frozen=True, slots=True)
class Terminated(Event):
    """The association has ended; `error` is None after an orderly shutdown."""

    error: WarpError | None
