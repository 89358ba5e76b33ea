"""The user speaks while we do: is it an acknowledgement, or does the user want the floor?

    CLEAR ─speech─▶ OVERLAP ─hold_ms─▶ HELD ─back_channel_ms─▶ CLEAR  (Yielded)
      ▲               │  │               │
      │               │  └──it ends──────┤ it ends
      │               ▼ hint             ▼
      ├─it ends─ TOLERATED            DECIDING ─other words─▶ CLEAR  (Yielded)
      └──────────────────────────────────┴─back-channel, or no words in words_ms─▶ (OutputResumed)

Two promises meet here: we fall silent soon after `hold_ms` of the user's speech, and an "mm-hm" of
up to `back_channel_ms` does not cost us the sentence. So output is first *held*, which can be taken
back, and only *yielded* when the speech lasted, or its words ask for the floor. A detector that
knows an acknowledgement by its sound or its first words says so by `receive_hint`: then not even
the hold is heard.
"""

from __future__ import annotations

from enum import Enum, auto

from voice_backend.turns.back_channel import is_back_channel
from voice_backend.turns.config import TurnConfig
from voice_backend.turns.events import (
    BackChannel,
    OutputHeld,
    OutputResumed,
    TurnEvent,
    WordsWanted,
    Yielded,
    YieldReason,
)


class OverlapState(Enum):
    """Where speech over ours stands."""

    CLEAR = auto()
    OVERLAP = auto()
    TOLERATED = auto()
    HELD = auto()
    DECIDING = auto()


class Input(Enum):
    """What can happen to it."""

    SPEECH = auto()
    HINT = auto()
    HOLD = auto()
    END = auto()
    YIELD = auto()
    RESUME = auto()


_TABLE: dict[tuple[OverlapState, Input], OverlapState] = {
    (OverlapState.CLEAR, Input.SPEECH): OverlapState.OVERLAP,
    (OverlapState.OVERLAP, Input.HINT): OverlapState.TOLERATED,
    (OverlapState.HELD, Input.HINT): OverlapState.TOLERATED,
    (OverlapState.OVERLAP, Input.HOLD): OverlapState.HELD,
    (OverlapState.OVERLAP, Input.END): OverlapState.DECIDING,
    (OverlapState.HELD, Input.END): OverlapState.DECIDING,
    (OverlapState.TOLERATED, Input.END): OverlapState.DECIDING,
    (OverlapState.DECIDING, Input.SPEECH): OverlapState.OVERLAP,
    **{(s, Input.YIELD): OverlapState.CLEAR for s in OverlapState if s is not OverlapState.CLEAR},
    **{(s, Input.RESUME): OverlapState.CLEAR for s in OverlapState if s is not OverlapState.CLEAR},
}


class Overlap:
    """One overlap at a time; `Floor` tells of the span and of the words that were heard."""

    __slots__ = ("_config", "_held", "_since_ms", "_text", "_until_ms", "_wanted_ms", "state")

    def __init__(self, config: TurnConfig) -> None:
        self._config = config
        self._held = False
        self._since_ms = 0
        self._until_ms = 0
        self._wanted_ms = 0
        self._text = ""
        self.state = OverlapState.CLEAR

    @property
    def held(self) -> bool:
        """Whether our output may not sound at present."""
        return self._held

    @property
    def open(self) -> bool:
        """Whether it is yet to be decided what the user's speech over ours was."""
        return self.state is not OverlapState.CLEAR

    def receive_speech(self, start_ms: int, end_ms: int, now_ms: int) -> list[TurnEvent]:
        """The user's speech sounds over ours, from `start_ms` so far to `end_ms`."""
        if self.state in (OverlapState.CLEAR, OverlapState.DECIDING):
            if self.state is OverlapState.CLEAR:
                self._since_ms, self._text = start_ms, ""
            self._become(Input.SPEECH)
        self._until_ms = end_ms
        lasted_ms = end_ms - self._since_ms
        if lasted_ms > self._config.back_channel_ms:
            return self._yield(YieldReason.LASTED, now_ms)
        if self.state is OverlapState.OVERLAP and lasted_ms >= self._config.hold_ms:
            self._become(Input.HOLD)
            if not self._held:
                self._held = True
                return [OutputHeld(now_ms, self._since_ms)]
        return []

    def receive_pause(self, now_ms: int) -> list[TurnEvent]:
        """The user's speech over ours has ended, for all that is known."""
        if self.state in (OverlapState.CLEAR, OverlapState.DECIDING):
            return []
        tolerated = self.state is OverlapState.TOLERATED
        self._become(Input.END)
        if self._text or tolerated:
            return self._decide(now_ms)
        self._wanted_ms = now_ms
        return [WordsWanted(self._since_ms, self._until_ms)]

    def receive_silence(self, now_ms: int) -> list[TurnEvent]:
        """Nothing sounds: words that were waited for too long are not waited for any more."""
        waited = now_ms - self._wanted_ms >= self._config.words_ms
        if self.state is OverlapState.DECIDING and waited:
            return self._decide(now_ms)
        return []

    def receive_hint(self, now_ms: int) -> list[TurnEvent]:
        """What sounds is an acknowledgement, by its sound: it is tolerated for as long as one."""
        if self.state not in (OverlapState.OVERLAP, OverlapState.HELD):
            return []
        self._become(Input.HINT)
        return self._release(now_ms)

    def receive_words(self, text: str, now_ms: int) -> list[TurnEvent]:
        """What was understood so far of the speech over ours; each call replaces the last."""
        if self.state is OverlapState.CLEAR:
            return []
        self._text = text.strip()
        if self.state is OverlapState.DECIDING:
            return self._decide(now_ms)
        if not self._text:
            return []
        if is_back_channel(self._text):
            return self.receive_hint(now_ms)
        # the first sounds of "mm-hm" are often misheard: words count once we would hold anyway
        if self._until_ms - self._since_ms >= self._config.hold_ms:
            return self._yield(YieldReason.WORDS, now_ms)
        return []

    def end(self) -> bool:
        """Our own speech ended meanwhile: nothing is left to overlap with.

        Says whether speech was under way whose meaning was open: it is a turn now.
        """
        was_open = self.open
        self.state = OverlapState.CLEAR
        self._held = False
        self._text = ""
        return was_open

    def _decide(self, now_ms: int) -> list[TurnEvent]:
        if self._text and not is_back_channel(self._text):
            return self._yield(YieldReason.WORDS, now_ms)
        self._become(Input.RESUME)
        return [*self._release(now_ms), BackChannel(self._since_ms, self._until_ms)]

    def _yield(self, reason: YieldReason, now_ms: int) -> list[TurnEvent]:
        self._become(Input.YIELD)
        self._held = False
        return [Yielded(now_ms, self._since_ms, reason)]

    def _release(self, now_ms: int) -> list[TurnEvent]:
        if not self._held:
            return []
        self._held = False
        return [OutputResumed(now_ms)]

    def _become(self, what: Input) -> None:
        self.state = _TABLE[self.state, what]
