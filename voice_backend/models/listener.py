"""The user's side of one conversation: what was heard when, and whom to ask about it.

frames ─▶ Recent (16 s) ◀── spans of speech ── Floor
             │
             ├─▶ partial: a guess at all that is not final, when speech halts and each 600 ms
             ├─▶ turn:    at a pause, is it over?
             └─▶ final:   at the end, or when a span grows too long to be heard at one go: at a
                          pause, or without one at its least loud place
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, replace
from enum import Enum, auto
from typing import Final

import numpy as np
from numpy.typing import NDArray

from voice_backend.models.cut import least_loud
from voice_backend.models.recent import Recent

RATE: Final = 16_000
KEPT: Final = 16 * RATE
LEAD_MS: Final = 240
"""Before the detector noticed speech: soft beginnings."""
TAIL_MS: Final = 160
PARTIAL_MS: Final = 600
"""Speech between two guesses."""
HALT_MS: Final = 32
"""Silence in which one is made at once, a window of the detector's: if it was the end, the text is
there already."""
NEW_MS: Final = 30
"""Speech that makes another guess worth while."""
LONGEST_GUESS_MS: Final = 6_000
SEGMENT_MS: Final = 6_000
"""A span as long is heard at its next pause, and is final then."""
MOST_TEXTS: Final = 32
"""Spans of one turn that are kept: minutes of speech without an end."""
LONGEST_MS: Final = 7_500
"""And here without a pause: where it was least loud since `CUT_MS`. No later, for its text has to
be there before a transcript takes the last guess for it (`TranscriptConfig.settle_ms`)."""
CUT_MS: Final = 4_000


class Question(Enum):
    """What the ears and the turn model are asked."""

    PARTIAL = auto()
    TURN = auto()
    WORDS = auto()
    """Of a short piece of speech over ours."""
    SEGMENT = auto()
    """A part of a turn that goes on."""
    FINAL = auto()


@dataclass(frozen=True, slots=True)
class Asked:
    """A question that is under way."""

    what: Question
    number: int
    """The turn model's question, or the turn."""
    start_ms: int
    end_ms: int
    cut: bool = False
    """It ends in the middle of speech: what comes after is the next one's alone."""


@dataclass(frozen=True, slots=True, eq=False)
class Unheard:
    """A turn without an answer, for another slot: its span, and the sound of what is not text."""

    start_ms: int
    end_ms: int
    now_ms: int
    """Where the sound ends."""
    sound: NDArray[np.int16]
    """16 kHz."""


class Listener:
    """Keeps the sound and knows how far it is final. Time is media time of the slot."""

    __slots__ = (
        "_awaited",
        "_guess",
        "_guessed_ms",
        "_guessing",
        "_now_ms",
        "_open",
        "_sound",
        "final_ms",
        "missed",
        "texts",
        "turn",
    )

    def __init__(self) -> None:
        self._sound = Recent(KEPT)
        self._guess: tuple[int, int, str] | None = None
        self._guessing: Asked | None = None
        self._awaited: tuple[Asked, Asked] | None = None
        self._guessed_ms = 0
        self._open: list[tuple[Asked, int]] = []
        """What the ears owe for certain, and where the sound of it begins."""
        self._now_ms = 0
        self.final_ms = 0
        """Up to here words are final, or were none."""
        self.texts: deque[str] = deque(maxlen=MOST_TEXTS)
        """Of the turn under way, what is final."""
        self.missed = False
        """Whether the ears have failed at a part of it."""
        self.turn = 0

    def receive_frame(self, at_ms: int, sound: NDArray[np.float32]) -> None:
        """Take a frame, 16 kHz, -1 to 1; `at_ms` is where it begins."""
        self._sound.append(sound)
        self._now_ms = at_ms + len(sound) * 1000 // RATE

    def sound_of(self, start_ms: int, end_ms: int) -> NDArray[np.float32]:
        """Return what was heard in a span, a little before and after it included."""
        return self._between(start_ms - LEAD_MS, end_ms + TAIL_MS)

    def sound_to_hear(self, asked: Asked) -> NDArray[np.float32]:
        """Return what the ears need to answer."""
        end_ms = asked.end_ms + (0 if asked.cut else TAIL_MS)
        return self._between(asked.start_ms - LEAD_MS, end_ms)

    def _between(self, start_ms: int, end_ms: int) -> NDArray[np.float32]:
        begin = max(self.final_ms, start_ms)
        return self._sound.between(self._sample(begin), self._sample(end_ms))

    def _sample(self, at_ms: int) -> int:
        # counted from the end: time may have begun elsewhere, or frames may have been lost
        return self._sound.end - (self._now_ms - at_ms) * RATE // 1000

    def guess(self, start_ms: int, end_ms: int, *, idle: bool) -> Asked | None:
        """Return the question for a guess at speech under way, None if it is too soon for one.

        `idle`: there is time for those that will only be looked at.
        """
        start_ms = max(start_ms, self.final_ms)
        halted = self._now_ms - end_ms >= HALT_MS
        if not (halted or idle):
            return None
        if end_ms - max(self._guessed_ms, start_ms) < (NEW_MS if halted else PARTIAL_MS):
            return None
        if end_ms - start_ms > LONGEST_GUESS_MS:
            return None
        self._guessed_ms = end_ms
        self._guessing = Asked(Question.PARTIAL, self.turn, start_ms, end_ms)
        return self._guessing

    def halted(self, asked: Asked) -> bool:
        """Tell whether nobody speaks since what is asked about."""
        return self._now_ms - asked.end_ms >= HALT_MS

    def segment(self, start_ms: int, end_ms: int, *, paused: bool) -> Asked | None:
        """Return the question for a span that has grown long, None for one that has not."""
        start_ms = max(start_ms, self.final_ms)
        if end_ms - start_ms < (SEGMENT_MS if paused else LONGEST_MS):
            return None
        if not paused:
            end_ms = start_ms + CUT_MS
            end_ms += least_loud(self._between(end_ms, start_ms + LONGEST_MS))
        return Asked(Question.SEGMENT, self.turn, start_ms, end_ms, cut=not paused)

    def receive_guess(self, asked: Asked, text: str) -> None:
        """Take what a guess has found."""
        self._guess = (asked.start_ms, asked.end_ms, text)

    def guessed(self, asked: Asked) -> str:
        """Return the text of exactly the span that is asked about, if it was guessed; else ""."""
        if self._guess is None:
            return ""
        start_ms, end_ms, text = self._guess
        same = (start_ms, end_ms) == (max(asked.start_ms, self.final_ms), asked.end_ms)
        return text if same else ""

    def guessed_at(self, asked: Asked) -> bool:
        """Tell whether words were guessed of what is asked about, or of a part of it."""
        if self._guess is None:
            return False
        start_ms, end_ms, _ = self._guess
        return start_ms < asked.end_ms and asked.start_ms < end_ms

    def await_guess(self, asked: Asked) -> bool:
        """Tell whether a guess at exactly this span is under way; it counts as its text then."""
        one = self._guessing
        if one is None or self._awaited is not None:
            return False
        if (one.start_ms, one.end_ms) != (max(asked.start_ms, self.final_ms), asked.end_ms):
            return False
        # who speaks on is guessed at anew meanwhile: this one stays what is waited for
        self._guessing, self._awaited = None, (one, asked)
        return True

    def forget_guess(self) -> None:
        """The guess under way goes, as the ears are asked for certain: nobody may wait for it."""
        self._guessing = None

    def take_awaited(self, guess: Asked) -> Asked | None:
        """A guess is over: return the question whose answer it is, if it is one."""
        if guess is self._guessing:
            self._guessing = None
        if self._awaited is None or guess is not self._awaited[0]:
            return None
        asked, self._awaited = self._awaited[1], None
        return asked

    def unsettled(self, asked: Asked) -> Asked:
        """Return the question without what is final of its span."""
        start_ms = min(max(asked.start_ms, self.final_ms), asked.end_ms)
        return replace(asked, start_ms=start_ms)

    def ask(self, asked: Asked) -> None:
        """What is asked will be final, once the ears have answered."""
        self._open.append((asked, max(self.final_ms, asked.start_ms - LEAD_MS)))
        self.settle(asked)

    def settle(self, asked: Asked) -> None:
        """What is asked will be final: nobody asks about that span again."""
        self.final_ms = max(self.final_ms, asked.end_ms)
        self._guessed_ms = max(self._guessed_ms, asked.end_ms)

    def begin_turn(self, turn: int) -> None:
        """Another turn has begun: its words are its own."""
        if turn != self.turn:
            self.turn = turn
            self.texts.clear()
            self.missed = False

    def receive_final(self, asked: Asked, text: str | None) -> None:
        """Take what was found in a span, if it is of the turn under way; None: the ears have
        failed.
        """
        self._open = [one for one in self._open if one[0] is not asked]
        if asked.number != self.turn:
            return
        if text is None:
            self.missed = True
        elif text:
            self.add_text(text)

    def add_text(self, text: str) -> None:
        """Take words of the turn under way that are final."""
        self.texts.append(text)

    # -- in another slot ---------------------------------------------------------------------------

    def unheard(self, span: tuple[int, int] | None) -> Unheard | None:
        """Return the turn under way, of whose speech `span` is the last if it goes on; None if
        nothing of it is left to hear.
        """
        asked = [one for one in self._open if one[0].number == self.turn]
        spans = [(one.start_ms, one.end_ms) for one, _ in asked]
        begins = [begin_ms for _, begin_ms in asked]
        if span is not None:
            spans.append(span)
            begins.append(max(self.final_ms, span[0] - LEAD_MS))
        if not spans:
            return None
        sound = self._sound.between(self._sample(min(begins)), self._sound.end)
        return Unheard(
            min(start_ms for start_ms, _ in spans),
            max(end_ms for _, end_ms in spans),
            self._now_ms,
            np.rint(sound * 32768).astype(np.int16),
        )

    def go_on(self, unheard: Unheard) -> None:
        """Take up a turn: its sound is heard here, and what was before is final."""
        sound = unheard.sound.astype(np.float32) / np.float32(32768)
        self._sound.append(sound)
        self._now_ms = unheard.now_ms
        self.final_ms = self._guessed_ms = unheard.now_ms - len(sound) * 1000 // RATE
