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
from warp.dtls import Connected, DtlsConfig, DtlsConnection, DtlsRole, EarlyWriteReady, Negotiated
from warp.entropy import Entropy
from warp.errors import Discard
from warp.ice import FlowAuthenticated, IceAgent, PairSelected, PairValidated
from warp.peer.events import MediaReady
from warp.peer.flows import KnownFlows
from warp.peer.hold import HoldBuffer
from warp.peer.rider import DtlsRider
from warp.peer.states import SendPermission
from warp.srtp import SrtpContext, SrtpProfile
from warp.trace import Trace

_PATH_NEWS = (FlowAuthenticated, PairValidated, PairSelected)
# a member of an enum costs as much as ten other names, and this is asked for every datagram
_ALL = SendPermission.ALL
_PROFILES = {int(profile): profile for profile in SrtpProfile}


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

    def receive_dtls(self, data: bytes, flow: Flow, now: float) -> None:
        """Take in a bare DTLS datagram: only flows that ICE has authenticated may feed DTLS."""
        if flow in self.flows:
            if self.permission is not SendPermission.ALL:
                self._budget.receive(flow.remote, len(data))
                if flow != self.ice.flow and self.ice.is_undecided:
                    self.ice.check_flow(flow, now)
            self.rider.receive_direct(data, now)
        else:
            self.flows.hold(data, flow)

    def unprotect(self, data: bytes, flow: Flow | None, now: float, *, rtcp: bool) -> bytes | None:
        """Return the plain RTP or RTCP packet; None when it is held or worthless."""
        if self.permission is not _ALL or self.srtp is None:
            if flow in self.flows:
                self.held_media.add(data, now)
            return None
        try:
            packet = self.srtp.unprotect_rtcp(data) if rtcp else self.srtp.unprotect_rtp(data)
        except Discard:
            return None
        heard = self.rider.heard
        heard.at = now
        if flow is not heard.flow:
            self.hear(flow, now)
        return packet

    def hear(self, flow: Flow | None, now: float) -> None:
        """Note where something came from that only the peer can have made just now."""
        heard = self.rider.heard
        heard.at = now
        if flow is not None and flow != heard.flow:
            heard.flow = flow
            if flow != self.ice.flow:
                self.ice.check_flow(flow, now)

    # -- the way out --------------------------------------------------------------------------

    def protect(self, packet: bytes, *, rtcp: bool) -> Datagram | None:
        """Return one packet protected and on its way; None when there are no keys or no path."""
        flow, srtp = self.ice.flow, self.srtp
        if flow is None or srtp is None:
            return None
        return (srtp.protect_rtcp(packet) if rtcp else srtp.protect_rtp(packet), flow)

    def queue_media(self, item: Datagram | None) -> None:
        """Let a protected packet leave with the next drain."""
        if item is not None:
            self._out.append(item)

    def datagrams_to_send(self, now: float) -> list[Datagram]:
        """Drain what has to leave: checks, then DTLS, then media."""
        dtls, free = self.dtls, self.permission is _ALL
        if dtls is not None:
            self.rider.collect(now)
        out = self.ice.datagrams_to_send(now)
        flow = self.ice.flow
        if out and not free:
            out = [item for item in out if self._budget.may_leave(*item)]
        if dtls is not None:
            direct = self.rider.take_direct(dtls.role, flow)
            if flow is not None:
                direct += dtls.datagrams_to_send(now)
                for data in direct:
                    if free or self._budget.spend(flow.remote, len(data)):
                        out.append((data, flow))
        if self._out:
            out, self._out = out + self._out, []
        return out

    # -- time and news ------------------------------------------------------------------------

    def deadlines(self) -> tuple[float | None, ...]:
        """Return the next deadlines of ICE, of what rides in checks, and of DTLS."""
        dtls = self.dtls
        bound = None if dtls is None else dtls.get_timer()
        return self.ice.get_timer(), self.rider.get_timer(), bound

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
            if isinstance(event, _PATH_NEWS):
                self._introduce_path(event, now)
        dtls = self.dtls
        if dtls is not None and (told := dtls.events()):
            for event in told:
                self._introduce_keys(dtls, event, now)
            news += told
        if self.rider.take_early_data(now) and self.permission is SendPermission.NONE:
            self.permission = SendPermission.NON_PERSONAL
            self.milestones.setdefault("early_write", now)
            if self.srtp is not None:
                news.append(MediaReady(self.permission))
        return news

    def _introduce_path(
        self, event: FlowAuthenticated | PairValidated | PairSelected, now: float
    ) -> None:
        if isinstance(event, PairValidated):
            self._budget.validate(event.flow.remote)
            self.rider.rtt_s = event.rtt_s
            if self.dtls is not None:
                self.dtls.set_rtt(event.rtt_s, now)
            self.milestones.setdefault("pair", now)
        self.flows.remember(event.flow, self.ice.flow)
        if self.dtls is not None and self.ice.is_validated:
            self.dtls.suspend_timers(False, now)
        for data, flow in self.flows.take_early():
            self.receive_dtls(data, flow, now)
        if isinstance(event, FlowAuthenticated):
            self.milestones.setdefault("first_check", now)

    def _introduce_keys(self, dtls: DtlsConnection, event: Event, now: float) -> None:
        kind = type(event)
        if kind is Negotiated:
            self.milestones.setdefault("dtls_negotiated", now)
        elif kind is EarlyWriteReady:
            if dtls.can_send:
                self._make_srtp(dtls)
                self.rider.allow_early_data(now)
        elif kind is Connected:
            if self.ice.flow is not None:
                self._budget.validate(self.ice.flow.remote)
            if self.srtp is None:
                self._make_srtp(dtls)
            self.permission = SendPermission.ALL
            self.rider.forget_early_data()
            self.milestones.setdefault("dtls_connected", now)
        else:
            self.rider.receive_news(event, dtls.role, now)

    def _make_srtp(self, dtls: DtlsConnection) -> None:
        if dtls.srtp_profile is None:
            return
        self.srtp = SrtpContext(
            _PROFILES[dtls.srtp_profile],
            dtls.srtp_keying_material(),
            dtls.role is DtlsRole.CLIENT,
        )
