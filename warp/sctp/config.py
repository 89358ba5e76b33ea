"""What an association is told: ports, sizes, times and limits (values only).

Defaults follow what browsers run (dcSCTP) where RFC 9260 leaves a choice; every deviation names
its reason.
"""

from __future__ import annotations

from dataclasses import dataclass

from warp.errors import InvalidConfig


@dataclass(frozen=True, slots=True, kw_only=True)
class SctpConfig:
    """Settings of one association."""

    port: int = 5000
    """Our port: `a=sctp-port` of the local description (RFC 8841 section 5)."""
    remote_port: int = 5000
    """The peer's port: `a=sctp-port` of the remote description."""
    mtu: int = 1191
    """Hard cap of one packet in bytes: 1280 - IPv6 40 - UDP 8 - TURN and DTLS overhead."""
    a_rwnd: int = 5 * 1024 * 1024
    """Receive buffer in bytes, announced to the peer (RFC 9260 section 3.3.2).

    At least twice the largest message: a message is delivered whole, so it has to fit.
    """
    outbound_streams: int = 65535
    inbound_streams: int = 65535
    interleaving: bool = False
    """Offer I-DATA (RFC 8260); used when the peer offers it too."""
    zero_checksum: bool = True
    """Offer to do without CRC32c, since DTLS protects every packet (RFC 9653)."""

    initial_cwnd_packets: int = 10  # RFC 6928; RFC 9260 section 7.2.1 would have about 4
    min_cwnd_packets: int = 4  # RFC 9260 section 7.2.3
    max_burst_packets: int = 10
    """New packets per send opportunity, i.e. per SACK (RFC 9260 section 6.1 rule D)."""

    rto_initial_s: float = 0.5
    rto_min_s: float = 0.2  # safe below 1 s: the last chunk of a flight asks for a SACK at once
    rto_max_s: float = 60.0  # RFC 9260 section 16
    rto_backoff_max_s: float = 3.0
    """Cap of the doubled timeout: a voice path that returns must not be met with a minute."""
    rtt_variance_floor_s: float = 0.0275
    """Least RTT variation assumed, so that RTO >= SRTT + 110 ms."""
    sack_delay_s: float = 0.05  # RFC 9260 section 6.2: at most 0.5 s

    heartbeat_interval_s: float | None = 30.0  # RFC 9260 section 8.3; None sends none
    first_heartbeat_s: float = 1.0
    """After a start without handshake (SNAP); not at once, where it would delay the first media."""
    max_retransmissions: int | None = None
    """Give up after so many timeouts in a row; None: never, ICE consent decides (RFC 7675)."""
    max_init_retransmissions: int | None = None
    """Give up an unanswered INIT or COOKIE ECHO; None: never."""
    cookie_lifetime_s: float = 60.0  # RFC 9260 section 16
    shutdown_deadline_s: float = 10.0
    """A graceful close that lasts longer ends in an ABORT (RFC 9260 section 9.2, T5)."""

    early_packets: int = 64
    """Packets kept that arrive before the association starts; the oldest go first."""
    early_bytes: int = 128 * 1024

    def __post_init__(self) -> None:
        for name in ("port", "remote_port", "outbound_streams", "inbound_streams"):
            if not 1 <= getattr(self, name) <= 0xFFFF:
                raise InvalidConfig(f"{name} must be 1..65535")
        if not 512 <= self.mtu <= 0xFFFF:
            raise InvalidConfig("mtu must be 512..65535 bytes (RFC 9260 section 6.9)")
        if not 1500 <= self.a_rwnd <= 0xFFFFFFFF:
            raise InvalidConfig("a_rwnd must be at least 1500 bytes (RFC 9260 section 3.3.2)")
        if not 0 < self.rto_min_s <= self.rto_initial_s <= self.rto_max_s:
            raise InvalidConfig("rto_min_s <= rto_initial_s <= rto_max_s must hold, above 0")
        if not 0 < self.sack_delay_s <= 0.5:
            raise InvalidConfig("sack_delay_s must be at most 0.5 (RFC 9260 section 6.2)")
        if min(self.initial_cwnd_packets, self.min_cwnd_packets, self.max_burst_packets) < 1:
            raise InvalidConfig("windows and bursts are at least 1 packet")
