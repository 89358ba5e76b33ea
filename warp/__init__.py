"""A pure-Python WebRTC stack that speaks WARP: a live voice call from its first UDP packet.

application ─▶ warp.io: listen, connect, Session        (asyncio, sockets)
                  └▶ PeerConnection                     (no I/O: datagrams and time in and out)
                       └▶ ICE · SPED · DTLS · SRTP · RTP · SCTP · SDP, one package each
"""

from __future__ import annotations

from warp.contract import Flow
from warp.errors import WarpError
from warp.peer import PeerConfig, PeerConnection

__all__ = ["Flow", "PeerConfig", "PeerConnection", "WarpError"]
