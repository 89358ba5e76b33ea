"""What rides in connectivity checks: pending DTLS datagrams out, acknowledgements both ways.

draft-hancke-webrtc-sped-00 sections 3.3 and 4, and what libwebrtc and pion do where they differ.
A pure state machine for one ICE generation and one DTLS association, shared by all its pairs; it
knows neither clock nor DTLS. Called by `warp.peer`, which stands between ICE and DTLS:

    DTLS ── flight ──▶ capture_flight ──▶ pending ──▶ attributes_to_send ──▶ check or response
                                             ▲ acknowledged: by hash, or by the response itself
    DTLS ◀─ datagrams ─ receive_message ◀────┴─────────────────────────── check or response

A response is built after the request was taken in and its datagrams were handed to DTLS, so that
it carries the next flight: one round trip a flight pair, none of them waiting for a timer.

What any peer understands: an acknowledgement attribute (maybe empty) in every request and success
response while active, a datagram only when there is one; either attribute shows support.
"""

from __future__ import annotations

import enum
from collections.abc import Sequence
from typing import Final

from warp.errors import Discard
from warp.names import Name
from warp.sped.attributes import (
    ATTRIBUTE_HEADER_BYTES,
    MAX_ACKNOWLEDGEMENTS,
    MAX_BODY_BYTES,
    SpedDiscard,
    datagram_hash,
    decode_acknowledgement,
    encode_acknowledgement,
    is_dtls,
    is_handshake_datagram,
)
from warp.sped.config import SpedConfig
from warp.stun import BINDING, Attribute, Message, MessageClass
from warp.trace import Trace

_DATA: Final = int(Attribute.META_DTLS_IN_STUN)
_ACKNOWLEDGEMENT: Final = int(Attribute.META_DTLS_IN_STUN_ACKNOWLEDGEMENT)
_REQUEST: Final = MessageClass.REQUEST
_CARRIERS: Final = (_REQUEST, MessageClass.SUCCESS)
_DTLS_1_3: Final = 0xFEFC
# header, USERNAME of two short ufrags, role, PRIORITY, USE-CANDIDATE, integrity, FINGERPRINT
_CHECK_OVERHEAD_BYTES: Final = 104


class PiggybackState(Name):
    """How far embedding is."""

    TENTATIVE = "tentative"  # whether the peer speaks SPED is unknown
    CONFIRMED = "confirmed"  # the peer showed an attribute
    PENDING = "pending"  # our handshake is complete; the peer may still need something
    COMPLETE = "complete"  # nothing rides any more
    OFF = "off"  # the peer lacks SPED, or DTLS failed


class PiggybackInput(Name):
    """What moves the state."""

    SUPPORT_SEEN = "peer sent an attribute"
    SUPPORT_MISSING = "first message of the peer has no attribute"
    HANDSHAKE_COMPLETED = "local handshake complete"
    SETTLED = "nothing pending on either side"
    LAST_FLIGHT_PROVEN = "peer proved that it has the last flight"
    HANDSHAKE_FAILED = "handshake failed"


class Evidence(enum.Enum):
    """What may prove that the peer has our last flight, when no acknowledgement in STUN does."""

    DTLS_ACKNOWLEDGEMENT = "DTLS acknowledgement"  # RFC 9147 section 7, of the last flight
    APPLICATION_DATA = "application data"
    SRTP = "SRTP"


_S, _I = PiggybackState, PiggybackInput
TRANSITIONS: Final[dict[tuple[PiggybackState, PiggybackInput], PiggybackState]] = {
    (_S.TENTATIVE, _I.SUPPORT_SEEN): _S.CONFIRMED,
    (_S.TENTATIVE, _I.SUPPORT_MISSING): _S.OFF,
    (_S.TENTATIVE, _I.HANDSHAKE_COMPLETED): _S.PENDING,
    (_S.TENTATIVE, _I.HANDSHAKE_FAILED): _S.OFF,
    (_S.CONFIRMED, _I.HANDSHAKE_COMPLETED): _S.PENDING,
    (_S.CONFIRMED, _I.HANDSHAKE_FAILED): _S.OFF,
    (_S.PENDING, _I.SUPPORT_MISSING): _S.OFF,
    (_S.PENDING, _I.SETTLED): _S.COMPLETE,
    (_S.PENDING, _I.LAST_FLIGHT_PROVEN): _S.COMPLETE,
    (_S.PENDING, _I.HANDSHAKE_FAILED): _S.OFF,
    (_S.COMPLETE, _I.HANDSHAKE_FAILED): _S.OFF,
}
"""Pairs that are absent leave the state as it is."""
UNFINISHED: Final = (_S.TENTATIVE, _S.CONFIRMED)
"""Our handshake is under way."""
_ACTIVE: Final = frozenset((*UNFINISHED, _S.PENDING))


class Piggyback:
    """Pending datagrams, acknowledgements owed, and whether they still ride."""

    __slots__ = (
        "_checks",
        "_config",
        "_hashes",
        "_next",
        "_only_dtls_proves",
        "_outstanding_bytes",
        "_pending",
        "_received",
        "_supported",
        "_trace",
        "discards",
        "state",
    )

    def __init__(self, config: SpedConfig, trace: Trace | None = None) -> None:
        self._config = config
        self._trace = trace
        self.state = PiggybackState.TENTATIVE
        self.discards: dict[SpedDiscard, int] = {}
        self._pending: list[bytes] = []
        self._hashes: list[int] = []
        self._next = 0
        self._received: list[int] = []
        self._supported = False
        self._only_dtls_proves = False
        # request's transaction id -> (hash it carried or None, bytes it counts as outstanding)
        self._checks: dict[bytes, tuple[int | None, int]] = {}
        self._outstanding_bytes = 0

    @property
    def active(self) -> bool:
        """Whether attributes are sent."""
        return self.state in _ACTIVE

    @property
    def supported(self) -> bool:
        """Whether the peer has shown an attribute: DTLS rode, or could have."""
        return self._supported

    @property
    def pending(self) -> tuple[bytes, ...]:
        """The datagrams that the peer has not acknowledged, oldest first.

        Whoever sees a path become usable sends them on it at once, the very same bytes.
        """
        return tuple(self._pending)

    def take_pending(self) -> list[bytes]:
        """Remove and return the pending datagrams: after OFF they can only be sent directly."""
        taken = self._pending
        self._forget_pending()
        return taken

    def mtu_for(
        self,
        local_ufrag: str,
        remote_ufrag: str,
        *,
        ipv6: bool = False,
        relayed: bool = False,
    ) -> int:
        """Return the largest DTLS datagram (bytes) that surely fits a check and a response."""
        username = 4 + ((len(local_ufrag) + len(remote_ufrag) + 1 + 3) & ~3)
        request = username + 12 + 8 + 4  # role, PRIORITY, USE-CANDIDATE
        response = 24 if ipv6 else 12
        riders = 2 * ATTRIBUTE_HEADER_BYTES + 4 * MAX_ACKNOWLEDGEMENTS
        turn = (48 if ipv6 else 36) if relayed else 0  # Send indication, RFC 8656 section 11
        room = MAX_BODY_BYTES - max(request, response) - riders - turn
        return min(self._config.dtls_mtu_bytes, room & ~3)

    # ---- DTLS to STUN

    def capture_flight(self, datagrams: Sequence[bytes], *, new_flight: bool) -> None:
        """Let handshake datagrams ride until acknowledged; a new flight replaces the last.

        A retransmission by DTLS' own timer is a new flight: other record numbers, other hashes.
        """
        if self.state is PiggybackState.COMPLETE:
            return
        if new_flight:
            self._forget_pending()
        for datagram in datagrams:
            if not is_handshake_datagram(datagram):
                self._discard(SpedDiscard.NOT_HANDSHAKE)
                continue
            value = datagram_hash(datagram)
            if value not in self._hashes:
                self._pending.append(datagram)
                self._hashes.append(value)

    def attributes_to_send(
        self, message_class: MessageClass, transaction_id: bytes, room: int
    ) -> list[tuple[int, bytes]]:
        """Return what rides in a Binding request or success response, `room` bytes at most.

        The check leaves whatever this returns; what does not fit waits for the next one.
        """
        if self.state not in _ACTIVE or message_class not in _CARRIERS:
            return []
        room -= ATTRIBUTE_HEADER_BYTES
        if room < 0:
            return []
        acknowledgement = encode_acknowledgement(self._received)
        left = room - len(acknowledgement)
        if left < 0:
            acknowledgement, left = b"", room
        attributes = [(_ACKNOWLEDGEMENT, acknowledgement)]
        request = message_class is _REQUEST
        carried, size = None, 0
        if self._pending:
            index = self._choose(left - ATTRIBUTE_HEADER_BYTES, limited=request)
            if index is not None:
                datagram, carried = self._pending[index], self._hashes[index]
                size = _CHECK_OVERHEAD_BYTES + len(datagram)
                attributes.append((_DATA, datagram))
                self._next = index + 1
        if request:
            self._remember_check(transaction_id, carried, size)
        return attributes

    def _choose(self, room: int, *, limited: bool) -> int | None:
        """Return the next pending datagram in rotation that fits, or None."""
        most = room & ~3  # a value is padded
        if limited:
            left = self._config.outstanding_limit_bytes - self._outstanding_bytes
            most = min(most, left - _CHECK_OVERHEAD_BYTES)
        pending, turn = self._pending, self._next
        for _ in pending:
            turn %= len(pending)
            if len(pending[turn]) <= most:
                return turn
            turn += 1
        return None

    def _remember_check(self, transaction_id: bytes, carried: int | None, size: int) -> None:
        checks = self._checks
        if transaction_id in checks:
            self._forget_check(transaction_id)
        checks[transaction_id] = (carried, size)
        self._outstanding_bytes += size
        if len(checks) > self._config.remembered_checks:
            self._forget_check(next(iter(checks)))

    def _forget_check(self, transaction_id: bytes) -> tuple[int | None, int] | None:
        check = self._checks.pop(transaction_id, None)
        if check is not None:
            self._outstanding_bytes -= check[1]
        return check

    # ---- STUN to DTLS

    def receive_message(self, message: Message, now: float) -> list[bytes]:
        """Take in an authenticated Binding message; returns the datagrams to hand to DTLS.

        They are acknowledged already: hand them over before the response is built.
        """
        kind = message.message_class
        if message.method != BINDING or kind is MessageClass.INDICATION:
            return []
        check = None if kind is _REQUEST else self._forget_check(message.transaction_id)
        if kind is MessageClass.ERROR:
            return []
        values = message.values
        acknowledgement, data = values.get(_ACKNOWLEDGEMENT), values.get(_DATA)
        if acknowledgement is not None:
            self._receive_acknowledgement(acknowledgement, check, now)
        # a response to a request without attributes tells nothing
        elif data is None and not self._supported and (kind is _REQUEST or check is not None):
            self._become(PiggybackInput.SUPPORT_MISSING, now)
        if data is not None and not self._supported:
            self._see_support(now)
        if data:
            if not is_dtls(data):
                self._discard(SpedDiscard.NOT_DTLS)
                return []
            self._owe_acknowledgement(data)
            return [data]
        if not self._pending:
            # the peer wants no acknowledgement and nothing of ours is missing there
            self._become(PiggybackInput.SETTLED, now)
        return []

    def _see_support(self, now: float) -> None:
        self._supported = True
        self._become(PiggybackInput.SUPPORT_SEEN, now)

    def _receive_acknowledgement(
        self, value: bytes, check: tuple[int | None, int] | None, now: float
    ) -> None:
        try:
            hashes = decode_acknowledgement(value)
        except Discard:
            self._discard(SpedDiscard.MALFORMED_ACKNOWLEDGEMENT)
            return
        if not self._supported:
            self._see_support(now)
        if check is not None and check[0] is not None:
            # the success response shows that the request, and what it carried, arrived
            hashes = (*hashes, check[0])
        for acknowledged in hashes:
            if acknowledged in self._hashes:
                self._remove(acknowledged)

    def receive_direct(self, datagram: bytes) -> None:
        """Note a DTLS datagram that came outside STUN, so that it is acknowledged there too."""
        if is_handshake_datagram(datagram):
            self._owe_acknowledgement(datagram)

    def _owe_acknowledgement(self, datagram: bytes) -> None:
        if self.state not in _ACTIVE:
            return
        received, value = self._received, datagram_hash(datagram)
        if value not in received:
            received.append(value)
            if len(received) > MAX_ACKNOWLEDGEMENTS:
                del received[0]

    def _remove(self, value: int) -> None:
        index = self._hashes.index(value)
        del self._hashes[index], self._pending[index]
        if index < self._next:
            self._next -= 1  # keep the turn of those behind it

    # ---- the handshake's end

    def handle_handshake_complete(self, is_client: bool, version: int, now: float) -> None:
        """Learn that the local handshake is complete; `version` as on the wire (0xFEFC is 1.3).

        Whoever sent the last flight (DTLS 1.3 client, DTLS 1.2 server) keeps it until proven;
        for the other one the peer's last flight proves that everything arrived.
        """
        if self.state is PiggybackState.OFF:
            self._forget_pending()  # it went directly, and DTLS repeats what it has to
        if self.state not in UNFINISHED:
            return
        is_dtls13 = version == _DTLS_1_3
        if is_client != is_dtls13:
            self._forget_pending()
        # a DTLS 1.3 server may send data before it has the client's last flight
        self._only_dtls_proves = is_client and is_dtls13 and self._config.peer_sends_early_data
        self._become(PiggybackInput.HANDSHAKE_COMPLETED, now)

    def handle_peer_data(self, evidence: Evidence, now: float) -> None:
        """Learn of something authenticated from the peer that may prove our last flight's arrival.

        Without a pending flight there is nothing to prove, and acknowledgements may still be owed.
        """
        if not self._pending:
            return
        if self._only_dtls_proves and evidence is not Evidence.DTLS_ACKNOWLEDGEMENT:
            return
        self._become(PiggybackInput.LAST_FLIGHT_PROVEN, now)

    def handle_failed(self, now: float) -> None:
        """Learn that DTLS failed: nothing rides any more and nothing is kept."""
        self._become(PiggybackInput.HANDSHAKE_FAILED, now)
        self._forget_pending()

    # ---- one table, one mutator

    def _become(self, why: PiggybackInput, now: float) -> None:
        state = TRANSITIONS.get((self.state, why))
        if state is None:
            return
        if self._trace is not None:
            self._trace.emit(
                now,
                "sped:state_changed",
                {"old": self.state.value, "new": state.value, "why": why.value},
            )
        self.state = state
        if state not in _ACTIVE:
            self._received.clear()
            self._checks.clear()
            self._outstanding_bytes = 0
        if state is PiggybackState.COMPLETE:
            self._forget_pending()

    def _forget_pending(self) -> None:
        self._pending = []
        self._hashes = []
        self._next = 0

    def _discard(self, reason: SpedDiscard) -> None:
        self.discards[reason] = self.discards.get(reason, 0) + 1
