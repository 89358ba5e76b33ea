"""Candidates as objects (W3C RTCIceCandidate); `warp.ice` has them as text."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass
class RTCIceCandidate:
    """One candidate; `sdpMid` or `sdpMLineIndex` says which section it belongs to."""

    component: int
    foundation: str
    ip: str
    port: int
    priority: int
    protocol: str
    type: str
    relatedAddress: str | None = None
    relatedPort: int | None = None
    sdpMid: str | None = None
    sdpMLineIndex: int | None = None
    tcpType: str | None = None
