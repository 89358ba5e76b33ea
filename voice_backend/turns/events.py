"""What the machines of turns say upward. Times are milliseconds of media time."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum


class TurnEndReason(Enum):
    """Why a turn was taken for over."""

    COMPLETE = "complete"
    """The turn model said so."""
    UNANSWERED = "unanswered"
    """The turn model owed its word for too long."""
    SILENCE = "silence"
    """It said "not yet", and the silence went on all the same."""


class YieldReason(Enum):
    """Why we gave up the floor."""

    LASTED = "lasted"
    """The user spoke for longer than a back-channel."""
    WORDS = "words"
    """What the user said is not a back-channel."""


@dataclass(frozen=True, slots=True)
class SpeechStarted:
    """The user began to speak."""

    at_ms: int
    over_us: bool
    """While our own voice was sounding."""


@dataclass(frozen=True, slots=True)
class PauseReached:
    """The user paused: the turn model is asked about the speech of this span."""

    question: int
    """To be given back with the answer: answers to older questions are discarded."""
    start_ms: int
    end_ms: int


@dataclass(frozen=True, slots=True)
class TurnEnded:
    """The user's turn is over: an answer may begin."""

    turn: int
    start_ms: int
    end_ms: int
    """Where the speech ended, not where that was noticed."""
    noticed_ms: int
    reason: TurnEndReason


@dataclass(frozen=True, slots=True)
class TurnContinued:
    """The user spoke on before any sample of our answer was played: the answer has to be deleted,
    not truncated, and the turn goes on under its number."""

    turn: int
    at_ms: int


@dataclass(frozen=True, slots=True)
class OutputHeld:
    """The user speaks over us: nothing more of our output may sound for now, but it is kept."""

    at_ms: int
    since_ms: int
    """When the user began."""


@dataclass(frozen=True, slots=True)
class OutputResumed:
    """It was a back-channel: our output goes on where it was held."""

    at_ms: int


@dataclass(frozen=True, slots=True)
class Yielded:
    """We gave up the floor: our output is to be dropped and its epoch ended."""

    at_ms: int
    since_ms: int
    reason: YieldReason


@dataclass(frozen=True, slots=True)
class WordsWanted:
    """A short piece of speech over ours has ended: what was said decides."""

    start_ms: int
    end_ms: int


@dataclass(frozen=True, slots=True)
class BackChannel:
    """The user acknowledged while we had the floor: no turn, nothing to answer."""

    start_ms: int
    end_ms: int


TurnEvent = (
    SpeechStarted
    | PauseReached
    | TurnEnded
    | TurnContinued
    | OutputHeld
    | OutputResumed
    | Yielded
    | WordsWanted
    | BackChannel
)
