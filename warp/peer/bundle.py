"""Everything that one BUNDLE group shares (RFC 9143): descriptions, transport, media and data.

    signaling ─ agreement ─▶ transport (credentials, candidates, role, fingerprints)
                           ─▶ data (SNAP or the classic start)     ─▶ media (codecs, extensions)

Here the organs of a connection are made and told what offer and answer agreed on. Called by
`warp.peer.connection` only.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import lru_cache
from typing import Any

from warp.contract import Datagram, Event, Flow
from warp.crypto import Certificate
from warp.dtls import DtlsRole
from warp.entropy import Entropy, random_u64
from warp.errors import InvalidConfig, InvalidState, PeerIncompatible, WarpError
from warp.ice import Candidate, IceAgent, IceCredentials, IceRole, parse_candidate
from warp.peer.agreed import AgreedDescriptions
from warp.peer.config import DTLS_MTU, PeerConfig
from warp.peer.data import DataTransport
from warp.peer.lane import MediaLane
from warp.peer.local import describe
from warp.peer.media import Media
from warp.peer.rider import DtlsRider
from warp.peer.signaling import Signaling, SignalingState
from warp.peer.states import SendPermission
from warp.peer.stats import transport_stats
from warp.peer.transport import Transport
from warp.sdp import (
    LocalDescriptionState,
    Negotiated,
    SessionDescription,
    SnapNegotiation,
    compare,
)
from warp.sped import SPED_OPTIONS, Piggyback, SpedConfig
from warp.trace import Trace

# a member of an enum costs as much as ten other names, and these are asked for every datagram
_NON_PERSONAL, _ALL = SendPermission.NON_PERSONAL, SendPermission.ALL
MAX_UFRAGS = 4
SPED_CONFIG = SpedConfig()
_SPED_OPTIONS = frozenset(SPED_OPTIONS)
# RTP header, header extensions, SRTP tag
MEDIA_OVERHEAD = 12 + 20 + 16
INIT_BYTES = 120  # an INIT with our parameters, in its packet and its record, and some room


class Bundle:
    """The organs of one connection, and what the descriptions mean for them."""

    __slots__ = (
        "_candidates",
        "_certificate",
        "_config",
        "_draw_credentials",
        "_entropy",
        "_keylog",
        "_next_credentials",
        "_session_id",
        "_trace",
        "credentials",
        "data",
        "media",
        "signaling",
        "transport",
        "ufrags",
    )

    def __init__(
        self,
        config: PeerConfig,
        certificate: Certificate,
        entropy: Entropy,
        trace: Trace | None,
        keylog: Callable[[str], object] | None,
        credentials: IceCredentials | None,
        agreed: AgreedDescriptions | None = None,
        draw_credentials: Callable[[], IceCredentials] | None = None,
    ) -> None:
        self._config = config
        self._certificate = certificate
        self._entropy = entropy
        self._trace = trace
        self._keylog = keylog
        self._draw_credentials = draw_credentials
        self._candidates: list[Candidate] = []
        self._next_credentials: IceCredentials | None = None
        if agreed is None:
            init = source = None
            self._session_id = random_u64(entropy) >> 2
        else:
            credentials, init, source = agreed.credentials, agreed.local_init, agreed.source
            self._session_id = agreed.local.origin.session_id
            config = config if init is not None else _without_snap(config)
        self.credentials = credentials or IceCredentials.generate(entropy)
        self.ufrags: tuple[str, ...] = (self.credentials.ufrag,)
        self.data = DataTransport(config, entropy, trace, init=init)
        self.signaling = Signaling(SnapNegotiation(self.data.local_init))
        self.transport: Transport | None = None
        self.media: Media | None = (
            Media(config, entropy, trace, source=source) if config.audio else None
        )

    # -- candidates ---------------------------------------------------------------------------

    def add_local_candidate(self, candidate: Candidate, now: float) -> None:
        """Use a local candidate, and write it into descriptions."""
        self._candidates.append(candidate)
        if self.transport is not None:
            self.transport.ice.add_local_candidate(candidate, now)

    def remove_local_address(self, host: str, now: float) -> None:
        """Forget the candidates of an address that went away."""
        self._candidates = [c for c in self._candidates if c.host != host]
        if self.transport is not None:
            self.transport.ice.remove_local_address(host, now)

    def add_remote_candidate(self, line: str | None, now: float) -> None:
        """Take in a candidate of the peer, or None for the end of candidates."""
        if self.transport is None:
            raise InvalidState("set a description before adding the peer's candidates")
        if line is None:
            self.transport.ice.end_of_candidates(now)
        else:
            self.transport.ice.add_remote_candidate(parse_candidate(line), now)

    # -- descriptions -------------------------------------------------------------------------

    def create_offer(self, now: float, *, ice_restart: bool) -> str:
        """Return an offer of what the configuration asks for."""
        if ice_restart and not self.signaling.initial:
            self._next_credentials = self._fresh_credentials()
        self._make_transport(IceRole.CONTROLLED if self._config.lite else IceRole.CONTROLLING)
        return self.signaling.create_offer(self._describe())

    def create_answer(self, now: float) -> str:
        """Return the answer to the pending remote offer."""
        offer = self.signaling.remote_offer
        agreed = self.signaling.negotiated
        if offer is not None and agreed is not None and self._next_credentials is None:
            first = next((m for m in offer.media if not m.rejected and m.transport.ufrag), None)
            if first is not None and first.transport.ufrag != agreed.transport.ufrag:
                self._next_credentials = self._fresh_credentials()
        return self.signaling.create_answer(self._describe())

    def set_local(self, kind: str, text: str, now: float) -> bool:
        """Apply a local description; True when offer and answer now agree."""
        before = self.signaling.negotiated
        agreed = self.signaling.set_local(kind, text)
        self._restart(now)
        if agreed is not None:
            self._apply(agreed, before, now)
        return agreed is not None

    def set_remote(self, kind: str, text: str, now: float) -> bool:
        """Apply a remote description; True when offer and answer now agree."""
        before = self.signaling.negotiated
        agreed = self.signaling.set_remote(kind, text)
        if agreed is not None:
            self._apply(agreed, before, now)
        elif self.signaling.remote_offer is not None:
            lite = self.signaling.remote_offer.ice_lite and not self._config.lite
            self._make_transport(IceRole.CONTROLLING if lite else IceRole.CONTROLLED)
        return agreed is not None

    def accept_agreed(self, agreed: AgreedDescriptions, now: float) -> None:
        """Begin with descriptions that were exchanged elsewhere."""
        self._make_transport(IceRole.CONTROLLED)
        self.signaling.accept_agreed(agreed)
        self._apply(agreed.negotiated, None, now)

    def amend_remote(self, offer: SessionDescription, now: float) -> bool:
        """Put the peer's offer in place of its stand-in; False, and no change, if it is another."""
        transport = self.transport
        if transport is None or offer.ice_lite or not self.signaling.amend_remote(offer):
            return False
        agreed = self.signaling.negotiated
        if agreed is not None:
            remote = agreed.transport
            credentials = IceCredentials(remote.ufrag, remote.pwd)
            transport.ice.set_remote_credentials(credentials, now)
        return True

    def rollback(self) -> None:
        """Withdraw the pending offer."""
        self._next_credentials = None
        self.signaling.rollback()

    def _fresh_credentials(self) -> IceCredentials:
        draw = self._draw_credentials
        return IceCredentials.generate(self._entropy) if draw is None else draw()

    def _describe(self) -> LocalDescriptionState:
        return describe(
            self._config,
            self._next_credentials or self.credentials,
            self._certificate,
            self._candidates,
            self._session_id,
            self.transport.dtls.role
            if not self.signaling.initial
            and self.transport is not None
            and self.transport.dtls is not None
            else None,
            self.media.description() if self.media is not None else None,
        )

    def _restart(self, now: float) -> None:
        """Begin a new ICE generation once a description with new credentials is in force."""
        fresh, self._next_credentials = self._next_credentials, None
        if fresh is None or self.transport is None:
            return
        self.credentials = fresh
        self.ufrags = (*self.ufrags, fresh.ufrag)[-MAX_UFRAGS:]
        self.transport.ice.restart(fresh, now)

    def _make_transport(self, role: IceRole) -> Transport:
        if self.transport is not None:
            return self.transport
        piggyback = Piggyback(SPED_CONFIG, self._trace)
        rider = DtlsRider(piggyback, enabled=self._config.sped)
        ice = IceAgent(
            self._config.ice(),
            role=role,
            local=self.credentials,
            entropy=self._entropy,
            trace=self._trace,
            rider=rider,
        )
        self.transport = Transport(
            ice,
            rider,
            entropy=self._entropy,
            trace=self._trace,
            keylog=self._keylog,
            holds_early=not self._config.lite,
        )
        return self.transport

    # -- what an agreement means --------------------------------------------------------------

    def _apply(self, agreed: Negotiated, before: Negotiated | None, now: float) -> None:
        transport = self.transport
        if transport is None:
            raise InvalidState("there is no transport: create or set an offer first")
        remote = agreed.transport
        changes = compare(before, agreed) if before is not None else None
        if remote.pwd and (changes is None or changes.ice_restarted):
            credentials = IceCredentials(remote.ufrag, remote.pwd)
            transport.ice.set_remote_credentials(credentials, now, lite=remote.ice_lite)
        for line in remote.candidates:
            self._add_described_candidate(line, transport, now)
        if remote.end_of_candidates:
            transport.ice.end_of_candidates(now)
        if self.media is not None:
            self.media.apply(agreed.audio, now)
        if before is None:
            self._start(agreed, transport, now)
        if agreed.data is not None:
            self.data.agree(agreed.data, self.signaling.snap, remote.is_dtls_client, now)

    def _add_described_candidate(self, line: str, transport: Transport, now: float) -> None:
        """Use a candidate of a description; one that cannot be read is none (RFC 8839 5.1)."""
        try:
            candidate = parse_candidate(line)
        except InvalidConfig as error:
            if self._trace is not None:
                self._trace.emit(now, "peer:candidate_ignored", {"why": str(error)})
            return
        transport.ice.add_remote_candidate(candidate, now)

    def _start(self, agreed: Negotiated, transport: Transport, now: float) -> None:
        """Begin ICE and DTLS: the first check leaves with the next drain."""
        remote = agreed.transport
        for candidate in self._candidates:
            transport.ice.add_local_candidate(candidate, now)
        role = DtlsRole.CLIENT if remote.is_dtls_client else DtlsRole.SERVER
        if transport.dtls is None or transport.dtls.role is not role:
            config = self._config.dtls(
                media=bool(agreed.audio),
                active=remote.is_dtls_client,
                sped=self._config.sped and not _SPED_OPTIONS.isdisjoint(remote.ice_options),
                remote_is_lite=remote.ice_lite,
            )
            transport.start_dtls(role, config, self._certificate, now)
        if transport.dtls is not None:
            transport.dtls.set_peer_fingerprints(list(remote.fingerprints), now)
        transport.ice.start(now)

    def meet_early_client(self, now: float) -> None:
        """Be the DTLS server of a peer whose checks overtook its answer.

        Its ClientHello says which role it has chosen (RFC 8842 section 5.3). The handshake goes
        on; who the client is, and whether it may be heard, is known when the answer comes.
        """
        transport = self.transport
        if (
            transport is None
            or not transport.rider.met_early
            or self.signaling.state is not SignalingState.HAVE_LOCAL_OFFER
        ):
            return
        config = self._config.dtls(
            media=False, active=False, sped=self._config.sped, remote_is_lite=False
        )
        transport.start_dtls(DtlsRole.SERVER, config, self._certificate, now)

    def handle_authenticated(self, now: float) -> WarpError | None:
        """The peer is who it said: start SCTP, and look at the media that came early.

        Returns why the connection cannot live, if it cannot.
        """
        transport = self.transport
        if transport is None:
            return None
        agreed = self.signaling.negotiated
        if agreed is not None and agreed.audio and transport.srtp is None:
            return PeerIncompatible("audio was agreed on, and no SRTP profile (RFC 8827 6.5)")
        if transport.dtls is not None:
            # records carry whole SCTP packets from now on; no flight has to fit a check
            transport.dtls.set_mtu(DTLS_MTU)
        if self.media is not None:
            self.media.start(now)
        self.data.start(now, rtt_s=transport.ice.rtt_s)
        for data, at in transport.held_media.take():
            self.receive_media(data, None, at, rtcp=192 <= data[1] <= 223)
        return None

    # -- packets ------------------------------------------------------------------------------

    def receive_media(self, data: bytes, flow: Flow | None, now: float, *, rtcp: bool) -> None:
        """Take in an SRTP or SRTCP packet."""
        transport, media = self.transport, self.media
        if transport is None or media is None:
            return
        packet = transport.unprotect(data, flow, now, rtcp=rtcp)
        if packet is None or media.session is None:
            return
        if rtcp:
            media.session.receive_rtcp(packet, now)
        else:
            media.session.router.receive(packet, now)

    def make_audio(
        self, payload: bytes, timestamp: int, now: float, marker: bool, non_personal: bool
    ) -> Datagram | None:
        """Packetise and protect one payload, if whoever may hear us now may hear it."""
        transport, media = self.transport, self.media
        if transport is None or media is None or media.sender is None:
            return None
        early = transport.permission is not SendPermission.ALL
        if early and not (
            non_personal
            and transport.permission is SendPermission.NON_PERSONAL
            and self._has_credit(len(payload) + MEDIA_OVERHEAD)
        ):
            return None
        packet = media.sender.packetize(payload, timestamp, now, marker=marker)
        if "first_media_sent" not in transport.milestones:
            transport.milestones["first_media_sent"] = now
        item = transport.protect(packet, rtcp=False)
        if early and item is not None:
            transport.rider.budget.spend(item[1].remote, len(item[0]))
        return item

    def open_lane(self, traffic: array[int]) -> MediaLane | None:
        """Return the short way of media, which counts in `traffic`; None without any media."""
        transport, media = self.transport, self.media
        if transport is None or transport.srtp is None or media is None or media.session is None:
            return None
        return MediaLane(transport, media, media.session, transport.srtp, traffic)

    def _has_credit(self, size: int) -> bool:
        """Whether early media of `size` bytes leaves enough for the flight it comes early to."""
        transport = self.transport
        flow = transport.ice.flow if transport is not None else None
        return (
            transport is not None
            and flow is not None
            and transport.rider.budget.left(flow.remote) >= size + transport.rider.reserve()
        )

    def audio_received(self) -> Sequence[Event]:
        """Drain the audio that is in order, and what its sources did."""
        return self.media.received() if self.media is not None else ()

    def receive_record(self, data: bytes, flow: Flow, now: float) -> bool:
        """Take in a DTLS datagram of a live call (the hot path of channels).

        Returns False, having done nothing, while the handshake still needs its companions.
        """
        transport = self.transport
        if transport is None or transport.permission is not _ALL:
            return False
        dtls = transport.dtls
        if dtls is None or transport.rider.piggyback.active or flow not in transport.flows:
            return False
        dtls.receive_datagram(data, now)
        packets = dtls.received_data()
        if packets:
            transport.hear(flow, now)
            for packet in packets:
                self.data.receive_datagram(packet, now)
        return True

    def exchange_data(self, now: float) -> list[Event]:
        """Carry decrypted packets to SCTP and return what the channels have to say."""
        transport = self.transport
        if transport is not None and transport.dtls is not None:
            if transport.permission is _NON_PERSONAL and self._has_credit(INIT_BYTES):
                self.data.start_early(now)
            for packet in transport.dtls.received_data():
                self.data.receive_datagram(packet, now)
        return self.data.events(now)

    def datagrams_to_send(self, now: float) -> list[Datagram]:
        """Drain SCTP and RTCP through DTLS and SRTP, then the transport."""
        transport = self.transport
        if transport is None:
            return []
        dtls = transport.dtls
        if dtls is not None and dtls.can_send and transport.ice.flow is not None:
            for packet in self.data.datagrams_to_send(now):
                dtls.send_data(packet, now)
        if self.media is not None and transport.srtp is not None:
            for packet, rtcp in self.media.packets_to_send(now):
                transport.queue_media(transport.protect(packet, rtcp=rtcp))
        return transport.datagrams_to_send(now)

    # -- time ---------------------------------------------------------------------------------

    def deadlines(self) -> tuple[float | None, ...]:
        """Return the next deadline of each organ; None is never."""
        data, media, transport = self.data.get_timer(), self.get_media_timer(), self.transport
        return (data, media) if transport is None else (data, media, *transport.deadlines())

    def get_media_timer(self) -> float | None:
        """Return the media's next deadline."""
        return self.media.get_timer() if self.media is not None else None

    def handle_timer(self, now: float) -> None:
        """Let time pass."""
        if self.transport is not None:
            self.transport.handle_timer(now)
        self.data.handle_timer(now)
        if self.media is not None:
            self.media.handle_timer(now)

    # -- the end ------------------------------------------------------------------------------

    def close(self, now: float) -> None:
        """Say goodbye on every layer; the words leave with the next drain."""
        transport = self.transport
        if transport is None or transport.dtls is None:
            return
        self.data.close(now)
        if self.media is not None:
            self.media.close(now)
        if transport.ice.flow is not None:
            for packet in self.data.datagrams_to_send(now) if transport.dtls.can_send else ():
                transport.dtls.send_data(packet, now)
            # also before the peer's Finished: to the peer the handshake may be complete
            transport.dtls.close(now)

    def end(self, now: float) -> list[Event]:
        """Close the channels and return their last events; nothing is said any more."""
        if self.transport is not None:
            self.transport.permission = SendPermission.NONE
        self.data.close(now)
        return self.data.events(now)

    def stats(self) -> dict[str, Any]:
        """Return what was negotiated, the path, and when each milestone was reached."""
        known = transport_stats(self.transport) if self.transport is not None else {}
        milestones = dict(self.transport.milestones) if self.transport is not None else {}
        milestones.update(self.data.milestones)
        if self.media is not None:
            milestones.update(self.media.milestones)
            known["audio"] = self.media.stats()
        agreed = self.signaling.negotiated
        options = agreed.transport.ice_options if agreed is not None else ()
        known["sped_options"] = tuple([name for name in options if name in _SPED_OPTIONS])
        known["snap"] = self.signaling.snap.mode.value
        known["ice_lite"] = self._config.lite
        return {**known, "milestones": milestones}


@lru_cache(maxsize=16)
def _without_snap(config: PeerConfig) -> PeerConfig:
    return replace(config, snap=False)
