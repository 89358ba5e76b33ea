"""Other libraries' shapes over this stack: programs written for them run with the import changed.

from aiortc import RTCPeerConnection   ──▶   from warp.compat.aiortc import RTCPeerConnection
"""

from __future__ import annotations

from warp.compat import aiortc

__all__ = ["aiortc"]
