"""What rides in a connectivity check here: DTLS, by way of SPED. Introduced by the transport.

    check in  ──▶ Piggyback (acks, datagram) ──▶ DTLS ──▶ its next flight, at once
    check out ◀── Piggyback (acks, next datagram) ◀────────┘ └──▶ `direct`: the same bytes, bare

ICE calls `receive_attributes` before it builds the response, and DTLS answers synchronously, so
that flight n+1 rides in the response to flight n. Without SPED the same object keeps the flight
until a path exists; nothing else in the stack needs to know which of the two is the case.

A flight that has come to nothing after a round trip keeps checks going at their usual pace, also
on a pair that is selected: a loss, of ours or of what a lite peer can only send in responses,
costs 50 ms and not a timeout of DTLS.
"""

from __future__ import annotations

from warp import dtls
from warp.contract import Event, Flow
from warp.dtls import DtlsConnection, DtlsRole
from warp.peer.amplification import AmplificationBudget
from warp.sped import UNFINISHED, Evidence, Piggyback, PiggybackState
from warp.stun import Attribute, Message, MessageClass
from warp.timers import earliest

MAX_EARLY = 4
MAX_INJECTED = 8  # datagrams that are remembered, so that their copies are known
# libwebrtc drops its last flight if SRTP or data comes when its handshake is complete and its path
# not yet said to be usable, and repeats it two round trips later. From our flight to that path it
# takes 1 to 4 ms, to make ours we take as long, and networks close gaps: early data leaves a frame
# later. Nobody else has to wait.
LIBWEBRTC_PAUSE_S = 0.02
_LIBWEBRTC_MARK = Attribute.GOOG_NETWORK_INFO  # in each of its checks, in nobody else's
CHECK_INTERVAL_S = 0.05  # Ta, RFC 8445 section 14.2
MAX_ASKS = 12  # checks asked for in one flight; what is lost then is left to DTLS
_EVIDENCE = {
    dtls.FlightAcknowledged: Evidence.DTLS_ACKNOWLEDGEMENT,
    dtls.PeerDataReceived: Evidence.APPLICATION_DATA,
}
# header, XOR-MAPPED-ADDRESS (IPv6), MESSAGE-INTEGRITY, FINGERPRINT, padding
RESPONSE_OVERHEAD = 20 + 24 + 24 + 8 + 3
# the heads of both attributes, and one acknowledgement
SPED_OVERHEAD = 4 + 4 + 4


class Heard:
    """Where and when protected media or data came last."""

    __slots__ = ("at", "flow")

    def __init__(self) -> None:
        self.flow: Flow | None = None
        self.at = 0.0


class DtlsRider:
    """Carries DTLS datagrams between checks, the direct path and the DTLS connection."""

    __slots__ = (
        "_ask_at",
        "_asks_left",
        "_dtls",
        "_early",
        "_early_data_at",
        "_enabled",
        "_flight_bytes",
        "_injected",
        "_meets_libwebrtc",
        "budget",
        "direct",
        "heard",
        "piggyback",
        "ridden",
        "rtt_s",
    )

    def __init__(self, piggyback: Piggyback, *, enabled: bool = True) -> None:
        self.piggyback = piggyback
        self._enabled = enabled
        if not enabled:
            piggyback.handle_failed(0.0)
        self.budget = AmplificationBudget()
        self._dtls: DtlsConnection | None = None
        self._early: list[bytes] = []
        self._injected: tuple[int, ...] = ()
        self._early_data_at: float | None = None
        # until a check of its own was heard: its hello may come in the answer to one of ours
        self._meets_libwebrtc = True
        self.direct: list[bytes] = []
        self.ridden: bytes | None = None
        self.rtt_s: float | None = None
        self.heard = Heard()
        self._flight_bytes = 0
        self._ask_at = 0.0
        self._asks_left = 0

    def attach(self, connection: DtlsConnection, now: float) -> None:
        """Connect to DTLS once its role is known, and hand it what came early."""
        self._dtls = connection
        early, self._early = self._early, []
        for datagram in early:
            connection.receive_datagram(datagram, now)
        self.collect(now)

    @property
    def met_early(self) -> bool:
        """Whether DTLS came before anybody knew our role in it."""
        return self._dtls is None and bool(self._early)

    def receive_direct(self, datagram: bytes, now: float) -> None:
        """Take in a DTLS datagram that came bare, from a flow that ICE has authenticated."""
        self.piggyback.receive_direct(datagram)
        self._inject(datagram, now)
        self.collect(now)

    def collect(self, now: float) -> None:
        """Take the handshake datagrams that DTLS has produced: to ride, and to go directly."""
        if self._dtls is None:
            return
        datagrams, new_flight = self._dtls.take_handshake_datagrams(now)
        if datagrams:
            self.piggyback.capture_flight(datagrams, new_flight=new_flight)
            if new_flight:
                self.direct = list(datagrams)
                self._flight_bytes = sum(map(len, datagrams))
                self._asks_left = MAX_ASKS
                self._ask_at = now + (self.rtt_s or 0.0) + CHECK_INTERVAL_S
            else:
                self.direct += datagrams

    def receive_news(self, event: Event, role: DtlsRole, now: float) -> None:
        """Let SPED know how far DTLS has come."""
        if isinstance(event, dtls.HandshakeCompleted):
            is_client = role is DtlsRole.CLIENT
            self.piggyback.handle_handshake_complete(is_client, event.version, now)
        elif isinstance(event, dtls.Terminated):
            self.piggyback.handle_failed(now)
        elif (evidence := _EVIDENCE.get(type(event))) is not None:
            self.piggyback.handle_peer_data(evidence, now)

    def _inject(self, datagram: bytes, now: float) -> None:
        if self._dtls is not None:
            # the flight that completes the handshake comes bare and in a check, the same bytes:
            # DTLS has no use for the second, and would decrypt it to find that out
            mark = hash(datagram)
            if mark in self._injected and self._dtls.outcome.completed:
                return
            self._injected = (*self._injected[1 - MAX_INJECTED :], mark)
            self._dtls.receive_datagram(datagram, now)
        elif len(self._early) < MAX_EARLY:
            self._early.append(datagram)

    def reserve(self) -> int:
        """Return how many bytes a repetition of our flight may still need of an address's credit.

        A flight of one datagram rides in the response to a check with the hello, which brings
        the credit for it; longer ones, and those that go bare, may have to do without. Until it
        has left, in that response or bare, it is the flight itself that needs it.
        """
        if not self.piggyback.active:
            return self._flight_bytes
        pending = self.piggyback.pending
        if len(pending) > 1:
            return sum(map(len, pending))
        leaving = {*self.direct, self.ridden or b""}
        size = sum(map(len, leaving))
        return RESPONSE_OVERHEAD + SPED_OVERHEAD + size if size else 0

    # -- early data ---------------------------------------------------------------------------

    def allow_early_data(self, now: float) -> None:
        """What is not personal may leave, media and INIT: our flight leaves now."""
        waits = self._meets_libwebrtc and self.piggyback.active
        self._early_data_at = now + LIBWEBRTC_PAUSE_S if waits else now

    def take_early_data(self, now: float) -> bool:
        """Tell, once, that early data may leave."""
        at = self._early_data_at
        if at is None or at > now:
            return False
        self._early_data_at = None
        return True

    def forget_early_data(self) -> None:
        """The peer is authenticated: everything may leave, and no moment has to be waited for."""
        self._early_data_at = None

    # -- checks that are wanted ---------------------------------------------------------------

    def get_timer(self) -> float | None:
        """Return when early data may leave or a check is wanted."""
        return earliest(self._early_data_at, self._next_ask())

    def _next_ask(self) -> float | None:
        """Return when a check is wanted for what waits, here or at the peer.

        None before a path was measured: until then ICE checks often enough by itself.
        """
        if self.rtt_s is None or not self._asks_left:
            return None
        piggyback = self.piggyback
        if piggyback.state in UNFINISHED or (piggyback.active and piggyback.pending):
            return self._ask_at
        return None

    def take_ask(self, now: float) -> bool:
        """Tell, once, whether a check is wanted now."""
        at = self._next_ask()
        if at is None or at > now:
            return False
        self._asks_left -= 1
        self._ask_at = now + CHECK_INTERVAL_S
        return True

    # -- warp.ice.Rider -----------------------------------------------------------------------

    def receive_attributes(self, message: Message, flow: Flow, now: float) -> None:
        """Take the SPED attributes of an authenticated check; DTLS answers before we return."""
        self.budget.receive(flow.remote, len(message.raw))
        if not self._enabled:
            return
        if message.message_class is MessageClass.REQUEST:
            self._meets_libwebrtc = message.get(_LIBWEBRTC_MARK) is not None
        for datagram in self.piggyback.receive_message(message, now):
            self._inject(datagram, now)
        self.collect(now)

    def attributes_to_send(
        self,
        message_class: MessageClass,
        transaction_id: bytes,
        flow: Flow,
        room: int,
        now: float,
    ) -> list[tuple[int, bytes]]:
        """Return what rides in the next check or response."""
        if message_class is MessageClass.SUCCESS:
            room = min(room, self.budget.left(flow.remote) - RESPONSE_OVERHEAD)
        attributes = self.piggyback.attributes_to_send(message_class, transaction_id, room)
        if message_class is not MessageClass.SUCCESS:
            self._ask_at = max(self._ask_at, now + CHECK_INTERVAL_S)
        elif len(attributes) > 1:
            self.ridden = attributes[1][1]
        return attributes

    def wanted_checks(self) -> int:
        """Return how many checks would carry what waits: one for each pending datagram."""
        return max(1, len(self.piggyback.pending)) if self.piggyback.active else 1

    def last_heard(self) -> tuple[Flow, float] | None:
        """Return where and when protected media or data came last; the transport notes it."""
        heard = self.heard
        return None if heard.flow is None else (heard.flow, heard.at)

    def receive_path(self, flow: Flow, now: float) -> None:
        """A pair works: what has not been acknowledged also goes there directly, at once."""
        off = self.piggyback.state is PiggybackState.OFF
        for datagram in self.piggyback.take_pending() if off else self.piggyback.pending:
            if datagram not in self.direct:
                self.direct.append(datagram)

    def take_direct(self, role: DtlsRole, flow: Flow | None) -> list[bytes]:
        """Drain what may go out bare now.

        A server's flight of one datagram that has just ridden in a response is not sent twice:
        the response is the whole flight. Longer flights go both ways, since a check carries one
        datagram only, and what has not ridden goes first; so does everything a client sends. What
        an unvalidated address may not be sent yet waits for its credit.
        """
        direct, ridden = self.direct, self.ridden
        self.ridden = None
        if not direct:
            return []
        if flow is None:
            # it rides, and goes directly once there is a path; without SPED it can only wait
            if self.piggyback.state is not PiggybackState.OFF:
                self.direct = []
            return []
        if ridden in direct and role is DtlsRole.SERVER:
            rest = [datagram for datagram in direct if datagram != ridden]
            direct = [*rest, ridden] if rest else []
        left = self.budget.left(flow.remote)
        taken = 0
        for datagram in direct:
            left -= len(datagram)
            if left < 0:
                break
            taken += 1
        self.direct = direct[taken:]
        return direct[:taken]
