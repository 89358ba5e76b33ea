"""The connection as aiortc has it: descriptions, tracks, channels, and events about them.

    offer ─▶ setRemoteDescription ─ "track" ─▶ createAnswer ─▶ setLocalDescription ─▶ answer
    createOffer ─▶ setLocalDescription ─▶ offer     answer ─▶ setRemoteDescription ─ "track"
    ─▶ "connectionstatechange" ─▶ "datachannel", track.recv() ─▶ close

The states are kept here; everything else is done by `Call`, by the transceivers and the channels.
"""

from __future__ import annotations

from typing import Any, NoReturn

from warp import datachannel
from warp.compat.aiortc.call import Call
from warp.compat.aiortc.descriptions import (
    Wanted,
    audio_sections,
    shape_answer,
    shape_offer,
    track_id_of,
    with_candidates,
)
from warp.compat.aiortc.emitter import Emitter
from warp.compat.aiortc.exceptions import (
    InternalError,
    InvalidAccessError,
    InvalidStateError,
    NotSupportedError,
)
from warp.compat.aiortc.mediastreams import MediaStreamTrack
from warp.compat.aiortc.rtcconfiguration import RTCConfiguration, gathering_of
from warp.compat.aiortc.rtcdatachannel import RTCDataChannel
from warp.compat.aiortc.rtcicetransport import RTCIceCandidate
from warp.compat.aiortc.rtcrtpreceiver import RTCRtpReceiver
from warp.compat.aiortc.rtcrtpsender import RTCRtpSender
from warp.compat.aiortc.rtcrtptransceiver import RTCRtpTransceiver
from warp.compat.aiortc.rtcsessiondescription import RTCSessionDescription
from warp.compat.aiortc.sdp import candidate_to_sdp
from warp.compat.aiortc.stats import RTCStatsReport, transport
from warp.contract import Event
from warp.errors import WarpError
from warp.sdp import Direction, SessionDescription, parse_description

_NEXT = {
    ("stable", "local", "offer"): "have-local-offer",
    ("have-local-offer", "local", "offer"): "have-local-offer",
    ("have-local-offer", "remote", "answer"): "stable",
    ("stable", "remote", "offer"): "have-remote-offer",
    ("have-remote-offer", "remote", "offer"): "have-remote-offer",
    ("have-remote-offer", "local", "answer"): "stable",
    ("have-local-offer", "local", "rollback"): "stable",
    ("have-remote-offer", "remote", "rollback"): "stable",
}
_EVENTS = {
    "signaling": "signalingstatechange",
    "gathering": "icegatheringstatechange",
    "ice": "iceconnectionstatechange",
    "connection": "connectionstatechange",
}


class RTCPeerConnection(Emitter):
    """One call. Belongs to the event loop that runs when it is first used; close it in the end."""

    def __init__(self, configuration: RTCConfiguration | None = None) -> None:
        """Raises `NotSupportedError` and `InvalidConfig` for what cannot be configured."""
        super().__init__()
        self._configuration = configuration or RTCConfiguration()
        self._servers = gathering_of(self._configuration)
        self._call: Call | None = None
        self._candidates: list[str] = []
        self._transceivers: list[RTCRtpTransceiver] = []
        self._channels: dict[datachannel.Channel, RTCDataChannel] = {}
        self._had_channel = self._configuration.alwaysNegotiateDataChannels
        self._local: RTCSessionDescription | None = None
        self._remote: RTCSessionDescription | None = None
        self._settled: tuple[RTCSessionDescription | None, RTCSessionDescription | None]
        self._settled = None, None
        self._states = {"signaling": "stable", "gathering": "new", "ice": "new"}
        self._states["connection"] = "new"

    # -- states -------------------------------------------------------------------------------

    @property
    def connectionState(self) -> str:
        """One of "new", "connecting", "connected", "failed" and "closed"."""
        return self._states["connection"]

    @property
    def iceConnectionState(self) -> str:
        """One of "new", "checking", "completed", "failed" and "closed"."""
        return self._states["ice"]

    @property
    def iceGatheringState(self) -> str:
        """One of "new", "gathering" and "complete"."""
        return self._states["gathering"]

    @property
    def signalingState(self) -> str:
        """One of "stable", "have-local-offer", "have-remote-offer" and "closed"."""
        return self._states["signaling"]

    @property
    def localDescription(self) -> RTCSessionDescription | None:
        """Our description that was set last, its candidates included."""
        return self._local

    @property
    def remoteDescription(self) -> RTCSessionDescription | None:
        """The peer's description that was set last."""
        return self._remote

    def _become(self, which: str, state: str) -> None:
        if self._states[which] not in (state, "closed"):
            self._states[which] = state
            self.emit(_EVENTS[which])

    def _require_open(self) -> None:
        if self.signalingState == "closed":
            raise InvalidStateError("RTCPeerConnection is closed")

    def _opened(self) -> Call:
        self._require_open()
        if self._call is None:
            self._call = Call(self, self._servers)
        return self._call

    # -- media and channels -------------------------------------------------------------------

    def getTransceivers(self) -> list[RTCRtpTransceiver]:
        """Return the transceivers."""
        return list(self._transceivers)

    def getSenders(self) -> list[RTCRtpSender]:
        """Return the senders of the transceivers."""
        return [t.sender for t in self._transceivers]

    def getReceivers(self) -> list[RTCRtpReceiver]:
        """Return the receivers of the transceivers."""
        return [t.receiver for t in self._transceivers]

    def addTrack(self, track: MediaStreamTrack) -> RTCRtpSender:
        """Say what this track says; returns its sender.

        Raises `InvalidAccessError` when it has one, and `NotSupportedError` for a second track.
        """
        self._require_open()
        _require_audio(track.kind)
        if any(t.sender.track is track for t in self._transceivers):
            raise InvalidAccessError("Track already has a sender")
        free = next((t for t in self._transceivers if not t.stopped), None)
        if free is None:
            return self._add_transceiver(track, Direction.SENDRECV).sender
        if free.sender.track is not None:
            raise NotSupportedError("one audio track each way: use sender.replaceTrack")
        free.sender.replaceTrack(track)
        free.direction = Direction.of(sends=True, receives=free.wanted.receives).text
        return free.sender

    def addTransceiver(
        self, trackOrKind: MediaStreamTrack | str, direction: str = "sendrecv"
    ) -> RTCRtpTransceiver:
        """Ask for audio in a direction, with a track or without; raises like `addTrack`."""
        self._require_open()
        track = None if isinstance(trackOrKind, str) else trackOrKind
        _require_audio(trackOrKind if isinstance(trackOrKind, str) else trackOrKind.kind)
        if track is not None and any(t.sender.track is track for t in self._transceivers):
            raise InvalidAccessError("Track already has a sender")
        if any(not t.stopped for t in self._transceivers):
            raise NotSupportedError("there is an audio transceiver: one is supported")
        return self._add_transceiver(track, Direction(direction))

    def _add_transceiver(
        self, track: MediaStreamTrack | None, direction: Direction
    ) -> RTCRtpTransceiver:
        made = RTCRtpTransceiver(
            "audio", RTCRtpReceiver("audio"), RTCRtpSender(track, "audio"), direction.text
        )
        stopped = next((t for t in self._transceivers if t.stopped), None)
        if stopped is not None:
            # it takes over the section of the one that was stopped
            made.section = stopped.section
            self._transceivers.remove(stopped)
        self._transceivers.append(made)
        return made

    def createDataChannel(
        self,
        label: str,
        maxPacketLifeTime: int | None = None,
        maxRetransmits: int | None = None,
        ordered: bool = True,
        protocol: str = "",
        negotiated: bool = False,
        id: int | None = None,
    ) -> RTCDataChannel:
        """Open a channel; `maxPacketLifeTime` in milliseconds, `id` counts with `negotiated`.

        Raises `InvalidConfig` for parameters that do not go together. Needs a running loop.
        """
        config = datachannel.ChannelConfig(
            label=label,
            protocol=protocol,
            ordered=ordered,
            max_retransmits=maxRetransmits,
            max_packet_lifetime_s=None if maxPacketLifeTime is None else maxPacketLifeTime / 1000,
            negotiated=negotiated,
            stream_id=id if negotiated else None,
        )
        call = self._opened()
        inner = call.peer.create_channel(config, call.now)
        self._had_channel = True
        channel = self._channels[inner] = RTCDataChannel(call, inner)
        call.driver.flush_soon(call)
        return channel

    # -- descriptions -------------------------------------------------------------------------

    def _wanted(self) -> Wanted:
        if not self._transceivers:
            return Wanted(None, None, "", self._had_channel)
        [found] = self._transceivers
        track_id = found.sender.track.id if found.sender.track is not None else ""
        return Wanted(found.wanted, found.section, track_id, self._had_channel)

    async def createOffer(self) -> RTCSessionDescription:
        """Return an offer of the transceivers and channels.

        Raises `InternalError` when there is nothing to offer.
        """
        call = self._opened()
        self._next_state("local", "offer")
        wanted = self._wanted()
        if wanted.direction is None and not wanted.data and self._agreed() is None:
            raise InternalError("nothing to offer: add a track, a transceiver or a channel first")
        text = call.peer.create_offer(call.now)
        return RTCSessionDescription(shape_offer(text, wanted, self._agreed()), "offer")

    async def createAnswer(self) -> RTCSessionDescription:
        """Return the answer to the peer's offer; what we cannot do is refused in it.

        Raises `warp.sdp.SdpError` when nothing of the offer is left.
        """
        call = self._opened()
        if self.signalingState != "have-remote-offer" or self._remote is None:
            raise InvalidStateError(f'no offer to answer in state "{self.signalingState}"')
        text = call.peer.create_answer(call.now)
        offer = parse_description(self._remote.sdp)
        return RTCSessionDescription(shape_answer(text, self._wanted(), offer), "answer")

    async def setLocalDescription(
        self, sessionDescription: RTCSessionDescription | None = None
    ) -> None:
        """Apply our description; without one, the offer or answer that is due.

        When this returns, `localDescription` holds every candidate. Raises `InvalidStateError`
        when it is not the time for it, and `UsageError` when this machine has no usable address.
        """
        call = self._opened()
        given = sessionDescription
        if given is None:
            answers = self.signalingState == "have-remote-offer"
            given = await (self.createAnswer() if answers else self.createOffer())
        state = self._next_state("local", given.type)
        if given.type == "rollback":
            self._roll_back(call)
            return
        fresh = not self._candidates
        if fresh:
            self._candidates = call.gather_hosts()
        text = with_candidates(given.sdp, self._candidates)
        call.peer.set_local_description(given.type, text, call.now)
        self._local = RTCSessionDescription(text, given.type)
        call.driver.flush_soon(call)
        if given.type == "answer":
            self._apply_agreement(call)
        else:
            self._name_section(parse_description(text))
        self._become("signaling", state)
        if fresh:
            self._become("gathering", "gathering")
            self._candidates += await call.gather_servers()
            self._require_open()
            text = with_candidates(given.sdp, self._candidates)
            self._local = RTCSessionDescription(text, given.type)
            self._become("gathering", "complete")
        self._begin(given.type)

    async def setRemoteDescription(self, sessionDescription: RTCSessionDescription) -> None:
        """Apply the peer's description; "track" tells of audio in it.

        Raises `warp.sdp.SdpError` naming line and rule when it is not usable, and
        `InvalidStateError` when it is not the time for it; nothing has changed then.
        """
        call = self._opened()
        given = sessionDescription
        state = self._next_state("remote", given.type)
        if given.type == "rollback":
            self._roll_back(call)
            return
        call.set_remote(given.type, given.sdp)
        self._remote = RTCSessionDescription(given.sdp, given.type)
        if given.type == "offer":
            self._meet_offer(call, parse_description(given.sdp))
        else:
            self._apply_agreement(call)
        self._become("signaling", state)
        self._begin(given.type)

    def _next_state(self, side: str, kind: str) -> str:
        following = _NEXT.get((self.signalingState, side, kind))
        if following is None:
            raise InvalidStateError(
                f'Cannot handle {side} {kind} in signaling state "{self.signalingState}"'
            )
        return following

    def _roll_back(self, call: Call) -> None:
        call.peer.rollback()
        self._local, self._remote = self._settled
        self._become("signaling", "stable")

    def _agreed(self) -> SessionDescription | None:
        text = self._call.peer.local_description if self._call is not None else ""
        return parse_description(text) if text else None

    def _begin(self, kind: str) -> None:
        if kind != "answer":
            return
        self._settled = self._local, self._remote
        if self.connectionState == "new":
            self._become("ice", "checking")
            self._become("connection", "connecting")

    def _name_section(self, description: SessionDescription) -> None:
        section = next(audio_sections(description), None)
        if section is not None and self._transceivers and self._transceivers[0].section is None:
            self._transceivers[0].section = section.mid

    def _meet_offer(self, call: Call, offer: SessionDescription) -> None:
        """Have a transceiver for the audio that is offered, and tell of the peer's track."""
        section = next(audio_sections(offer), None)
        if section is None:
            return
        if not self._transceivers:
            self._add_transceiver(None, Direction.RECVONLY)
        [found] = self._transceivers
        found.section = section.mid
        if section.direction.sends:
            self._tell_track(call, found, track_id_of(section))

    def _tell_track(self, call: Call, transceiver: RTCRtpTransceiver, track_id: str) -> None:
        if transceiver.receiver.track is None:
            self.emit("track", transceiver.receiver.receive_track(call, track_id))

    def _apply_agreement(self, call: Call) -> None:
        """Make the transceiver do what offer and answer agree on."""
        local = parse_description(call.peer.local_description)
        remote = parse_description(call.peer.remote_description)
        for transceiver in self._transceivers:
            ours, theirs = (d.section(transceiver.section or "") for d in (local, remote))
            if ours is None or theirs is None or ours.rejected or theirs.rejected:
                transceiver.agreed = None
                transceiver.sender.pause()
                continue
            agreed = ours.direction.within(theirs.direction.reversed())
            transceiver.agreed = agreed
            if agreed.receives:
                self._tell_track(call, transceiver, track_id_of(theirs))
            if agreed.sends:
                transceiver.sender.start(call)
            else:
                transceiver.sender.pause()

    async def addIceCandidate(self, candidate: RTCIceCandidate | None) -> None:
        """Take in a candidate that the peer trickled; None: no more come.

        Raises `ValueError` for one without `sdpMid` and `sdpMLineIndex`, `InvalidConfig` for one
        that cannot be read, and `InvalidState` before the first description.
        """
        call = self._opened()
        if candidate is None:
            call.add_remote_candidate(None)
            return
        if candidate.sdpMid is None and candidate.sdpMLineIndex is None:
            raise ValueError("Candidate must have either sdpMid or sdpMLineIndex")
        call.add_remote_candidate(f"candidate:{candidate_to_sdp(candidate)}")

    async def getStats(self) -> RTCStatsReport:
        """Return the statistics of the transport and of both streams."""
        report = RTCStatsReport()
        if self._call is not None:
            for transceiver in self._transceivers:
                report.update(await transceiver.sender.getStats())
                report.update(await transceiver.receiver.getStats())
            report.update(transport(self._call, self.connectionState))
        return report

    # -- the end ------------------------------------------------------------------------------

    async def close(self) -> None:
        """End the call, its tracks and its channels; harmless when repeated."""
        closing = self.signalingState != "closed"
        if closing:
            self._become("signaling", "closed")
            for transceiver in self._transceivers:
                await transceiver.sender.stop()
                await transceiver.receiver.stop()
        if self._call is not None:
            await self._call.close()
        if closing:
            self._finish()

    def _finish(self) -> None:
        self._become("signaling", "closed")
        self._become("ice", "closed")
        self._become("connection", "closed")
        self.remove_all_listeners()

    # -- what the call tells ------------------------------------------------------------------

    def receive_path(self) -> None:
        """An address of the peer's has proven itself."""
        if self.iceConnectionState in ("new", "checking"):
            self._become("ice", "completed")

    def receive_connected(self) -> None:
        """The peer is authenticated."""
        self.receive_path()
        self._become("connection", "connected")

    def receive_channel_event(self, event: Event) -> None:
        """Something happened on a channel."""
        inner: Any = getattr(event, "channel", None)
        if isinstance(event, datachannel.ChannelAnnounced) and self._call is not None:
            channel = self._channels[inner] = RTCDataChannel(self._call, inner, announced=True)
            self.emit("datachannel", channel)
            return
        known = self._channels.get(inner)
        if known is not None:
            known.receive_event(event)
            if isinstance(event, datachannel.ChannelClosed):
                del self._channels[inner]

    def receive_end(self, error: WarpError | None) -> None:
        """The call has ended: on purpose, or for `error`."""
        for transceiver in self._transceivers:
            transceiver.sender.receive_end()
            transceiver.receiver.receive_end()
        if error is not None and self.signalingState != "closed":
            self._become("ice", "failed")
            self._become("connection", "failed")
        elif error is None and self.signalingState != "closed":
            self._finish()


def _require_audio(kind: str) -> None:
    if kind == "audio":
        return
    _refuse(kind)


def _refuse(kind: str) -> NoReturn:
    if kind == "video":
        raise NotSupportedError("video is not supported: this stack carries audio and channels")
    raise InternalError(f'Invalid track kind "{kind}"')
