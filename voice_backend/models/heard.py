"""What a rule of the talker looks at: what was heard, and what is remembered."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final

MOST_NOTES: Final = 8


@dataclass(slots=True)
class Memory:
    """What one conversation is remembered by; bounded."""

    user_name: str = ""
    notes: list[str] = field(default_factory=list)
    last_heard: str = ""
    last_reply: str = ""

    def note(self, text: str) -> None:
        """Keep a note; the oldest goes when there are too many."""
        self.notes = [*self.notes, text][-MOST_NOTES:]


@dataclass(frozen=True, slots=True)
class Heard:
    """What a rule looks at."""

    text: str
    """As it was heard, without fillers and closing punctuation."""
    words: list[str]
    said: str
    """The words, a space between them, and one at both ends."""
    memory: Memory
    now: datetime


Rule = Callable[[Heard], str | None]
"""Returns the answer, None if the rule knows none."""
