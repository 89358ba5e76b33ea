"""A desk on a clock of the test's own, with lines that remember what passed."""

from __future__ import annotations

import numpy as np

from voice_backend.desk import Desk
from voice_backend.engine import Engine, InlineHost
from voice_backend.frames import Frame, silence
from voice_backend.grid import PERIOD_S
from voice_backend.model import SessionConfig, Slot, VoiceModel
from voice_backend.models.scripted import Script, ScriptedModel


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now

    def pause(self, seconds: float) -> None:
        self.now += seconds


class FakeLine:
    """A session's line: hears what it is fed, keeps what it is given."""

    def __init__(self, samples: int = 320) -> None:
        self.samples = samples
        self.fed: list[Frame | None] = []
        self.given: list[Frame] = []
        self.events: list = []
        self.flushed = 0
        self.broken = False

    def take(self, now: float) -> Frame | None:
        if self.broken:
            raise RuntimeError("broken")
        return self.fed.pop(0) if self.fed else silence(self.samples)

    def give(self, pcm: Frame, now: float) -> None:
        self.given.append(pcm.copy())

    def flush(self) -> None:
        self.flushed += 1

    def tell(self, events: list) -> None:
        self.events += events

    def loud(self) -> list[bool]:
        return [bool(np.abs(pcm.astype(int)).max() > 100) for pcm in self.given]

    def of(self, kind: type) -> list:
        return [event for event in self.events if isinstance(event, kind)]


class HopHost(InlineHost):
    """An engine elsewhere: what is submitted is worked on when the test says so."""

    def __init__(self, engine: Engine) -> None:
        super().__init__(engine)
        self.hop = True
        self.waiting: list = []
        self.submitted = 0
        self.held = 0

    def submit(self, batch) -> int:
        self.submitted += 1
        self.waiting.append((self.submitted, batch))
        return self.submitted

    def collect(self) -> list:
        while len(self.waiting) > self.held:
            number, batch = self.waiting.pop(0)
            self.begun = number
            self._outs += self._engine.run(batch)
        return super().collect()


class Room:
    """A desk, its model and its time."""

    def __init__(
        self,
        scripts: dict[str, Script] | None = None,
        *,
        model: VoiceModel | None = None,
        hop: bool = False,
        reserve: int = 0,
        yield_after_frames: int | None = None,
    ) -> None:
        self.clock = Clock()
        self.model = model or ScriptedModel(
            scripts, pause=self.clock.pause, yield_after_frames=yield_after_frames
        )
        self.engine = Engine(self.model)
        self.engine.load()
        self.host = (HopHost if hop else InlineHost)(self.engine)
        self.desk = Desk("test", self.host, clock=self.clock, reserve=reserve)
        self.tick = 0

    def join(self, voice: str = "", **config) -> tuple[Slot, FakeLine]:
        slot = self.engine.open(SessionConfig(voice=voice, **config))
        line = FakeLine(self.engine.info.in_rate // 50)
        self.desk.seat(slot, line)
        return slot, line

    def run(self, ticks: int, *, given: bool = True) -> None:
        for _ in range(ticks):
            due = self.tick * PERIOD_S
            self.clock.now = max(self.clock.now, due)
            self.desk.run(due, given=given)
            self.tick += 1
