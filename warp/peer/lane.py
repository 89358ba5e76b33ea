"""The short way of media through a live call, in and out.

    SRTP datagram ─▶ unprotect ─▶ router ─▶ receiver      payload ─▶ sender ─▶ protect ─▶ datagram

Stops 3 to 7 of the eight for everything that needs no decision: the peer is authenticated and its
keys are in force. It owns nothing; state lives in the organs that the long way uses as well
(`warp.peer.bundle`). Made by `warp.peer.connection`, used by the pump (`warp.io.port`) and by
`warp.io.audio`.
"""

from __future__ import annotations

import enum
from array import array
from collections.abc import Callable

from warp.contract import Datagram, Flow
from warp.errors import Discard
from warp.peer.media import Media
from warp.peer.traffic import RECEIVED, RECEIVED_BYTES, SENT, SENT_BYTES
from warp.peer.transport import Transport
from warp.rtp import AudioFrame, ReportBlock, RtpSession
from warp.srtp import SrtpContext


def _ignore(error: Exception) -> None:
    """Until there is a reader nothing of it can fail."""


class LaneDiscard(enum.Enum):
    """Why media is worthless before anybody has looked at it."""

    CLOSED = "the connection has ended"


class _Ended:
    """What opens nothing."""

    __slots__ = ()

    def unprotect_rtp(self, packet: bytes) -> bytes:
        raise Discard(LaneDiscard.CLOSED)


class MediaLane:
    """Media of one connection, from its authentication to its end."""

    __slots__ = (
        "_heard",
        "_ice",
        "_media",
        "_opens",
        "_router",
        "_srtp",
        "_traffic",
        "_transport",
        "awaited",
        "reader",
        "reader_failed",
    )

    def __init__(
        self,
        transport: Transport,
        media: Media,
        session: RtpSession,
        srtp: SrtpContext,
        traffic: array[int],
    ) -> None:
        self._transport = transport
        self._ice = transport.ice
        self._media = media
        # not their methods: each of a session's objects that a packet leads to may be a cold one
        self._srtp = srtp
        self._opens: SrtpContext | _Ended = srtp
        self._router = session.router
        self._heard = transport.rider.heard
        self._traffic = traffic
        self.awaited = False
        """Somebody waits for a frame: whoever sets it drains the connection's events."""
        self.reader: Callable[[list[AudioFrame]], object] | None = None
        """Who takes frames at once, within `receive`; it may send, and close the connection."""
        self.reader_failed: Callable[[Exception], object] = _ignore
        """Is told what it raised."""

    def receive(self, data: bytes, flow: Flow, now: float) -> bool:
        """Take in one SRTP datagram.

        Returns True when there is more to do than to collect a frame some time: events to drain,
        a deadline that may have moved, or somebody who waits.
        """
        traffic = self._traffic
        traffic[RECEIVED] += 1
        traffic[RECEIVED_BYTES] += len(data)
        try:
            packet = self._opens.unprotect_rtp(data)
        except Discard:
            return False
        heard = self._heard
        heard.at = now
        if flow is not heard.flow:
            self._transport.hear(flow, now)
        router = self._router
        more = router.receive(packet, now) or self.awaited
        if (reader := self.reader) is not None and (frames := router.frames()):
            try:
                reader(frames)
            except Exception as error:
                # a fault of whoever reads, and none of the connection's
                self.reader_failed(error)
        return more

    def close(self) -> None:
        """The connection has ended: what still comes this way is discarded."""
        self._opens = _Ended()

    def make(self, payload: bytes, timestamp: int, now: float, marker: bool) -> Datagram | None:
        """Return the datagram of one payload (`timestamp` in samples at 48 kHz), None if unheard.

        Raises `MessageTooLarge`.
        """
        sender, flow = self._media.sender, self._ice.settled_flow
        if sender is None or flow is None:
            return None
        if marker:
            self._transport.milestones.setdefault("first_media_sent", now)
        data = self._srtp.protect_rtp(sender.packetize(payload, timestamp, now, marker=marker))
        traffic = self._traffic
        traffic[SENT] += 1
        traffic[SENT_BYTES] += len(data)
        return data, flow

    @property
    def report(self) -> ReportBlock | None:
        """What the peer said last of what we send; None before it has."""
        sender = self._media.sender
        return None if sender is None else sender.newest_report

    def take(self) -> list[AudioFrame]:
        """Drain the frames that are in order; what `PeerConnection.events` returned is older."""
        return self._router.frames()
