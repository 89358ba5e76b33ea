"""Feature by feature: what a server supports, out of the facts of all calls.

True and False were seen; None was not settled (the call that would have told did not connect, or
nothing of the kind was agreed on). Called by `report`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from warp.dtls import DtlsVersion
from warp.sdp import SessionDescription
from warp.sped.attributes import SPED_OPTIONS
from warp_tools.probe.observe import Facts
from warp_tools.probe.plan import (
    DTLS12,
    EVERYTHING,
    HYBRID,
    INSTANT,
    LOST_OURS,
    LOST_THEIRS,
    PLAIN,
    X25519,
)

NO_COOKIE, VERIFY_REQUEST, RETRY_REQUEST = "none", "hello_verify_request", "hello_retry_request"
IN_BAND: Final = "in band"
"""SPED without a word about it in the answer, as some servers do it."""
_SLACK_S: Final = 0.025
_GROUP_TRIALS: Final = (X25519, HYBRID)


@dataclass(frozen=True, slots=True)
class Recovery:
    """What a lost datagram cost, compared with the same call without the loss."""

    connected: bool
    extra_s: float | None
    extra_round_trips: float | None
    lost: int = 0
    """Datagrams that were dropped, of so many that went the same way until it connected."""
    of: int = 0

    def to_json(self) -> dict[str, Any]:
        """Return plain values."""
        extra = None if self.extra_s is None else round(self.extra_s * 1000, 1)
        return {
            "connected": self.connected,
            "extra_ms": extra,
            "extra_round_trips": self.extra_round_trips,
            "dropped": {"datagrams": self.lost, "of": self.of},
        }


@dataclass(frozen=True, slots=True)
class Instant:
    """What became of a call by its first datagram."""

    connected: bool
    attached: bool
    """Whether the offer that came beside it has found the same call."""
    round_trips: float | None
    """From the first datagram, before which nothing was asked."""

    def to_json(self) -> dict[str, Any]:
        """Return plain values."""
        return {
            "connected": self.connected,
            "attached": self.attached,
            "round_trips": self.round_trips,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Features:
    """The server, feature by feature."""

    setup: str | None  # RFC 8842 section 5.3: who begins DTLS
    lite: bool
    candidates: int
    dtls13: bool | None
    dtls12: bool | None
    groups: Mapping[str, bool | None]
    chosen_group: str | None
    cookie: str
    sped: str | None
    """The ice-option that the answer names, or IN_BAND; None: no SPED."""
    flight: str | None
    """How the server's first flight travelled (`observe`) when SPED was offered."""
    snap_answered: bool
    snap_used: bool
    channel: bool | None
    channel_acknowledged: bool | None
    early_media: bool | None
    media: bool
    consent_answered: bool | None
    consent_asked: int
    """Our checks once connected that had the time to be answered, and how many were."""
    consent_replies: int
    consent_checks: int
    """Checks of the server's own after the start; a lite one has none to send."""
    lost_request: Recovery | None
    lost_response: Recovery | None
    instant: Instant | None = None
    """None: no ticket is to be had beside this endpoint (`GET …/v1/instant`)."""

    def to_json(self) -> dict[str, Any]:
        """Return plain values."""
        return {
            "setup": self.setup,
            "ice": {"lite": self.lite, "candidates": self.candidates},
            "dtls": {"1.3": self.dtls13, "1.2": self.dtls12},
            "groups": {**self.groups, "chosen": self.chosen_group},
            "cookie": self.cookie,
            "sped": {"dialect": self.sped, "first_flight": self.flight},
            "snap": {"answered": self.snap_answered, "used": self.snap_used},
            "channel": {"open": self.channel, "acknowledged": self.channel_acknowledged},
            "media": {"heard": self.media, "early": self.early_media},
            "instant": None if self.instant is None else self.instant.to_json(),
            "consent": {
                "answered": self.consent_answered,
                "checks": self.consent_asked,
                "answers": self.consent_replies,
                "own_checks": self.consent_checks,
            },
            "loss": {
                name: None if recovery is None else recovery.to_json()
                for name, recovery in (
                    ("request", self.lost_request),
                    ("response", self.lost_response),
                )
            },
        }


def features_of(calls: Sequence[Facts], answer: SessionDescription | None) -> Features:
    """Return the features; `answer` is the one to the first call that got one."""
    by_name = {facts.name: facts for facts in calls}
    everything = by_name[EVERYTHING.name]
    best = best_of(calls)
    section = next((m for m in answer.media if m.transport.ufrag), None) if answer else None
    data = answer.data_section() if answer is not None else None
    transport = section.transport if section is not None else None
    option = (
        next((o for o in transport.ice_options if o in SPED_OPTIONS), None) if transport else None
    )
    sped = everything.sped_in_band
    return Features(
        setup=transport.setup.value if transport is not None and transport.setup else None,
        lite=answer.ice_lite if answer is not None else False,
        candidates=len(transport.candidates) if transport is not None else 0,
        dtls13=_dtls13(calls),
        dtls12=_dtls12(calls, by_name),
        groups={trial.name: _group(trial.name, calls, by_name) for trial in _GROUP_TRIALS},
        chosen_group=best.group,
        cookie=_cookie(calls),
        sped=(option or IN_BAND) if sped else None,
        flight=everything.flight,
        snap_answered=data is not None and data.sctp is not None and data.sctp.init is not None,
        snap_used=everything.snap,
        channel=None if data is None else best.channel_s is not None,
        channel_acknowledged=None if data is None else best.channel_acked_s is not None,
        early_media=best.early_media if best.media_s is not None else None,
        media=any(facts.media_s is not None for facts in calls),
        consent_answered=everything.checks_answered > 0 if everything.checks_sent else None,
        consent_asked=everything.checks_sent,
        consent_replies=everything.checks_answered,
        consent_checks=everything.checks_received,
        lost_request=_recovery(by_name.get(LOST_OURS.name), everything),
        lost_response=_recovery(by_name.get(LOST_THEIRS.name), everything),
        instant=_instant(by_name.get(INSTANT.name)),
    )


def best_of(calls: Sequence[Facts]) -> Facts:
    """Return the call that tells most: with everything, else plain, else any that connected."""
    by_name = {facts.name: facts for facts in calls}
    for name in (EVERYTHING.name, PLAIN.name, *by_name):
        facts = by_name.get(name)
        if facts is not None and facts.connected:
            return facts
    return calls[0]


def _instant(facts: Facts | None) -> Instant | None:
    if facts is None:
        return None
    trips = least(facts.round_trips(facts.connected_s), facts.connected_trips)
    return Instant(facts.connected, facts.instant == "attached", trips)


def _dtls13(calls: Sequence[Facts]) -> bool | None:
    if any(facts.connected and facts.version is DtlsVersion.DTLS13 for facts in calls):
        return True
    # 1.3 was offered, and 1.2 was chosen
    chose_older = any(facts.connected for facts in calls if facts.name != DTLS12.name)
    return False if chose_older else None


def _dtls12(calls: Sequence[Facts], by_name: Mapping[str, Facts]) -> bool | None:
    if any(facts.connected and facts.version is DtlsVersion.DTLS12 for facts in calls):
        return True
    return False if DTLS12.name in by_name and any(f.connected for f in calls) else None


def _group(name: str, calls: Sequence[Facts], by_name: Mapping[str, Facts]) -> bool | None:
    if any(facts.connected and facts.group == name for facts in calls):
        return True
    if name == HYBRID.name and _dtls13(calls) is False:
        return False  # the hybrid is DTLS 1.3's alone
    trial = by_name.get(name)
    return None if trial is None else trial.connected


def _cookie(calls: Sequence[Facts]) -> str:
    if any(facts.verify_request for facts in calls):
        return VERIFY_REQUEST
    return RETRY_REQUEST if any(facts.retry_cookie for facts in calls) else NO_COOKIE


def _recovery(lossy: Facts | None, whole: Facts) -> Recovery | None:
    if lossy is None:
        return None
    if lossy.connected_s is None or whole.connected_s is None:
        return Recovery(lossy.connected, None, None, lossy.lost, lossy.lost_of)
    usual_s = whole.connected_s
    if whole.connected_trips is not None and whole.rtt_s is not None:
        # what was slow for another reason, as a server's very first call, is no measure
        usual_s = min(usual_s, whole.connected_trips * whole.rtt_s + _SLACK_S)
    extra_s = lossy.connected_s - usual_s
    trips = lossy.round_trips(extra_s)
    return Recovery(True, extra_s, trips, lossy.lost, lossy.lost_of)


def least(clock: float | None, messages: float | None) -> float | None:
    """Return the smaller count of round trips: a slow machine adds to the clock alone."""
    return clock if messages is None or clock is None else min(clock, messages)
