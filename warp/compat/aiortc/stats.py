"""What `getStats` returns (W3C webrtc-stats), made of the stack's own counters."""

from __future__ import annotations

import datetime
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

from warp.sdp import parse_description

if TYPE_CHECKING:
    from warp.compat.aiortc.call import Call

_CLOCK_RATE = 48_000
_TRANSPORT = "transport"


@dataclass
class RTCStats:
    """What all of them have."""

    timestamp: datetime.datetime
    type: str
    id: str


@dataclass
class RTCInboundRtpStreamStats(RTCStats):
    """The stream that the peer sends; `jitter` in ticks of 48 kHz."""

    ssrc: int
    kind: str
    transportId: str
    packetsReceived: int
    packetsLost: int
    jitter: int


@dataclass
class RTCOutboundRtpStreamStats(RTCStats):
    """The stream that we send."""

    ssrc: int
    kind: str
    transportId: str
    packetsSent: int
    bytesSent: int
    trackId: str


@dataclass
class RTCRemoteInboundRtpStreamStats(RTCStats):
    """What the peer reports of the stream that we send; `roundTripTime` in seconds."""

    ssrc: int
    kind: str
    transportId: str
    packetsReceived: int
    packetsLost: int
    jitter: int
    roundTripTime: float
    fractionLost: float


@dataclass
class RTCTransportStats(RTCStats):
    """The one transport of a connection."""

    packetsSent: int
    packetsReceived: int
    bytesSent: int
    bytesReceived: int
    iceRole: str
    dtlsState: str


AnyStats: TypeAlias = (
    RTCInboundRtpStreamStats
    | RTCOutboundRtpStreamStats
    | RTCRemoteInboundRtpStreamStats
    | RTCTransportStats
)


class RTCStatsReport(dict[str, AnyStats]):
    """Statistics by their id."""

    def add(self, stats: AnyStats) -> None:
        """Take in one entry."""
        self[stats.id] = stats


def _now() -> datetime.datetime:
    return datetime.datetime.now(tz=datetime.UTC)


def _ssrc(description: str) -> int:
    """Return the first source that a description announces, or 0."""
    if not description:
        return 0
    media = parse_description(description).media
    return next((source.ssrc for section in media for source in section.sources), 0)


def inbound(call: Call) -> RTCStatsReport:
    """Return the statistics of what comes in."""
    report = RTCStatsReport()
    ssrc = _ssrc(call.peer.remote_description)
    for mid, stats in call.stats().get("audio", {}).get("received", {}).items():
        jitter = round(stats.jitter_s * _CLOCK_RATE)
        report.add(
            RTCInboundRtpStreamStats(
                _now(), "inbound-rtp", f"inbound-rtp_{mid}", ssrc, "audio", _TRANSPORT,
                stats.packets, stats.lost, jitter,
            )
        )  # fmt: skip
    return report


def outbound(call: Call, track_id: str) -> RTCStatsReport:
    """Return the statistics of what goes out, with what the peer reports of it."""
    report = RTCStatsReport()
    ssrc = _ssrc(call.peer.local_description)
    for mid, stats in call.stats().get("audio", {}).get("sent", {}).items():
        report.add(
            RTCOutboundRtpStreamStats(
                _now(), "outbound-rtp", f"outbound-rtp_{mid}", ssrc, "audio", _TRANSPORT,
                stats.packets, stats.octets, track_id,
            )
        )  # fmt: skip
        if stats.fraction_lost is None:
            continue
        lost = stats.cumulative_lost or 0
        jitter = round((stats.jitter_s or 0.0) * _CLOCK_RATE)
        report.add(
            RTCRemoteInboundRtpStreamStats(
                _now(), "remote-inbound-rtp", f"remote-inbound-rtp_{mid}", ssrc, "audio",
                _TRANSPORT, max(0, stats.packets - lost), lost, jitter, stats.rtt_s or 0.0,
                stats.fraction_lost,
            )
        )  # fmt: skip
    return report


def transport(call: Call, dtls_state: str) -> RTCStatsReport:
    """Return the statistics of the transport."""
    report = RTCStatsReport()
    stats = call.stats()
    report.add(
        RTCTransportStats(
            _now(), "transport", _TRANSPORT, stats["datagrams_sent"], stats["datagrams_received"],
            stats["bytes_sent"], stats["bytes_received"], stats.get("ice_role", "unknown"),
            dtls_state,
        )
    )  # fmt: skip
    return report
