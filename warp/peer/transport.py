"""Where ICE, SPED, DTLS and SRTP meet: one path, one identity, one set of keys.

    STUN ─▶ IceAgent ─┬▶ flow (where everything else goes)
                      └▶ DtlsRider ─▶ DtlsConnection ─┬▶ application data (SCTP)
    DTLS ─────────────▶ DtlsRider                     └▶ keys ─▶ SrtpContext ◀─▶ RTP, RTCP

It introduces them to each other and holds no protocol state. Called by `warp.peer.bundle`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from warp.contract import Datagram, Event, Flow
from warp.crypto import Certificate
from warp.dtls import (
    Connected,
    DtlsConfig,
    DtlsConnection,
    DtlsRole,
    EarlyWriteReady,
    FlightAcknowledged,
    HandshakeCompleted,
    Negotiated,
    PeerDataReceived,
)
from warp.dtls import events as dtls_events
from warp.entropy import Entropy
from warp.errors import Discard
from warp.ice import FlowAuthenticated, IceAgent, PairSelected, PairValidated
from warp.peer.flows import KnownFlows
from warp.peer.hold import HoldBuffer
from warp.peer.rider import DtlsRider
from warp.peer.states import SendPermission
from warp.sped import Evidence
from warp.srtp import SrtpContext, SrtpProfile
from warp.trace import Trace

BINDING_REQUEST = b"\x00\x01"


class Transport:
    """One BUNDLE transport. `ice` and `rider` are made by the caller, who also feeds `ice`."""

    __slots__ = (
        "_budget",
        "_entropy",
        "_keylog",
        "_out",
        "_trace",
        "dtls",
        "flows",
        "held_media",
        "ice",
        "milestones",
        "permission",
        "rider",
        "srtp",
    )

    def __init__(
        self,
        ice: IceAgent,
        rider: DtlsRider,
        *,
        entropy: Entropy,
        trace: Trace | None,
        keylog: Callable[[str], object] | None,
        holds_early: bool,
    ) -> None:
        self.ice = ice
        self.rider = rider
        self._entropy = entropy
        self._trace = trace
        self._keylog = keylog
        self._budget = rider.budget
        self.flows = KnownFlows(holds=holds_early)
        self._out: list[Datagram] = []
        self.dtls: DtlsConnection | None = None
        self.srtp: SrtpContext | None = None
        self.held_media = HoldBuffer()
        self.permission = SendPermission.NONE
        self.milestones: dict[str, float] = {}

    def start_dtls(
        self, role: DtlsRole, config: DtlsConfig, certificate: Certificate, now: float
    ) -> None:
        """Begin DTLS in the negotiated role. A client's first flight can then ride in a check."""
        dtls = DtlsConnection(
            role,
            config,
            certificate=certificate,
            entropy=self._entropy,
            trace=self._trace,
            keylog=self._keylog,
        )
        self.dtls, self.srtp, self.permission = dtls, None, SendPermission.NONE
        if role is DtlsRole.CLIENT:
            dtls.start(now)
            if not self.ice.is_validated:
                dtls.suspend_timers(True, now)
        self.rider.attach(dtls, now)

    # -- the way in ---------------------------------------------------------------------------

    def receive_stun(self, data: bytes, flow: Flow, now: float) -> None:
        """Take in a STUN datagram."""
        self.ice.receive_datagram(data, flow, now)

    def receive_dtls(self, data: bytes, flow: Flow, now: float) -> None:
        """Take in a bare DTLS datagram: only flows that ICE has authenticated may feed DTLS."""
        if flow in self.flows:
            if self.permission is not SendPermission.ALL:
                self._budget.receive(flow.remote, len(data))
            self.rider.receive_direct(data, now)
        else:
            self.flows.hold(data, flow)

    def unprotect(self, data: bytes, flow: Flow | None, now: float, *, rtcp: bool) -> bytes | None:
        """Return the plain RTP or RTCP packet; None when it is held or worthless."""
        if self.permission is not SendPermission.ALL or self.srtp is None:
            if flow in self.flows:
                self.held_media.add(data, now)
            return None
        try:
            if rtcp:
                return self.srtp.unprotect_rtcp(data)
            return self.srtp.unprotect_rtp(data)
        except Discard:
            return None

    # -- the way out --------------------------------------------------------------------------

    def send_media(self, packet: bytes, *, rtcp: bool) -> bool:
        """Protect one packet and queue it; False when there are no keys or no path."""
        flow, srtp = self.ice.flow, self.srtp
        if flow is None or srtp is None:
            return False
        self._out.append((srtp.protect_rtcp(packet) if rtcp else srtp.protect_rtp(packet), flow))
        return True

    def datagrams_to_send(self, now: float) -> list[Datagram]:
        """Drain what has to leave: checks, then DTLS, then media."""
        dtls, free = self.dtls, self.permission is SendPermission.ALL
        if dtls is not None:
            self.rider.collect(now)
        out = self.ice.datagrams_to_send(now)
        flow = self.ice.flow
        if not free:
            out = [item for item in out if self._may_leave(*item)]
        if dtls is not None:
            direct = self.rider.take_direct(dtls.role, flow)
            if flow is not None:
                direct += dtls.datagrams_to_send(now)
                out += [(data, flow) for data in direct if free or self._may_leave(data, flow)]
        return out + self.media_to_send()

    def media_to_send(self) -> list[Datagram]:
        """Drain the media that is queued."""
        out = self._out
        if out:
            self._out = []
            if self.permission is not SendPermission.ALL:
                out = [item for item in out if self._may_leave(*item)]
        return out

    def _may_leave(self, data: bytes, flow: Flow) -> bool:
        """Checks are paced by ICE itself; all else to an unvalidated address is rationed."""
        return data[:2] == BINDING_REQUEST or self._budget.spend(flow.remote, len(data))

    # -- time and news ------------------------------------------------------------------------

    def get_timer(self) -> float | None:
        """Return the earliest deadline of ICE and DTLS."""
        dtls = self.dtls.get_timer() if self.dtls is not None else None
        due = (self.ice.get_timer(), dtls, self.rider.get_timer())
        return min((deadline for deadline in due if deadline is not None), default=None)

    def handle_timer(self, now: float) -> None:
        """Let time pass."""
        if self.rider.take_ask(now):
            self.ice.request_check(now)
        self.ice.handle_timer(now)
        if self.dtls is not None:
            self.dtls.handle_timer(now)

    def events(self, now: float) -> Sequence[Event]:
        """Drain the news of all layers after acting on what one means for another."""
        news: list[Event] = self.ice.events()
        for event in news:
            self._introduce_path(event, now)
        if self.dtls is not None:
            for event in self.dtls.events():
                self._introduce_keys(event, now)
                news.append(event)
        return news

    def _introduce_path(self, event: Event, now: float) -> None:
        if isinstance(event, PairValidated):
            self._budget.validate(event.flow.remote)
            self.rider.rtt_s = event.rtt_s
            if self.dtls is not None:
                self.dtls.set_rtt(event.rtt_s, now)
            self.milestones.setdefault("pair", now)
        if isinstance(event, FlowAuthenticated | PairValidated | PairSelected):
            self.flows.remember(event.flow, self.ice.flow)
            if self.dtls is not None and self.ice.is_validated:
                self.dtls.suspend_timers(False, now)
            for data, flow in self.flows.take_early():
                self.receive_dtls(data, flow, now)
        if isinstance(event, FlowAuthenticated):
            self.milestones.setdefault("first_check", now)

    def _introduce_keys(self, event: Event, now: float) -> None:
        dtls, piggyback = self.dtls, self.rider.piggyback
        if dtls is None:
            return
        if isinstance(event, Negotiated):
            self.milestones.setdefault("dtls_negotiated", now)
        elif isinstance(event, EarlyWriteReady):
            if dtls.can_send and self._make_srtp(dtls):
                self.permission = SendPermission.NON_PERSONAL
                self.milestones.setdefault("early_write", now)
        elif isinstance(event, HandshakeCompleted):
            is_client = dtls.role is DtlsRole.CLIENT
            piggyback.handle_handshake_complete(is_client, event.version, now)
        elif isinstance(event, Connected):
            if self.ice.flow is not None:
                self._budget.validate(self.ice.flow.remote)
            if self.srtp is None:
                self._make_srtp(dtls)
            self.permission = SendPermission.ALL
            self.milestones.setdefault("dtls_connected", now)
        elif isinstance(event, FlightAcknowledged):
            piggyback.handle_peer_data(Evidence.DTLS_ACKNOWLEDGEMENT, now)
        elif isinstance(event, PeerDataReceived):
            piggyback.handle_peer_data(Evidence.APPLICATION_DATA, now)
        elif isinstance(event, dtls_events.Terminated):
            piggyback.handle_failed(now)

    def _make_srtp(self, dtls: DtlsConnection) -> bool:
        if dtls.srtp_profile is None:
            return False
        self.srtp = SrtpContext(
            SrtpProfile(dtls.srtp_profile),
            dtls.srtp_keying_material(),
            dtls.role is DtlsRole.CLIENT,
        )
        return True
