"""What a server of Instant Connect tells the others that share its port, if there are any.

    datagram of another's ─▶ hand_on          datagram of nobody we know ─▶ seek
    session ─▶ begun ... ended: whoever is asked about its ticket is to know

Implemented by `io.cluster`; called by `io.server`.
"""

from __future__ import annotations

from typing import Protocol

from instant_connect.router import Journey
from instant_connect.sessions import InstantSession
from warp.contract import Flow


class Neighbours(Protocol):
    """The other servers, as `InstantServer` sees them. Nothing here waits for anybody."""

    def hand_on(self, server: int, data: bytes, flow: Flow, journey: Journey) -> None:
        """Carry a datagram to another server, which takes it over."""

    def seek(self, data: bytes, flow: Flow) -> None:
        """Let whoever knows the address take over a datagram."""

    def begun(self, session: InstantSession) -> None:
        """Hear that a session has begun here."""

    def ended(self, session: InstantSession) -> None:
        """Hear that a session has ended here."""
