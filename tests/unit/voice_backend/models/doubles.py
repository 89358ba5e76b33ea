"""Networks that need no weights: loud is speech, and words are read off the loudness.

Speech is noise whose amplitude names the phrase: `Phrases.sound("what time is it", 800)`; the ears
know it by its loudness. The mouth says noise, 100 ms a word, so that no two words are alike.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from datetime import datetime
from typing import Any, cast

import numpy as np

from voice_backend.frames import Frame
from voice_backend.model import ModelEvent, SessionConfig, Slot, StepIn
from voice_backend.models.duplex_cpu import DuplexCpu, Networks
from voice_backend.models.jobs import InlineRunner
from voice_backend.models.mouth import Utterance, Word
from voice_backend.models.vad import Vad

NOW = datetime(2026, 11, 30, 16, 7)
WORD_MS = 100
FLOOR = 1500
STEP = 1500


class LoudVad:
    """The session of `Vad`: whatever is loud is speech."""

    def run(self, names: object, feed: dict[str, Any]) -> tuple[Any, Any]:
        loud = np.abs(feed["input"][:, 64:]).mean(axis=1) > 0.01
        return np.where(loud, 0.99, 0.01)[:, None].astype(np.float32), feed["state"]


class Phrases:
    """The ears: they know as many phrases as there are loudnesses."""

    def __init__(self) -> None:
        self.known: list[str] = []
        self.heard: list[str] = []
        self.broken = False

    def sound(self, text: str, milliseconds: int) -> Frame:
        if text not in self.known:
            self.known.append(text)
        level = FLOOR + STEP * self.known.index(text)
        signs = np.random.default_rng(len(text)).choice([-1, 1], 16 * milliseconds)
        return np.asarray(level * signs, np.int16)

    def hear(self, sound: Any) -> Generator[None, None, str]:
        if self.broken:
            raise RuntimeError("deaf")
        yield
        level = np.abs(sound * 32768)
        # a phrase heard for a moment only is not understood
        found = [
            text
            for at, text in enumerate(self.known)
            if np.sum(np.abs(level - FLOOR - STEP * at) < 2) > 16 * 150
        ]
        self.heard += found
        return " ".join(found)


class Turns:
    """The turn model: says what it is told to."""

    def __init__(self) -> None:
        self.complete = 0.99
        self.asked = 0

    def judge(self, sound: Any) -> Generator[None, None, float]:
        self.asked += 1
        yield
        return self.complete


class NoiseMouth:
    """The mouth: every word is 100 ms of noise of its own."""

    def __init__(self) -> None:
        self.said: list[str] = []

    def say(self, text: str, *, last: bool = True) -> Generator[None, None, Utterance]:
        self.said.append(text)
        yield
        words = text.split()
        rng = np.random.default_rng(abs(hash(text)) % 2**32)
        pcm = np.asarray(rng.integers(-9000, 9000, len(words) * WORD_MS * 24), np.int16)
        marks = tuple(Word(word, at * WORD_MS, (at + 1) * WORD_MS) for at, word in enumerate(words))
        return Utterance(text, pcm, marks)


class Call:
    """A call of one user; media time goes on by what is fed."""

    def __init__(self, config: SessionConfig | None = None, *, units: int | None = None) -> None:
        self.ears, self.turns, self.mouth = Phrases(), Turns(), NoiseMouth()
        self.runner = InlineRunner(units)
        networks = Networks(
            Vad(LoudVad(), 4, 320),
            cast(Any, self.ears),
            cast(Any, self.turns),
            cast(Any, self.mouth),
        )
        self.model = DuplexCpu(self.runner, clock=lambda: NOW, max_slots=4, networks=networks)
        self.slot: Slot = self.model.open(config or SessionConfig())
        self.seq = 0
        self.sound = np.zeros(0, np.int16)
        self.events: list[tuple[int, ModelEvent]] = []

    @property
    def now_ms(self) -> int:
        return self.seq * 20

    def feed(self, pcm: Frame | None) -> Frame:
        """One frame in, one frame out."""
        (out,) = self.model.step([StepIn(self.slot, self.seq, pcm)])
        assert out.error is None
        assert out.pcm is not None
        self.events += [(self.now_ms, event) for event in out.events]
        self.seq += 1
        self.sound = np.concatenate([self.sound, out.pcm])
        return out.pcm

    def speak(self, text: str, milliseconds: int = 800) -> None:
        """The user says something, for whole frames."""
        for frame in self.ears.sound(text, milliseconds).reshape(-1, 320):
            self.feed(frame)

    def wait(self, milliseconds: int) -> None:
        """The user is silent."""
        for _ in range(milliseconds // 20):
            self.feed(np.zeros(320, np.int16))

    def wait_for(self, kind: type[ModelEvent], most_ms: int = 4000) -> ModelEvent:
        """The user is silent until something happens."""
        seen = len(self.events)
        for _ in range(most_ms // 20):
            self.wait(20)
            for _, event in self.events[seen:]:
                if isinstance(event, kind):
                    return event
        raise AssertionError(f"no {kind.__name__} within {most_ms} ms")

    def of(self, kind: type[ModelEvent]) -> list[Any]:
        """The events of a kind."""
        return [event for _, event in self.events if isinstance(event, kind)]

    def text(self) -> str:
        """What we said, as the events tell it."""
        from voice_backend.model import OutText

        return "".join(event.delta for event in self.of(OutText)).strip()

    def loud_ms(self, start_ms: int, end_ms: int) -> int:
        """How long our side was audible in a span."""
        part = self.sound[start_ms * 24 : end_ms * 24].reshape(-1, 24)
        return int(np.sum(np.abs(part).max(axis=1) > 0))


def finals(call: Call) -> Sequence[str]:
    """What was understood for good."""
    from voice_backend.model import InText

    return [event.delta for event in call.of(InText) if event.final]
