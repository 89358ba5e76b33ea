"""A helper hangs for 30 s of simulated time: no frame is late, and the voice is told in the end."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator

import pytest

from tests.unit.voice_backend.virtual import run_virtually
from voice_backend.delegation import DelegationConfig, Part, Request
from voice_backend.desk import Desk
from voice_backend.engine import Engine, InlineHost
from voice_backend.frames import Frame, silence
from voice_backend.grid import PERIOD_S
from voice_backend.io.delegates import Delegates
from voice_backend.loop import MediaLoop
from voice_backend.model import Delegate, OutText, SessionConfig
from voice_backend.models.scripted import Ask, Say, ScriptedModel
from voice_backend.seat import VoiceEvent


class Hanging:
    """Never answers."""

    async def open(self, context: str) -> None:
        return None

    async def work(self, request: Request) -> AsyncGenerator[Part, None]:
        await asyncio.Event().wait()
        yield Part(done=True)

    async def close(self) -> None:
        return None


class Caller:
    """A line of a session that counts what it is given."""

    def __init__(self, delegates: list[Delegates]) -> None:
        self.given = 0
        self.said: list[str] = []
        self._delegates = delegates

    def take(self, now: float) -> Frame | None:
        return silence(320)

    def give(self, pcm: Frame, now: float) -> None:
        self.given += 1

    def flush(self) -> None:
        return None

    def tell(self, events: list[VoiceEvent]) -> None:
        for event in events:
            if isinstance(event, OutText):
                self.said.append(event.delta)
            elif isinstance(event, Delegate):
                ask = Request(delegation_id=event.delegation_id, ask="user: flights to Rome")
                self._delegates[0].delegate(ask)


@pytest.mark.slow
def test_a_hung_helper_delays_no_frame() -> None:
    model = ScriptedModel({"ask": {50: [Ask(delegation_id="d1")], 60: [Say(frames=1500)]}})

    async def main() -> None:
        loop = asyncio.get_running_loop()
        engine = Engine(model)
        engine.load()
        desk = Desk("scripted", InlineHost(engine), clock=loop.time)
        media = MediaLoop(clock=loop.time)
        media.add(desk)
        slot = engine.open(SessionConfig(voice="ask", delegates=True))
        delegates: list[Delegates] = []
        caller = Caller(delegates)
        seat = desk.seat(slot, caller)
        delegates.append(
            Delegates(
                Hanging(),
                lambda kind, text, ident: media.post(lambda: desk.inject(slot, kind, text, ident)),
                config=DelegationConfig(timeout_s=30.0, acknowledge_after_s=0.4),
            )
        )
        began = loop.time()
        for tick in range(1, 2001):  # 40 s
            await asyncio.sleep(began + tick * PERIOD_S - loop.time())
            media.run_due(loop.time())
        await delegates[0].close()

        assert delegates[0].ended == {"timed_out": 1}
        assert seat.counts.frames == caller.given >= 1999
        assert (seat.counts.late_frames, seat.counts.concealed) == (0, 0)
        # what it was told while it spoke is said after that
        assert caller.said == [
            "One moment, I am looking into it.",
            "This took too long and was given up.",
        ]

    run_virtually(main())
