"""Where datagrams come in that name no session: from the cheapest question to the dearest.

    flood? ─▶ a check? its route? ─▶ ours? ─▶ ticket ─▶ integrity ─▶ used up? ─▶ admitted? ─┐
    ┌─────────────────────────────────────────────────────────────────────────────────────┘
    ├ plain check ─▶ one answer, and it waits (T0)          no, at any point: silence, counted
    └ check with a hello in it, or a hello from where such a check came ─▶ a session (T1)

Unauthenticated requests are never answered, not even with an error: that would help nobody and
could be aimed at somebody. Where servers share a port, what came to another one is granted to that,
once its ticket is noted as used here. Called by the server's port for unknown flows and ufrags, and
for what other servers hand on.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

from instant_connect.admission import Admission, FloodGate, Verdict, prefix_of
from instant_connect.decisions import (
    Answered,
    Arrived,
    Decision,
    Dropped,
    Forwarded,
    Queued,
    Sought,
)
from instant_connect.guests import Guests, Lodging
from instant_connect.keyring import Keyring
from instant_connect.reasons import InstantDiscard
from instant_connect.replay import ReplayTable, Use, attempt_key
from instant_connect.router import DIRECT, MAX_HOPS, Journey, Roster, first_choice, settle
from instant_connect.sessions import InstantSession, Sessions
from instant_connect.ticket import Route, Ticket
from instant_connect.ufrag import Opened, open_ufrag, peek_ufrag_route
from instant_connect.waiting import EarlyRecords, Waiting, WaitingRoom
from warp.contract import Flow
from warp.crypto import HmacSha1
from warp.errors import Discard, InternalError
from warp.names import Counts
from warp.peer import Kind, classify
from warp.sped import is_handshake_datagram
from warp.stun import (
    BINDING,
    Attribute,
    IntegrityKey,
    Message,
    MessageClass,
    build_message,
    encode_error_code,
    encode_xor_address,
    parse_message,
    peek_username,
)
from warp.trace import Trace

MAX_HANDED: Final = 8_192
HANDED_IDLE_S: Final = 30.0
INSUFFICIENT_CAPACITY: Final = 508  # RFC 8656 section 19; every such error ends a pair of libwebrtc
_CLIENT_UFRAG: Final = re.compile(r"[A-Za-z0-9+/\-=#_]{4,256}", re.ASCII)
_FINGERPRINT: Final = b"\x80\x28\x00\x04"
_ANY_USE: Final = 255
_HELLO: Final = 1  # RFC 8446 section 4: client_hello, behind a record header of 13 bytes
# what an agent answers in ways of its own; everything else of a plain check can wait
_PLAIN: Final = frozenset(
    {
        Attribute.USERNAME,
        Attribute.PRIORITY,
        Attribute.USE_CANDIDATE,
        Attribute.ICE_CONTROLLING,
    }
)
_OPTIONAL: Final = 0x8000
_TELLING: Final = frozenset(
    {
        Attribute.ICE_CONTROLLED,
        Attribute.META_DTLS_IN_STUN,
        Attribute.META_DTLS_IN_STUN_ACKNOWLEDGEMENT,
    }
)
_UNUSED: Final = {
    Use.BEGUN: InstantDiscard.ENDED,
    Use.USED_UP: InstantDiscard.USED_UP,
    Use.NO_ROOM: InstantDiscard.TABLE_FULL,
}


class Entrance:
    """The door of one server. `keyring` may be replaced at any time, and the roster be set."""

    __slots__ = (
        "_early",
        "_gate",
        "_handed",
        "_own",
        "_room",
        "_trace",
        "admission",
        "discards",
        "guests",
        "keyring",
        "replay",
        "roster",
        "sessions",
        "wall_offset_s",
    )

    def __init__(
        self,
        keyring: Keyring,
        sessions: Sessions,
        replay: ReplayTable,
        *,
        gate: FloodGate,
        room: WaitingRoom,
        own: int = 0,
        wall_offset_s: float = 0.0,
        trace: Trace | None = None,
    ) -> None:
        self.keyring = keyring
        self.roster = Roster.of(own)
        self.sessions = sessions
        self.admission: Admission = sessions.admission
        self.replay = replay
        self.wall_offset_s = wall_offset_s
        """Wall time less monotonic time, in seconds: tickets expire by the wall."""
        self.discards: Counts[InstantDiscard] = Counts()
        self.guests = Guests()
        """Sessions of our tickets that other servers have."""
        self._gate = gate
        self._room = room
        self._early = EarlyRecords()
        self._handed: dict[Flow, tuple[int, float]] = {}
        self._own = own
        self._trace = trace

    @property
    def waiting(self) -> int:
        """How many clients are at T0."""
        return len(self._room)

    def receive_unknown(
        self, data: bytes, flow: Flow, now: float, *, journey: Journey = DIRECT
    ) -> Decision:
        """Decide on a datagram whose flow and ufrag name no session. Never raises for its content.

        `journey` says how other servers have handed it on.
        """
        try:
            handed = self._handed.get(flow) if self._handed else None
            is_stun = classify(data) is Kind.STUN
            if (
                handed is not None
                and now - handed[1] < HANDED_IDLE_S
                and not journey.granted
                and not (is_stun and self._is_routed(data))
            ):
                return self._hand_on(handed[0], flow, journey, now)
            if not self._gate.passes(flow.remote[0], now):
                raise Discard(InstantDiscard.FLOODED)
            if is_stun:
                return self._receive_check(data, flow, now, journey)
            return self._receive_record(data, flow, now)
        except Discard as discard:
            return self.discard(discard, now)

    def _is_routed(self, data: bytes) -> bool:
        """Whether a check says by itself whose it is; of a session that has begun it need not."""
        names = peek_username(data)
        try:
            return names is not None and bool(peek_ufrag_route(names[0], self.keyring))
        except Discard:
            return False

    def take_early(self, flow: Flow, now: float) -> list[bytes]:
        """Return records that came on a flow a moment before it was authenticated."""
        return self._early.take(flow, now)

    def discard(self, discard: Discard, now: float) -> Dropped:
        """Count a datagram that is worth nothing."""
        reason = discard.reason
        if not isinstance(reason, InstantDiscard):
            reason = InstantDiscard.BAD_MESSAGE
        self.discards[reason] += 1
        if self._trace is not None:
            self._trace.emit(now, "instant:dropped", {"why": reason.value})
        return Dropped(reason)

    # -- checks -------------------------------------------------------------------------------

    def _receive_check(self, data: bytes, flow: Flow, now: float, journey: Journey) -> Decision:
        names = peek_username(data)
        if names is None:
            raise Discard(InstantDiscard.NOT_FOR_US)
        ufrag, client_ufrag = names
        session = self.sessions.find(ufrag)
        if session is not None:
            return Arrived(session, (data,), False)  # which authenticates it by itself
        client = self._room.find(ufrag)
        is_ours = client is not None or journey.granted
        route, block = peek_ufrag_route(ufrag, self.keyring)
        if not is_ours:
            elsewhere = self._elsewhere(ufrag, route, block, journey)
            if elsewhere is not None:
                return self._hand_on(elsewhere.server, flow, journey, now, elsewhere.granted)
        opened = open_ufrag(ufrag, self.keyring, now + self.wall_offset_s)
        message, key = _authenticate(data, opened)
        if _CLIENT_UFRAG.fullmatch(client_ufrag) is None:
            raise Discard(InstantDiscard.ATTEMPT)
        entry = None if is_ours else self._better_place(opened, ufrag, journey)
        if entry is not None:
            return self._grant(opened, ufrag, entry, now)
        client = client or self._take_in(opened, ufrag, flow, now)
        if client is None:
            return Answered(_refusal(message, key), refused=True)
        self._handed.pop(flow, None)
        records = self._early.take(flow, now)
        says_hello = any(_is_hello(record) for record in records) or self._speaks_first(ufrag)
        if _is_plain(message) and not says_hello:
            if self._room.is_overdue(client, now):
                raise Discard(self._give_up(client))
            self._room.note(client, data, flow, now)
            return Answered(_success(message, key, flow))
        return Arrived(self._begin(opened, client, client_ufrag, now), (data, *records), True)

    def _give_up(self, client: Waiting) -> InstantDiscard:
        """Let go of who sends checks and no hello: its session was that of a server that is gone.

        Its consent (RFC 7675) must end, so that it notices.
        """
        self._room.remove(client)
        self.admission.remove(client.ticket_id, client.prefix)
        self.replay.begin(client.ticket_id, attempt_key(client.ufrag))
        return InstantDiscard.NO_HELLO

    def _speaks_first(self, ufrag: str) -> bool:
        """Whether the hello is ours: the client has insisted on being the DTLS server."""
        held = self.sessions.held.find(ufrag)
        agreed = None if held is None else held.agreed
        return agreed is not None and agreed.negotiated.transport.is_dtls_client

    def _take_in(self, opened: Opened, ufrag: str, flow: Flow, now: float) -> Waiting | None:
        """Let an authentic client wait; its ticket is used from here on.

        None when the application refuses it. Raises `Discard` when there is no session for it.
        """
        ticket, key = opened.ticket, attempt_key(ufrag)
        uses, expiry = ticket.grant.max_uses, ticket.grant.expiry
        self.replay.forget_expired(now + self.wall_offset_s)
        use = self.replay.look(ticket.id, key, uses)
        if use in _UNUSED:
            raise Discard(_UNUSED[use])
        if ticket.offer_is_held and ufrag not in self.sessions.held:
            raise Discard(InstantDiscard.OFFER_FORGOTTEN)
        prefix = prefix_of(flow.remote[0])
        self.expire(now)
        reason = self.admission.why_not(ticket.id, prefix, len(self._room))
        if reason is not None:
            raise Discard(reason)
        verdict = Verdict.ADMIT
        if ufrag not in self.sessions.held:  # or it was asked about when its offer came
            verdict = self.admission.ask(key, ticket, flow.remote)
        if verdict is Verdict.REFUSE:
            self.discard(Discard(InstantDiscard.NOT_ADMITTED), now)
            return None
        if verdict is Verdict.DROP:
            raise Discard(InstantDiscard.NOT_ADMITTED)
        self.replay.claim(ticket.id, key, uses, expiry)
        self.admission.add(ticket.id, prefix)
        return self._room.admit(ufrag, ticket.id, prefix, now)

    # -- handshakes ---------------------------------------------------------------------------

    def _receive_record(self, data: bytes, flow: Flow, now: float) -> Decision:
        """Begin the session of a client that has shown its ticket on this flow."""
        if not is_handshake_datagram(data):
            if data and len(self.roster.alive) > 1:
                return Sought()
            raise Discard(InstantDiscard.NOT_FOR_US)
        client = self._room.on(flow)
        if client is None:
            self._early.hold(data, flow, now)
            return Queued()
        if not _is_hello(data):
            raise Discard(InstantDiscard.NOT_FOR_US)
        opened = open_ufrag(client.ufrag, self.keyring, now + self.wall_offset_s)
        names = peek_username(client.checks[flow])
        if names is None:
            raise InternalError("what was kept was a check")
        return Arrived(self._begin(opened, client, names[1], now), (data,), True)

    def _begin(
        self, opened: Opened, client: Waiting, client_ufrag: str, now: float
    ) -> InstantSession:
        """Make the session of who waits, and let it know of the checks that were answered."""
        if not self.admission.has_room:
            raise Discard(InstantDiscard.OVERLOADED)
        ufrag = client.ufrag
        if opened.ticket.offer_is_held and ufrag not in self.sessions.held:
            raise Discard(InstantDiscard.OFFER_FORGOTTEN)
        session = self.sessions.begin(opened, ufrag, client_ufrag, client.prefix, now)
        session.checked_at = client.came_at
        self.replay.begin(client.ticket_id, attempt_key(ufrag))
        self._room.remove(client)
        for flow, check in client.checks.items():
            session.peer.receive_datagram(check, flow, now)
        if client.checks:
            session.peer.datagrams_to_send(now)  # answers that have left already
        if self._trace is not None:
            self._trace.emit(now, "instant:materialised", {"path": session.path.value})
        return session

    def forget(self, ufrag: str, now: float) -> None:
        """Let no session come of a ufrag any more: whoever was answered has hung up."""
        client = self._room.find(ufrag)
        if client is not None:
            self._room.remove(client)
            self.admission.remove(client.ticket_id, client.prefix)
        self.sessions.held.take(ufrag)
        try:
            ticket = open_ufrag(ufrag, self.keyring, now + self.wall_offset_s).ticket
        except Discard:
            return  # it has expired meanwhile: nothing can come of it
        if ticket.offer_is_held:
            return  # nothing comes of it without the offer: no place in the table for its name
        key, grant = attempt_key(ufrag), ticket.grant
        self.replay.claim(ticket.id, key, grant.max_uses, grant.expiry)
        self.replay.begin(ticket.id, key)

    # -- other servers ------------------------------------------------------------------------

    def _elsewhere(
        self, ufrag: str, route: Route, block: bytes, journey: Journey
    ) -> Forwarded | None:
        """Return to whom a ufrag goes that names no session here; None: it is ours to decide."""
        host = self.guests.find(attempt_key(ufrag)) if self.guests else None
        if host is not None and host in self.roster.alive:
            return Forwarded(host, granted=True)
        destination = settle(route, block, self.roster, self._own, journey.hops)
        if destination.takes:
            return None
        if destination.server is None:
            raise Discard(InstantDiscard.NOBODY)
        return Forwarded(destination.server)

    def place(self, ufrag: str, hops: int = 0) -> tuple[int, bool] | None:
        """Return the server that an offer beside an attempt goes to; None: it is ours, or nobody's.

        And whether that is settled: the session is there, as we know who are asked about it.
        """
        if self._room.find(ufrag) is not None:
            return None
        try:
            route, block = peek_ufrag_route(ufrag, self.keyring)
            elsewhere = self._elsewhere(ufrag, route, block, Journey(hops))
        except Discard:
            return None
        return None if elsewhere is None else (elsewhere.server, elsewhere.granted)

    def _better_place(self, opened: Opened, ufrag: str, journey: Journey) -> int | None:
        """Return the server that should have a session rather than we, its ticket's owner.

        What was agreed on with its offer is here, and stays.
        """
        entry = journey.entry
        if entry is None or entry == self._own or entry not in self.roster.taking:
            return None
        is_held = opened.ticket.offer_is_held or ufrag in self.sessions.held
        return None if is_held else entry

    def _grant(self, opened: Opened, ufrag: str, entry: int, now: float) -> Forwarded:
        """Let another server begin a session: here its ticket is used from now on."""
        ticket, key = opened.ticket, attempt_key(ufrag)
        self.replay.forget_expired(now + self.wall_offset_s)
        use = self.replay.claim(ticket.id, key, ticket.grant.max_uses, ticket.grant.expiry)
        if use in _UNUSED:
            raise Discard(_UNUSED[use])
        self.guests.note(key, entry)
        return Forwarded(entry, granted=True)

    def owner_of(self, ticket: Ticket, roster: Roster | None = None) -> int | None:
        """Return the server that others ask about a ticket: us, or who is to know of its session.

        None when nobody is alive.
        """
        return first_choice(ticket.route, ticket.raw[1:17], roster or self.roster)

    def learn(self, server: int, lodgings: Iterable[Lodging], now: float) -> None:
        """Note what sessions of tickets that are ours to ask about live at another server."""
        self.replay.forget_expired(now + self.wall_offset_s)
        for ticket_id, key, expiry in lodgings:
            self.replay.claim(ticket_id, key, _ANY_USE, expiry)
            self.replay.begin(ticket_id, key)
            self.guests.note(key, server)

    def set_roster(self, roster: Roster) -> None:
        """Tell which servers are alive; what the others had is over."""
        self.roster = roster
        self.guests.keep_only(roster.alive)

    def note_owner(self, flow: Flow, server: int, now: float) -> None:
        """Hand on what comes from an address: another server says that it knows it."""
        if server in self.roster.alive and server != self._own:
            self._note(flow, server, now)

    def _hand_on(
        self, server: int, flow: Flow, journey: Journey, now: float, granted: bool = False
    ) -> Forwarded:
        if journey.hops >= MAX_HOPS:
            raise Discard(InstantDiscard.NOBODY)
        if server != journey.entry:  # which gets its datagrams from the network
            self._note(flow, server, now)
        return Forwarded(server, granted)

    def _note(self, flow: Flow, server: int, now: float) -> None:
        self._handed.pop(flow, None)
        if len(self._handed) >= MAX_HANDED:
            del self._handed[next(iter(self._handed))]
        self._handed[flow] = (server, now)

    # -- time ---------------------------------------------------------------------------------

    def get_timer(self) -> float | None:
        """Return when a client at T0 has waited long enough."""
        return self._room.get_timer()

    def expire(self, now: float) -> None:
        """Forget who waits and is not heard of any more."""
        for client in self._room.expire(now):
            self.admission.remove(client.ticket_id, client.prefix)


def _authenticate(data: bytes, opened: Opened) -> tuple[Message, IntegrityKey]:
    """Return the request and the key that it is signed with; raises `Discard`."""
    message = parse_message(data)
    if message.method != BINDING or message.message_class is not MessageClass.REQUEST:
        raise Discard(InstantDiscard.NOT_FOR_US)
    if data[-8:-4] != _FINGERPRINT:  # RFC 8445 section 7.1.1; its value has been checked
        raise Discard(InstantDiscard.NO_FINGERPRINT)
    key = HmacSha1(opened.password.encode("ascii"))
    if not message.verify_integrity(key):
        raise Discard(InstantDiscard.WRONG_INTEGRITY)
    return message, key


def _is_plain(message: Message) -> bool:
    """Whether a check asks for nothing but an answer: no hello in it, no conflict of roles."""
    return all(
        kind in _PLAIN or (kind >= _OPTIONAL and kind not in _TELLING)
        for kind, _ in message.attributes
    )


def _is_hello(record: bytes) -> bool:
    return len(record) > 13 and record[0] == 22 and record[13] == _HELLO


def _success(message: Message, key: IntegrityKey, flow: Flow) -> bytes:
    """Return what an agent would answer (RFC 8445 section 7.3.1.2)."""
    mapped = encode_xor_address(flow.remote, message.transaction_id)
    attributes = [(int(Attribute.XOR_MAPPED_ADDRESS), mapped)]
    return build_message(
        BINDING, MessageClass.SUCCESS, message.transaction_id, attributes, integrity_key=key
    )


def _refusal(message: Message, key: IntegrityKey) -> bytes:
    error = encode_error_code(INSUFFICIENT_CAPACITY, "Insufficient Capacity")
    attributes = [(int(Attribute.ERROR_CODE), error)]
    return build_message(
        BINDING, MessageClass.ERROR, message.transaction_id, attributes, integrity_key=key
    )
