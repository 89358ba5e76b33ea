"""What goes wrong in one live session is told there, counted, and costs the others nothing.

Clients that flood, models that raise, hang, and return late or short frames, a process that dies.
"""

from __future__ import annotations

import asyncio
import os
import signal
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from functools import partial

import pytest

from tests.unit.voice_backend.io.test_live_run import Client
from voice_backend.engine import EngineHost
from voice_backend.io.live import LiveHouse
from voice_backend.io.voices import Voices, VoicesConfig, inline, open_voices
from voice_backend.live import LiveConfig
from voice_backend.model import ModelInfo
from voice_backend.models.scripted import (
    Fault,
    Raise,
    Say,
    Script,
    ScriptedModel,
    Short,
    Skip,
    Wait,
)
from voice_backend.worker import ProcessHost, WorkerConfig

INFO = ModelInfo(name="scripted", in_rate=16_000, out_rate=24_000, max_slots=8)
TALKS = [Say(frames=5_000, text="and so on")]
SCRIPTS: dict[str, Script] = {
    "good": {0: TALKS},
    "raises": {0: TALKS, 5: [Raise()]},
    "faulty": {0: TALKS, 5: [Fault(reason="out of ideas")]},
    "short": {0: TALKS, **{n: [Short(samples=7)] for n in range(5, 15)}},
    "late": {0: TALKS, 5: [Skip(frames=10)]},
    "hangs": {5: [Wait(seconds=30)]},
}
WAIT_S = 20.0


@asynccontextmanager
async def house_of(make_host: Callable[[], EngineHost]) -> AsyncIterator[tuple[LiveHouse, Voices]]:
    voices = await open_voices(make_host, VoicesConfig(prepare_process=False))
    house = LiveHouse(voices, config=LiveConfig(voices=frozenset(SCRIPTS)))
    try:
        yield house, voices
    finally:
        await house.close()
        await voices.close()
    assert house.runs == []
    assert voices.voices == []


async def talk(house: LiveHouse, script: str) -> Client:
    client = Client(house.begin())
    audio = {"output": {"voice": script}}
    client.send(type="session.start", session={"model": "m", "audio": audio})
    await client.until("session.started")
    return client


async def sounds(client: Client, pieces: int = 10) -> None:
    """Wait until a session has given out so much more sound."""
    client.seen.clear()
    async with asyncio.timeout(WAIT_S):
        while sum(e["type"] == "session.output_audio.delta" for e in client.seen) < pieces:
            await asyncio.sleep(0.005)
    assert all(e["type"] != "error" for e in client.seen)


async def failed(client: Client) -> str:
    """Wait for the end of a session that has failed; returns what it was told."""
    error = (await client.until("error"))["error"]
    assert (error["type"], error["code"]) == ("server_error", "voice_failed")
    assert (await client.until("session.closed"))["reason"] == "connection_lost"
    await client.run.ended
    return str(error["message"])


def frames(client: Client) -> dict[str, int]:
    voice = client.run.voice
    assert voice is not None
    return voice.stats()["late"]


@pytest.mark.slow
def test_a_client_that_floods_is_refused_and_nobody_else_notices() -> None:
    async def main() -> None:
        async with house_of(inline(partial(ScriptedModel, SCRIPTS, info=INFO))) as (house, _):
            good, bad = await talk(house, "good"), await talk(house, "good")
            bad.run.receive_text(bad.door, '{"type": "' + "x" * 10_000_000 + '"}')
            for n in range(2_000):
                bad.send(type="session.thinking.append", content="x", delegation_id=None)
                bad.send(type=f"session.dance_{n}")
            await sounds(good)
            codes = [e["error"]["code"] for e in bad.seen if e["type"] == "error"]
            assert "rate_limited" in codes
            assert "event_too_large" in codes
            assert bad.run.session.dropped > 1_000
            await sounds(bad)  # its own voice goes on as well
            for client in (good, bad):
                client.send(type="session.close")
                assert (await client.until("session.closed"))["reason"] == "close_requested"

    asyncio.run(main())


@pytest.mark.slow
@pytest.mark.parametrize(
    ("script", "told"),
    [("raises", "the voice failed (RuntimeError)"), ("faulty", "out of ideas")],
)
def test_a_model_that_fails_ends_one_session_and_frees_its_slot(script: str, told: str) -> None:
    async def main() -> None:
        model = ScriptedModel(SCRIPTS, info=INFO)
        async with house_of(inline(lambda: model)) as (house, _):
            good = await talk(house, "good")
            assert await failed(await talk(house, script)) == told
            assert model.taken == 1
            await sounds(good)

    asyncio.run(main())


@pytest.mark.slow
@pytest.mark.parametrize("script", ["short", "late"])
def test_frames_that_are_late_or_short_are_concealed_and_counted(script: str) -> None:
    async def main() -> None:
        async with house_of(inline(partial(ScriptedModel, SCRIPTS, info=INFO))) as (house, _):
            good, bad = await talk(house, "good"), await talk(house, script)
            await sounds(bad, 40)
            assert frames(bad)["model"] >= 10
            assert frames(good)["model"] < 10
            await sounds(good)

    asyncio.run(main())


@pytest.mark.slow
@pytest.mark.parametrize("how", ["killed", "hangs"])
def test_an_engine_that_is_gone_is_told_to_each_of_its_sessions_and_comes_back(how: str) -> None:
    hosts: list[ProcessHost] = []
    model = partial(ScriptedModel, SCRIPTS, info=INFO, pause=time.sleep)

    def make() -> ProcessHost:
        hosts.append(ProcessHost(model, WorkerConfig(hang_s=1.0)))
        return hosts[-1]

    async def main() -> None:
        async with house_of(make) as (house, voices):
            clients = [await talk(house, "good") for _ in range(2)]
            if how == "hangs":
                clients.append(await talk(house, "hangs"))
            else:
                os.kill(hosts[0].pid or 0, signal.SIGKILL)
            told = {await failed(client) for client in clients}
            wanted = "has ended" if how == "killed" else "has said nothing for 1 s"
            assert all(wanted in message for message in told)
            async with asyncio.timeout(WAIT_S):
                while voices.lack() is not None:
                    await asyncio.sleep(0.01)
            await sounds(await talk(house, "good"))
            assert voices.stats()["restarts"] == 1

    asyncio.run(main())
    assert [host.pid for host in hosts] == [None, None]
