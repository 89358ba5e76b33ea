"""See the wire: from captured packets to the ladder of a session and the story of its start.

capture ─▶ reader ─▶ datagrams
"""

from __future__ import annotations

from warp_tools.capture.reader import Address, CaptureError, Datagram, Reader, open_capture

__all__ = ["Address", "CaptureError", "Datagram", "Reader", "open_capture"]
