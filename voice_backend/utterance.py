"""What one speaker said without a gap: words with the media time in which they sound.

Text comes in fragments; each fragment's span is shared among its words by their length, so a
fragment a word is exact, and a longer one is a good guess. Pure; `transcript` owns utterances.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Speaker(StrEnum):
    """Whose words they are."""

    USER = "user"
    ASSISTANT = "assistant"


@dataclass(frozen=True, slots=True)
class Word:
    """A word and what surrounds it in its fragment; times are milliseconds of media time."""

    text: str
    start_ms: int
    end_ms: int


def words_of(text: str, start_ms: int, end_ms: int) -> list[Word]:
    """Return the words of a fragment, its span shared among them by length."""
    words = text.split()
    total = sum(len(word) for word in words)
    end_ms = max(start_ms, end_ms)
    found, done = [], 0
    for word in words:
        begin = start_ms + (end_ms - start_ms) * done // total
        done += len(word)
        found.append(Word(word, begin, start_ms + (end_ms - start_ms) * done // total))
    return found


def text_of(words: list[Word]) -> str:
    """Return words as a text."""
    return " ".join(word.text for word in words)


class Utterance:
    """Words of one speaker that are certain, and those that may still change."""

    __slots__ = (
        "certain", "guess", "guess_end_ms", "id", "overlaps", "rev", "said", "speaker", "start_ms",
    )  # fmt: skip

    def __init__(self, ident: str, speaker: Speaker, start_ms: int) -> None:
        self.id = ident
        self.speaker = speaker
        self.rev = 0
        self.start_ms = start_ms
        self.said: list[Word] = []
        """For good: heard of the user, or given out by us (then only as far as it is played)."""
        self.guess = ""
        """The user's words that are not certain yet."""
        self.guess_end_ms = start_ms
        self.certain = True
        """Whether it is certain whose words these are."""
        self.overlaps: list[Overlapped] = []

    @property
    def end_ms(self) -> int:
        """Where the last of it sounds, guesses included."""
        said_ms = self.said[-1].end_ms if self.said else self.start_ms
        return max(said_ms, self.guess_end_ms if self.guess else said_ms)

    @property
    def text(self) -> str:
        """All of it, guesses included."""
        return " ".join(part for part in (text_of(self.said), self.guess) if part)

    @property
    def size(self) -> int:
        """Characters that it holds."""
        return sum(len(word.text) + 1 for word in self.said) + len(self.guess)

    def append(self, text: str, start_ms: int, end_ms: int) -> None:
        """Add words for good; they stand for what was guessed."""
        self.said += words_of(text, start_ms, end_ms)
        self.guess = ""

    def heard(self, played_until_ms: int) -> list[Word]:
        """Return the words that were played to their end."""
        return [word for word in self.said if word.end_ms <= played_until_ms]

    def between(self, start_ms: int, end_ms: int) -> list[Word]:
        """Return the words that sound at some time of a span."""
        return [w for w in self.said if w.start_ms < end_ms and w.end_ms > start_ms]

    def cut(self, played_until_ms: int) -> None:
        """Forget the words that were not played to their end."""
        self.said = self.heard(played_until_ms)

    def shift(self, at_ms: int, by_ms: int) -> None:
        """Words that end after `at_ms` sound later: output was held there."""
        self.said = [
            Word(w.text, w.start_ms + by_ms * (w.start_ms >= at_ms), w.end_ms + by_ms)
            if w.end_ms > at_ms
            else w
            for w in self.said
        ]


@dataclass(frozen=True, slots=True, kw_only=True)
class Overlapped:
    """What the other side said meanwhile, noted in the message that it did not interrupt."""

    speaker: Speaker
    text: str
    start_ms: int
    end_ms: int
    item_id: str | None = None
    """The other side's message, when it is one; None for an acknowledgement."""
