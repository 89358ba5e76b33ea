"""Who has the floor: the meeting place of speech, end of turn and overlap.

    receive_frame(at_ms, duration_ms, likelihood)   the user's side, once a frame of the detector
    receive_output(at_ms, duration_ms, audible, more)   our side, once a frame of playout
    receive_verdict(question, complete)             the turn model's word
    receive_words(text), receive_hint()             what was understood of the speech under way
    events() ──▶ PauseReached, TurnEnded, OutputHeld, Yielded, BackChannel, ...

That we speak is derived from what was *played*, never from what was generated or asked for: a reply
that was cancelled before its first sample cannot leave us "speaking" in silence.
"""

from __future__ import annotations

from enum import Enum

from voice_backend.turns.config import TurnConfig
from voice_backend.turns.end_of_turn import EndOfTurn, TurnState
from voice_backend.turns.events import (
    BackChannel,
    PauseReached,
    SpeechStarted,
    TurnContinued,
    TurnEnded,
    TurnEvent,
    Yielded,
)
from voice_backend.turns.overlap import Overlap
from voice_backend.turns.speech import Speech
from warp.trace import Trace


class Holder(Enum):
    """Who is speaking."""

    NOBODY = "nobody"
    USER = "user"
    ASSISTANT = "assistant"
    BOTH = "both"


class Floor:
    """One conversation's floor. Clockless: media time comes with every frame."""

    __slots__ = (
        "_config", "_events", "_last_audible_ms", "_overlap", "_speech", "_trace", "_turns",
        "_unanswered_ms",
    )  # fmt: skip

    def __init__(self, config: TurnConfig | None = None, trace: Trace | None = None) -> None:
        self._config = config or TurnConfig()
        self._trace = trace
        self._speech = Speech(self._config)
        self._turns = EndOfTurn(self._config, self._speech)
        self._overlap = Overlap(self._config)
        self._events: list[TurnEvent] = []
        self._last_audible_ms: int | None = None
        # when a turn ended of whose answer nothing was played yet
        self._unanswered_ms: int | None = None

    @property
    def holder(self) -> Holder:
        """Who is speaking at present; a short pause is still speaking."""
        if self._speech.speaking:
            return Holder.BOTH if self.speaking else Holder.USER
        return Holder.ASSISTANT if self.speaking else Holder.NOBODY

    @property
    def speaking(self) -> bool:
        """Whether our own voice sounds, or is only held."""
        return self._last_audible_ms is not None

    @property
    def held(self) -> bool:
        """Whether our output may not sound at present."""
        return self._overlap.held

    @property
    def turn(self) -> int:
        """Number of the user's turn under way, or of the last one."""
        return self._turns.turn

    @property
    def in_turn(self) -> bool:
        """Whether that turn is under way."""
        return self._turns.state is not TurnState.QUIET

    @property
    def span(self) -> tuple[int, int] | None:
        """Where the user's speech under way began and last sounded; None while nobody speaks."""
        start_ms = self._speech.start_ms
        return None if start_ms is None else (start_ms, self._speech.end_ms)

    def go_on(self, start_ms: int, end_ms: int, now_ms: int) -> None:
        """Take up a user's turn that began elsewhere and is not answered; `end_ms` is where it last
        sounded: the silence since then counts, so that it is soon asked whether it is over.
        """
        self._speech.go_on(start_ms, end_ms, now_ms)
        self._turns.begin()

    def receive_frame(self, at_ms: int, duration_ms: int, likelihood: float) -> None:
        """Take one frame of the user's side: where it begins, and how likely it is speech."""
        was_speaking = self._speech.speaking
        self._speech.receive_frame(at_ms, duration_ms, likelihood)
        if not self._speech.speaking:
            return
        if not was_speaking:
            self._begin_speech()
        if self.speaking or self._overlap.open:
            self._receive_overlap()
        self._advance()

    def receive_output(self, at_ms: int, duration_ms: int, audible: bool, more: bool) -> None:
        """Take one frame of our side as it was played.

        `audible` says that it was sound of ours, `more` that there is more to play (held output
        counts).
        """
        now_ms = at_ms + duration_ms
        if audible:
            self._last_audible_ms = now_ms
            self._unanswered_ms = None
        elif self._last_audible_ms is None:
            return
        elif self._overlap.held and more:
            self._last_audible_ms = now_ms  # its silence is our own doing
        else:
            patience_ms = self._config.stalled_ms if more else self._config.audible_ms
            if self._overlap.held or now_ms - self._last_audible_ms > patience_ms:
                self._end_output()

    def receive_cancelled(self) -> None:
        """Our output was dropped, or none is going to come: we do not speak any more."""
        self._unanswered_ms = None
        self._end_output()

    def receive_verdict(self, question: int, complete: float) -> None:
        """Take the turn model's likelihood, 0 to 1, that the user has finished."""
        self._receive_turn_event(self._turns.receive_verdict(question, complete))

    def receive_words(self, text: str) -> None:
        """Take what is understood so far of the user's speech; each call replaces the last."""
        self._say(self._overlap.receive_words(text, self._speech.now_ms))

    def receive_hint(self) -> None:
        """What the user utters now sounds like an acknowledgement."""
        self._say(self._overlap.receive_hint(self._speech.now_ms))

    def events(self) -> list[TurnEvent]:
        """Drain what has happened."""
        events, self._events = self._events, []
        return events

    def _begin_speech(self) -> None:
        start_ms = self._speech.start_ms or 0
        ended_ms, self._unanswered_ms = self._unanswered_ms, None
        if ended_ms is not None and start_ms - ended_ms <= self._config.continue_ms:
            self._turns.continue_turn()
            self._say([TurnContinued(self._turns.turn + 1, start_ms)])
        self._say([SpeechStarted(start_ms, over_us=self.speaking)])

    def _receive_overlap(self) -> None:
        speech = self._speech
        if speech.silent_ms == 0:
            start_ms = speech.start_ms or 0
            if self._overlap.open or self._turns.state is TurnState.QUIET:
                self._say(self._overlap.receive_speech(start_ms, speech.end_ms, speech.now_ms))
        elif speech.silent_ms >= self._config.pause_ms:
            self._say(self._overlap.receive_pause(speech.now_ms))
            self._say(self._overlap.receive_silence(speech.now_ms))

    def _advance(self) -> None:
        # until it is decided what the speech over ours was, it is no turn that could end
        if not self._overlap.open and self._speech.speaking:
            self._receive_turn_event(self._turns.advance())

    def _receive_turn_event(self, event: PauseReached | TurnEnded | None) -> None:
        if event is None:
            return
        if isinstance(event, TurnEnded):
            self._unanswered_ms = None if self.speaking else event.end_ms
        self._say([event])

    def _end_output(self) -> None:
        self._last_audible_ms = None
        if self._overlap.end() and self._speech.speaking:
            self._turns.begin()

    def _say(self, events: list[TurnEvent]) -> None:
        for event in events:
            if isinstance(event, BackChannel):
                self._turns.forget()
            elif isinstance(event, Yielded):
                self._turns.begin()
            if self._trace is not None:
                what = {"event": type(event).__name__}
                self._trace.emit(self._speech.now_ms / 1000, "turns:happened", what)
        self._events += events
