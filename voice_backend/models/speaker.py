"""What is being said: clauses made one ahead of the other, cut into frames, stopped at once.

    say(text) ─▶ clauses ─▶ Mouth, one job at a time ─▶ utterances ─▶ next_frame ─▶ 20 ms
                   ▲                                    hold / resume    │
    prepare(text) ─┘ the first clause, ahead of `say`   drop ────────────┘ Cancelled

Words are told as they begin to sound, so a word that was never begun was never told.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from voice_backend.frames import Frame, silence
from voice_backend.model import Cancelled, ModelEvent, OutText, SpeakingOff, SpeakingOn
from voice_backend.models.clauses import clauses
from voice_backend.models.jobs import JobClass
from voice_backend.models.mouth import RATE, Utterance

FRAME: Final = RATE // 50
FRAME_MS: Final = 20
MOST_CLAUSES: Final = 64
"""What a reply may have; the rest of a longer one is not said."""
READY_AHEAD: Final = 2
"""Utterances that lie ready behind the one that is played."""
RAMP: Final = FRAME // 4


@dataclass(frozen=True, slots=True)
class Wanted:
    """A clause that the mouth is to make."""

    text: str
    last: bool
    generation: int


class Speaker:
    """Our side of one conversation. `make` hands a clause to the mouth, `hurry` says that what was
    made ahead is waited for by now.
    """

    __slots__ = (
        "_at", "_clauses", "_events", "_fading", "_generation", "_hurry", "_make", "_making",
        "_prepared", "_ready", "_said", "_skip", "_word", "held",
    )  # fmt: skip

    def __init__(
        self, make: Callable[[JobClass, Wanted], None], hurry: Callable[[JobClass], None]
    ) -> None:
        self._make = make
        self._hurry = hurry
        self._clauses: deque[str] = deque()
        self._ready: deque[Utterance] = deque()
        self._making: Wanted | None = None
        self._prepared: tuple[Wanted, Utterance | None] | None = None
        self._generation = 0
        self._at = 0
        self._word = 0
        self._skip = 0
        self._said: int | None = None
        self._events: list[ModelEvent] = []
        self._fading = False
        self.held = False
        """Nothing may sound for now, and nothing is lost."""

    @property
    def busy(self) -> bool:
        """Whether there is anything left to say."""
        return bool(self._clauses or self._ready or self._making)

    @property
    def left(self) -> list[str]:
        """What is still to be said, the clause that is being said as a whole."""
        made = [utterance.text for utterance in self._ready]
        making = [self._making.text] if self._making is not None else []
        return [*made, *making, *self._clauses]

    @property
    def said(self) -> int | None:
        """Samples of the reply that have sounded; None: nothing of it."""
        return self._said

    @property
    def offset(self) -> int:
        """Samples that have been said of the first clause left, in this slot or in one before."""
        return max(self._at, self._skip)

    def say(self, text: str) -> None:
        """Say a text, after what is being said."""
        room = MOST_CLAUSES - len(self._clauses)
        self._clauses.extend(clauses(text)[:room])
        self._ask()

    def prepare(self, text: str) -> None:
        """Have the beginning of a text made that may be wanted soon; nothing of it is said."""
        first, *others = clauses(text) or [""]
        if not first or self.busy:
            return
        known = self._prepared
        if known is None or (known[0].text, known[0].last) != (first, not others):
            wanted = Wanted(first, last=not others, generation=self._generation)
            self._prepared = (wanted, None)
            self._make(JobClass.AHEAD, wanted)

    def receive_made(self, wanted: Wanted, utterance: Utterance | None) -> None:
        """Take what the mouth has made; None: it failed, and the clause is left out."""
        if self._making is not wanted:
            if self._prepared is not None and self._prepared[0] is wanted:
                self._prepared = None if utterance is None else (wanted, utterance)
            return
        self._making = None
        self._take(utterance)

    def _take(self, utterance: Utterance | None) -> None:
        if utterance is not None and len(utterance.pcm):
            self._ready.append(utterance)
            skip, self._skip = min(self._skip, len(utterance.pcm) - 1), 0
            if skip:
                self._at = skip
                self._word = sum(w.start_ms * RATE < skip * 1000 for w in utterance.words)
        self._ask()

    def go_on(self, left: Sequence[str], offset: int, said: int | None) -> None:
        """Say what is left of a reply that was begun elsewhere, from its `offset` on."""
        self._clauses.extend(left)
        self._skip, self._said = offset, said
        self._ask()

    def drop(self, at_ms: int) -> None:
        """Forget all that is not said."""
        self._generation += 1
        self._clauses.clear()
        self._ready.clear()
        self._making = self._prepared = None
        self._at = self._word = self._skip = 0
        self.held = self._fading = False
        if self._said is not None:
            self._events += [
                Cancelled(at_ms=at_ms, played_ms=self._said * 1000 // RATE),
                SpeakingOff(at_ms=at_ms),
            ]
            self._said = None

    def next_frame(self, at_ms: int) -> tuple[Frame, bool]:
        """Return the next 20 ms, and whether there is sound of ours in them."""
        if self.held or not self._ready:
            return self._fade(), False
        if self._said is None:
            self._said = 0
            self._events.append(SpeakingOn(at_ms=at_ms))
        frame, filled = silence(FRAME), 0
        while self._ready and filled < FRAME:
            part = self._ready[0].pcm[self._at : self._at + FRAME - filled]
            frame[filled : filled + len(part)] = part
            self._tell_words(at_ms + filled * 1000 // RATE, len(part))
            filled += len(part)
            self._at += len(part)
            if self._at >= len(self._ready[0].pcm):
                self._ready.popleft()
                self._at = self._word = 0
                self._ask()
        self._said += filled
        if not self.busy:
            self._said = None
            self._events.append(SpeakingOff(at_ms=at_ms + FRAME_MS))
        return frame, True

    def hold(self) -> None:
        """Fall silent, and keep what there is to say."""
        self._fading = self._said is not None and not self.held
        self.held = True

    def resume(self) -> None:
        """Go on where it was held."""
        self._fading = self.held = False

    def events(self) -> list[ModelEvent]:
        """Drain what has happened."""
        events, self._events = self._events, []
        return events

    def _fade(self) -> Frame:
        """Return silence; where sound was just held, the next 5 ms of it, fading: no click."""
        frame = silence(FRAME)
        if self._fading and self._ready:
            part = self._ready[0].pcm[self._at : self._at + RAMP]
            frame[: len(part)] = part * np.linspace(1, 0, RAMP, dtype=np.float32)[: len(part)]
        self._fading = False
        return frame

    def _tell_words(self, at_ms: int, samples: int) -> None:
        """Tell the words that begin in the samples that are said from `at_ms` on."""
        words = self._ready[0].words
        begin_ms = self._at * 1000 // RATE
        end_ms = (self._at + samples) * 1000 // RATE
        last = self._at + samples >= len(self._ready[0].pcm)
        while self._word < len(words):
            word = words[self._word]
            if word.start_ms >= end_ms and not last:
                break
            moved = at_ms - begin_ms
            self._events.append(
                OutText(
                    delta=word.text + " ",
                    start_ms=max(at_ms, moved + word.start_ms),
                    end_ms=max(at_ms, moved + word.end_ms),
                )
            )
            self._word += 1

    def _ask(self) -> None:
        if self._making is None and self._clauses and len(self._ready) <= READY_AHEAD:
            text = self._clauses.popleft()
            wanted = Wanted(text, last=not self._clauses, generation=self._generation)
            first = self._said is None and not self._ready
            if first and self._take_prepared(wanted):
                return
            self._making = wanted
            self._make(JobClass.FIRST_SOUND if first else JobClass.REFILL, wanted)

    def _take_prepared(self, wanted: Wanted) -> bool:
        """Begin with what was made ahead, or is being made, if that is what is wanted."""
        prepared, self._prepared = self._prepared, None
        if prepared is None or (prepared[0].text, prepared[0].last) != (wanted.text, wanted.last):
            return False
        made, utterance = prepared
        if utterance is None:
            self._making = made
            self._hurry(JobClass.FIRST_SOUND)
        else:
            self._take(utterance)
        return True
