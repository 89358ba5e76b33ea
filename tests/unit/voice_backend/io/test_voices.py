"""The voices of a process: places, failures, and nothing left behind."""

from __future__ import annotations

import asyncio
import os
import signal
import threading
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import ClassVar

import pytest

from tests.unit.voice_backend.desks import FakeLine
from voice_backend.engine import Engine, InlineHost
from voice_backend.io import Voice, Voices, VoicesConfig, inline, open_voices
from voice_backend.io.voices import MakeHost
from voice_backend.model import (
    Inject,
    ModelInfo,
    NoCapacity,
    OutText,
    SessionConfig,
    SpeakingOn,
)
from voice_backend.models.scripted import Fault, Say, ScriptedModel, Wait
from voice_backend.seat import Failed
from voice_backend.worker import ProcessHost, ThreadHost, WorkerConfig
from warp.errors import InvalidState

SCRIPTS = {
    "bad": {3: [Fault(reason="out of ideas")]},
    "stuck": {3: [Wait(seconds=30)]},
    "talks": {0: [Say(frames=5, text="well hello")]},
}
INFO = ModelInfo(name="scripted", in_rate=16_000, out_rate=16_000, max_slots=40)
CONFIG = VoicesConfig(prepare_process=False)
released = threading.Event()


def pause(_: float) -> None:
    released.wait(20)


def run(story: Callable, make_host: MakeHost | None = None, config: VoicesConfig = CONFIG) -> None:
    async def told() -> None:
        released.clear()
        model = partial(ScriptedModel, SCRIPTS, info=INFO, pause=pause)
        voices = await open_voices(make_host or inline(model), config)
        try:
            await story(voices)
        finally:
            released.set()
            await voices.close()
            await voices.close()

    asyncio.run(told())


async def until(condition: Callable[[], object]) -> None:
    async with asyncio.timeout(20):
        while not condition():
            await asyncio.sleep(0.002)


async def talk(voices: Voices, script: str = "", **config) -> tuple[Voice, FakeLine]:
    voice = voices.reserve(SessionConfig(voice=script), **config)
    line = FakeLine()
    line.tell = lambda events: voices._crossing.send(voice.receive, events)  # type: ignore[method-assign]
    await voices.join(line, voice)
    return voice, line


def test_a_voice_is_heard_and_tells_of_itself() -> None:
    async def story(voices: Voices) -> None:
        voice, line = await talk(voices, "talks")
        events = []
        async for event in voice:
            events.append(event)
            if len(events) == 2:
                break
        assert events[0] == SpeakingOn(at_ms=0)
        assert events[1].delta == "well hello"
        await until(lambda: len(line.given) > 6)
        assert sum(line.loud()) == 5
        assert voice.position_ms >= 100
        assert voice.heard_ms >= 100
        voice.inject(Inject.COMMENTARY, "more")
        await until(lambda: any(line.loud()[10:]))
        await voice.close()
        async for event in voice:
            events.append(event)
        assert [e.delta for e in events if isinstance(e, OutText)] == ["well hello", "more"]
        assert (await anext(aiter(voice), None)) is None
        with pytest.raises(InvalidState, match="ended"):
            voice.inject(Inject.COMMENTARY, "more")
        stats = voices.stats()
        assert stats["sessions"] == 0
        assert stats["frames"]["frames"] >= 6

    run(story)


def test_frames_of_a_voice_that_was_just_released_are_counted() -> None:
    async def story(voices: Voices) -> None:
        voice, line = await talk(voices, "talks")
        await until(lambda: len(line.given) > 6)
        # the media thread has not heard of it yet: nothing may be missing until then
        voices.post = lambda work: None  # type: ignore[method-assign]
        before = voices.stats()["frames"]["frames"]
        voices.release(voice)
        assert voices.stats()["frames"]["frames"] >= before > 0
        del voices.post  # type: ignore[method-assign]
        voice.end()

    run(story)


def test_events_may_be_received_by_a_function() -> None:
    async def story(voices: Voices) -> None:
        got: list = []
        voice, _ = await talk(voices, "talks", receive=got.append)
        await until(lambda: len(got) >= 3)
        assert [type(event) for event in got[:2]] == [SpeakingOn, OutText]
        voice.cancel()
        with pytest.raises(InvalidState):
            voice.inject(Inject.COMMENTARY, "x" * 20_001)

    run(story)


def test_one_session_too_many_is_refused_and_its_place_comes_back() -> None:
    async def story(voices: Voices) -> None:
        first, _ = await talk(voices)
        held = voices.reserve(SessionConfig())
        assert voices.lack() == "all 2 sessions are taken"
        with pytest.raises(NoCapacity, match="all 2 sessions"):
            voices.reserve(SessionConfig())
        await held.close()
        await talk(voices)
        await first.close()
        assert voices.lack() is None

    run(story, config=VoicesConfig(max_sessions=2, prepare_process=False))


def test_a_voice_that_fails_says_so_and_frees_its_place() -> None:
    async def story(voices: Voices) -> None:
        bad, _ = await talk(voices, "bad")
        good, line = await talk(voices)
        async with asyncio.timeout(20):
            events = [event async for event in bad]
        assert isinstance(events[-1], Failed)
        assert bad.failure == "out of ideas"
        await bad.closed
        before = len(line.given)
        await until(lambda: len(line.given) > before + 3)
        assert voices.voices == [good]

    run(story)


def test_an_engine_that_hangs_fails_its_sessions_and_is_started_again() -> None:
    model = partial(ScriptedModel, SCRIPTS, info=INFO, pause=pause)

    async def story(voices: Voices) -> None:
        stuck, _ = await talk(voices, "stuck")
        other, line = await talk(voices)
        async with asyncio.timeout(20):
            assert [type(event) for event in [e async for e in other][-1:]] == [Failed]
        await stuck.closed
        assert "nothing for 0.2 s" in str(other.failure)
        # it was given something all the time: what stood in
        assert len(line.given) > 5
        await until(lambda: voices.lack() is None)
        again, line = await talk(voices, "talks")
        await until(lambda: sum(line.loud()) == 5)
        assert again.failure is None
        assert voices.stats()["restarts"] == 1

    run(story, lambda: ThreadHost(model, WorkerConfig(hang_s=0.2)))


class SlowToOpen(InlineHost):
    """Opens when it is told to."""

    asked: ClassVar[list] = []

    def open(self, config, done) -> None:
        self.asked.append(lambda: super(SlowToOpen, self).open(config, done))


def test_a_slot_that_comes_when_nobody_waits_any_more_is_given_back() -> None:
    model = ScriptedModel(info=INFO)

    async def story(voices: Voices) -> None:
        voice = voices.reserve(SessionConfig())
        joining = asyncio.create_task(voices.join(FakeLine(), voice))
        await until(lambda: SlowToOpen.asked)
        joining.cancel()
        with pytest.raises(asyncio.CancelledError):
            await joining
        await voice.closed
        taken: list[int] = []
        open_now = SlowToOpen.asked.pop()
        voices.post(lambda _: (open_now(), taken.append(model.taken)))
        await until(lambda: taken)
        assert taken == [0]
        assert not voices._desk.seats
        with pytest.raises(InvalidState, match="ended"):
            await voices.join(FakeLine(), voice)

    run(story, lambda: SlowToOpen(Engine(model)))


def test_an_application_that_fails_at_an_event_keeps_no_slot() -> None:
    def receive(event: object) -> None:
        raise RuntimeError("the application's own")

    async def story(voices: Voices) -> None:
        reported: list = []
        loop = asyncio.get_running_loop()
        loop.set_exception_handler(lambda _, context: reported.append(context["exception"]))
        voice, _ = await talk(voices, "bad", receive=receive)
        await voice.closed
        assert voice.failure == "out of ideas"
        assert [str(error) for error in reported] == ["the application's own"]

    run(story)


def test_a_model_that_hangs_in_the_loop_is_told_and_forgiven_when_it_goes_on() -> None:
    async def story(voices: Voices) -> None:
        stuck, _ = await talk(voices, "stuck")
        await until(lambda: stuck.heard_ms >= 80)
        now = asyncio.get_running_loop().time()
        voices.handle_tick(now)
        assert voices.lack() is None
        voices.handle_tick(now + 6)
        assert stuck.failure == voices.lack() == "the media loop has stood still for 5 s"
        with pytest.raises(NoCapacity, match="stood still"):
            voices.reserve(SessionConfig())
        ticks = voices.stats()["ticks"]
        released.set()
        await until(lambda: voices.stats()["ticks"] > ticks)
        voices.handle_tick(now + 7)
        assert voices.lack() is None
        await stuck.closed

    run(story)


@pytest.mark.slow
def test_a_worker_that_is_killed_costs_its_sessions_and_nobody_the_service() -> None:
    hosts: list[ProcessHost] = []
    model = partial(ScriptedModel, {"": {0: [Say(frames=10_000)]}}, info=INFO)

    def make() -> ProcessHost:
        hosts.append(ProcessHost(model))
        return hosts[-1]

    async def story(voices: Voices) -> None:
        talks = [await talk(voices) for _ in range(5)]
        await until(lambda: all(sum(line.loud()) > 3 for _, line in talks))
        os.kill(hosts[0].pid or 0, signal.SIGKILL)
        async with asyncio.timeout(20):
            for voice, _ in talks:
                await voice.closed
                assert voice.failure == "the engine's process has ended"
        await until(lambda: voices.lack() is None)
        _, line = await talk(voices)
        await until(lambda: sum(line.loud()) > 3)
        assert "voice_engine_restarts_total" in voices.prometheus()

    run(story, make)
    assert [host.pid for host in hosts] == [None, None]


def left_over() -> tuple[int, int, int]:
    files = Path("/proc/self/fd")
    return (
        len(asyncio.all_tasks()),
        threading.active_count(),
        len(list(files.iterdir())) if files.is_dir() else 0,
    )


async def open_and_close(voices: Voices, count: int, at_once: int) -> None:
    """Sessions that end as they begin, in mid-greeting, and when they have talked."""
    for first in range(0, count, at_once):
        voices_open = [
            voices.reserve(SessionConfig(greeting="good day to you")) for _ in range(at_once)
        ]
        joining = [asyncio.create_task(voices.join(FakeLine(), one)) for one in voices_open]
        if first % 3 == 0:
            for task in joining:
                task.cancel()
        await asyncio.gather(*joining, return_exceptions=True)
        if first % 3 == 1:
            await asyncio.sleep(0.03)
        await asyncio.gather(*(one.close() for one in voices_open))


@pytest.mark.parametrize(
    "count", [120, pytest.param(1_000, marks=pytest.mark.slow)], ids=["few", "thousand"]
)
def test_sessions_that_end_leave_nothing(count: int) -> None:
    models: list[ScriptedModel] = []

    def model() -> ScriptedModel:
        models.append(ScriptedModel(info=INFO))
        return models[-1]

    async def story(voices: Voices) -> None:
        await open_and_close(voices, 40, 20)
        before = left_over()
        await open_and_close(voices, count, 20)
        assert left_over() == before
        assert models[0].taken == 0
        assert voices.voices == []
        assert not voices._desk.seats
        assert not voices._desk._lines

    run(story, inline(model))
