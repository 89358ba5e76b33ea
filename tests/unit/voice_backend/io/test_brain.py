"""The brain beside asyncio: one question at a time, stopped when nobody waits, gone when closed."""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path
from typing import Any

import pytest

from voice_backend.delegation import Helper, Part, Request
from voice_backend.io.brain import BrainHelper, SharedBrain
from voice_backend.models.brain import Brain
from voice_backend.models.store import ModelsMissing, Store


class Slow:
    """Answers when it may, or when nobody waits any more."""

    def __init__(self) -> None:
        self.may = threading.Event()
        self.begun = threading.Event()
        self.stopped = False

    def answer(self, ask: str, stopped: Any) -> str:
        self.begun.set()
        while not self.may.wait(0.01):
            if stopped():
                self.stopped = True
                return ""
        return f"{ask}!"

    def close(self) -> None:
        pass


@pytest.fixture
def slow(monkeypatch: pytest.MonkeyPatch) -> Slow:
    made = Slow()
    monkeypatch.setattr(Brain, "load", lambda store: made)
    return made


async def parts(helper: Helper, ask: str) -> list[Part]:
    return [part async for part in helper.work(Request(delegation_id="d", ask=ask))]


def test_a_helper_answers_with_one_part(slow: Slow) -> None:
    async def run() -> None:
        brain = SharedBrain()
        helper: Helper = BrainHelper(brain)
        await helper.open("")
        slow.may.set()
        assert await parts(helper, "why") == [Part(text="why!", done=True)]
        await helper.close()
        brain.close()
        brain.close()

    asyncio.run(run())
    assert not any(one.name.startswith("voice-brain") for one in threading.enumerate())


def test_who_does_not_wait_stops_the_work(slow: Slow) -> None:
    async def run() -> None:
        brain = SharedBrain()
        task = asyncio.create_task(parts(BrainHelper(brain), "why"))
        await asyncio.to_thread(slow.begun.wait, 20)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        await asyncio.to_thread(brain.close)

    asyncio.run(run())
    assert slow.stopped


def test_without_weights_opening_says_so(tmp_path: Path) -> None:
    async def run() -> None:
        brain = SharedBrain(Store(tmp_path))
        with pytest.raises(ModelsMissing):
            await BrainHelper(brain).open("")
        brain.close()

    asyncio.run(run())
