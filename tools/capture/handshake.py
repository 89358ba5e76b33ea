"""The DTLS of a session as far as it goes without keys: hellos, flights, repeats, data.

An organ of `session`. It is told of every DTLS datagram, direct or carried in a check, and keeps
what the start needs: which datagram brought which message, and when. Messages are put together
by the stack's own reassembler; what is encrypted is told apart by epoch, type and size.

    datagram ─▶ same bytes as before? ─▶ COPY
             ─▶ pieces seen before?   ─▶ AGAIN
             ─▶ ClientHello, ServerHello ─▶ decoded
             ─▶ protected records        ─▶ by side and epoch
"""

from __future__ import annotations

from collections import OrderedDict
from typing import Final, NamedTuple

from warp.dtls.faults import HandshakeFault
from warp.dtls.hello import ClientHello, ServerHello, decode_client_hello, decode_server_hello
from warp.dtls.messages import HandshakeType, decode_server_key_exchange
from warp.dtls.reassembly import Fragment, HandshakeMessage, Reassembler
from warp.dtls.records import ACK, ALERT, HANDSHAKE
from warp.errors import WarpError
from warp_tools.capture import names
from warp_tools.capture.contents import Dtls
from warp_tools.capture.events import Event, Mark
from warp_tools.capture.records import Piece, Record

MAX_REMEMBERED: Final = 64
MAX_PROTECTED: Final = 96
MAX_MESSAGES: Final = 64
MAX_RANGES: Final = 64
_READ: Final = frozenset(
    (
        HandshakeType.CLIENT_HELLO,
        HandshakeType.SERVER_HELLO,
        HandshakeType.HELLO_VERIFY_REQUEST,
        HandshakeType.SERVER_KEY_EXCHANGE,
    )
)
MAX_UNREAD: Final = 4
MAX_ACK: Final = 2 + 16 * 32
SAME_FLIGHT_NS: Final = 20_000_000
FLIGHT_BYTES: Final = 130
"""Smaller protected handshake records may be acknowledgements."""


class Said(NamedTuple):
    """A handshake message in the clear: the datagrams that first began and completed it."""

    side: int
    kind: int
    message_seq: int
    length: int
    began: Event
    whole: Event
    datagrams: int


class Sealed(NamedTuple):
    """A protected record."""

    event: Event
    epoch: int
    content_type: int | None
    size: int
    sequence: int | None
    """Encrypted in DTLS 1.3."""


class Clear(NamedTuple):
    """An alert or ACK that was sent without protection."""

    event: Event
    content_type: int
    body: bytes


class _Message:
    """How much of a handshake message was seen, repeats left out."""

    __slots__ = ("began", "datagrams", "last", "parts", "ranges", "read", "whole")

    def __init__(self, began: Event) -> None:
        self.began = began
        self.datagrams = 0
        self.last: Event | None = None
        self.ranges: list[tuple[int, int]] = []
        self.whole = False
        self.read = False
        self.parts: Reassembler | None = None
        """Each message by itself: the capture may lack the one before it."""


class _Voice:
    """What one side has sent."""

    __slots__ = ("crcs", "lowest", "messages", "sealed", "sealed_flight")

    def __init__(self) -> None:
        self.crcs: OrderedDict[int, int] = OrderedDict()
        self.messages: OrderedDict[tuple[int, int], _Message] = OrderedDict()
        """By number and type."""
        self.sealed: list[Sealed] = []
        self.sealed_flight: list[Sealed] = []
        self.lowest: int | None = None
        """The lowest number of a record with handshake messages in the clear."""

    def unread(self) -> int:
        """Return how many messages are waiting for the rest of them."""
        return sum(message.parts is not None for message in self.messages.values())


class Handshake:
    """One DTLS connection, seen from the side."""

    def __init__(self) -> None:
        self._voices: Final = (_Voice(), _Voice())
        self.client: int | None = None
        """The side that is DTLS client: the first one, where both want to be it."""
        self.rivals: list[Event] = []
        """ClientHellos of the other side, where both are clients and nobody answers."""
        self.random: bytes | None = None
        self.hellos: list[tuple[Event, Piece]] = []
        """Datagrams with a part of a ClientHello, in order, repeats included."""
        self.client_hello: ClientHello | None = None
        self.server_hello: ServerHello | None = None
        self.retries: list[tuple[Event, str]] = []
        """HelloRetryRequest and HelloVerifyRequest: "cookie", "group" or both."""
        self.said: list[Said] = []
        self.group12: int | None = None
        self.clear: list[Clear] = []
        self.repeats: list[Event] = []
        self.carried_flight = False
        """Whether a ServerHello rode in a check."""
        self.records = 0
        self.versions: set[int] = set()
        """Record versions of protected records with a plain header."""

    def flight(self, side: int) -> list[Sealed]:
        """Return a side's first protected records of the handshake: epoch 2, or 1.2's Finished."""
        return self._voices[side].sealed_flight

    def sealed(self, side: int) -> list[Sealed]:
        """Return a side's first other protected records."""
        return self._voices[side].sealed

    def unseen(self, side: int) -> int:
        """Return how many records a side must have sent before the first one that was captured.

        They are numbered from 0. A server that has answered with a retry takes the number of the
        ClientHello instead (RFC 6347 section 4.2.1), so there it is not known.
        """
        if self.retries and side != self.client:
            return 0
        return self._voices[side].lowest or 0

    def find(self, side: int, kind: int) -> Said | None:
        """Return the last message of a kind that a side has sent in the clear."""
        return next((s for s in reversed(self.said) if (s.side, s.kind) == (side, kind)), None)

    def sender_of(self, crc: int, side: int) -> int | None:
        """Return the number of the datagram of a side that an acknowledgement means."""
        return self._voices[side].crcs.get(crc)

    def acknowledges(self, event: Event, crcs: tuple[int, ...]) -> None:
        """A check of `event.side` acknowledges datagrams of the other side."""
        for crc in crcs:
            number = self.sender_of(crc, 1 - event.side)
            if number is None:
                event.mark(Mark.UNMATCHED)
            else:
                event.mark(Mark.ACKNOWLEDGES, number)

    def receive(self, event: Event, dtls: Dtls) -> None:
        """Take one DTLS datagram in."""
        if self._is_rival(event, dtls):
            return
        if event.embedded and _has(dtls, HandshakeType.SERVER_HELLO):
            self.carried_flight = True
        voice = self._voices[event.side]
        known = voice.crcs.get(dtls.crc)
        if known is not None:
            event.mark(Mark.COPY, known)
            voice.crcs.move_to_end(dtls.crc)
            self._note_hello(event, dtls)
            return
        voice.crcs[dtls.crc] = event.number
        if len(voice.crcs) > MAX_REMEMBERED:
            voice.crcs.popitem(last=False)
        if self._is_repeat(event, voice, dtls):
            event.mark(Mark.AGAIN)
            if len(self.repeats) < MAX_MESSAGES:
                self.repeats.append(event)
        self._note_hello(event, dtls)
        for record in dtls.records:
            self._record(event, voice, record)

    def is_contested(self, side: int) -> bool:
        """Tell whether a ClientHello of this side competes with one of the other side."""
        return bool(self.hellos) and self.client == 1 - side and self.server_hello is None

    def _is_rival(self, event: Event, dtls: Dtls) -> bool:
        """Tell whether this is a ClientHello of who is server by the other side's; note it."""
        if not self.is_contested(event.side) or not _has(dtls, HandshakeType.CLIENT_HELLO):
            return False
        randoms = {piece.random for record in dtls.records for piece in record.pieces}
        # the client's own bytes that come back are an echo, and no handshake
        if randoms - {self.random, None} and len(self.rivals) < MAX_MESSAGES:
            self.rivals.append(event)
        return True

    # -- repeats ----------------------------------------------------------------------------------

    def _note_hello(self, event: Event, dtls: Dtls) -> None:
        for record in dtls.records:
            for piece in record.pieces:
                if piece.kind == HandshakeType.CLIENT_HELLO and len(self.hellos) < MAX_MESSAGES:
                    self.hellos.append((event, piece._replace(data=b"")))

    def _is_repeat(self, event: Event, voice: _Voice, dtls: Dtls) -> bool:
        """Tell whether everything of a handshake in here was sent before, in other records."""
        known = [
            self._cover(event, voice, piece) for record in dtls.records for piece in record.pieces
        ]
        if known:
            return all(known)
        flight = [record for record in dtls.records if _in_handshake(record)]
        if not flight or not voice.sealed_flight:
            return False
        if not flight[0].unified:
            # DTLS 1.2 protects one message, Finished: more than one is the same one again
            return True
        # fragments of one flight may be of one size, but they leave together
        late = event.time_ns - voice.sealed_flight[-1].event.time_ns > SAME_FLIGHT_NS
        sizes = {sealed.size for sealed in voice.sealed_flight}
        large = [record.size for record in flight if record.size > FLIGHT_BYTES]
        return late and bool(large) and sizes.issuperset(large)

    def _cover(self, event: Event, voice: _Voice, piece: Piece) -> bool:
        """Note which bytes of a message were seen; tell whether all of these were seen before.

        Headers alone tell, so that it works for datagrams that the capture has cut.
        """
        key = piece.message_seq, piece.kind
        message = voice.messages.get(key)
        if message is None:
            message = voice.messages[key] = _Message(event)
            if len(voice.messages) > MAX_REMEMBERED:
                voice.messages.popitem(last=False)
        if message.last is not event:
            message.last = event
            message.datagrams += 1
        known = _covered(message.ranges, piece)
        if not message.whole and message.ranges[0][0] == 0 and message.ranges[0][1] >= piece.length:
            message.whole = True
            if len(self.said) < MAX_MESSAGES:
                took, began = message.datagrams, message.began
                number, length = piece.message_seq, piece.length
                self.said.append(Said(event.side, piece.kind, number, length, began, event, took))
        return known

    # -- records ----------------------------------------------------------------------------------

    def _record(self, event: Event, voice: _Voice, record: Record) -> None:
        self.records += 1
        if record.protected:
            if not record.unified:
                self.versions.add(record.version)
            sealed = Sealed(event, record.epoch, record.content_type, record.size, record.sequence)
            if _in_handshake(record) and len(voice.sealed_flight) < MAX_PROTECTED:
                voice.sealed_flight.append(sealed)
            elif len(voice.sealed) < MAX_PROTECTED:
                voice.sealed.append(sealed)
            return
        if record.content_type in (ALERT, ACK) and len(self.clear) < MAX_MESSAGES:
            self.clear.append(Clear(event, record.content_type, record.body[:MAX_ACK]))
        if record.pieces and record.sequence is not None:
            lowest = voice.lowest
            voice.lowest = record.sequence if lowest is None else min(lowest, record.sequence)
        for piece in record.pieces:
            self._piece(event, voice, piece)

    def _piece(self, event: Event, voice: _Voice, piece: Piece) -> None:
        if piece.kind == HandshakeType.CLIENT_HELLO:
            self.client = event.side
            self.random = self.random or piece.random
        elif piece.kind in (HandshakeType.SERVER_HELLO, HandshakeType.HELLO_VERIFY_REQUEST):
            self.client = 1 - event.side if self.client is None else self.client
        message = voice.messages.get((piece.message_seq, piece.kind))
        if len(piece.data) < piece.size or message is None or message.read:
            return
        if message.parts is None:
            if piece.kind not in _READ or voice.unread() >= MAX_UNREAD:
                return
            message.parts = Reassembler()
            message.parts.next_seq = piece.message_seq
        fragment = Fragment(
            piece.kind, piece.length, piece.message_seq, piece.offset, piece.data, 0
        )
        try:
            message.parts.receive(fragment)
            found = message.parts.pop()
            if found is not None:
                message.read, message.parts = True, None
                self._message(event, found)
        except HandshakeFault:
            # only a message_seq of 65535 gets here
            return

    def _message(self, event: Event, message: HandshakeMessage) -> None:
        kind, body = message.message_type, message.body
        try:
            if kind == HandshakeType.CLIENT_HELLO:
                self.client_hello = decode_client_hello(body)
                event.says = offer(self.client_hello)
            elif kind == HandshakeType.SERVER_HELLO:
                self._server_hello(event, decode_server_hello(body))
            elif kind == HandshakeType.HELLO_VERIFY_REQUEST:
                if len(self.retries) < MAX_MESSAGES:
                    self.retries.append((event, "cookie"))
                event.says = "asks for a cookie"
            elif kind == HandshakeType.SERVER_KEY_EXCHANGE:
                self.group12 = decode_server_key_exchange(body).group
                event.says = ", ".join(filter(None, (event.says, names.group(self.group12))))
        except (HandshakeFault, WarpError):
            # what does not decode stays unknown
            return

    def _server_hello(self, event: Event, hello: ServerHello) -> None:
        if not hello.is_retry_request:
            self.server_hello = hello
            event.says = choice(hello)
            return
        wants = []
        if hello.retry_cookie():
            wants.append("cookie")
        if hello.selected_group() is not None:
            wants.append("group")
        if len(self.retries) < MAX_MESSAGES:
            self.retries.append((event, "+".join(wants) or "nothing"))
        asked = {"cookie": "a cookie", "group": "a share of another group"}
        event.says = "HelloRetryRequest: asks for " + " and ".join(asked[want] for want in wants)

    @property
    def is_12(self) -> bool | None:
        """Whether this is DTLS 1.2 (or older): None when nothing has shown it."""
        if self.server_hello is not None:
            try:
                return self.server_hello.selected_version() != 0xFEFC
            except HandshakeFault:
                return None
        if self.versions:
            return True
        if any(voice.sealed or voice.sealed_flight for voice in self._voices):
            return False
        return None


def offer(hello: ClientHello) -> str:
    """Say what a ClientHello offers: versions, and the groups that it has shares for."""
    versions = hello.versions() or (hello.legacy_version,)
    shares = hello.key_shares() or {}
    groups = hello.groups() or ()
    text = "offers DTLS " + ", ".join(names.version(version) for version in versions)
    if shares:
        return text + "; shares for " + ", ".join(names.group(group) for group in shares)
    return text + ("; " + ", ".join(names.group(group) for group in groups) if groups else "")


def choice(hello: ServerHello) -> str:
    """Say what a ServerHello chooses."""
    share = hello.key_share()
    parts = [f"DTLS {names.version(hello.selected_version())}", names.suite(hello.suite)]
    if share is not None:
        parts.insert(1, names.group(share[0]))
    return "chooses " + ", ".join(parts)


def _has(dtls: Dtls, kind: HandshakeType) -> bool:
    return any(piece.kind == kind for record in dtls.records for piece in record.pieces)


def _in_handshake(record: Record) -> bool:
    """Tell whether a protected record may belong to the handshake."""
    if record.unified:
        return record.epoch == 2
    return record.content_type == HANDSHAKE


def _covered(ranges: list[tuple[int, int]], piece: Piece) -> bool:
    """Tell whether every byte of a piece was seen before; remember them."""
    start, end = piece.offset, piece.offset + piece.size
    if any(low <= start and end <= high for low, high in ranges):
        return True
    joined = [(low, high) for low, high in ranges if high < start or low > end]
    for low, high in ranges:
        if high >= start and low <= end:
            start, end = min(start, low), max(end, high)
    joined.append((start, end))
    ranges[:] = joined[-MAX_RANGES:]
    return False
