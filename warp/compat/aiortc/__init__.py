"""aiortc's names and manners for audio and data channels, with this stack's start below them.

    your program ─▶ RTCPeerConnection ─┬▶ Call (sockets, driver) ─▶ warp.peer.PeerConnection
                                       ├▶ RTCRtpSender   ◀─ your track        (Opus by PyAV)
                                       ├▶ RTCRtpReceiver ─▶ the peer's track  (Opus by PyAV)
                                       └▶ RTCDataChannel

Needs PyAV for sound: `pip install 'warp-rtc[compat]'`; channels work without. What differs:

- No video. Video sections of an offer are refused in the answer (port 0), no "track" event tells
  of them; `addTrack` and `addTransceiver` raise `NotSupportedError`. One audio track each way.
- Opus only: no PCMU, PCMA or G722; `setCodecPreferences` is not there.
- No STUN server is asked unless `RTCConfiguration` names one, and `setLocalDescription` then waits
  until it has answered, at most 5 s. `iceTransportPolicy="relay"` is refused.
- A peer that answers lets the offerer begin DTLS (`a=setup:passive`), so that it can begin with
  its first check; aiortc answers `active`.
- Handlers' faults are reported to the event loop's exception handler and end nothing.
- The ORTC objects (`RTCIceTransport`, `RTCDtlsTransport`, `RTCSctpTransport`, gatherers,
  parameters) and `aiortc.contrib.signaling` are not there; `pc.sctp` and `sender.transport`
  neither.

drafts/notes/aiortc.md has the whole list.
"""

from __future__ import annotations

from warp.compat.aiortc.exceptions import (
    InternalError,
    InvalidAccessError,
    InvalidStateError,
    NotSupportedError,
    OperationError,
)
from warp.compat.aiortc.mediastreams import AudioStreamTrack, MediaStreamError, MediaStreamTrack
from warp.compat.aiortc.rtcconfiguration import (
    RTCBundlePolicy,
    RTCConfiguration,
    RTCIceServer,
    RTCIceTransportPolicy,
)
from warp.compat.aiortc.rtcdatachannel import RTCDataChannel
from warp.compat.aiortc.rtcicetransport import RTCIceCandidate
from warp.compat.aiortc.rtcpeerconnection import RTCPeerConnection
from warp.compat.aiortc.rtcrtpreceiver import RTCRtpReceiver
from warp.compat.aiortc.rtcrtpsender import RTCRtpSender
from warp.compat.aiortc.rtcrtptransceiver import RTCRtpTransceiver
from warp.compat.aiortc.rtcsessiondescription import RTCSessionDescription
from warp.compat.aiortc.stats import (
    RTCInboundRtpStreamStats,
    RTCOutboundRtpStreamStats,
    RTCRemoteInboundRtpStreamStats,
    RTCStatsReport,
    RTCTransportStats,
)

__all__ = [
    "AudioStreamTrack",
    "InternalError",
    "InvalidAccessError",
    "InvalidStateError",
    "MediaStreamError",
    "MediaStreamTrack",
    "NotSupportedError",
    "OperationError",
    "RTCBundlePolicy",
    "RTCConfiguration",
    "RTCDataChannel",
    "RTCIceCandidate",
    "RTCIceServer",
    "RTCIceTransportPolicy",
    "RTCInboundRtpStreamStats",
    "RTCOutboundRtpStreamStats",
    "RTCPeerConnection",
    "RTCRemoteInboundRtpStreamStats",
    "RTCRtpReceiver",
    "RTCRtpSender",
    "RTCRtpTransceiver",
    "RTCSessionDescription",
    "RTCStatsReport",
    "RTCTransportStats",
]
