"""What a start shows, in plain words: the capture, ICE and media (DTLS: `findings_dtls`).

Each function looks at the facts of one session and yields findings. Nothing is said that the
datagrams do not show; where a cause is an inference, the sentence says so.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from warp_tools.capture.early import early_media
from warp_tools.capture.events import Event, Mark
from warp_tools.capture.facts import MEDIA_NS, Facts
from warp_tools.capture.finding import Finding, Weight, several
from warp_tools.capture.findings_dtls import dtls_findings
from warp_tools.capture.findings_sped import sped_findings
from warp_tools.capture.stages import Stage

_NEED_BOTH: Final = frozenset(
    (
        "checks-missing", "no-answer", "first-check-lost", "dtls-unanswered", "dtls-missing",
        "handshake-unfinished", "consent-missing", "one-way-media", "sped-unmatched",
        "early-srtp-lost", "early-media", "media-late",
    )
)  # fmt: skip
"""What cannot be said when the datagrams of one side are missing."""
LATE_MEDIA_MS: Final = 100.0
_SHOWN: Final = 8


def findings(facts: Facts) -> list[Finding]:
    """Return everything that is to be said about a session."""
    found: list[Finding] = []
    for look in (_capture, _checks, sped_findings, dtls_findings, _sctp, _media, _consent):
        found += look(facts)
    if facts.alone is None:
        return found
    return [finding for finding in found if finding.id not in _NEED_BOTH]


def _numbers(events: list[Event]) -> tuple[int, ...]:
    return tuple(event.number for event in events[:_SHOWN])


def _one_direction(facts: Facts) -> Iterator[Finding]:
    """The datagrams of one side are missing."""
    side = facts.alone
    if side is None:
        return
    who, other = facts.letter(side), facts.letter(1 - side)
    text = f"Only datagrams of {who} are in this capture"
    if facts.start.missing:
        text += f": whether {other} is silent or was not captured, they do not tell."
    else:
        text += f", and {who} goes on as only one can who is answered: what {other} sent was not "
        text += "captured. Answers, waits and round trips are unknown."
    yield Finding(id="one-direction", weight=Weight.NOTE, text=text)


def _capture(facts: Facts) -> Iterator[Finding]:
    session = facts.session
    yield from _one_direction(facts)
    if facts.start.missing and session.previous is not None:
        yield Finding(
            id="ice-restart",
            weight=Weight.NOTE,
            text=f"New ICE credentials on a flow of session {session.previous.number}, and no new "
            "DTLS handshake: an ICE restart, DTLS goes on.",
        )
    elif facts.start.missing and not session.checks.cut:  # else it may be behind the cut
        yield Finding(
            id="start-missing",
            weight=Weight.NOTE,
            text="The capture begins after DTLS was set up: what was negotiated, and how long the "
            "start took, is not in it.",
        )
    yield from _checks_missing(facts)
    if session.cut:
        yield Finding(
            id="cut-packets",
            weight=Weight.NOTE,
            text=f"{session.cut} of {session.datagrams} datagrams were cut by the capture (snap "
            "length): what stood behind the cut is unknown. Record with tcpdump -s 0.",
        )
    yield from _places(facts)


def _places(facts: Facts) -> Iterator[Finding]:
    """The capture looks at two places of the way."""
    session = facts.session
    if session.sights.untold_ns is not None:
        yield Finding(
            id="two-places",
            weight=Weight.NOTE,
            text="Datagrams were captured at two places whose clocks differ by about "
            f"{session.sights.untold_ns / 1e6:.0f} ms, so that datagrams of both sides are at the "
            "same one first: only what that one shows is told here.",
        )
    passed = any(event.again_ns is not None for event in session.events)
    if passed:
        ways = zip((0, 1), session.sights.transits_ns, strict=True)
        known = [(side, way) for side, way in ways if way is not None]
        apart = " and ".join(
            f"{way / 1e6:.1f} ms for {facts.letter(side)}'s" for side, way in known
        )
        text = f"Datagrams were captured at two places of their way, apart by {apart}: what is "
        text += "sent is timed at the first, what arrives at the second."
        if session.sights.missed:
            text += f" {several(session.sights.missed, 'datagram')} of the start only the second "
            text += "one shows: missed at the first."
        yield Finding(id="two-places", weight=Weight.NOTE, text=text)
    if facts.lost:
        them = "it" if len(facts.lost) == 1 else "them"
        yield Finding(
            id="datagram-lost",
            weight=Weight.FAULT,
            text=f"{several(len(facts.lost), 'datagram')} did not show at the second place: lost "
            f"on the way there, unless the capture missed {them}.",
            datagrams=_numbers(facts.lost),
        )


def _checks_missing(facts: Facts) -> Iterator[Finding]:
    """DTLS goes directly only where a check was answered, or one of the other side was heard."""
    start, checks = facts.start, facts.session.checks
    if start.missing:
        return
    if any(asker.missed for asker in checks.askers):
        text = "A check was answered that is not in this capture"
    elif start.first_hello and checks.first and facts.trips.hello is None and not start.headless:
        text = "The ClientHello was sent before any check was answered in this capture"
    else:
        return
    yield Finding(
        id="checks-missing",
        weight=Weight.NOTE,
        text=f"{text}: it begins after the first checks, and what they took is not in it.",
    )


def _checks(facts: Facts) -> Iterator[Finding]:
    checks = facts.session.checks
    askers = checks.askers
    requests = askers[0].requests + askers[1].requests
    if requests and not (askers[0].answered or askers[1].answered):
        who = " and ".join(facts.letter(side) for side in (0, 1) if askers[side].requests)
        lasted = (facts.session.span[1] - facts.session.span[0]) / 1e6
        refused = any(asker.errors for asker in askers)
        how = "answer of success" if refused else "answer"
        yield Finding(
            id="no-answer",
            weight=Weight.FAULT,
            text=f"{who} sent {several(requests, 'check')} within {lasted:.0f} ms, "
            f"and no {how} was captured.",
        )
    for side in (0, 1):
        asker = askers[side]
        answer, first = asker.first_answer, asker.first
        if answer is not None and first is not None and answer.request is not first:
            unanswered = first.marked(Mark.UNANSWERED)
            wait = (answer.request.time_ns - first.time_ns) / 1e6
            if unanswered and not facts.start.missing:
                yield Finding(
                    id="first-check-lost",
                    weight=Weight.COST,
                    text=f"The capture shows no answer to the first check of {facts.letter(side)}; "
                    f"the one that was answered left {wait:.0f} ms later.",
                    ms=wait,
                    datagrams=(first.number, answer.request.number),
                )
        yield from _errors(facts, side)


def _errors(facts: Facts, side: int) -> Iterator[Finding]:
    asker = facts.session.checks.askers[side]
    codes = sorted({code for _, code in asker.errors})
    if 487 in codes or asker.role_changes:
        yield Finding(
            id="role-conflict",
            weight=Weight.NOTE,
            text=f"{facts.letter(side)} changed its ICE role: both sides had claimed the same one "
            "(RFC 8445 section 7.3.1.1).",
            datagrams=_numbers([event for event, code in asker.errors if code == 487]),
        )
    others = [code for code in codes if code != 487]
    if others:
        events = [event for event, code in asker.errors if code != 487]
        hint = " (401: ufrag or password do not match)" if 401 in others else ""
        yield Finding(
            id="check-refused",
            weight=Weight.FAULT,
            text=f"Checks of {facts.letter(side)} were refused with "
            f"{', '.join(map(str, others))}{hint}.",
            datagrams=_numbers(events),
        )


def _sctp(facts: Facts) -> Iterator[Finding]:
    if facts.channel.snap is not False:
        return
    took = None
    begun = min(
        (stage for stage in facts.stages if stage.name.startswith("sctp_first")),
        key=lambda stage: stage.own_ms,
        default=None,
    )
    opened = [facts.stage(f"sctp_{letter}") for letter in facts.letters]
    ends = [stage.own_ms for stage in opened if stage is not None]
    if begun is not None and ends:
        took = max(ends) - begun.own_ms
    yield Finding(
        id="no-snap",
        weight=Weight.COST,
        text="SCTP was set up by its own handshake after DTLS (INIT to COOKIE ACK, two round trips "
        "for the one who asks). With SNAP the INIT stands in the descriptions.",
        trips=2.0,
        ms=took,
    )


def _media(facts: Facts) -> Iterator[Finding]:
    sources, start = facts.session.sources, facts.start
    if not facts.start.missing:
        yield from _early(facts)
        yield from _late(facts)
    for side in (0, 1):
        lost, packets = sources.lost(side), sources.packets[side]
        if lost:
            share = 100 * lost / (lost + packets)
            yield Finding(
                id="media-lost",
                weight=Weight.NOTE,
                text=f"{several(lost, 'RTP packet')} of {facts.letter(side)} missing in the "
                f"capture ({share:.1f} %).",
            )
        long = facts.session.span[1] - facts.session.span[0] > MEDIA_NS
        if long and packets > 50 and not sources.packets[1 - side] and start.client is not None:
            yield Finding(
                id="one-way-media",
                weight=Weight.NOTE,
                text=f"Only {facts.letter(side)} sends media.",
            )


def _early(facts: Facts) -> Iterator[Finding]:
    """Media of the DTLS server before it can have the client's flight; media nobody can read."""
    start, sources = facts.start, facts.session.sources
    if start.server is None or start.client is None or start.server_hello is None:
        return
    mine = sources.early[start.server]
    if start.is_12:
        ready = start.finished12[0]
        lost = [event for event in mine if ready is not None and event.time_ns < ready.time_ns]
    else:
        flight = start.server_flight[-1]
        lost = [event for event in mine if event.time_ns < flight.time_ns]
    unready = start.client_flight[0].time_ns if start.client_flight else None
    theirs = sources.early[start.client]
    lost += [event for event in theirs if unready is not None and event.time_ns < unready]
    if lost:
        yield Finding(
            id="early-srtp-lost",
            weight=Weight.FAULT,
            text=f"{several(len(lost), 'media packet')} passed before the handshake that makes "
            "their keys known: the receiver can only drop them (or hold them, if it does).",
            datagrams=_numbers(lost),
        )
    early = [event for event in early_media(facts) if event not in lost]
    if early:
        yield Finding(
            id="early-media",
            weight=Weight.GOOD,
            text=f"{facts.letter(start.server)} sent {_what(early)} behind its flight, half a "
            "round trip after the ClientHello: it did not wait for the client's Finished.",
            datagrams=_numbers(early),
        )


def _what(packets: list[Event]) -> str:
    """Name media, or the reports alone."""
    found = [event.contents.media for event in packets]
    reports = all(media is not None and media.rtcp for media in found)
    return "reports on media (SRTCP)" if reports else "media"


def _late(facts: Facts) -> Iterator[Finding]:
    for side in (0, 1):
        role = "dtls_client" if side == facts.start.client else "dtls_server"
        ready = facts.stage(role)
        media = facts.stage(f"media_{facts.letter(side)}")
        if ready is None or media is None:
            continue
        wait = media.own_ms - ready.own_ms
        if wait > LATE_MEDIA_MS and not _repeated(facts, ready, media):
            yield Finding(
                id="media-late",
                weight=Weight.NOTE,
                text=f"The first media of {facts.letter(side)} in the capture left {wait:.0f} ms "
                "after its keys were there: unless earlier packets were lost before they came "
                "here, the wait is in the application or its devices.",
                ms=wait,
                datagrams=(media.number,),
            )


def _repeated(facts: Facts, since: Stage, until: Stage) -> bool:
    """Tell whether flights were sent again in between: then they had not arrived."""
    zero = facts.start.zero
    if zero is None:
        return False
    times = [(event.time_ns - zero.time_ns) / 1e6 for event in facts.session.handshake.repeats]
    return any(since.seen_ms <= time <= until.seen_ms for time in times)


def _consent(facts: Facts) -> Iterator[Finding]:
    for side in (0, 1):
        asker = facts.session.checks.askers[side]
        if asker.lapse_ns is None or asker.answered_ns is None or facts.lite(side)[0]:
            continue
        since = (asker.lapse_ns - facts.session.span[0]) / 1e9
        yield Finding(
            id="consent-missing",
            weight=Weight.FAULT,
            text=f"{facts.letter(side)} was still sending media {since:.0f} s into the capture, "
            "more than 30 s after its last answered check: consent had expired (RFC 7675).",
        )
