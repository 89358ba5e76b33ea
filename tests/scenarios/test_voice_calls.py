"""Calls over a real port that a voice takes: what it hears, what it says, and when it may begin.

Judged by counts, never by how long anything took.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial

import numpy as np
import pytest

from voice_backend.audio import EncoderConfig, OpusDecoder, OpusEncoder
from voice_backend.io import Voices, VoicesConfig, inline, open_voices
from voice_backend.model import ModelInfo, NoCapacity, SessionConfig, VoiceModel
from voice_backend.models.echo import EchoModel
from voice_backend.models.scripted import Fault, Say, ScriptedModel
from voice_backend.seat import Failed
from warp.errors import WarpError
from warp.io import Client, ClientConfig, Server, ServerConfig, Session, listen

CLIENT = ClientConfig(host="127.0.0.1", loopback=True, audio=True, data=False)
SERVER = ServerConfig(early_data=True, audio_in_order=False)
INFO = ModelInfo(name="scripted", in_rate=16_000, out_rate=24_000)


def tone(hz: int, seconds: float) -> list[bytes]:
    encoder = OpusEncoder(48_000, EncoderConfig())
    at = np.arange(int(48_000 * seconds))
    sound = (8_000 * np.sin(2 * np.pi * hz * at / 48_000)).astype(np.int16)
    return [encoder.encode(sound[n : n + 960]) for n in range(0, len(sound), 960)]


class House:
    """A server with voices, and a client that calls it."""

    def __init__(self, server: Server, voices: Voices) -> None:
        self.server, self.voices = server, voices
        self.client = Client()
        self.attending: list[asyncio.Task] = []
        self.served: list[Session] = []

    async def call(self, config: SessionConfig | None = None, *, outlive: bool = False) -> Session:
        async def signal(offer: str) -> str:
            session = self.server.accept_offer(offer)
            self.served.append(session)
            attend = self.voices.attend(session, config, outlive=outlive)
            self.attending.append(asyncio.create_task(attend))
            return session.answer

        return await self.client.connect(signal, config=CLIENT)


def run(story: Callable, model: Callable[[], VoiceModel], **config) -> None:
    async def told() -> None:
        async with await listen("127.0.0.1", 0, config=SERVER) as server:
            voices = await open_voices(
                inline(model),
                VoicesConfig(prepare_process=False, **config),
                add_media_tick=server.add_media_tick,
            )
            house = House(server, voices)
            try:
                await story(house)
            finally:
                await asyncio.gather(*house.attending, return_exceptions=True)
                await voices.close()

    asyncio.run(told())


async def until(condition: Callable[[], object]) -> None:
    async with asyncio.timeout(20):
        while not condition():
            await asyncio.sleep(0.005)


async def listen_for(session: Session, frames: int) -> list[np.ndarray]:
    """Return so many audible frames of what comes."""
    decoder, heard = OpusDecoder(48_000), []
    async with asyncio.timeout(20):
        async for frame in session.audio_in:
            if frame.payload is None:
                continue
            pcm = decoder.decode(frame.payload)
            if np.abs(pcm.astype(int)).max() > 2_000:
                heard.append(pcm)
                if len(heard) >= frames:
                    return heard
    return heard


def pitch(sound: np.ndarray) -> float:
    spectrum = np.abs(np.fft.rfft(sound * np.hanning(len(sound))))
    return float(np.argmax(spectrum) * 48_000 / len(sound))


@pytest.mark.slow
def test_what_is_said_comes_back() -> None:
    async def story(house: House) -> None:
        call = await house.call()
        for payload in tone(440, 1.0):
            call.audio_out.send(payload)
        heard = await listen_for(call, 20)
        assert pitch(np.concatenate(heard)) == pytest.approx(440, abs=10)
        [voice] = house.voices.voices
        await call.close()
        await voice.closed
        assert house.voices.voices == []

    run(story, EchoModel)


@pytest.mark.slow
def test_a_voice_is_told_of_the_greeting_that_plays() -> None:
    """So that who talks into it is not taken for somebody who speaks while nobody does."""
    opened: list[SessionConfig] = []

    class Told(EchoModel):
        def open(self, config):
            opened.append(config)
            return super().open(config)

    async def story(house: House) -> None:
        async def signal(offer: str) -> str:
            session = house.server.accept_offer(offer)
            for payload in tone(300, 2.0):
                session.audio_out.send(payload, non_personal=True)
            house.attending.append(asyncio.create_task(house.voices.attend(session)))
            return session.answer

        call = await house.client.connect(signal, config=CLIENT)
        await until(lambda: opened)
        assert 0 < opened[0].greeting_ms <= 2_000
        await call.close()
        plain = await house.call()
        await until(lambda: len(opened) == 2)
        assert opened[1].greeting_ms == 0
        await plain.close()

    run(story, Told)


class Raises(EchoModel):
    """A model that is broken: no step of it succeeds."""

    def step(self, batch):  # type: ignore[no-untyped-def]
        raise ValueError("not for the caller's eyes")


@pytest.mark.slow
def test_a_voice_that_raises_ends_its_call() -> None:
    async def story(house: House) -> None:
        call = await house.call()
        voice = await house.attending[0]
        async with asyncio.timeout(20):
            events = [event async for event in voice]
            await voice.closed
            await call.closed
            await house.served[0].closed
        assert [type(event) for event in events] == [Failed]
        assert voice.failure == "the voice failed (ValueError)"
        assert house.voices.voices == []

    run(story, Raises)


@pytest.mark.slow
def test_a_call_may_outlive_the_voice_that_fails() -> None:
    script = {"": {0: [Say(frames=500, hz=600)], 30: [Fault(reason="out of ideas")]}}

    async def story(house: House) -> None:
        call = await house.call(outlive=True)
        heard = await listen_for(call, 10)
        assert pitch(np.concatenate(heard)) == pytest.approx(600, abs=10)
        voice = await house.attending[0]
        async with asyncio.timeout(20):
            await voice.closed
        assert voice.failure == "out of ideas"
        assert not call.closed.done()
        await call.close()

    run(story, partial(ScriptedModel, script, info=INFO))


@pytest.mark.slow
def test_nobody_has_a_slot_before_they_are_authenticated() -> None:
    models: list[ScriptedModel] = []

    def model() -> ScriptedModel:
        models.append(ScriptedModel(info=INFO))
        return models[-1]

    async def story(house: House) -> None:
        offers: list[str] = []

        async def steal(offer: str) -> str:
            # an offer that is answered, and whose sender never gets to see the answer
            offers.append(offer)
            raise ConnectionError

        with pytest.raises(ConnectionError):
            await house.client.connect(steal, config=CLIENT)
        session = house.server.accept_offer(offers[0])
        attending = asyncio.create_task(house.voices.attend(session))
        ticks = house.voices.stats()["ticks"]
        await until(lambda: house.voices.stats()["ticks"] > ticks + 5)
        # nothing of the model is spent on it, and no place either: who is there has it
        assert house.voices.lack() is None
        assert models[0].taken == 0
        call = await house.call()
        await until(lambda: models[0].taken == 1)
        assert house.voices.lack() == "all 1 sessions are taken"
        with pytest.raises(NoCapacity):
            await house.voices.attend(session)
        await session.close()
        with pytest.raises(WarpError):
            await attending
        await call.close()
        await until(lambda: models[0].taken == 0)

    run(story, model, max_sessions=1)


@pytest.mark.slow
def test_a_flood_of_frames_is_bounded_and_the_voice_stays_live() -> None:
    async def story(house: House) -> None:
        call = await house.call()
        await asyncio.gather(*house.attending)
        [line] = house.voices._lines.live
        payload = tone(440, 0.02)[0]
        for n in range(3_000):
            # as if the network had delivered them all at once
            lane = call.peer.lane
            assert lane is not None
            item = lane.make(payload, n * 960, 0.0, n == 0)
            assert item is not None
            call.driver.send_datagram(item)
            if n % 100 == 0:
                await asyncio.sleep(0)
        ticks = house.voices.stats()["ticks"]
        await until(lambda: house.voices.stats()["ticks"] > ticks + 20)
        assert len(line._inbox) <= 512
        [voice] = house.voices.voices
        assert voice.failure is None
        dropped = f'voice_flooded_packets_total{{engine="{house.voices.info.name}"}} {line.flooded}'
        assert dropped in house.voices.prometheus().splitlines()
        assert line._receiver.delay_ms(house.voices._loop.time()) < 400
        await call.close()

    run(story, EchoModel)
