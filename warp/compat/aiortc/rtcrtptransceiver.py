"""A sender and a receiver that share one section of the descriptions (W3C RTCRtpTransceiver)."""

from __future__ import annotations

from warp.compat.aiortc.rtcrtpreceiver import RTCRtpReceiver
from warp.compat.aiortc.rtcrtpsender import RTCRtpSender
from warp.sdp import Direction


class RTCRtpTransceiver:
    """Made by `addTrack`, `addTransceiver`, and by an offer of the peer's that has audio."""

    def __init__(
        self, kind: str, receiver: RTCRtpReceiver, sender: RTCRtpSender, direction: str
    ) -> None:
        self._kind = kind
        self._receiver = receiver
        self._sender = sender
        self._direction = Direction(direction)
        self._stopped = False
        self.agreed: Direction | None = None
        """What offer and answer made of the direction; set by the connection."""
        self.section: str | None = None
        """The mid; set by the connection."""

    @property
    def kind(self) -> str:
        """What it carries: "audio"."""
        return self._kind

    @property
    def mid(self) -> str | None:
        """Which section it is; None before a description says so."""
        return self.section

    @property
    def direction(self) -> str:
        """What the next offer or answer asks for."""
        return self._direction.text

    @direction.setter
    def direction(self, direction: str) -> None:
        self._direction = Direction(direction)

    @property
    def wanted(self) -> Direction:
        """The direction, of which nothing is left once stopped."""
        return Direction.INACTIVE if self._stopped else self._direction

    @property
    def currentDirection(self) -> str | None:
        """What was agreed on, or None."""
        return None if self.agreed is None else self.agreed.text

    @property
    def sender(self) -> RTCRtpSender:
        """The sending half."""
        return self._sender

    @property
    def receiver(self) -> RTCRtpReceiver:
        """The receiving half."""
        return self._receiver

    @property
    def stopped(self) -> bool:
        """Whether it was stopped."""
        return self._stopped

    async def stop(self) -> None:
        """Send and receive no more; the next description says `inactive`."""
        self._stopped = True
        await self._sender.stop()
        await self._receiver.stop()
