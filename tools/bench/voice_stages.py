"""Where the time of an answer goes: what a caller heard and what the voice tells, on one clock.

    last of the question leaves ─ jitter_buffer ─ end_of_speech ─ pause ─ turn_model ─ ears ─▶
    ─ talker_and_mouth ─ way_out ─ lead_in ─▶ first of the answer is heard

Both processes count the same monotonic seconds. Called by `voice`; pure.
"""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

FRAME_MS: Final = 20
_EARLIEST_S: Final = 0.5
"""An answer to what was asked does not begin earlier, before the question's end."""
STAGES: Final = {
    "jitter_buffer": "the delay that the voice's jitter buffer aims at",
    "end_of_speech": "what the detector still takes for speech, and the grid",
    "pause": "silence until it is asked whether the turn is over",
    "turn_model": "its word, and silence enough",
    "ears": "the final text, if it is not known yet",
    "talker_and_mouth": "the answer and its first sound, if they are not ready yet",
    "way_out": "playout, encoder, SRTP, the path",
    "lead_in": "silence that the answer's sound begins with",
}
"""By name, in order."""


class Reply(NamedTuple):
    """One answer as its caller had it, in monotonic seconds."""

    over: float
    """When the question was over."""
    onset: float
    """When the answer was heard."""

    @property
    def ms(self) -> float:
        """How long it took."""
        return max(0.0, self.onset - self.over) * 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class Told:
    """One answer as the voice tells it."""

    call: int
    origin: float
    """When its media time began, in monotonic seconds."""
    begun_ms: int
    """Media time that had been heard when the answer began."""
    delay_ms: float
    course: Mapping[str, int]
    """`ReplyCourse`."""

    @classmethod
    def of_json(cls, told: dict[str, Any]) -> Told:
        """Return what the measured process has written."""
        return cls(**told)

    def when(self, media_ms: int) -> float:
        """Return when so much had been heard."""
        return self.origin + media_ms / 1000


def split(reply: Reply, told: Sequence[Told]) -> dict[str, float] | None:
    """Return the milliseconds of each stage of an answer; None if the voice tells nothing of it."""
    begun = [
        (one.when(one.begun_ms), one)
        for one in told
        if reply.over - _EARLIEST_S <= one.when(one.begun_ms) <= reply.onset
    ]
    if not begun:
        return None
    began, one = max(begun, key=lambda pair: pair[0])
    course = one.course
    known = (one.when(course["speech_end_ms"]) - reply.over) * 1000
    return {
        "jitter_buffer": one.delay_ms,
        "end_of_speech": known - one.delay_ms,
        "pause": course["asked_ms"] - course["speech_end_ms"],
        "turn_model": course["ended_ms"] - course["asked_ms"],
        "ears": course["heard_ms"] - course["ended_ms"],
        "talker_and_mouth": one.begun_ms - course["heard_ms"],
        "way_out": (reply.onset - began) * 1000 - course["lead_ms"],
        "lead_in": course["lead_ms"],
    }


def medians(calls: Mapping[int, Sequence[Reply]], told: Sequence[Told]) -> dict[str, float]:
    """Return the median of each stage over all answers, by the calls' numbers; empty for none."""
    parts = []
    for number, replies in calls.items():
        mine = [one for one in told if one.call == number]
        parts += [found for reply in replies if (found := split(reply, mine)) is not None]
    if not parts:
        return {}
    return {name: round(statistics.median(part[name] for part in parts), 1) for name in STAGES}
