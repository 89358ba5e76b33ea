"""What a call's datagrams say about the server: facts, each with the place it was read at.

    notes + our own secrets ─▶ warp_tools.decrypt ─▶ messages, chunks, RTP in the clear ─▶ Facts

Times are seconds since our first datagram left; `rtt_s` is the fastest answer to a check, delay of
the probe included. Called by `run` after each call.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Final

from warp.dtls import DtlsRole, DtlsVersion
from warp.dtls.faults import HandshakeFault
from warp.dtls.hello import decode_server_hello
from warp.dtls.messages import HandshakeType
from warp.dtls.reassembly import Fragment, split_fragments
from warp.dtls.records import HANDSHAKE, PLAIN_HEADER_LENGTH
from warp.errors import Discard
from warp.peer import Kind, classify
from warp.sctp.chunks import ChunkType, split_chunks
from warp.stun import Attribute, Message, MessageClass, parse_message
from warp_tools.capture.facts import measure
from warp_tools.capture.finder import Finder
from warp_tools.capture.reader import Datagram
from warp_tools.decrypt.plain import Plain, Said
from warp_tools.decrypt.sessions import Sessions
from warp_tools.probe.attempt import Attempt
from warp_tools.probe.wire import Note, hello_in

RESPONSE, REQUEST, BARE = "response", "request", "bare"
"""How a flight travelled: inside an answer to our check, inside a check of the server's, bare."""
_ROUND: Final = 6
_MAX_FRAGMENTS: Final = 16
_NEARLY: Final = 0.9


@dataclass(slots=True)
class Facts:
    """What one call has shown."""

    name: str
    what: str
    error: str = ""
    rtt_s: float | None = None
    connected_s: float | None = None
    connected_trips: float | None = None
    """Round trips until then by messages: those that wait for another one's arrival."""
    channel_trips: float | None = None
    """The same until the association was there."""
    finished_s: float | None = None
    """When our Finished left."""
    channel_s: float | None = None
    channel_acked_s: float | None = None
    """When the server's ACK of our channel came (RFC 8832 section 5.2)."""
    media_s: float | None = None
    """When the first RTP packet came that opens with the call's keys."""
    signalling_s: float = 0.0
    version: DtlsVersion | None = None
    group: str | None = None
    sped_in_band: bool = False
    """Whether anything of the server's carried SPED's attributes."""
    flight: str | None = None
    """How the server's first DTLS message travelled: RESPONSE, REQUEST, BARE; None: not at all."""
    snap: bool = False
    """Whether the association was up without an INIT on the wire."""
    verify_request: bool = False
    """DTLS 1.2's cookie exchange (RFC 6347 section 4.2.1)."""
    retry_request: bool = False
    retry_cookie: bool = False
    """DTLS 1.3's cookie exchange (RFC 9147 section 5.1)."""
    instant: str = ""
    """What signalling said of a call by its first datagram (`Instant-Status`)."""
    early_media: bool = False
    """Whether media came that the server must have sent before it had our Finished."""
    checks_sent: int = 0
    checks_answered: int = 0
    """Of our checks once connected, those that had the time to be answered."""
    checks_received: int = 0
    """Checks of the server's once connected."""
    datagrams_sent: int = 0
    datagrams_received: int = 0
    bytes_sent: int = 0
    lost: int = 0
    """Datagrams that the probe has dropped, all in the one direction that its trial names."""
    lost_of: int = 0
    """How many went that way until it was connected, those included."""
    repeated: int = 0
    """Records of the server's that came more than once."""
    notes: list[str] = field(default_factory=list)

    @property
    def connected(self) -> bool:
        """Whether DTLS was completed."""
        return self.connected_s is not None

    def round_trips(self, at_s: float | None) -> float | None:
        """Return a time in round trips of the path."""
        if at_s is None or not self.rtt_s:
            return None
        return round(at_s / self.rtt_s, 1)

    def to_json(self) -> dict[str, Any]:
        """Return the call as plain values, times in ms and in round trips."""
        moments = {
            "connected": self.connected_s,
            "channel_open": self.channel_s,
            "channel_acknowledged": self.channel_acked_s,
            "first_media": self.media_s,
        }
        return {
            "name": self.name,
            "what": self.what,
            "connected": self.connected,
            "error": self.error or None,
            "rtt_ms": _ms(self.rtt_s),
            "signalling_ms": _ms(self.signalling_s),
            "ms": {name: _ms(at) for name, at in moments.items()},
            "round_trips": {name: self.round_trips(at) for name, at in moments.items()},
            "round_trips_by_messages": {
                "connected": self.connected_trips,
                "channel_open": self.channel_trips,
            },
            "dtls_version": _version(self.version),
            "group": self.group,
            "datagrams_sent": self.datagrams_sent,
            "datagrams_received": self.datagrams_received,
            "bytes_sent": self.bytes_sent,
            "dropped": {"datagrams": self.lost, "of": self.lost_of},
            "notes": self.notes,
        }


def _ms(seconds: float | None) -> float | None:
    return None if seconds is None else round(seconds * 1000, 1)


def _version(version: DtlsVersion | None) -> str | None:
    return None if version is None else {DtlsVersion.DTLS12: "1.2"}.get(version, "1.3")


def observe(done: Attempt) -> Facts:
    """Return the facts of a call."""
    facts = Facts(done.trial.name, done.trial.what, done.error)
    facts.signalling_s = max(done.answered_at - done.asked_at, 0.0)
    notes = done.notes
    start = next((note.time for note in notes if note.sent), done.answered_at)
    for name, at in (("connected_s", done.connected_at), ("channel_s", done.channel_at)):
        setattr(facts, name, None if at is None else round(at - start, _ROUND))
    facts.instant = done.instant
    facts.version = done.stats.get("dtls_version")
    group = done.stats.get("dtls_group")
    facts.group = group.name.lower() if group is not None else None
    facts.datagrams_sent = sum(note.sent for note in notes)
    facts.datagrams_received = len(notes) - facts.datagrams_sent
    facts.bytes_sent = sum(len(note.data) for note in notes if note.sent)
    _count_lost(facts, notes, done.connected_at)
    arrived = [note for note in notes if not note.lost]
    _read_checks(facts, arrived, done)
    _read_protected(facts, arrived, done, start)
    _count(facts, arrived, done)
    if facts.media_s is not None and facts.finished_s is not None and facts.rtt_s:
        # what a server says because of our Finished takes a round trip
        facts.early_media = facts.media_s < facts.finished_s + _NEARLY * facts.rtt_s
    return facts


def _count_lost(facts: Facts, notes: list[Note], connected_at: float | None) -> None:
    lost = [note for note in notes if note.lost]
    if lost:
        same = [note for note in notes if note.sent is lost[0].sent]
        facts.lost = len(lost)
        facts.lost_of = sum(connected_at is None or note.time <= connected_at for note in same)


def _count(facts: Facts, notes: list[Note], done: Attempt) -> None:
    """Count round trips as in a capture at our end: a machine that is slow adds none."""
    if done.connected_at is None:
        return
    finder = Finder(fold=False)
    for number, note in enumerate(notes, 1):
        finder.receive(_datagram(note, number))
    finder.finish()
    if not finder.sessions:
        return
    session = max(finder.sessions, key=lambda one: one.datagrams)
    trips = measure(session).trips
    ours = next((e.side for e in session.events if notes[e.number - 1].sent), 0)
    client = done.stats.get("dtls_role") == DtlsRole.CLIENT.value
    facts.connected_trips = trips.client if client else trips.server
    facts.channel_trips = facts.connected_trips if facts.snap else trips.sctp[ours]


# -- checks -------------------------------------------------------------------------------------


def _read_checks(facts: Facts, notes: list[Note], done: Attempt) -> None:
    asked: dict[bytes, float] = {}
    answered: set[bytes] = set()
    for note in notes:
        message = _message(note)
        if message is None:
            _note_flight(facts, note, BARE)
            continue
        request = message.message_class is MessageClass.REQUEST
        if note.sent:
            if request:
                asked[message.transaction_id] = note.time
            continue
        rider = message.get(Attribute.META_DTLS_IN_STUN)
        acks = message.get(Attribute.META_DTLS_IN_STUN_ACKNOWLEDGEMENT)
        facts.sped_in_band = facts.sped_in_band or rider is not None or acks is not None
        _note_flight(facts, note, REQUEST if request else RESPONSE)
        if request:
            facts.checks_received += _after(note.time, done.connected_at)
        elif message.transaction_id in asked:
            took = note.time - asked[message.transaction_id]
            facts.rtt_s = min(took, facts.rtt_s if facts.rtt_s is not None else took)
            answered.add(message.transaction_id)
    end = notes[-1].time if notes else 0.0
    patience = 2 * (facts.rtt_s or 0.0) + 0.5
    late = [
        transaction
        for transaction, at in asked.items()
        if _after(at, done.connected_at) and (at < end - patience or transaction in answered)
    ]
    facts.checks_sent = len(late)
    facts.checks_answered = len(answered.intersection(late))


def _message(note: Note) -> Message | None:
    if classify(note.data) is not Kind.STUN:
        return None
    try:
        return parse_message(note.data)
    except Discard:
        return None


def _after(time: float, since: float | None) -> bool:
    return since is not None and time > since


def _note_flight(facts: Facts, note: Note, how: str) -> None:
    """Note how the server's first hello travelled."""
    if facts.flight is None and not note.sent and hello_in(note.data):
        facts.flight = how


# -- what is protected --------------------------------------------------------------------------


def _read_protected(facts: Facts, notes: list[Note], done: Attempt, start: float) -> None:
    sessions = Sessions(done.keylog)
    role = done.stats.get("dtls_role")
    inits = 0
    for number, note in enumerate(notes):
        for found in sessions.receive(_datagram(note, number)):
            if isinstance(found, Said):
                _read_said(facts, found, role, note.time - start)
            else:
                inits += found.dissector == "sctp" and _has_init(found.data)
                if found.role is not None:
                    at_s = round(note.time - start, _ROUND)
                    _read_plain(facts, found, at_s, ours=found.role.value == role)
    facts.snap = facts.channel_s is not None and not inits
    for connection in sessions.connections:
        for side_role, side in connection.handshake.sides.items():
            if side_role.value != role:
                facts.repeated += side.repeated


def _read_plain(facts: Facts, plain: Plain, at_s: float, *, ours: bool) -> None:
    if plain.dissector == "dtls":
        for fragment in _fragments(plain.data):
            if not ours:
                _read_handshake(facts, fragment)
            elif fragment.message_type == HandshakeType.FINISHED and facts.finished_s is None:
                facts.finished_s = at_s
    elif plain.dissector == "rtp" and not ours and facts.media_s is None:
        facts.media_s = at_s


def _datagram(note: Note, number: int) -> Datagram:
    ends = (note.flow.local, note.flow.remote) if note.sent else (note.flow.remote, note.flow.local)
    size = len(note.data)
    return Datagram(number, round(note.time * 1e9), *ends, note.data, size, "udp", 0, 0)


def _read_said(facts: Facts, said: Said, role: str | None, at_s: float) -> None:
    theirs = said.message.role.value != role
    if theirs and said.message.content is None and facts.channel_acked_s is None:
        facts.channel_acked_s = round(at_s, _ROUND)


def _has_init(packet: bytes) -> bool:
    try:
        return any(kind == ChunkType.INIT for kind, _, _ in split_chunks(packet))
    except Discard:
        return False


def _fragments(record: bytes) -> list[Fragment]:
    """Return the handshake messages of a record in the clear."""
    if record[0] != HANDSHAKE:
        return []
    return split_fragments(record[PLAIN_HEADER_LENGTH:], 0, _MAX_FRAGMENTS)[0]


def _read_handshake(facts: Facts, fragment: Fragment) -> None:
    if fragment.message_type == HandshakeType.HELLO_VERIFY_REQUEST:
        facts.verify_request = True
    elif fragment.message_type == HandshakeType.SERVER_HELLO:
        _read_server_hello(facts, fragment)


def _read_server_hello(facts: Facts, fragment: Fragment) -> None:
    if len(fragment.data) != fragment.length:
        return  # a retry request is never so long that it would be split
    try:
        hello = decode_server_hello(fragment.data)
        if hello.is_retry_request:
            facts.retry_request = True
            facts.retry_cookie = hello.retry_cookie() is not None
    except HandshakeFault:
        facts.notes.append("a ServerHello of the server's does not parse")
