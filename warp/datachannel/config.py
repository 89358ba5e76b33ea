"""What a channel and the registry are told (W3C RTCDataChannelInit, RFC 8831)."""

from __future__ import annotations

from dataclasses import dataclass

from warp.datachannel.dcep import DcepOpen, Reliability
from warp.errors import InvalidConfig

MAX_STREAM_ID = 65_534  # 65535 is reserved (RFC 8831 section 6.2)
_MAX_TEXT = 65_535


@dataclass(frozen=True, slots=True, kw_only=True)
class ChannelConfig:
    """One channel as its creator wants it; what is wrong with it raises `InvalidConfig`.

    `max_retransmits` 0 means sent once, None means as often as needed. With `negotiated` both
    ends create the channel with the same `stream_id`; without it the id is chosen for you.
    """

    label: str = ""
    protocol: str = ""
    ordered: bool = True
    max_retransmits: int | None = None
    max_packet_lifetime_s: float | None = None
    negotiated: bool = False
    stream_id: int | None = None
    priority: int = 256  # 128 below normal .. 1024 extra high, RFC 8831 section 6.4

    def __post_init__(self) -> None:
        retransmits, lifetime = self.max_retransmits, self.max_packet_lifetime_s
        if retransmits is not None and lifetime is not None:
            raise InvalidConfig("give max_retransmits or max_packet_lifetime_s, not both")
        if retransmits is not None and not 0 <= retransmits <= 0xFFFF:
            raise InvalidConfig("max_retransmits is 0 to 65535")
        if lifetime is not None and not 0 <= lifetime <= 65.535:
            raise InvalidConfig("max_packet_lifetime_s is 0 to 65.535")
        if len(self.label.encode()) > _MAX_TEXT or len(self.protocol.encode()) > _MAX_TEXT:
            raise InvalidConfig("label and protocol have at most 65535 bytes of UTF-8")
        if not 0 <= self.priority <= 0xFFFF:
            raise InvalidConfig("priority is 0 to 65535")
        if not self.negotiated:
            return
        if self.stream_id is None:
            raise InvalidConfig("a negotiated channel needs its stream_id")
        if not 0 <= self.stream_id <= MAX_STREAM_ID:
            raise InvalidConfig("stream_id is 0 to 65534 (RFC 8831 section 6.2)")

    def to_open(self) -> DcepOpen:
        """Return the DCEP message that announces the channel."""
        if self.max_retransmits is not None:
            kind, parameter = Reliability.RETRANSMITS, self.max_retransmits
        elif self.max_packet_lifetime_s is not None:
            kind, parameter = Reliability.LIFETIME, round(self.max_packet_lifetime_s * 1000)
        else:
            kind, parameter = Reliability.RELIABLE, 0
        return DcepOpen(self.label, self.protocol, self.ordered, kind, parameter, self.priority)

    @classmethod
    def from_open(cls, message: DcepOpen, stream_id: int) -> ChannelConfig:
        """Return the config of a channel that the peer announced."""
        kind = message.reliability
        return cls(
            label=message.label,
            protocol=message.protocol,
            ordered=message.ordered,
            max_retransmits=message.parameter if kind is Reliability.RETRANSMITS else None,
            max_packet_lifetime_s=message.parameter / 1000
            if kind is Reliability.LIFETIME
            else None,
            stream_id=stream_id,
            priority=message.priority,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class RegistryConfig:
    """Limits of all channels of one association."""

    send_limit: int | None = 65_536  # bytes a message, from the peer's SDP; None: any size
    send_cap: int = 16 * 1024 * 1024  # bytes a message that we ever send, whatever the peer takes
    receive_limit: int | None = 262_144  # bytes a message, as our SDP announced
    max_channels: int = 1024  # that the peer may have open; libwebrtc ends at id 1023 too
    early_messages: int = 64  # kept for a stream that has no channel yet
    early_bytes: int = 262_144
    close_timeout_s: float = 30.0  # a peer that never answers a reset; its id stays unused
