"""Sessions without sockets: a helper's work, and nothing left of many."""

from __future__ import annotations

import asyncio
import base64
import json
import threading
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from typing import Any

import numpy as np
import pytest

from voice_backend.delegation import Part, Request
from voice_backend.io.live import LiveHouse
from voice_backend.io.live_run import LiveRun
from voice_backend.io.voices import VoicesConfig, inline, open_voices
from voice_backend.live import DoorKind, LiveConfig
from voice_backend.live.shapes import JsonObject, ResponsesBackend
from voice_backend.model import StepIn, StepOut
from voice_backend.models.echo import EchoModel
from voice_backend.models.scripted import Ask, Hear, Say, Script, ScriptedModel

WAIT_S = 20.0
RESPONSES = {"type": "responses", "responses": {"model": "gpt-5"}}


class Helper:
    """Calls a function of the client's, then answers."""

    def __init__(self, backend: ResponsesBackend) -> None:
        self.backend = backend
        self.items: list[JsonObject] = []
        self.going_on = asyncio.Event()
        self.asked = ""

    async def open(self, context: str) -> None:
        return None

    async def work(self, request: Request) -> AsyncGenerator[Part, None]:
        self.asked = request.ask
        yield Part(raw={"type": "response.created"})
        await self.going_on.wait()
        yield Part(text=f"There are {self.items[0]['output']}.", done=True)

    async def close(self) -> None:
        return None

    def add_item(self, item: JsonObject) -> None:
        self.items.append(item)

    def go_on(self) -> None:
        self.going_on.set()

    def reconfigure(self, backend: ResponsesBackend) -> None:
        self.backend = backend


class Client:
    """At a door without a socket."""

    def __init__(self, run: LiveRun) -> None:
        self.run = run
        self.seen: list[dict[str, Any]] = []
        self.news = asyncio.Event()
        self.door = run.attach(DoorKind.SOCKET, self._write)

    async def _write(self, text: str) -> None:
        self.seen.append(json.loads(text))
        self.news.set()

    def send(self, **members: object) -> None:
        self.run.receive_text(self.door, json.dumps(members))

    async def until(self, *kinds: str) -> dict[str, Any]:
        async with asyncio.timeout(WAIT_S):
            while True:
                for event in self.seen:
                    if event["type"] in kinds:
                        return event
                self.news.clear()
                await self.news.wait()


@asynccontextmanager
async def house_of(script: Script, **options: Any) -> AsyncGenerator[tuple[LiveHouse, Any], None]:
    model = ScriptedModel({"": script})
    voices = await open_voices(inline(lambda: model), VoicesConfig(prepare_process=False))
    house = LiveHouse(voices, config=LiveConfig(start_timeout_s=2.0), **options)
    try:
        yield house, model
    finally:
        await house.close()
        await voices.close()


@pytest.mark.slow
def test_a_responses_service_works_for_a_session() -> None:
    script: Script = {
        5: [Hear(text="how many flights are there", frames=5)],
        8: [Ask(delegation_id="d1")],
    }

    async def main() -> None:
        helpers: list[Helper] = []

        def make(backend: ResponsesBackend) -> Helper:
            helpers.append(Helper(backend))
            return helpers[-1]

        async with house_of(script, make_helper=make) as (house, _):
            client = Client(house.begin())
            client.send(type="session.start", session={"model": "m", "delegation": RESPONSES})
            created = await client.until("session.delegation.created")
            assert created["delegation"]["target"] == "responses"
            event = await client.until("response.event")
            assert event["delegation_id"] == "d1"
            assert event["event"]["type"] == "response.created"
            output = {"type": "function_call_output", "call_id": "c", "output": "three"}
            client.send(type="response.item.create", item=output)
            client.send(type="response.create")
            said = ""
            async with asyncio.timeout(WAIT_S):
                while "There are three." not in said:
                    await asyncio.sleep(0.02)
                    said = "".join(
                        e["delta"]
                        for e in client.seen
                        if e["type"] == "session.output_transcript.delta"
                    )
            assert helpers[0].asked == "user: how many flights are there"
            assert helpers[0].backend.model == "gpt-5"
            client.send(type="session.close")
            await client.until("session.closed")

    asyncio.run(main())


def test_what_cannot_be_sent_costs_nothing_else(caplog: pytest.LogCaptureFixture) -> None:
    async def main() -> None:
        async with house_of({}) as (house, _):
            client = Client(house.begin())
            client.send(type="session.start", session={"model": "m"})
            await client.until("session.started")
            session = client.run.session
            session.receive_response("d1", {"type": "half", "text": "\ud83d"})
            session.receive_response("d1", {"type": "response.created"})
            client.run.pump()
            event = await client.until("response.event")
            assert event["event"]["type"] == "response.created"
            client.send(type="session.close")
            await client.until("session.closed")

    asyncio.run(main())
    assert "a response.event is no JSON" in caplog.text


def test_a_helper_that_cannot_be_made_ends_its_session_and_frees_the_slot() -> None:
    def make(backend: ResponsesBackend) -> Helper:
        raise ValueError("the key is sk-secret")

    async def main() -> None:
        async with house_of({}, make_helper=make) as (house, model):
            client = Client(house.begin())
            client.send(type="session.start", session={"model": "m", "delegation": RESPONSES})
            error = (await client.until("error"))["error"]
            assert error["code"] == "delegation_failed"
            assert "secret" not in error["message"]
            assert (await client.until("session.closed"))["reason"] == "connection_lost"
            await client.run.ended
            assert (model.taken, house.runs) == (0, [])

    asyncio.run(main())


@pytest.mark.slow
def test_nothing_is_left_of_many_sessions() -> None:
    """Ended before they start, in mid-opening, in mid-greeting, while work is given away."""
    script: Script = {0: [Say(frames=500, text="hello there")], 2: [Ask(delegation_id="d")]}

    async def main() -> None:
        async with house_of(script) as (house, model):
            await one(house, 3)
            tasks, threads = len(asyncio.all_tasks()), threading.active_count()
            for number in range(40):
                async with asyncio.timeout(WAIT_S):
                    await asyncio.gather(*[one(house, kind) for kind in range(4)])
                assert house.runs == [], number
            assert model.taken == 0
            assert len(asyncio.all_tasks()) <= tasks
            assert threading.active_count() <= threads

    async def one(house: LiveHouse, kind: int) -> None:
        run = house.begin()
        client = Client(run)
        if kind > 0:
            client.send(type="session.start", session={"model": "m"})
        if kind == 2:
            # a machine that is busy may have no time for one more
            await client.until("session.started", "session.closed")
        elif kind == 3:
            await client.until("session.delegation.created", "session.closed")
        if kind % 2:
            run.detach(client.door)
        else:
            client.send(type="session.close")
        await run.ended

    asyncio.run(main())


def test_one_that_is_never_started_ends_by_itself() -> None:
    async def main() -> None:
        model = ScriptedModel({})
        voices = await open_voices(inline(lambda: model), VoicesConfig(prepare_process=False))
        house = LiveHouse(voices, config=LiveConfig(start_timeout_s=0.05))
        try:
            client = Client(house.begin())
            assert (await client.until("session.closed"))["reason"] == "connection_lost"
            await client.run.ended
        finally:
            await house.close()
            await voices.close()

    asyncio.run(main())


@pytest.mark.slow
def test_a_full_house_says_so() -> None:
    async def main() -> None:
        model = ScriptedModel({})
        config = VoicesConfig(prepare_process=False, max_sessions=1)
        voices = await open_voices(inline(lambda: model), config)
        house = LiveHouse(voices)
        try:
            first, second = Client(house.begin()), Client(house.begin())
            first.send(type="session.start", session={"model": "m"})
            await first.until("session.started")
            second.send(type="session.start", session={"model": "m"}, event_id="e")
            error = (await second.until("error"))["error"]
            assert (error["code"], error["client_event_id"]) == ("session_capacity", "e")
            await second.until("session.closed")
            first.send(type="session.close")
            await first.until("session.closed")
            await asyncio.gather(first.run.ended, second.run.ended)
            third = Client(house.begin())
            third.send(type="session.start", session={"model": "m"})
            await third.until("session.started")
        finally:
            await house.close()
            await voices.close()

    asyncio.run(main())


class _Listening(EchoModel):
    """Remembers how loud each frame was that it heard."""

    def __init__(self) -> None:
        super().__init__()
        self.peaks: list[int] = []

    def step(self, batch: Sequence[StepIn]) -> Sequence[StepOut]:
        self.peaks += [0 if one.pcm is None else int(np.abs(one.pcm).max()) for one in batch]
        return super().step(batch)


@pytest.mark.slow
def test_what_is_said_before_session_started_is_heard() -> None:
    """Its beginning too, and each piece once."""

    async def main() -> None:
        model = _Listening()
        voices = await open_voices(inline(lambda: model), VoicesConfig(prepare_process=False))
        house = LiveHouse(voices, config=LiveConfig())
        try:
            client = Client(house.begin())
            client.send(type="session.start", session={"model": "m"})
            for n in range(10):
                pcm = np.full(480, 2_000 + 1_000 * n, "<i2").tobytes()
                audio = base64.b64encode(pcm).decode()
                client.send(type="session.input_audio.append", audio=audio)
            assert "session.started" not in [event["type"] for event in client.seen]
            await client.until("session.started")
            async with asyncio.timeout(WAIT_S):
                while sum(peak > 1_000 for peak in model.peaks) < 10:
                    await asyncio.sleep(0.02)
            loud = [peak for peak in model.peaks if peak > 1_000]
            assert len(loud) <= 11
            assert loud == sorted(loud)
        finally:
            await house.close()
            await voices.close()

    asyncio.run(main())
