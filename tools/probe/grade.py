"""How good a start is, in points and a letter, with the reason for each point that is missing.

    100 ─ what each round trip, gap and weakness costs ─▶ 90 A · 75 B · 60 C · 45 D · 30 E · F

A voice call that starts in one round trip, on present-day cryptography, and that a lost datagram
does not hold up, has all 100. Called by `report`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from warp_tools.probe.features import NO_COOKIE, Features, Recovery, best_of, least
from warp_tools.probe.observe import Facts

LETTERS: Final = ((90, "A"), (75, "B"), (60, "C"), (45, "D"), (30, "E"))
_ROUND_TRIP, _CHANNEL_ROUND_TRIP = 15, 5
_OLD_VERSION, _NO_HYBRID, _COOKIE, _NO_CONSENT = 10, 5, 5, 10
_SLOW_RECOVERY, _NO_RECOVERY = 5, 15
_HALF: Final = 0.5
CONSENT_S: Final = 30
"""A client ends a call after so long without an answer (RFC 7675 section 5.1)."""
SLOW_S: Final = 0.6
"""A lost datagram may cost a retransmission timer; beyond this a listener notices."""


@dataclass(frozen=True, slots=True)
class Reason:
    """Why points are missing: a stable id, and a sentence."""

    id: str
    points: int
    text: str


@dataclass(frozen=True, slots=True)
class Grade:
    """The verdict."""

    letter: str
    points: int
    reasons: tuple[Reason, ...]


def grade(calls: Sequence[Facts], features: Features) -> Grade:
    """Return the grade; F at once for a server that no call has reached."""
    best = best_of(calls)
    if not best.connected:
        why = best.error or "it never connected"
        return Grade("F", 0, (Reason("not_connected", 100, f"no call connected: {why}"),))
    reasons = [
        *_start(best, features),
        *_cryptography(features),
        *_recoveries(features),
        *_consent(features),
    ]
    points = max(0, 100 - sum(reason.points for reason in reasons))
    letter = next((letter for least, letter in LETTERS if points >= least), "F")
    return Grade(letter, points, tuple(reasons))


def whole(round_trips: float | None) -> int:
    """Return a number of round trips as an onlooker counts them."""
    return 0 if round_trips is None else int(round_trips + _HALF)


def trips(count: int) -> str:
    """Return a number of round trips in words."""
    return "1 round trip" if count == 1 else f"{count} round trips"


def _start(best: Facts, features: Features) -> list[Reason]:
    reasons = []
    connected = max(whole(least(best.round_trips(best.connected_s), best.connected_trips)), 1)
    if connected > 1:
        more = connected - 1
        reasons.append(
            Reason(
                "round_trips",
                more * _ROUND_TRIP,
                f"{trips(connected)} until DTLS is done; with SPED and `setup:passive` it is one",
            )
        )
    if best.channel_s is not None and best.connected_s is not None:
        later = whole(least(best.round_trips(best.channel_s - best.connected_s), _after(best)))
        if later:
            reasons.append(
                Reason(
                    "channel_round_trips",
                    later * _CHANNEL_ROUND_TRIP,
                    f"channels open {trips(later)} after DTLS; with SNAP it is none",
                )
            )
    if features.cookie != NO_COOKIE:
        name = features.cookie.replace("_", " ")
        reasons.append(
            Reason(
                "cookie",
                _COOKIE,
                f"a cookie exchange ({name}), though ICE has verified the address already",
            )
        )
    return reasons


def _after(best: Facts) -> float | None:
    """Return the round trips by messages between DTLS and the channel."""
    if best.channel_trips is None or best.connected_trips is None:
        return None
    return max(0.0, best.channel_trips - best.connected_trips)


def _cryptography(features: Features) -> list[Reason]:
    reasons = []
    if features.dtls13 is False:
        reasons.append(Reason("no_dtls13", _OLD_VERSION, "no DTLS 1.3 (RFC 9147)"))
    if features.groups.get("x25519mlkem768") is False:
        text = "no X25519MLKEM768: what is recorded today can be read by a quantum computer"
        reasons.append(Reason("no_hybrid", _NO_HYBRID, text))
    return reasons


def _recoveries(features: Features) -> list[Reason]:
    reasons = []
    for name, recovery in (
        ("request", features.lost_request),
        ("response", features.lost_response),
    ):
        reason = _recovery(name, recovery)
        if reason is not None:
            reasons.append(reason)
    return reasons


def _recovery(name: str, recovery: Recovery | None) -> Reason | None:
    whose = "the client's first datagram" if name == "request" else "the server's first flight"
    if recovery is None:
        return None
    if not recovery.connected:
        return Reason(
            f"lost_{name}_fatal", _NO_RECOVERY, f"it does not get over the loss of {whose}"
        )
    if recovery.extra_s is not None and recovery.extra_s > SLOW_S:
        text = f"the loss of {whose} costs {recovery.extra_s * 1000:.0f} ms"
        return Reason(f"lost_{name}_slow", _SLOW_RECOVERY, text)
    return None


def _consent(features: Features) -> list[Reason]:
    if features.consent_answered is False:
        text = f"it answers no checks in a call: clients give up after {CONSENT_S} s (RFC 7675)"
        return [Reason("no_consent", _NO_CONSENT, text)]
    return []
