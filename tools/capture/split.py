"""A ClientHello in several datagrams: what its last part can have waited for.

What an answer to an earlier part shows depends on where the capture was taken. It is compared at
one place: the last part is seen there as soon as the way to its sender and back takes after the
answer was, when it waited for that.

    ClientHello, first part ──▶      sent at once       it waited for nothing
              answer, ACKs  ◀──      before it arrives  something else: a timer, a pace
       ClientHello, the rest ──▶     behind it          for the answer, if it left at once

Called by the count of round trips and by the findings.
"""

from __future__ import annotations

import enum
from collections.abc import Iterator
from typing import Final, NamedTuple

from warp.dtls.records import ACK
from warp_tools.capture.events import Event, Mark
from warp_tools.capture.start import Hello, Start
from warp_tools.capture.vantage import Vantage

TOGETHER_MS: Final = 2.0
AT_ONCE_MS: Final = 3.0


class Wait(enum.Enum):
    """What lies between the parts of a ClientHello."""

    NOTHING = enum.auto()
    """They left together."""
    UNANSWERED = enum.auto()
    """The capture shows no answer to an earlier part."""
    BEFORE = enum.auto()
    """The rest left before an answer had arrived."""
    ANSWER = enum.auto()
    """The rest left as soon as an answer had arrived."""
    LATER = enum.auto()
    """The rest left some time after an answer had arrived."""
    UNTOLD = enum.auto()
    """An answer passed before the rest, which need not have waited for it."""


class Split(NamedTuple):
    """How the last part of a ClientHello left. `answer` is to an earlier part."""

    wait: Wait
    took_ms: float
    """From the first part to the last one."""
    answer: Event | None = None
    gap_ms: float = 0.0
    """From the arrival of the answer to the last part."""


def split_of(start: Start, vantage: Vantage, hello: Hello) -> Split | None:
    """Tell what the last part of a ClientHello waited for; None when it is in one datagram."""
    if hello.parts < 2:
        return None
    rest = hello.whole
    took = (rest.time_ns - hello.began.time_ns) / 1e6
    answers = list(_answers(start, hello))
    passed = [answer for answer in answers if _precedes(answer, rest)]
    if not passed:
        # nobody waits for an answer to what went directly; else one has to show that it came later
        if took < TOGETHER_MS and (answers or not hello.began.embedded):
            return Split(Wait.NOTHING, took)
        return Split(Wait.BEFORE, took, answers[0]) if answers else Split(Wait.UNANSWERED, took)
    if vantage.rtt_ns is None or vantage.source == "DTLS":
        return Split(Wait.UNTOLD, took, passed[-1])
    had = [answer for answer in passed if vantage.could_follow(rest, answer)]
    if not had:
        early = took < TOGETHER_MS
        return Split(Wait.NOTHING if early else Wait.BEFORE, took, passed[0])
    if not vantage.countable:
        forced = _forced(rest, hello, passed)
        wait = Wait.UNTOLD if forced is None else Wait.ANSWER
        return Split(wait, took, passed[-1] if forced is None else forced)
    way = vantage.ways_ns[rest.side]
    gaps = [rest.time_ns - answer.last_ns - way for answer in had]
    if way and gaps == [0]:  # the way was guessed from this very pair
        return Split(Wait.UNTOLD, took, had[0])
    prompt = [n for n, gap in enumerate(gaps) if gap <= AT_ONCE_MS * 1e6]
    chosen = prompt[0] if prompt else -1
    gap = max(0.0, gaps[chosen] / 1e6)
    return Split(Wait.ANSWER if prompt else Wait.LATER, took, had[chosen], gap)


def _forced(rest: Event, hello: Hello, answers: list[Event]) -> Event | None:
    """Return the answer without which the rest could not have left, whatever the clock says.

    An answer rides on its request; and what goes directly needs a pair that a check has validated
    (RFC 8445 section 12.1). Where a round trip is as short as computing, order alone shows nothing.
    """
    stun = rest.contents.stun
    if stun is not None:
        asked = {marked.number for marked in rest.marks if marked.mark is Mark.ANSWERS}
        return next((answer for answer in answers if answer.number in asked), None)
    if not hello.began.embedded:
        return None
    replies = (a for a in answers if any(marked.mark is Mark.ANSWERS for marked in a.marks))
    return next(replies, None)


def _answers(start: Start, hello: Hello) -> Iterator[Event]:
    """Yield, in order, what shows that an earlier part has arrived."""
    last = {piece.offset for event, piece in start.hello_pieces(hello) if event is hello.whole}
    earlier = {
        event.number
        for event, piece in start.hello_pieces(hello)
        if event.side == hello.side and piece.offset not in last and _precedes(event, hello.whole)
    }
    clear = {
        said.event.number
        for said in start.session.handshake.clear
        if said.content_type == ACK and said.event.side != hello.side
    }
    for event in start.session.events:
        if event.side == hello.side or event.time_ns < hello.began.time_ns:
            continue
        answers = any(
            marked.mark in (Mark.ANSWERS, Mark.ACKNOWLEDGES) and marked.number in earlier
            for marked in event.marks
        )
        if answers or event.number in clear:
            yield event


def _precedes(cause: Event, effect: Event) -> bool:
    """Tell whether one event was over, at this place, before another one began."""
    if cause.again_ns is None and cause.time_ns == effect.time_ns:
        return cause.number < effect.number
    return (
        cause.last_ns <= effect.time_ns
        if cause.side != effect.side
        else (cause.time_ns <= effect.time_ns)
    )
