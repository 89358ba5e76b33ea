"""What a start shows about DTLS: versions, retries, splits, roles, waits, failures."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from warp.dtls.acks import decode_ack
from warp.dtls.faults import HandshakeFault
from warp.dtls.hello import DOWNGRADE_SENTINEL
from warp.dtls.records import ACK, ALERT
from warp.dtls.records import APPLICATION_DATA as DATA
from warp_tools.capture import names
from warp_tools.capture.events import Event, Mark
from warp_tools.capture.facts import Facts
from warp_tools.capture.finding import Finding, Weight, several
from warp_tools.capture.findings_split import split_findings
from warp_tools.capture.split import AT_ONCE_MS
from warp_tools.capture.start import is_alert

PROMPT_MS: Final = 30.0
"""An answer that comes this soon after what it answers (and the round trip) is prompt."""
LATE_MS: Final = 50.0
PATIENCE_MS: Final = 200.0
_SHOWN: Final = 8


def dtls_findings(facts: Facts) -> Iterator[Finding]:
    """Yield what is to be said about DTLS."""
    yield from _version(facts)
    yield from _retries(facts)
    yield from split_findings(facts)
    yield from _roles(facts)
    yield from _late_hello(facts)
    yield from _waits(facts)
    yield from _late_client(facts)
    yield from _repeats(facts)
    yield from _missing(facts)
    yield from _failures(facts)
    yield from _plaintext_acks(facts)


def _version(facts: Facts) -> Iterator[Finding]:
    start = facts.start
    hello = facts.session.handshake.server_hello
    if start.version is None or start.version == 0xFEFC or start.server is None or hello is None:
        return
    version = names.version(start.version)
    client, server = facts.letter(start.client), facts.letter(start.server)
    text = f"DTLS {version} was used, which takes a round trip more than 1.3."
    if hello.random.endswith(DOWNGRADE_SENTINEL):
        text += f" {server} can do 1.3 (it says so in its random); {client} did not offer it."
    elif facts.offers_13() is False:
        text += f" {client} did not offer 1.3."
    elif facts.offers_13():
        text += f" {client} offered 1.3; {server} chose {version}."
    yield Finding(
        id="dtls12",
        weight=Weight.COST,
        text=text,
        trips=1.0,
        ms=facts.vantage.rtt_ns / 1e6 if facts.vantage.countable and facts.vantage.rtt_ns else None,
    )


def _retries(facts: Facts) -> Iterator[Finding]:
    checks = facts.session.checks
    proved = any(asker.answered for asker in checks.askers)
    for event, wants in facts.session.handshake.retries:
        again = facts.start.hello
        ms = None
        if again is not None and again.message_seq:
            first = facts.stage("client_hello")
            second = facts.stage("client_hello_again")
            if first is not None and second is not None and second.own_ms >= first.own_ms:
                ms = second.own_ms - first.own_ms
        if "cookie" in wants:
            yield Finding(
                id="cookie-under-ice" if proved else "cookie-exchange",
                weight=Weight.COST,
                text=f"{facts.letter(event.side)} asked for a cookie before it went on"
                + (
                    ": a round trip for nothing, the answered check had proved the address already."
                    if proved
                    else ", which takes a round trip; under ICE none is needed."
                ),
                trips=1.0,
                ms=ms,
                datagrams=(event.number,),
            )
        if "group" in wants:
            yield Finding(
                id="hello-retry",
                weight=Weight.COST,
                text=f"{facts.letter(event.side)} asked for a key share of another group "
                "(HelloRetryRequest): the client had guessed wrong, and a round trip was lost.",
                trips=1.0,
                ms=ms,
                datagrams=(event.number,),
            )


def _roles(facts: Facts) -> Iterator[Finding]:
    client, controlling = facts.start.client, facts.controlling
    if client is None or controlling is None or client == controlling:
        return
    changed = any(asker.role_changes for asker in facts.session.checks.askers)
    if changed or facts.session.handshake.rivals:
        return  # after a role conflict the controlled side may be the one that offered
    sped = facts.sped_used
    more = (
        "Had it been passive, the first check of the controlling side could have carried the "
        "ClientHello."
        if sped
        else "With SPED, a passive answer lets the first check carry the ClientHello."
    )
    yield Finding(
        id="answer-active",
        weight=Weight.NOTE,
        text=f"{facts.letter(client)}, the controlled side, is DTLS client: what an answer with "
        f"a=setup:active makes of it (unless the offer came from a lite agent). {more}",
    )


def _late_hello(facts: Facts) -> Iterator[Finding]:
    """The ClientHello had a way to go, and did not go."""
    hello, client = facts.start.first_hello, facts.start.client
    if hello is None or client is None or hello.began.embedded or facts.start.ignored:
        return
    checks = facts.session.checks
    answer = checks.askers[client].first_answer
    if answer is None:
        return
    way = facts.vantage.ways_ns[client]
    responses = [each.response for each in (answer, *checks.samples[client])]
    waits = [(hello.began.time_ns - response.last_ns - way) / 1e6 for response in responses]
    wait = waits[0]
    behind = [r for r, other in zip(responses[1:], waits[1:], strict=True) if _at_once(other)]
    if wait <= LATE_MS:
        return
    if facts.session.handshake.unseen(client) and not behind:
        yield _lost_before(facts, "ClientHello", wait, hello.began)
        return
    who = facts.letter(client)
    text = f"The ClientHello of {who} left {wait:.0f} ms after its check was answered"
    if behind and behind[0] is not answer.response:
        text += f", as soon as a later one was (#{behind[0].number}): it waited for that, unless "
        text += "the answer before was lost behind the capture"
    yield Finding(
        id="clienthello-late",
        weight=Weight.COST,
        text=text + ".",
        ms=wait,
        datagrams=(answer.response.number, hello.began.number),
    )


def _at_once(wait_ms: float) -> bool:
    return abs(wait_ms) < AT_ONCE_MS


def _waits(facts: Facts) -> Iterator[Finding]:
    start, vantage = facts.start, facts.vantage
    hello, server = start.hello, start.server_hello
    if hello is None or server is None:
        return
    rounds = start.hello_transmissions()
    before = [r for r in rounds if vantage.could_follow(server.began, r[-1])]
    way = vantage.ways_ns[server.side]
    gap = (server.began.time_ns - hello.whole.last_ns - way) / 1e6
    for last in reversed(before[1:] if gap > PROMPT_MS else []):
        # checks repeat what they carry, so that something is always close behind one
        soon = AT_ONCE_MS if last[0].embedded else PROMPT_MS
        prompt = (server.began.time_ns - last[-1].last_ns - way) / 1e6 <= soon
        wait = (last[0].time_ns - rounds[0][-1].time_ns) / 1e6
        if prompt and wait > PROMPT_MS:
            yield _timer_wait(facts, wait, last[0])
            gap = 0.0
            break
    if not before and rounds:
        gap = 0.0
    yield from _lost_flight(facts, rounds)
    if gap > LATE_MS and facts.session.handshake.unseen(server.side):
        yield _lost_before(facts, "flight", gap, server.began)
    elif gap > LATE_MS:
        yield _late_flight(facts, gap, server.began)


def _late_client(facts: Facts) -> Iterator[Finding]:
    """The server's flight was there, and the client did not go on."""
    start, shake = facts.start, facts.session.handshake
    if not start.server_flight or not start.client_flight or facts.session.cut:
        return
    last, goes_on = start.server_flight[-1], start.client_flight[0]
    wait = (goes_on.time_ns - last.last_ns - facts.vantage.ways_ns[goes_on.side]) / 1e6
    hellos = [event for event, _ in shake.hellos]
    between = range(last.time_ns + 1, goes_on.time_ns + 1)
    if wait <= LATE_MS or any(event.time_ns in between for event in hellos):
        return
    who, whom = facts.letter(goes_on.side), facts.letter(last.side)
    rest = [one.event for one in shake.flight(last.side) if one.event.time_ns in between]
    if rest:
        yield Finding(
            id="dtls-timer-wait",
            weight=Weight.COST,
            text=f"{who} went on {wait:.0f} ms after the flight of {whom}, when more of that had "
            f"come (#{rest[-1].number}): it had not arrived whole before, or {who} was slow.",
            ms=wait,
            datagrams=(last.number, rest[-1].number),
        )
    elif not last.lost and not any(event.time_ns in between for event in _again(facts)):
        yield Finding(
            id="client-flight-late",
            weight=Weight.COST,
            text=f"The flight of {who} left {wait:.0f} ms after that of {whom} had arrived.",
            ms=wait,
            datagrams=(last.number, goes_on.number),
        )


def _again(facts: Facts) -> Iterator[Event]:
    """Yield datagrams of the handshake that came once more."""
    yield from facts.session.handshake.repeats
    for event in facts.session.events:
        if event.dtls is not None and (event.marked(Mark.COPY) or event.marked(Mark.DUPLICATE)):
            yield event


def _timer_wait(facts: Facts, wait: float, event: Event) -> Finding:
    return Finding(
        id="dtls-timer-wait",
        weight=Weight.COST,
        text=f"The ClientHello of {facts.letter(event.side)} was answered only after it had been "
        f"sent again (it was lost, or the other side was not ready): timers took {wait:.0f} ms.",
        ms=wait,
        datagrams=(event.number,),
    )


def _lost_flight(facts: Facts, rounds: list[list[Event]]) -> Iterator[Finding]:
    """The client asked again although a whole flight should have arrived."""
    start, vantage = facts.start, facts.vantage
    if not start.server_flight or not start.client_flight:
        return
    first, last = start.server_flight[0], start.server_flight[-1]
    goes_on = start.client_flight[0]
    again = [
        r[0]
        for r in rounds[1:]
        if not r[0].embedded and r[0].time_ns < goes_on.time_ns and vantage.could_follow(r[0], last)
    ]
    if not again:
        return
    wait = (again[-1].time_ns - last.last_ns - vantage.ways_ns[again[-1].side]) / 1e6
    if wait > PROMPT_MS:
        who, whom = facts.letter(first.side), facts.letter(1 - first.side)
        yield Finding(
            id="dtls-timer-wait",
            weight=Weight.COST,
            text=f"The flight of {who} did not arrive whole: {whom} sent its ClientHello again, "
            f"and the flight came once more; timers took {wait:.0f} ms.",
            ms=wait,
            datagrams=(first.number, again[-1].number),
        )


def _lost_before(facts: Facts, what: str, wait: float, event: Event) -> Finding:
    """Its records are numbered, and the first numbers are missing."""
    number = facts.session.handshake.unseen(event.side)
    if number == 1 and facts.start.is_12:
        late = "clienthello-late" if event.side == facts.start.client else "server-flight-late"
        return Finding(
            id=late,
            weight=Weight.COST,
            text=f"The {what} of {facts.letter(event.side)} left {wait:.0f} ms after it could. Its "
            "first record here is number 1: either one before it was lost on its way to the "
            "capture, and a timer was waited for, or its sender counts from 1.",
            ms=wait,
            datagrams=(event.number,),
        )
    return Finding(
        id="dtls-timer-wait",
        weight=Weight.COST,
        text=f"The {what} of {facts.letter(event.side)} was sent before and did not come to the "
        f"capture (its first record here is number {number}): a timer was waited for, up to "
        f"{wait:.0f} ms.",
        ms=wait,
        datagrams=(event.number,),
    )


def _late_flight(facts: Facts, gap: float, event: Event) -> Finding:
    who = facts.letter(event.side)
    text = f"The flight of {who} left {gap:.0f} ms after the ClientHello had arrived."
    answer = facts.session.checks.askers[event.side].first_answer
    hello = facts.start.hello
    if answer is not None and hello is not None:
        waited = hello.whole.last_ns < answer.response.last_ns <= event.time_ns
        if waited:
            text += f" It came after a check of {who}'s own was answered (#{answer.response.number}"
            text += "): it may have waited for that."
    return Finding(
        id="server-flight-late",
        weight=Weight.COST,
        text=text,
        ms=gap,
        datagrams=(event.number,),
    )


def _repeats(facts: Facts) -> Iterator[Finding]:
    repeats = facts.session.handshake.repeats
    for side in (0, 1):
        mine = [event for event in repeats if event.side == side]
        if mine:
            yield Finding(
                id="dtls-retransmission",
                weight=Weight.NOTE,
                text=f"{facts.letter(side)} sent parts of its DTLS handshake again, in "
                f"{several(len(mine), 'datagram')}.",
                datagrams=tuple(event.number for event in mine[:_SHOWN]),
            )


def _missing(facts: Facts) -> Iterator[Finding]:
    """Checks are answered, and no DTLS follows."""
    session, start = facts.session, facts.start
    answers = [a.first_answer.response for a in session.checks.askers if a.first_answer is not None]
    if session.handshake.records or session.handshake.hellos or start.missing or not answers:
        return
    if session.previous is not None or session.moved or session.checks.cut:
        return
    first = min(answers, key=lambda event: event.last_ns)
    lasted = (session.span[1] - first.last_ns) / 1e6
    ends = lasted < PATIENCE_MS
    text = f"Checks were answered, and within {lasted:.0f} ms nobody sent a ClientHello"
    if ends:
        text += ": the capture ends there."
    else:
        text += ". The DTLS client (a=setup:active) did not start, or the capture begins in the "
        text += "middle of a call in which nobody speaks."
    yield Finding(
        id="dtls-missing",
        weight=Weight.NOTE if ends else Weight.FAULT,
        text=text,
        datagrams=(first.number,),
    )


def _failures(facts: Facts) -> Iterator[Finding]:
    start, shake = facts.start, facts.session.handshake
    if start.missing or start.client is None or facts.session.moved:
        return
    for clear in shake.clear:
        if clear.content_type == ALERT and len(clear.body) == 2:
            yield Finding(
                id="dtls-alert",
                weight=Weight.FAULT,
                text=f"{facts.letter(clear.event.side)} sent an alert in the clear: "
                f"{names.alert(clear.body[1])}.",
                datagrams=(clear.event.number,),
            )
    if start.server_hello is None and shake.rivals:
        first, other = shake.hellos[0][0], shake.rivals[0]
        yield Finding(
            id="both-clients",
            weight=Weight.FAULT,
            text="Both sides sent a ClientHello and nobody answers: each of them is DTLS client. "
            "One description has to say a=setup:active and the other one passive (RFC 8842).",
            datagrams=(first.number, other.number),
        )
        return
    if start.server_hello is None and shake.hellos and not _answered(facts):
        yield _unanswered(facts)
        return
    if start.server_hello is not None and not _is_finished(facts):
        yield _unfinished(facts)


def _unanswered(facts: Facts) -> Finding:
    start, shake = facts.start, facts.session.handshake
    last = start.hello.whole if start.hello is not None else shake.hellos[0][0]
    lasted = (facts.session.span[1] - last.time_ns) / 1e6
    ends = lasted < PATIENCE_MS
    text = f"Within {lasted:.0f} ms the capture shows no answer to the ClientHello "
    text += f"of {facts.letter(start.client)}"
    if start.hello is None:
        text = (
            f"Only a part of the ClientHello of {facts.letter(start.client)} was captured within "
        )
        text += f"{lasted:.0f} ms, and no answer"
    elif start.hello.message_seq:
        text = f"Within {lasted:.0f} ms the capture shows no answer to the ClientHello that the "
        text += "server had asked for once more"
    text += ", and ends" if ends else ""
    answered = any(asker.answered for asker in facts.session.checks.askers)
    return Finding(
        id="dtls-unanswered",
        weight=Weight.NOTE if ends else Weight.FAULT,
        text=text + (", though checks were answered." if answered else "."),
        datagrams=tuple(dict.fromkeys(event.number for event, _ in shake.hellos))[:_SHOWN],
    )


def _answered(facts: Facts) -> bool:
    """Tell whether the server has sent anything of DTLS, readable or not."""
    shake, server = facts.session.handshake, facts.start.server
    if server is None:
        return False
    if shake.sealed(server) or shake.flight(server):
        return True
    if any(clear.event.side == server for clear in shake.clear):
        return True
    first = facts.start.hello
    retried = bool(shake.retries) and first is not None and first.message_seq > 0
    return any(said.side == server for said in shake.said) and not retried


def _is_finished(facts: Facts) -> bool:
    start = facts.start
    if facts.stage("dtls_client") is not None:
        return not _is_refused(facts)
    shake, client = facts.session.handshake, start.client
    if client is None or (start.client_flight and any(map(shake.sealed, (0, 1)))):
        return True
    # its flight was not captured, but what can only follow it was
    said = [sealed for sealed in shake.sealed(client) if sealed.content_type in (None, DATA)]
    return bool(said or facts.session.sources.packets[client])


def _is_refused(facts: Facts) -> bool:
    """Tell whether the server has answered the client's flight with an alert and nothing else."""
    start, shake = facts.start, facts.session.handshake
    if start.is_12 is not False or start.server is None or not start.client_flight:
        return False
    said = shake.sealed(start.server)
    return bool(said) and all(map(is_alert, said)) and not facts.session.sources.first[start.server]


def _unfinished(facts: Facts) -> Finding:
    start, shake = facts.start, facts.session.handshake
    text = "The handshake does not end in the capture: the last flight of "
    text += facts.letter(start.client)
    text += " was not seen." if not start.client_flight else " was not answered."
    numbers: tuple[int, ...] = ()
    alerts = [
        record.event
        for side in (0, 1)
        for record in [*shake.flight(side), *shake.sealed(side)]
        if start.is_12 is False and is_alert(record)
    ]
    if alerts:
        last = alerts[-1]
        text += f" {facts.letter(last.side)} sent a record with the size of an alert."
        numbers = (last.number,)
    hello, end = start.server_hello, facts.session.span[1]
    ends = hello is not None and (end - hello.whole.time_ns) / 1e6 < PATIENCE_MS and not alerts
    weight = Weight.NOTE if ends else Weight.FAULT
    return Finding(id="handshake-unfinished", weight=weight, text=text, datagrams=numbers)


def _plaintext_acks(facts: Facts) -> Iterator[Finding]:
    for clear in facts.session.handshake.clear:
        if clear.content_type != ACK:
            continue
        try:
            listed = decode_ack(clear.body)
        except HandshakeFault:
            continue
        if any(epoch for epoch, _ in listed):
            yield Finding(
                id="plaintext-ack",
                weight=Weight.FAULT,
                text=f"{facts.letter(clear.event.side)} acknowledged protected records in an ACK "
                "without protection (RFC 9147 section 7 asks for an epoch at least as high); "
                "BoringSSL ends the connection over it.",
                datagrams=(clear.event.number,),
            )
