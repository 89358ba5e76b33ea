"""How the answer to a turn comes about, step by step, for whoever wonders where time goes.

    speech ends ─▶ asked: is it over? ─▶ it is ─▶ its words ─▶ first sound of the answer ─▶ begun

What happens within a frame counts as happened at its end. Called by `conversation`; pure.
"""

from __future__ import annotations

from enum import Enum, auto

from voice_backend.model import ReplyCourse


class Step(Enum):
    """What happens on the way."""

    ASKED = auto()
    ENDED = auto()
    HEARD = auto()
    MADE = auto()


class Course:
    """One conversation's; of the turn that is answered next."""

    __slots__ = ("_fresh", "_lead_ms", "_speech_end_ms", "_times")

    def __init__(self) -> None:
        self._times: dict[Step, int] = {}
        self._fresh: set[Step] = set()
        self._speech_end_ms = 0
        self._lead_ms = 0

    def receive_step(self, step: Step) -> None:
        """Note that something happened in the frame under way; the last time counts."""
        self._fresh.add(step)

    def receive_end(self, speech_end_ms: int) -> None:
        """Note that a turn is over, and where its speech ended."""
        self._fresh -= {Step.HEARD}
        self._times.pop(Step.HEARD, None)
        self._speech_end_ms = speech_end_ms
        self._fresh.add(Step.ENDED)

    def receive_sound(self, lead_ms: int) -> None:
        """Note that the beginning of an answer is there, and how long it is silent."""
        self._lead_ms = lead_ms
        self._fresh.add(Step.MADE)

    def settle(self, now_ms: int) -> None:
        """The frame under way ends at `now_ms`."""
        if self._fresh:
            self._times.update(dict.fromkeys(self._fresh, now_ms))
            self._fresh.clear()

    def take(self) -> ReplyCourse | None:
        """Return the way to what is said now; None if it answers no turn."""
        times, self._times = self._times, {}
        if any(step not in times for step in Step):
            return None
        asked_ms, ended_ms = times[Step.ASKED], times[Step.ENDED]
        heard_ms = max(times[Step.HEARD], ended_ms)
        return ReplyCourse(
            speech_end_ms=self._speech_end_ms,
            asked_ms=min(asked_ms, ended_ms),
            ended_ms=ended_ms,
            heard_ms=heard_ms,
            made_ms=max(times[Step.MADE], heard_ms),
            lead_ms=self._lead_ms,
        )
