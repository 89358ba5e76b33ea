"""A WebRTC peer connection without I/O: descriptions and datagrams in, datagrams and events out.

    receive_datagram ─ demux ┬ STUN ─▶ transport (ICE, SPED)
                             ├ DTLS ─▶ transport ─▶ data (SCTP, channels)
                             └ RTP ──▶ transport (SRTP) ─▶ media ─▶ AudioReceived

Stop 3 of the eight: it counts, dispatches and keeps the one state of the whole. Everything else is
done by its organs. Called by `warp.io.driver`, by tests through the five verbs, and by servers
that bring their own loop.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from warp import dtls, ice
from warp.contract import Address, Datagram, Event, Flow
from warp.crypto import Certificate
from warp.datachannel import Channel, ChannelConfig
from warp.entropy import Entropy
from warp.errors import HandshakeTimedOut, InvalidState, NoPath, WarpError
from warp.peer.agreed import AgreedDescriptions
from warp.peer.bundle import Bundle
from warp.peer.config import PeerConfig
from warp.peer.demux import Kind, classify
from warp.peer.events import FlowAuthenticated, MediaReady, StateChanged, Terminated
from warp.peer.lane import MediaLane
from warp.peer.states import ENDED, TRANSITIONS, ConnectionState, Input, SendPermission
from warp.peer.traffic import RECEIVED, RECEIVED_BYTES, SENT, SENT_BYTES, new_traffic
from warp.sdp import SessionDescription
from warp.trace import Trace

# tuples: a union would be made anew for every event
_PATH_NEWS = (ice.FlowAuthenticated, ice.PairValidated, ice.PairSelected)
_ENDINGS = (ice.Terminated, dtls.Terminated)
# a member of an enum costs as much as ten other names, and these are asked for every datagram
_STUN, _DTLS, _RTP, _RTCP = Kind.STUN, Kind.DTLS, Kind.RTP, Kind.RTCP
_BEFORE = (ConnectionState.NEW, ConnectionState.CONNECTING)
_NOTHING_NEW = frozenset(
    {
        ice.StateChanged,
        dtls.Negotiated,
        dtls.EarlyWriteReady,
        dtls.PeerCertificateReceived,
        dtls.HandshakeCompleted,
        dtls.FlightAcknowledged,
        dtls.PeerDataReceived,
    }
)
"""What the transport has acted on, and nobody else has to."""


class PeerConnection:
    """One call. Descriptions are exchanged as text; every verb takes `now`, monotonic seconds."""

    __slots__ = (
        "_bundle",
        "_config",
        "_deadline",
        "_events",
        "_trace",
        "_traffic",
        "_unknown",
        "error",
        "lane",
        "state",
    )

    def __init__(
        self,
        config: PeerConfig,
        *,
        certificate: Certificate,
        entropy: Entropy,
        trace: Trace | None = None,
        keylog: Callable[[str], object] | None = None,
        credentials: ice.IceCredentials | None = None,
        agreed: AgreedDescriptions | None = None,
        draw_credentials: Callable[[], ice.IceCredentials] | None = None,
    ) -> None:
        """With `agreed`, `accept_agreed` begins what was agreed on; credentials come with it.

        `draw_credentials` makes those of ICE restarts, where a ufrag has to say whose it is.
        """
        self._config = config
        self._trace = trace
        self._bundle = Bundle(
            config, certificate, entropy, trace, keylog, credentials, agreed, draw_credentials
        )
        self._events: list[Event] = []
        self._deadline: float | None = None
        self._traffic = new_traffic()
        self._unknown = 0
        self.lane: MediaLane | None = None
        """The short way of media, while the call is live."""
        self.state = ConnectionState.NEW
        self.error: WarpError | None = None

    # -- signalling ---------------------------------------------------------------------------

    @property
    def local_ufrag(self) -> str:
        """Our ufrag of the present ICE generation."""
        return self._bundle.credentials.ufrag

    @property
    def local_ufrags(self) -> tuple[str, ...]:
        """Every ufrag that may still name this connection in a check."""
        return self._bundle.ufrags

    @property
    def local_description(self) -> str:
        """Our description in force; empty before the first."""
        local = self._bundle.signaling.local
        return "" if local is None else str(local)

    @property
    def remote_description(self) -> str:
        """The peer's description in force, as we understood it; empty before the first."""
        remote = self._bundle.signaling.remote
        return "" if remote is None else str(remote)

    def add_local_address(self, address: Address, now: float) -> None:
        """Tell of a local transport address; it becomes a host candidate."""
        self.add_local_candidate(ice.make_candidate(ice.CandidateType.HOST, address), now)

    def add_local_candidate(self, candidate: ice.Candidate, now: float) -> None:
        """Tell of a candidate that gathering found; it goes into descriptions made from now on."""
        self._bundle.add_local_candidate(candidate, now)

    def remove_local_address(self, host: str, now: float) -> None:
        """Tell that an address of ours went away (Wi-Fi left): its paths are left at once."""
        self._bundle.remove_local_address(host, now)
        self._advance(now)

    def add_remote_candidate(self, candidate: str | None, now: float) -> None:
        """Take in a trickled candidate line, or None for end-of-candidates (RFC 8838)."""
        self._bundle.add_remote_candidate(candidate, now)

    def create_offer(self, now: float, *, ice_restart: bool = False) -> str:
        """Return an offer; nothing changes until it is set as local description."""
        self._check_alive()
        return self._bundle.create_offer(now, ice_restart=ice_restart)

    def create_answer(self, now: float) -> str:
        """Return the answer to the remote offer that was set."""
        self._check_alive()
        return self._bundle.create_answer(now)

    def set_local_description(self, kind: str, text: str, now: float) -> None:
        """Apply our own "offer" or "answer" as created (our ICE and DTLS lines may not change)."""
        self._check_alive()
        if self._bundle.set_local(kind, text, now):
            self._begin(now)

    def set_remote_description(self, kind: str, text: str, now: float) -> None:
        """Apply the peer's "offer" or "answer".

        Raises `warp.sdp.SdpError` naming line and rule; then nothing has changed.
        """
        self._check_alive()
        if self._bundle.set_remote(kind, text, now):
            self._begin(now)

    def accept_agreed(self, agreed: AgreedDescriptions, now: float) -> None:
        """Begin with descriptions that were exchanged elsewhere: no offer, no answer, no text.

        `agreed` is what the connection was made with. Raises `InvalidState` when it has begun.
        """
        if self.state is not ConnectionState.NEW:
            raise InvalidState("the connection has begun: make a new one")
        self._bundle.accept_agreed(agreed, now)
        self._begin(now)

    def amend_remote(self, offer: SessionDescription, now: float) -> bool:
        """Learn the peer's offer, which a stand-in was agreed on for.

        True when it is that offer, so that later ones are compared with it. False, and nothing
        has changed, when it has other sections, credentials or certificates.
        """
        return self.state not in ENDED and self._bundle.amend_remote(offer, now)

    def rollback(self) -> None:
        """Withdraw the pending offer (RFC 9429 section 4.1.10.2)."""
        self._bundle.rollback()

    def _begin(self, now: float) -> None:
        if self.state is ConnectionState.NEW:
            self._deadline = now + self._config.connect_timeout_s
            self._become(Input.STARTED, now)
        self._advance(now)

    # -- what the application sends -----------------------------------------------------------

    @property
    def media_permission(self) -> SendPermission:
        """Which audio may leave now."""
        transport = self._bundle.transport
        return SendPermission.NONE if transport is None else transport.permission

    def send_audio(
        self,
        payload: bytes,
        timestamp: int,
        now: float,
        *,
        marker: bool = False,
        non_personal: bool = False,
    ) -> bool:
        """Send one Opus payload; `timestamp` in samples at 48 kHz, the origin is random.

        Returns False, and sends nothing, unless `media_permission` allows it.
        """
        item = self._bundle.make_audio(payload, timestamp, now, marker, non_personal)
        if item is None or self._bundle.transport is None:
            return False
        self._bundle.transport.queue_media(item)
        return True

    def make_audio(
        self, payload: bytes, timestamp: int, now: float, *, marker: bool, non_personal: bool
    ) -> Datagram | None:
        """Return the datagram of one payload, for a pump that sends it at once; else `send_audio`.

        None, and nothing has changed, unless `media_permission` allows it.
        """
        item = self._bundle.make_audio(payload, timestamp, now, marker, non_personal)
        if item is not None:
            self._traffic[SENT] += 1
            self._traffic[SENT_BYTES] += len(item[0])
        return item

    def create_channel(self, config: ChannelConfig, now: float) -> Channel:
        """Open a data channel, negotiated or by DCEP; it opens when SCTP is up."""
        self._check_alive()
        return self._bundle.data.create_channel(config, now)

    def close(self, now: float) -> None:
        """End the connection: BYE, ABORT and close_notify leave with the next drain."""
        if self.state not in ENDED:
            self._bundle.close(now)
            self._end(None, Input.CLOSED, now)

    # -- the five verbs -----------------------------------------------------------------------

    def receive_datagram(self, data: bytes, flow: Flow, now: float) -> None:
        """Take in one datagram. Never raises for what a peer sent."""
        transport = self._bundle.transport
        if transport is None or self.state in ENDED:
            return
        self._traffic[RECEIVED] += 1
        self._traffic[RECEIVED_BYTES] += len(data)
        kind = classify(data)
        if kind is _RTP:
            self._bundle.receive_media(data, flow, now, rtcp=False)
            return
        if kind is _STUN:
            transport.ice.receive_datagram(data, flow, now)
        elif kind is _DTLS:
            if not self._bundle.receive_record(data, flow, now):
                transport.receive_dtls(data, flow, now)
        elif kind is _RTCP:
            self._bundle.receive_media(data, flow, now, rtcp=True)
            return
        else:
            self._unknown += 1
            return
        self._advance(now)

    def datagrams_to_send(self, now: float) -> list[Datagram]:
        """Drain what has to leave, in order; after the end, the last words and nothing more."""
        out = self._bundle.datagrams_to_send(now)
        if self.state in ENDED and self._bundle.transport is not None:
            self._bundle.transport.ice.close(now)
        if out:
            traffic = self._traffic
            traffic[SENT] += len(out)
            for data, _ in out:
                traffic[SENT_BYTES] += len(data)
        return out

    def get_media_timer(self) -> float | None:
        """Return the media's own deadline: the only one that receiving media can move. Pure."""
        return self._bundle.get_media_timer()

    def get_timer(self) -> float | None:
        """Return the earliest deadline of all organs. Pure."""
        if self.state in ENDED:
            return None
        due = self._deadline
        for deadline in self._bundle.deadlines():
            if deadline is not None and (due is None or deadline < due):
                due = deadline
        return due

    def handle_timer(self, now: float) -> None:
        """Let time pass."""
        if self.state in ENDED:
            return
        self._bundle.handle_timer(now)
        self._advance(now)
        if self._deadline is not None and now >= self._deadline:
            self._deadline = None
            transport = self._bundle.transport
            reached = transport is not None and transport.ice.flow is not None
            what = f"not connected after {self._config.connect_timeout_s:g} s"
            self._fail(HandshakeTimedOut(what) if reached else NoPath(what), now)

    def events(self) -> Sequence[Event]:
        """Drain what has happened, in order."""
        # before there are keys nothing can have been heard
        audio = [] if self.state in _BEFORE else self._bundle.audio_received()
        if not self._events:
            return audio
        events, self._events = self._events, []
        events += audio
        return events

    # -- what news mean for the whole ---------------------------------------------------------

    def _advance(self, now: float) -> None:
        """Act on the news of the organs until there are none."""
        bundle = self._bundle
        transport = bundle.transport
        if transport is None:
            return
        if transport.dtls is None:
            bundle.meet_early_client(now)
        for event in transport.events(now):
            if type(event) in _NOTHING_NEW:
                continue
            if isinstance(event, _PATH_NEWS):
                self._events.append(FlowAuthenticated(event.flow))
            elif isinstance(event, MediaReady):
                self._events.append(event)
            elif isinstance(event, dtls.Connected):
                self._deadline = None
                error = bundle.handle_authenticated(now)
                if error is not None:
                    self._fail(error, now)
                    return
                self._become(Input.AUTHENTICATED, now)
                if transport.srtp is not None:
                    self.lane = bundle.open_lane(self._traffic)
                    self._events.append(MediaReady(transport.permission))
            elif isinstance(event, dtls.CloseNotify):
                self._end(None, Input.CLOSED, now)
                return
            elif isinstance(event, _ENDINGS):
                self._fail(event.error, now)
                return
        self._events += bundle.exchange_data(now)
        data = bundle.data
        if (error := data.error) is not None:
            if data.hung_up:
                self._end(None, Input.CLOSED, now)
            else:
                self._fail(error, now)

    def _fail(self, error: WarpError, now: float) -> None:
        if self.state not in ENDED:
            self._end(error, Input.FAILED, now)

    def _end(self, error: WarpError | None, why: Input, now: float) -> None:
        if self.state in ENDED:
            return
        self.error = error
        if self.lane is not None:
            self.lane.close()
            self.lane = None
        self._deadline = None
        self._become(why, now)
        self._events += self._bundle.end(now)
        self._events.append(Terminated(error))

    def _become(self, why: Input, now: float) -> None:
        state = TRANSITIONS.get((self.state, why))
        if state is None:
            return
        if self._trace is not None:
            self._trace.emit(now, "peer:state_changed", {"to": state.value, "why": why.value})
        self.state = state
        self._events.append(StateChanged(state))

    def _check_alive(self) -> None:
        if self.state in ENDED:
            raise InvalidState("the connection has ended: make a new one")

    def stats(self) -> dict[str, Any]:
        """Return counters, what was negotiated, and the times of the start's milestones."""
        return {
            "state": self.state.value,
            "datagrams_received": self._traffic[RECEIVED],
            "bytes_received": self._traffic[RECEIVED_BYTES],
            "datagrams_sent": self._traffic[SENT],
            "bytes_sent": self._traffic[SENT_BYTES],
            "unknown_datagrams": self._unknown,
            **self._bundle.stats(),
        }
