"""The peer connection: where the protocols of a call meet (JSEP, RFC 9429; BUNDLE, RFC 9143).

descriptions ─▶ signaling ─ agreement ─▶ bundle ─┬▶ transport: ICE ◀ rider (SPED) ▶ DTLS ─▶ SRTP
datagrams ────▶ connection ─ demux ──────────────┼▶ media: RTP session
events, datagrams ◀──────────────────────────────┴▶ data: SCTP, channels
"""

from __future__ import annotations

from warp.peer.agreed import AgreedDescriptions, agree
from warp.peer.config import PeerConfig
from warp.peer.connection import PeerConnection
from warp.peer.demux import Kind, classify
from warp.peer.events import AudioReceived, FlowAuthenticated, MediaReady, StateChanged, Terminated
from warp.peer.signaling import SignalingState
from warp.peer.states import ConnectionState, SendPermission

__all__ = [
    "AgreedDescriptions",
    "AudioReceived",
    "ConnectionState",
    "FlowAuthenticated",
    "Kind",
    "MediaReady",
    "PeerConfig",
    "PeerConnection",
    "SendPermission",
    "SignalingState",
    "StateChanged",
    "Terminated",
    "agree",
    "classify",
]
