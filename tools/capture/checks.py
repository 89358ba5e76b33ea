"""The connectivity checks of a session: who asked, who answered, who speaks SPED (RFC 8445).

An organ of `session`. Requests and answers are matched by transaction id; what is remembered is
bounded, so that an hour of consent checks costs what a second does.

    request ─▶ pending ─▶ answer ─▶ a sample of the round trip
       └ SPED attributes, roles, nomination: noted for its side
"""

from __future__ import annotations

from collections import OrderedDict
from typing import Final, NamedTuple

from warp.stun import MessageClass
from warp_tools.capture.contents import Stun
from warp_tools.capture.events import Event, Mark

MAX_PENDING: Final = 256
MAX_SAMPLES: Final = 256
MAX_ERRORS: Final = 16
CONSENT_NS: Final = 30_000_000_000  # RFC 7675 section 5.1


class Exchange(NamedTuple):
    """A request that was answered."""

    request: Event
    response: Event


class SpedVoice:
    """What one side's checks have shown of SPED."""

    __slots__ = (
        "ack_alone",
        "carried",
        "data_alone",
        "empty_ack",
        "empty_data",
        "first",
        "malformed",
        "silent",
    )

    def __init__(self) -> None:
        self.first: Event | None = None
        """The first message with either attribute."""
        self.carried = 0
        self.empty_data = False
        self.empty_ack = False
        self.ack_alone = False
        self.data_alone = False
        self.malformed: Event | None = None
        self.silent: Event | None = None
        """The first answer without either attribute to a request that had one."""

    def hear(self, event: Event, stun: Stun, asked: Event | None) -> None:
        """Take one request or success response in; `asked` is what a response answers."""
        if not stun.speaks_sped:
            question = None if asked is None else asked.contents.stun
            # who has finished the handshake says no more of it, unless it is asked
            if self.silent is None and question is not None and question.speaks_sped:
                self.silent = event
            return
        self.first = self.first or event
        self.carried += bool(stun.rider_bytes)
        self.empty_data |= stun.rider_bytes == 0
        self.empty_ack |= stun.acks == () and stun.fault is None
        self.ack_alone |= stun.rider_bytes is None
        self.data_alone |= stun.acks is None
        if stun.acks == () and stun.fault is not None:
            self.malformed = self.malformed or event

    def dialect(self, google: bool) -> str | None:
        """Return whose reading of the draft it follows, or None when that cannot be told."""
        if self.first is None:
            return None
        if self.empty_data:
            return "draft-00"
        if google or (self.ack_alone and self.empty_ack):
            return "libwebrtc"
        return "draft-next" if self.data_alone else None


class Asker:
    """One side's requests."""

    __slots__ = (
        "answered",
        "answered_ns",
        "controlling",
        "errors",
        "first",
        "first_answer",
        "google",
        "lapse_ns",
        "missed",
        "nominated",
        "nominating",
        "requests",
        "role_changes",
        "sped",
    )

    def __init__(self) -> None:
        self.requests = 0
        self.answered = 0
        self.first: Event | None = None
        self.first_answer: Exchange | None = None
        self.answered_ns: int | None = None
        """When its last answered request was asked."""
        self.controlling: bool | None = None
        self.role_changes = 0
        self.google = False
        self.nominating: Event | None = None
        self.nominated: Exchange | None = None
        self.errors: list[tuple[Event, int]] = []
        self.sped = SpedVoice()
        self.missed = False
        """Whether an answer was captured before any request of its own: the first is missing."""
        self.lapse_ns: int | None = None
        """When it first sent without consent that is fresh."""


class Checks:
    """Both sides' checks."""

    def __init__(self) -> None:
        self.askers: Final = (Asker(), Asker())
        self.samples: Final[tuple[list[Exchange], list[Exchange]]] = ([], [])
        """Exchanges by who asked; a repeated request gives none."""
        self.first: Event | None = None
        self.cut = False
        """Whether attributes of some check were cut off."""
        self._pending: OrderedDict[bytes, tuple[Event, bool]] = OrderedDict()

    def receive(self, event: Event, stun: Stun) -> None:
        """Take one Binding message in."""
        asker = self.askers[event.side]
        asker.google |= stun.google
        asked: Event | None = None
        if stun.message_class is MessageClass.REQUEST:
            self._request(event, stun, asker)
        elif stun.message_class in (MessageClass.SUCCESS, MessageClass.ERROR):
            asked = self._response(event, stun)
        self.cut |= stun.cut
        if stun.message_class is not MessageClass.ERROR and not stun.cut:
            asker.sped.hear(event, stun, asked)

    def miss(self, side: int) -> None:
        """A side was answered, and what it had asked was not captured."""
        asker = self.askers[side]
        asker.missed |= asker.first is None

    def asked(self, transaction: bytes) -> bool:
        """Tell whether an answer with this transaction id belongs here."""
        return transaction in self._pending

    def _request(self, event: Event, stun: Stun, asker: Asker) -> None:
        self.first = self.first or event
        asker.first = asker.first or event
        asker.requests += 1
        if stun.controlling is not None:
            if asker.controlling is not None and asker.controlling != stun.controlling:
                asker.role_changes += 1
            asker.controlling = stun.controlling
        if stun.use_candidate:
            asker.nominating = asker.nominating or event
        known = self._pending.get(stun.transaction)
        if known is not None:
            self._pending[stun.transaction] = (known[0], True)
            event.mark(Mark.AGAIN, known[0].number)
            return
        self._pending[stun.transaction] = (event, False)
        if len(self._pending) > MAX_PENDING:
            self._pending.popitem(last=False)[1][0].mark(Mark.UNANSWERED)

    def _response(self, event: Event, stun: Stun) -> Event | None:
        """Take an answer in; return what it answers."""
        request, repeated = self._pending.pop(stun.transaction, (None, False))
        if request is None or request.side == event.side:
            self.miss(1 - event.side)
            return None
        event.mark(Mark.ANSWERS, request.number)
        asker = self.askers[request.side]
        if stun.message_class is MessageClass.ERROR:
            if len(asker.errors) < MAX_ERRORS:
                asker.errors.append((event, stun.error or 0))
            return request
        exchange = Exchange(request, event)
        asker.answered += 1
        asker.answered_ns = request.time_ns
        asker.first_answer = asker.first_answer or exchange
        asked = request.contents.stun
        if asked is not None and asked.use_candidate:
            asker.nominated = asker.nominated or exchange
        samples = self.samples[request.side]
        if not repeated and len(samples) < MAX_SAMPLES:
            samples.append(exchange)
        return request

    def sent(self, event: Event) -> None:
        """Media or data was sent: was its sender's consent fresh?"""
        asker = self.askers[event.side]
        if asker.answered_ns is None or asker.lapse_ns is not None:
            return
        if event.time_ns - asker.answered_ns > CONSENT_NS:
            asker.lapse_ns = event.time_ns

    def finish(self) -> None:
        """The capture is over: what was not answered stays so."""
        for event, _ in self._pending.values():
            event.mark(Mark.UNANSWERED)
