"""The short way of media through a live call, in and out.

    SRTP datagram ─▶ unprotect ─▶ router ─▶ receiver      payload ─▶ sender ─▶ protect ─▶ datagram

Stops 3 to 7 of the eight for everything that needs no decision: the peer is authenticated and its
keys are in force. It owns nothing; state lives in the organs that the long way uses as well
(`warp.peer.bundle`). Made by `warp.peer.connection`, used by the pump (`warp.io.port`) and by
`warp.io.audio`.
"""

from __future__ import annotations

from collections.abc import Callable

from warp.contract import Datagram, Flow
from warp.errors import Discard
from warp.peer.media import Media
from warp.peer.transport import Transport
from warp.rtp import AudioFrame, ReportBlock, RtpSession
from warp.srtp import SrtpContext


class MediaLane:
    """Media of one connection, from its authentication to its end."""

    __slots__ = (
        "_ice",
        "_media",
        "_protect",
        "_receive",
        "_received",
        "_sent",
        "_transport",
        "_unprotect",
        "awaited",
        "reader",
    )

    def __init__(
        self,
        transport: Transport,
        media: Media,
        session: RtpSession,
        srtp: SrtpContext,
        counts: tuple[list[int], list[int]],
    ) -> None:
        self._transport = transport
        self._ice = transport.ice
        self._media = media
        self._unprotect = srtp.unprotect_rtp
        self._protect = srtp.protect_rtp
        self._receive = session.router.receive
        self._received, self._sent = counts
        self.awaited = False
        """Somebody waits for a frame: whoever sets it drains the connection's events."""
        self.reader: Callable[[list[AudioFrame]], None] | None = None
        """Who takes frames at once, within `receive`; it may send, and close the connection."""

    def receive(self, data: bytes, flow: Flow, now: float) -> bool:
        """Take in one SRTP datagram.

        Returns True when there is more to do than to collect a frame some time: events to drain,
        a deadline that may have moved, or somebody who waits.
        """
        counts = self._received
        counts[0] += 1
        counts[1] += len(data)
        try:
            packet = self._unprotect(data)
        except Discard:
            return False
        rider = self._transport.rider
        rider.heard_at = now
        if flow is not rider.heard_flow:
            self._transport.hear(flow, now)
        more = self._receive(packet, now) or self.awaited
        if (reader := self.reader) is not None and (frames := self._media.frames()):
            reader(frames)
        return more

    def make(self, payload: bytes, timestamp: int, now: float, marker: bool) -> Datagram | None:
        """Return the datagram of one payload (`timestamp` in samples at 48 kHz), None if unheard.

        Raises `MessageTooLarge`.
        """
        sender, flow = self._media.sender, self._ice.settled_flow
        if sender is None or flow is None:
            return None
        if marker:
            self._transport.milestones.setdefault("first_media_sent", now)
        data = self._protect(sender.packetize(payload, timestamp, now, marker=marker))
        counts = self._sent
        counts[0] += 1
        counts[1] += len(data)
        return data, flow

    @property
    def report(self) -> ReportBlock | None:
        """What the peer said last of what we send; None before it has."""
        sender = self._media.sender
        return None if sender is None else sender.newest_report

    def take(self) -> list[AudioFrame]:
        """Drain the frames that are in order; what `PeerConnection.events` returned is older."""
        return self._media.frames()
