"""Whether the user has finished: silence asks, the turn model answers, patience has an end.

QUIET ──speech──▶ SPEAKING ──pause_ms of silence──▶ ASKED ──"complete"──▶ SETTLING
                                                    │   ▲                    │
                                          "not yet" ▼   │ again_ms           │ settle_ms of silence
                                                   WAITING                   ▼
    ASKED, WAITING, SETTLING ──speech──▶ SPEAKING                          QUIET  (TurnEnded)
    ASKED for unanswered_ms, WAITING for patience_ms ─────────────────────▶
"""

from __future__ import annotations

from enum import Enum, auto

from voice_backend.turns.config import TurnConfig
from voice_backend.turns.events import PauseReached, TurnEnded, TurnEndReason
from voice_backend.turns.speech import Speech


class TurnState(Enum):
    """Where a user's turn stands."""

    QUIET = auto()
    SPEAKING = auto()
    ASKED = auto()
    WAITING = auto()
    SETTLING = auto()


class Input(Enum):
    """What can happen to it."""

    SPEECH = auto()
    PAUSE = auto()
    NOT_YET = auto()
    COMPLETE = auto()
    AGAIN = auto()
    END = auto()


_TABLE: dict[tuple[TurnState, Input], TurnState] = {
    (TurnState.QUIET, Input.SPEECH): TurnState.SPEAKING,
    (TurnState.SPEAKING, Input.PAUSE): TurnState.ASKED,
    (TurnState.ASKED, Input.SPEECH): TurnState.SPEAKING,
    (TurnState.ASKED, Input.NOT_YET): TurnState.WAITING,
    (TurnState.ASKED, Input.COMPLETE): TurnState.SETTLING,
    (TurnState.ASKED, Input.END): TurnState.QUIET,
    (TurnState.SETTLING, Input.SPEECH): TurnState.SPEAKING,
    (TurnState.SETTLING, Input.END): TurnState.QUIET,
    (TurnState.WAITING, Input.SPEECH): TurnState.SPEAKING,
    (TurnState.WAITING, Input.AGAIN): TurnState.ASKED,
    (TurnState.WAITING, Input.END): TurnState.QUIET,
}


class EndOfTurn:
    """One user's turns. Told of frames by `Floor`, which owns the span of speech."""

    __slots__ = ("_asked_ms", "_config", "_question", "_speech", "state", "turn")

    def __init__(self, config: TurnConfig, speech: Speech) -> None:
        self._config = config
        self._speech = speech
        self._question = 0
        self._asked_ms = 0
        self.turn = 0
        """Number of the turn under way, or of the last one."""
        self.state = TurnState.QUIET

    def advance(self) -> PauseReached | TurnEnded | None:
        """Look at the span after a frame of it was received."""
        if not self._speech.speaking:
            return None
        silent = self._speech.silent_ms
        if silent == 0:
            self._receive_speech()
        elif self.state is TurnState.SPEAKING and silent >= self._config.pause_ms:
            return self._ask(Input.PAUSE)
        elif self.state is TurnState.ASKED and silent >= self._config.unanswered_ms:
            return self._end(TurnEndReason.UNANSWERED)
        elif self.state is TurnState.SETTLING:
            return self._settle()
        elif self.state is TurnState.WAITING:
            if silent >= self._config.patience_ms:
                return self._end(TurnEndReason.SILENCE)
            if self._speech.now_ms - self._asked_ms >= self._config.again_ms:
                return self._ask(Input.AGAIN)
        return None

    def receive_verdict(self, question: int, complete: float) -> TurnEnded | None:
        """Take the turn model's likelihood that the user has finished."""
        if self.state is not TurnState.ASKED or question != self._question:
            return None
        if complete < self._config.complete_threshold:
            self._become(Input.NOT_YET)
            return None
        self._become(Input.COMPLETE)
        return self._settle()

    def begin(self) -> None:
        """Speech that was heard as something else turns out to be a turn."""
        if self.state is TurnState.QUIET:
            self._receive_speech()

    def continue_turn(self) -> None:
        """The turn that was taken for over goes on: its number is used again."""
        self.turn -= 1

    def forget(self) -> None:
        """What was spoken is no turn."""
        self.state = TurnState.QUIET
        self._speech.end()

    def _receive_speech(self) -> None:
        if self.state is TurnState.QUIET:
            self.turn += 1
        if self.state is not TurnState.SPEAKING:
            self._become(Input.SPEECH)

    def _settle(self) -> TurnEnded | None:
        """End a turn that is complete, once the silence is long enough to be one's end."""
        if self._speech.silent_ms < self._config.settle_ms or self._speech.resuming:
            return None
        return self._end(TurnEndReason.COMPLETE)

    def _ask(self, what: Input) -> PauseReached:
        self._become(what)
        self._question += 1
        self._asked_ms = self._speech.now_ms
        return PauseReached(self._question, self._speech.start_ms or 0, self._speech.end_ms)

    def _end(self, reason: TurnEndReason) -> TurnEnded:
        self._become(Input.END)
        ended = TurnEnded(
            turn=self.turn,
            start_ms=self._speech.start_ms or 0,
            end_ms=self._speech.end_ms,
            noticed_ms=self._speech.now_ms,
            reason=reason,
        )
        self._speech.end()
        return ended

    def _become(self, what: Input) -> None:
        self.state = _TABLE[self.state, what]
