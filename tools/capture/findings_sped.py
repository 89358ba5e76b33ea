"""What a start shows about DTLS in checks (SPED): offered, ignored, used, and what that cost."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from warp_tools.capture.events import Event, Mark
from warp_tools.capture.facts import Facts
from warp_tools.capture.finding import Finding, Weight, several

WAIT_MS: Final = 20.0
_BESIDE_NS: Final = 5_000_000


def sped_findings(facts: Facts) -> Iterator[Finding]:
    """Yield what is to be said about SPED."""
    if facts.session.checks.first is None or facts.start.missing:
        return
    offered = facts.offered
    if not offered:
        yield from _nobody(facts)
    elif len(offered) == 1:
        yield from _ignored(facts, offered[0])
    else:
        yield from _not_in_answer(facts)
        yield from _warp(facts)
    yield from _broken(facts)


def _nobody(facts: Facts) -> Iterator[Finding]:
    trips, hello = facts.trips.hello, facts.stage("client_hello")
    if facts.start.client is None or not trips or hello is None or facts.session.cut:
        return
    answered = facts.stage(f"check_answered_{facts.letter(facts.start.client)}")
    yield Finding(
        id="no-sped",
        weight=Weight.COST,
        text="No check offers SPED, so the ClientHello could only follow the checks.",
        trips=trips - facts.begins,
        ms=None if answered is None else min(answered.own_ms, hello.own_ms),
        datagrams=(hello.number,),
    )


def _ignored(facts: Facts, side: int) -> Iterator[Finding]:
    """One side offers; the other one has answered, and never speaks SPED."""
    session = facts.session
    other = session.checks.askers[1 - side].sped
    if other.silent is None or session.cut:
        return
    who, whom = facts.letter(side), facts.letter(1 - side)
    text = f"{who} offered SPED; {whom} took no notice of it."
    wait, numbers, hello = None, [other.silent.number], facts.trips.hello
    answer = session.checks.askers[side].first_answer
    direct = [e for e, _ in session.handshake.hellos if not e.embedded and e.side == side]
    if facts.start.client == side and answer is not None and direct:
        wait = (direct[0].time_ns - answer.response.last_ns - facts.vantage.ways_ns[side]) / 1e6
        numbers.append(direct[0].number)
        if wait > WAIT_MS:
            text += (
                " What checks carried of the ClientHello was lost on it; it was sent again, "
                f"directly, {wait:.0f} ms after the first answer."
            )
        else:
            text += " The ClientHello was sent again, directly, as soon as the check was answered."
    yield Finding(
        id="sped-ignored",
        weight=Weight.COST,
        text=text,
        ms=None if wait is None else max(0.0, wait),
        trips=None if hello is None else hello - facts.begins,
        datagrams=tuple(numbers),
    )


def _carrier(facts: Facts) -> Event | None:
    """Return the request that completed the ClientHello, if a request did."""
    hello = facts.start.hello
    if hello is None or not hello.whole.embedded:
        return None
    stun = hello.whole.contents.stun
    return hello.whole if stun is not None and stun.is_request else None


def _not_in_answer(facts: Facts) -> Iterator[Finding]:
    carrier, flight = _carrier(facts), facts.start.server_flight
    if carrier is None or not flight or facts.start.server is None:
        return
    answers = [
        exchange.response
        for exchange in facts.session.checks.samples[carrier.side]
        if exchange.request is carrier
    ]
    first = flight[0]
    if not answers or answers[0].embedded or first.time_ns <= answers[0].time_ns + _BESIDE_NS:
        return
    if _lacks_a_part(facts, answers[0]):
        return
    wait = (first.time_ns - answers[0].time_ns) / 1e6
    yield Finding(
        id="flight-not-in-answer",
        weight=Weight.COST,
        text=f"The answer to the check that completed the ClientHello (#{answers[0].number}) "
        f"carries nothing; the server's flight came {wait:.0f} ms later.",
        ms=wait,
        datagrams=(answers[0].number, first.number),
    )


def _lacks_a_part(facts: Facts, answer: Event) -> bool:
    """Tell whether an answer acknowledges some of the ClientHello and not all of it."""
    hello = facts.start.hello
    known = {marked.number for marked in answer.marks if marked.mark is Mark.ACKNOWLEDGES}
    if hello is None or not known:
        return False
    parts: dict[int, set[int]] = {}
    for event, piece in facts.start.hello_pieces(hello):
        parts.setdefault(piece.offset, set()).add(event.number)
    return not all(numbers & known for numbers in parts.values())


def _warp(facts: Facts) -> Iterator[Finding]:
    first = facts.session.checks.first
    hello, server = facts.start.hello, facts.start.server_hello
    if hello is None or server is None or first is None or not facts.channel.snap:
        return
    whole = hello.parts == 1 and hello.whole.embedded and facts.trips.hello in (0.0, 0.5)
    whole = whole and not facts.start.retries
    if whole and facts.session.handshake.carried_flight:
        yield Finding(
            id="warp",
            weight=Weight.GOOD,
            text="The ClientHello rode in a check, the server's flight in one too, and SCTP needed "
            "no handshake.",
            datagrams=(hello.whole.number, server.whole.number),
        )


def _broken(facts: Facts) -> Iterator[Finding]:
    for side in (0, 1):
        bad = facts.session.checks.askers[side].sped.malformed
        if bad is not None:
            yield Finding(
                id="sped-malformed",
                weight=Weight.FAULT,
                text=f"{facts.letter(side)} sent an acknowledgement attribute (0xC071) that is no "
                "list of CRC-32; Chromium 156 has been seen to crash on one.",
                datagrams=(bad.number,),
            )
    unmatched = [event for event in facts.session.events if event.marked(Mark.UNMATCHED)]
    if unmatched and not facts.session.cut:
        yield Finding(
            id="sped-unmatched",
            weight=Weight.NOTE,
            text=f"Checks acknowledge {several(len(unmatched), 'CRC')} that no DTLS datagram of "
            "the capture has.",
            datagrams=tuple(event.number for event in unmatched[:8]),
        )
