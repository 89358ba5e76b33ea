"""The brain that is always there: rules, which answer to what was heard, and remember a little.

    heard ──▶ rules, in order ──▶ the first that knows an answer ──▶ Reply
                                  none: what was said, said back

It knows the time, counts, reckons, spells, repeats, remembers names and notes, and says what it
cannot do. Where slow work can be given away, questions that it cannot answer go there.
"""

from __future__ import annotations

import copy
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from voice_backend.model import Message
from voice_backend.models import gist
from voice_backend.models.heard import Heard, Memory
from voice_backend.models.numbers import split
from voice_backend.models.talker_rules import RULES

MOST_KNOWN: Final = 8
MOST_TEXT: Final = 2_000
"""Characters of one utterance that are looked at."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Reply:
    """What to say; nothing, where `text` is empty."""

    text: str = ""
    delegate: bool = False
    """The question is given away: `text` is said meanwhile."""


class Talker:
    """One conversation's. `clock` tells the wall time where somebody asks for it."""

    def __init__(self, clock: Callable[[], datetime], *, delegates: bool = False) -> None:
        self._clock = clock
        self._delegates = delegates
        self.memory = Memory()
        self._known: deque[str] = deque(maxlen=MOST_KNOWN)

    @property
    def known(self) -> tuple[str, ...]:
        """What it keeps in mind."""
        return tuple(self._known)

    def know(self, text: str) -> None:
        """Keep in mind what the application says; rules cannot use it, a larger brain can."""
        self._known.append(text[:MOST_TEXT])

    def recall(self, message: Message) -> None:
        """Take in what was said before this conversation."""
        text = message.text[:MOST_TEXT]
        if message.role == "user":
            self.answer(text)
        elif message.role == "assistant":
            self.memory.last_reply = text
        else:
            self.know(text)

    def answer(self, text: str) -> Reply:
        """Return the answer to what the user said."""
        heard = self._heard(text[:MOST_TEXT])
        if not heard.words:
            return Reply()
        reply = self._answer(heard, text)
        self.memory.last_heard = heard.text
        if reply.text:
            self.memory.last_reply = reply.text
        return reply

    def rehearse(self, text: str) -> str:
        """Return what the answer would be by now, and remember nothing of it."""
        memory, self.memory = self.memory, copy.deepcopy(self.memory)
        try:
            return self.answer(text).text
        finally:
            self.memory = memory

    def _answer(self, heard: Heard, text: str) -> Reply:
        for rule in RULES:
            answer = rule(heard)
            if answer is not None:
                return Reply(text=answer)
        if wish := gist.wish(heard.text):
            if self._delegates:
                return Reply(text="I will see to that.", delegate=True)
            return Reply(text=f"You would like me to {wish}. That is more than I can do.")
        if not gist.is_question(text):
            return Reply(text=_said_back(heard))
        asked = gist.reported_question(heard.text)
        if self._delegates:
            return Reply(text=f"Let me find out {asked}.", delegate=True)
        return Reply(text=f"You asked {asked}. I don't know that, and there is nobody I could ask.")

    def _heard(self, text: str) -> Heard:
        plain = gist.plain(text)
        words = split(plain)
        return Heard(plain, words, f" {' '.join(words)} ", self.memory, self._clock())


def _said_back(heard: Heard) -> str:
    told = gist.reported(heard.text)
    about = gist.topic(heard.text)
    if len(heard.words) < 3:
        return f"{heard.text}? Tell me more." if told else ""
    more = f" What about {about}?" if about and about.lower() not in told[:12].lower() else ""
    return f"So {told}.{more}"
