"""A probe's report for people. Called by the command `warp probe`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from warp_tools.capture.finding import several
from warp_tools.probe.features import IN_BAND, NO_COOKIE, Features, Recovery
from warp_tools.probe.grade import CONSENT_S, SLOW_S
from warp_tools.probe.observe import BARE, REQUEST, RESPONSE, Facts
from warp_tools.probe.plan import LOST_OURS, LOST_THEIRS
from warp_tools.probe.run import Report

_WORDS: Final = {True: "yes", False: "no", None: "not settled"}
_NOISE_MS: Final = 25
_WAITED_TRIPS: Final = 1.0
_FLIGHTS: Final = {
    RESPONSE: "its first flight rides in the answer to a check",
    REQUEST: "its first flight rides in a check of its own",
    BARE: "its first flight comes bare",
    None: "no flight of its was seen",
}


def lines(report: Report) -> Iterator[str]:
    """Yield the report, line by line."""
    grade, features = report.grade, report.features
    yield f"{report.url}: grade {grade.letter} ({grade.points} of 100)"
    yield from _start(report)
    yield ""
    for name, text in _rows(features):
        yield f"  {name:<12}{text}"
    if grade.reasons:
        yield ""
        for reason in sorted(grade.reasons, key=lambda reason: -reason.points):
            yield f"  −{reason.points:<3} {reason.text}"
    yield ""
    yield from (_call(facts) for facts in report.calls)
    sent = report.to_json()["sent"]
    how = "each ended by DELETE" if report.ends_sessions else "none of which it lets us end by HTTP"
    yield f"  {sent['calls']} calls, {sent['datagrams']} datagrams, {sent['bytes']} bytes, {how}"


def _start(report: Report) -> Iterator[str]:
    best = report.best
    if not best.connected:
        return
    moments = (("DTLS", best.connected_s), ("channel", best.channel_s), ("media", best.media_s))
    parts = [f"{name} after {best.round_trips(at)}" for name, at in moments if at is not None]
    own = f", {2000 * report.delay_s:.0f} ms of it the probe's own" if report.delay_s else ""
    rtt = f"{(best.rtt_s or 0) * 1000:.0f} ms"
    yield f"  {', '.join(parts)} round trips of {rtt}{own}{_waited(best)}"


def _waited(facts: Facts) -> str:
    """Say so where the clock shows more round trips than messages that wait for each other."""
    clock, messages = facts.round_trips(facts.connected_s), facts.connected_trips
    if clock is None or messages is None or clock - messages < _WAITED_TRIPS:
        return ""
    if facts.name in (LOST_OURS.name, LOST_THEIRS.name):
        return ""  # a timer was to be waited for
    return f" ({messages:g} by messages: the rest it waited)"


def _rows(features: Features) -> Iterator[tuple[str, str]]:
    yield "DTLS", f"1.3 {_WORDS[features.dtls13]}, 1.2 {_WORDS[features.dtls12]}"
    groups = ", ".join(f"{name} {_WORDS[known]}" for name, known in features.groups.items())
    yield "groups", f"{groups}; chosen: {features.chosen_group or 'none'}"
    kind = "lite" if features.lite else "full"
    many = "candidate" if features.candidates == 1 else "candidates"
    yield "ICE", f"{kind}, {features.candidates} {many}, setup:{features.setup or '?'}"
    yield "SPED", _sped(features)
    yield "SNAP", _snap(features)
    yield "Instant", _instant(features)
    yield "channel", _channel(features)
    cookie = "no" if features.cookie == NO_COOKIE else features.cookie.replace("_", " ")
    yield "cookie", cookie
    yield "media", _media(features)
    yield "consent", _consent(features)
    if features.lost_request is not None:
        which = "the first of each path" if features.lost_request.lost > 1 else "the first"
        yield "loss", _loss(features.lost_request, "to", which)
        yield "", _loss(features.lost_response, "from", "the one with its hello")


def _sped(features: Features) -> str:
    if features.sped is None:
        return "no"
    how = "in band, unannounced" if features.sped == IN_BAND else f"as `{features.sped}`"
    return f"{how}; {_FLIGHTS[features.flight]}"


def _snap(features: Features) -> str:
    if features.snap_used:
        return "yes"
    return "answered, but an INIT was sent all the same" if features.snap_answered else "no"


def _instant(features: Features) -> str:
    instant = features.instant
    if instant is None:
        return "no tickets are given out beside this endpoint"
    if not instant.connected:
        return "tickets are given out, and the first datagram began no call"
    beside = "joined it" if instant.attached else "was another call's"
    return f"the first datagram begins the call, its offer {beside}"


def _channel(features: Features) -> str:
    if features.channel is None:
        return "no data section in the answer"
    if not features.channel:
        return "none opened"
    return "opened, acknowledged" if features.channel_acknowledged else "opened, not acknowledged"


def _media(features: Features) -> str:
    if not features.media:
        return "none was heard"
    return "heard, before it could have our Finished" if features.early_media else "heard"


def _consent(features: Features) -> str:
    asked, missing = features.consent_asked, features.consent_asked - features.consent_replies
    said = f"answers checks in a call ({features.consent_replies} of {asked})"
    if not asked:
        said = "none of ours was due"
    elif missing == asked:
        said = f"answers no check in a call (0 of {asked}): clients give up after {CONSENT_S} s"
    elif missing:
        said = (
            f"answers checks in a call ({features.consent_replies} of {asked}; {missing} not, "
            f"lost perhaps: it takes {CONSENT_S} s without any to end a call)"
        )
    own = "" if features.lite else f"; sends its own ({features.consent_checks} seen)"
    return said + own


def _loss(recovery: Recovery | None, way: str, which: str) -> str:
    """Say what was dropped, of how many, and what became of the call."""
    if recovery is None:
        return f"of datagrams {way} the server: not tried"
    if recovery.lost:
        sent = several(recovery.of, "datagram")
        said = f"dropped on purpose: {recovery.lost} of {sent} {way} the server, {which}"
    else:
        said = f"dropped on purpose: no datagram {way} the server, there was none"
    return f"{said}; {_outcome(recovery)}"


def _outcome(recovery: Recovery) -> str:
    if not recovery.connected:
        return "not connected" + (", it was never made up for" if recovery.lost else "")
    if recovery.extra_s is None:
        return "connected, and no call without a loss to compare with"
    extra_ms = recovery.extra_s * 1000
    if extra_ms <= _NOISE_MS:
        return "connected no later"
    noticed = ", which a caller notices" if recovery.extra_s > SLOW_S else ""
    return f"connected {extra_ms:.0f} ms later{noticed}"


def _call(facts: Facts) -> str:
    if not facts.connected:
        return f"  {facts.what}: not connected ({facts.error or 'no reason given'})"
    version = {"1.2": "DTLS 1.2", "1.3": "DTLS 1.3"}.get(facts.to_json()["dtls_version"] or "", "")
    after = facts.round_trips(facts.connected_s)
    said = f"{version}, {facts.group}, connected after {after} round trips{_waited(facts)}"
    return f"  {facts.what}: {said}"
