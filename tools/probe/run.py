"""`warp probe URL`: a few calls to somebody's server, and what they tell about it.

    plan ─▶ attempt (one call after another) ─▶ observe ─▶ features ─▶ grade ─▶ Report

Never more than `MAX_SESSIONS` calls, each of them short, bounded and ended by DELETE.
"""

from __future__ import annotations

import urllib.parse
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from warp.entropy import SystemEntropy
from warp.io.credentials import default_certificate
from warp.sdp import SessionDescription
from warp_tools.failure import ToolFailure
from warp_tools.probe.attempt import Attempt, attempt
from warp_tools.probe.features import Features, best_of, features_of
from warp_tools.probe.grade import Grade, grade
from warp_tools.probe.instant import Ticket, fetch_ticket, offers_url
from warp_tools.probe.observe import Facts, observe
from warp_tools.probe.plan import EVERYTHING, INSTANT, ProbeConfig, Trial, further_trials
from warp_tools.probe.rehearsal import rehearse

Say = Callable[[str], object]


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """Everything that was found out."""

    url: str
    calls: tuple[Facts, ...]
    features: Features
    grade: Grade
    ends_sessions: bool
    """Whether the endpoint said where a session is ended (Location, RFC 9725 section 4.2)."""
    delay_s: float

    @property
    def best(self) -> Facts:
        """The call that tells most."""
        return best_of(self.calls)

    def to_json(self) -> dict[str, Any]:
        """Return the report as plain values."""
        best = self.best
        return {
            "url": self.url,
            "grade": self.grade.letter,
            "points": self.grade.points,
            "reasons": [
                {"id": reason.id, "points": reason.points, "text": reason.text}
                for reason in self.grade.reasons
            ],
            "round_trips": best.to_json()["round_trips"],
            "features": self.features.to_json(),
            "endpoint": {
                "ends_sessions": self.ends_sessions,
                "signalling_ms": best.to_json()["signalling_ms"],
            },
            "calls": [facts.to_json() for facts in self.calls],
            "delay_ms": round(2000 * self.delay_s, 1),
            "sent": {
                "calls": len(self.calls),
                "datagrams": sum(facts.datagrams_sent for facts in self.calls),
                "bytes": sum(facts.bytes_sent for facts in self.calls),
            },
        }


async def probe(config: ProbeConfig, say: Say = lambda _: None) -> Report:
    """Probe a server. Raises ToolFailure, one line, when there is none to be found."""
    asked = config.url
    config = replace(config, url=offers_url(asked))
    certificate = default_certificate(SystemEntropy())
    rehearse(certificate)
    calls: list[Facts] = []
    described: SessionDescription | None = None
    ends_sessions = True

    async def call(trial: Trial, hold_s: float, ticket: Ticket | None = None) -> Attempt:
        nonlocal described, ends_sessions
        say(f"call {len(calls) + 1}: {trial.what}")
        try:
            done = await attempt(trial, config, certificate, hold_s, ticket)
        except ToolFailure as failure:
            if ticket is None:
                raise
            done = Attempt(trial, error=str(failure))  # the other ways in are still there
        if ticket is None:
            described = described or done.description
            ends_sessions = ends_sessions and done.location
        calls.append(observe(done))
        return done

    first = await call(EVERYTHING, max(config.settle_s, config.consent_s))
    if not first.heard:
        raise ToolFailure(_silence(config.url, first))
    config = replace(config, url=first.url or config.url)
    group = first.stats.get("dtls_group")
    ticket = await fetch_ticket(config.url, config.token)
    given = ticket is not None
    for trial in further_trials(calls[0].version, group, loss=config.loss, instant=given):
        await call(trial, config.settle_s, ticket if trial is INSTANT else None)
    features = features_of(calls, described)
    return Report(
        url=_without_secrets(asked),
        calls=tuple(calls),
        features=features,
        grade=grade(calls, features),
        ends_sessions=ends_sessions,
        delay_s=config.delay_s,
    )


def _silence(url: str, first: Attempt) -> str:
    """Say where nothing came from."""
    host = urllib.parse.urlsplit(url).netloc.rpartition("@")[2]
    sections = first.description.media if first.description is not None else ()
    lines = [line for section in sections for line in section.transport.candidates]
    places = [f"{parts[4]}:{parts[5]}" for parts in map(str.split, lines) if len(parts) > 5]
    if not places:
        return f"{host} answers without a candidate: there is no address to send to"
    asked = ", ".join(places[:4])
    return f"{host} answers the offer, but nothing comes over UDP from {asked}: is it reachable?"


def _without_secrets(url: str) -> str:
    """Return a URL without user and password."""
    parts = urllib.parse.urlsplit(url)
    return urllib.parse.urlunsplit(parts._replace(netloc=parts.netloc.rpartition("@")[2]))
