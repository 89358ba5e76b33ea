"""One slot of the embedded voice: who has the floor, what was heard, what is said.

    frame, likelihoods ─▶ Listener ─▶ jobs: partial, turn, final text ─▶ Talker ─▶ Speaker ─▶ frame
                           ▲   │                                            ▲
                           └─ Floor (turns): ended, held, yielded, back-channel ─┘

Called once a frame by `duplex_cpu`; what its jobs find comes in before the frame. Time is media
time of the slot. Pure but for the jobs, which somebody else runs.
"""

from __future__ import annotations

import copy
from collections import deque
from dataclasses import dataclass, replace
from typing import Final, Protocol

import numpy as np
from numpy.typing import NDArray

from voice_backend.frames import Frame, silence
from voice_backend.model import (
    Cancelled,
    Delegate,
    Inject,
    InText,
    ModelEvent,
    SessionConfig,
    SpeakingOn,
)
from voice_backend.models.course import Course, Step
from voice_backend.models.greeting import Greeting
from voice_backend.models.heard import Memory
from voice_backend.models.hum import heard_as
from voice_backend.models.jobs import JobClass
from voice_backend.models.listener import Asked, Listener, Question, Unheard
from voice_backend.models.mouth import Utterance
from voice_backend.models.own_echo import OwnEcho
from voice_backend.models.speaker import FRAME, Speaker, Wanted
from voice_backend.models.talker import Reply, Talker
from voice_backend.turns.config import TurnConfig
from voice_backend.turns.events import (
    BackChannel,
    OutputHeld,
    OutputResumed,
    PauseReached,
    TurnContinued,
    TurnEnded,
    TurnEvent,
    WordsWanted,
    Yielded,
)
from voice_backend.turns.floor import Floor, Holder

FRAME_MS: Final = 20
MOST_TOLD: Final = 16
"""Texts from outside that wait to be said."""
SUSPECT: Final = 0.3
"""From this likelihood on it is asked whether the sound is our own."""
NOT_CAUGHT: Final = "I am sorry, I did not catch that."
"""Said where the ears have failed: nobody is left in silence for a fault of ours."""


@dataclass(frozen=True, slots=True, kw_only=True)
class State:
    """A conversation: a few hundred bytes, and the sound of a turn that is not answered."""

    memory: Memory
    known: tuple[str, ...]
    texts: list[str]
    """Of a turn that is not answered, what is final."""
    missed: bool
    """Whether the ears have failed at a part of it."""
    unheard: Unheard | None
    """What is left of it; None: there is no such turn."""
    told: list[str]
    delegations: int
    left: list[str]
    """Clauses that are still to be said, the one that is being said as a whole."""
    offset: int
    """Samples of the first of them that have been said."""
    said: int | None
    """Samples of the reply that have been said; None: nothing of it."""


class Senses(Protocol):
    """What does a conversation's work; returns at once."""

    def idle(self) -> bool:
        """Tell whether there is time for guesses: nobody waits for an answer."""

    def hurry(self, kind: JobClass) -> None:
        """What was begun ahead is waited for, and is of this class by now."""

    def hear(self, kind: JobClass, asked: Asked, sound: NDArray[np.float32]) -> None:
        """Find the words; `Conversation.receive_text` gets them."""

    def judge(self, asked: Asked, sound: NDArray[np.float32]) -> None:
        """Find out whether a turn is over; `Conversation.receive_verdict` gets it."""

    def make(self, kind: JobClass, wanted: Wanted) -> None:
        """Speak a clause; `Conversation.receive_made` gets it."""


class Conversation:
    """A conversation. `senses` is how it has its work done."""

    __slots__ = (
        "_course", "_delegations", "_echo", "_events", "_floor", "_greeting", "_listener", "_name",
        "_now_ms", "_owing", "_senses", "_told", "_words", "speaker", "talker",
    )  # fmt: skip

    def __init__(
        self, name: str, config: SessionConfig, talker: Talker, senses: Senses, turns: TurnConfig
    ) -> None:
        """`name` is part of the ids that it gives to what it delegates."""
        self._name = name
        self._senses = senses
        self._floor = Floor(turns)
        self._listener = Listener()
        self._course = Course()
        self._greeting = Greeting(config.greeting_ms)
        self._echo = OwnEcho()
        self._events: list[ModelEvent] = []
        self._told: deque[str] = deque(maxlen=MOST_TOLD)
        self._words = ""  # of the short piece of speech over ours that was heard last
        self._delegations = 0
        self._now_ms = 0
        self._owing = 0  # the turn that is over, and what was said in it is being found out
        self.talker = talker
        self.speaker = Speaker(senses.make, senses.hurry)
        if config.instructions:
            talker.know(config.instructions)
        if config.greeting:
            self._told.append(config.greeting)

    # -- the frame --------------------------------------------------------------------------------

    def receive_frame(
        self, at_ms: int, sound: NDArray[np.float32], likely: list[tuple[int, int, float]]
    ) -> None:
        """Hear a frame; `likely` are the detector's windows that it completed: begin, length
        and likelihood of speech.
        """
        self._now_ms = at_ms
        self._listener.receive_frame(at_ms, sound)
        self._echo.receive_heard(sound)
        for start_ms, length_ms, value in likely:
            # our own voice, come back, is nobody's speech
            if value >= SUSPECT and self._echo.explains():
                value = 0.0
            self._floor.receive_frame(start_ms, length_ms, value)
        self._settle_events()
        self._ask_about_speech()

    def next_frame(self, at_ms: int) -> tuple[Frame, list[ModelEvent]]:
        """Return what is said in this frame and what has happened."""
        silent = self._floor.holder is Holder.NOBODY and not self.speaker.busy
        greets = self._greeting.sounds(at_ms)
        if self._told and silent and not self._owing and not greets:
            self.speaker.say(self._told.popleft())
        if self.speaker.held and not self._floor.held:
            self.speaker.resume()  # what it was held for is over, and was not worth a word
        frame, audible = (silence(FRAME), False) if greets else self.speaker.next_frame(at_ms)
        more = greets or self.speaker.busy or self._greeting.pending
        self._floor.receive_output(at_ms, FRAME_MS, audible or greets, more)
        self._echo.receive_ours(np.float32(1 / 32768) * frame if audible else None)
        self._settle_events()
        self._course.settle(at_ms + FRAME_MS)
        events = self._events + [self._with_course(event) for event in self.speaker.events()]
        self._events = []
        return frame, events

    def _with_course(self, event: ModelEvent) -> ModelEvent:
        if not isinstance(event, SpeakingOn):
            return event
        return replace(event, course=self._course.take())

    # -- what jobs have found ---------------------------------------------------------------------

    def receive_made(self, wanted: Wanted, utterance: Utterance | None) -> None:
        """Take a clause as sound."""
        if utterance is not None:
            self._course.receive_sound(utterance.lead_ms)
        self.speaker.receive_made(wanted, utterance)

    def receive_verdict(self, asked: Asked, complete: float | None) -> None:
        """Take the turn model's word; None: it failed, and silence will decide."""
        if complete is not None:
            self._floor.receive_verdict(asked.number, complete)
            self._settle_events()

    def receive_text(self, asked: Asked, text: str | None) -> None:
        """Take what was said in a span; None: it could not be found out."""
        match asked.what:
            case Question.PARTIAL:
                awaited = self._listener.take_awaited(asked)
                if awaited is not None:
                    self._receive_final(awaited, text)
                elif text and asked.start_ms >= self._listener.final_ms:
                    self._listener.receive_guess(asked, text)
                    self._tell_heard(asked, text, final=False)
                    self._rehearse(asked)
                    if self._floor.holder is Holder.BOTH:
                        self._words = self._heard_as(asked, text)
                        self._floor.receive_words(self._words)
            case Question.WORDS:
                self._words = self._heard_as(asked, text or "")
                self._floor.receive_words(self._words)
            case Question.SEGMENT | Question.FINAL:
                self._receive_final(asked, text)
        self._settle_events()

    # -- from outside -----------------------------------------------------------------------------

    def inject(self, kind: Inject, text: str) -> None:
        """Commentary is said when nobody speaks; the rest is kept in mind."""
        if kind is Inject.COMMENTARY:
            self._told.append(text)
        else:
            self.talker.know(text)

    def cancel(self) -> None:
        """Say nothing more of what there is to say."""
        self._told.clear()
        self._cut_greeting()
        self.speaker.drop(self._now_ms)
        self._floor.receive_cancelled()
        self._settle_events()

    def state(self) -> State:
        """Return what another slot needs to go on: what is known, and what is being said."""
        heard, floor = self._listener, self._floor
        unheard = None
        if floor.in_turn or self._owing:
            unheard = heard.unheard(floor.span if floor.in_turn else None)
        return State(
            memory=copy.deepcopy(self.talker.memory),
            known=self.talker.known,
            texts=[] if unheard is None else list(heard.texts),
            missed=unheard is not None and heard.missed,
            unheard=unheard,
            told=list(self._told),
            delegations=self._delegations,
            left=self.speaker.left,
            offset=self.speaker.offset,
            said=self.speaker.said,
        )

    def go_on(self, state: State) -> None:
        """Go on from another slot's state."""
        self.talker.memory = copy.deepcopy(state.memory)
        for text in state.known:
            self.talker.know(text)
        if state.unheard is not None:
            unheard, heard = state.unheard, self._listener
            self._now_ms = unheard.now_ms
            self._floor.go_on(unheard.start_ms, unheard.end_ms, unheard.now_ms)
            heard.begin_turn(self._floor.turn)
            heard.go_on(unheard)
            heard.missed = state.missed
            for text in state.texts:
                heard.add_text(text)
        self._told = deque(state.told, maxlen=MOST_TOLD)
        self._delegations = state.delegations
        self.speaker.go_on(state.left, state.offset, state.said)

    # -- the floor's events -----------------------------------------------------------------------

    def _settle_events(self) -> None:
        while events := self._floor.events():
            for event in events:
                self._receive_turn_event(event)

    def _receive_turn_event(self, event: TurnEvent) -> None:
        match event:
            case PauseReached(question=question, start_ms=start_ms, end_ms=end_ms):
                self._pause(question, start_ms, end_ms)
            case TurnEnded(turn=turn, start_ms=start_ms, end_ms=end_ms):
                self._course.receive_end(end_ms)
                self._listener.begin_turn(turn)
                self._owing = turn
                self._ask_final(Asked(Question.FINAL, turn, start_ms, end_ms))
            case TurnContinued():
                # of the answer nothing was played: it is as if it had never been
                self.speaker.drop(self._now_ms)
            case OutputHeld():
                self._cut_greeting(pending=True)
                self.speaker.hold()
            case OutputResumed():
                self._greeting.pending = False
                self.speaker.resume()
            case Yielded(at_ms=at_ms):
                self._words = ""
                self._cut_greeting()
                self.speaker.drop(max(at_ms, self._now_ms))
            case WordsWanted(start_ms=start_ms, end_ms=end_ms):
                asked = Asked(Question.WORDS, 0, start_ms, end_ms)
                self._hear_for_certain(asked, self._listener.sound_of(start_ms, end_ms))
            case BackChannel(start_ms=start_ms, end_ms=end_ms):
                self._tell_back_channel(start_ms, end_ms)

    def _cut_greeting(self, *, pending: bool = False) -> None:
        now_ms = self._now_ms
        if self._greeting.cut(now_ms, pending=pending):
            self._events.append(Cancelled(at_ms=now_ms, played_ms=0))

    def _pause(self, question: int, start_ms: int, end_ms: int) -> None:
        self._course.receive_step(Step.ASKED)
        asked = Asked(Question.TURN, question, start_ms, end_ms)
        self._senses.judge(asked, self._listener.sound_of(start_ms, self._now_ms))
        segment = self._listener.segment(start_ms, end_ms, paused=True)
        if segment is not None:
            self._ask_final(segment)

    def _ask_about_speech(self) -> None:
        """Guess at what the user is saying, while it is being said."""
        span = self._floor.span
        if span is None or self._floor.holder is Holder.ASSISTANT:
            return
        self._listener.begin_turn(self._floor.turn)
        segment = self._listener.segment(*span, paused=False)
        if segment is not None:
            self._ask_final(segment)
            return
        asked = self._listener.guess(*span, idle=self._senses.idle())
        if asked is not None:
            sound = self._listener.sound_of(asked.start_ms, asked.end_ms)
            kind = JobClass.HALTED if self._listener.halted(asked) else JobClass.PARTIAL
            self._senses.hear(kind, asked, sound)

    def _ask_final(self, asked: Asked) -> None:
        asked = self._listener.unsettled(asked)
        text = self._listener.guessed(asked)
        awaited = not text and self._listener.await_guess(asked)
        sound = self._listener.sound_to_hear(asked)
        self._listener.ask(asked)
        if text:
            self._receive_final(asked, text)
        elif awaited:
            self._senses.hurry(JobClass.FINAL_TEXT)
        else:
            self._hear_for_certain(asked, sound)

    def _rehearse(self, guess: Asked) -> None:
        """Have the beginning of the answer made, should what was guessed at be all."""
        span = self._floor.span
        if self._floor.holder is not Holder.USER or span is None:
            return
        text = self._listener.guessed(Asked(Question.FINAL, guess.number, *span))
        if text:
            heard = " ".join([*self._listener.texts, text])
            self.speaker.prepare(self.talker.rehearse(heard))

    def _hear_for_certain(self, asked: Asked, sound: NDArray[np.float32]) -> None:
        self._listener.forget_guess()
        self._senses.hear(JobClass.FINAL_TEXT, asked, sound)

    # -- words ------------------------------------------------------------------------------------

    def _receive_final(self, asked: Asked, text: str | None) -> None:
        current = asked.number == self._listener.turn
        if text is not None:
            self._tell_certain(asked, text)
        self._listener.receive_final(asked, text)
        if asked.what is Question.SEGMENT:
            return
        if asked.number == self._owing:
            self._owing = 0
        if not current:
            return
        self._course.receive_step(Step.HEARD)
        if self._floor.holder in (Holder.USER, Holder.BOTH):
            return  # the user speaks on: the turn continues, and is answered when it is over
        reply = self._reply()
        if not reply.text:
            if not self.speaker.busy:
                self._floor.receive_cancelled()
            return
        if reply.delegate:
            self._delegations += 1
            name = f"delegation_{self._name}_{self._delegations}"
            self._events.append(
                Delegate(delegation_id=name, offset_ms=self._now_ms, acknowledged=True)
            )
        self.speaker.say(reply.text)

    def _reply(self) -> Reply:
        if self._listener.missed:
            # half of what was said may ask for something else than the whole
            return Reply(text=NOT_CAUGHT)
        heard = " ".join(self._listener.texts)
        return self.talker.answer(heard) if heard else Reply()

    def _heard_as(self, asked: Asked, text: str) -> str:
        return heard_as(text, self._listener.sound_of(asked.start_ms, asked.end_ms))

    def _tell_heard(self, asked: Asked, text: str, *, final: bool) -> None:
        self._events.append(
            InText(delta=text, start_ms=asked.start_ms, end_ms=asked.end_ms, final=final)
        )

    def _tell_certain(self, asked: Asked, text: str) -> None:
        """Tell what was said, and that nothing was, where something had been guessed."""
        if text or self._listener.guessed_at(asked):
            self._tell_heard(asked, text, final=True)

    def _tell_back_channel(self, start_ms: int, end_ms: int) -> None:
        asked = Asked(Question.WORDS, 0, start_ms, end_ms)
        words, self._words = self._words, ""
        self._tell_certain(asked, words)
        self._listener.settle(asked)
