"""What senders, receivers and sessions are told."""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass, field

from warp.errors import InvalidConfig
from warp.rtp.header_extensions import NO_EXTENSIONS, ExtensionMap


class PayloadKind(enum.Enum):
    """What a payload type carries, as far as the receiver has to know."""

    AUDIO = "audio"  # handed to the player as it is: Opus, PCMU, comfort noise
    RED = "red"  # RFC 2198, unpacked here
    TELEPHONE_EVENT = "telephone-event"  # RFC 4733, becomes events


def _is_payload_type(number: int) -> bool:
    # with the marker bit, 64..95 would look like RTCP on a shared port (RFC 5761 section 4)
    return 0 <= number <= 63 or 96 <= number <= 127


@dataclass(frozen=True, slots=True, kw_only=True)
class ReceiverConfig:
    """One media section's incoming audio."""

    mid: str = ""
    clock_rate: int = 48000  # RFC 7587 section 4.1
    payload_kinds: Mapping[int, PayloadKind] = field(
        default_factory=lambda: {111: PayloadKind.AUDIO}
    )
    in_order: bool = True  # False: frames leave as they come, for a player with a jitter buffer
    reorder_wait_s: float = 0.04  # how long a gap may be filled before it is given up
    reorder_capacity: int = 64  # packets kept behind a gap
    nack: bool = False  # a=rtcp-fb nack was negotiated (RFC 4585 section 4.2)
    nack_limit: int = 2  # how often one packet is asked for
    nack_capacity: int = 32  # missing packets tracked; a longer gap is an outage, not loss

    def __post_init__(self) -> None:
        if self.clock_rate < 1 or self.reorder_capacity < 1 or self.reorder_wait_s < 0:
            raise InvalidConfig("clock_rate and reorder_capacity are positive, waits not negative")
        if not all(map(_is_payload_type, self.payload_kinds)):
            raise InvalidConfig("a payload type is 0..63 or 96..127 (RFC 5761 section 4)")


@dataclass(frozen=True, slots=True, kw_only=True)
class SenderConfig:
    """One media section's outgoing audio."""

    mid: str = ""  # sent as extension until the peer reports on our SSRC (RFC 8843 section 15.1)
    payload_type: int = 111
    clock_rate: int = 48000  # RFC 7587 section 4.1
    ssrc: int | None = None  # None: drawn from entropy (RFC 3550 section 8.1)
    extensions: ExtensionMap = NO_EXTENSIONS
    nack_history: int = 0  # packets kept to answer NACKs; 0 unless rtcp-fb nack was negotiated
    max_payload_bytes: int = 1100  # leaves a UDP payload below 1200 with header, tag and extension

    def __post_init__(self) -> None:
        if not _is_payload_type(self.payload_type) or self.clock_rate < 1:
            raise InvalidConfig("payload_type is 0..63 or 96..127, clock_rate positive")
        # the SRTP replay window of the sending context bounds what can go out again
        if not 0 <= self.nack_history <= 256:
            raise InvalidConfig("nack_history is 0..256")


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionConfig:
    """Everything that one transport's RTP and RTCP share."""

    extensions: ExtensionMap = NO_EXTENSIONS
    report_interval_s: float = 2.5  # mean time between reports (RFC 3550 section 6.2 allows 5)
    feedback_interval_s: float = 0.1  # transport-wide feedback, while there is any
    reduced_size: bool = False  # a=rtcp-rsize: feedback goes without a report (RFC 5506)
    max_sources: int = 16  # SSRCs with a route
    wall_offset_s: float = 0.0  # wall time minus monotonic time, for sender reports

    def __post_init__(self) -> None:
        if self.report_interval_s <= 0 or self.feedback_interval_s <= 0:
            raise InvalidConfig("intervals are positive")
