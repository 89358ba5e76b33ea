from __future__ import annotations

import asyncio
from typing import Any

import numpy as np
import pytest

from warp.rtp import AudioFrame
from warp_tools.audio import likeness, packaged_sound
from warp_tools.caller import CallConfig, hold_call
from warp_tools.echo import MAX_BEHIND_MS, Echo, greet, greeting
from warp_tools.hearing import Recording
from warp_tools.opus import encoded

SPEECH = packaged_sound("speech")
WORDS = encoded(SPEECH)
SILENCE = encoded(np.zeros(48_000, np.int16))


class Ear:
    """Stands for `session.audio_in`."""

    def __init__(self) -> None:
        self.waiting: list[AudioFrame] = []
        self.count = 0
        self.arrived = asyncio.Event()

    def push(self, payload: bytes) -> None:
        at = self.count
        self.count += 1
        self.waiting.append(AudioFrame(payload, at * 960, at, False, 111, None, 0.0))
        self.arrived.set()

    def take(self) -> list[AudioFrame]:
        taken, self.waiting = self.waiting, []
        return taken

    def __aiter__(self) -> Ear:
        return self

    async def __anext__(self) -> AudioFrame:
        while not self.waiting:
            self.arrived.clear()
            await self.arrived.wait()
        return self.waiting.pop(0)


class Mouth:
    """Stands for `session.audio_out`, without pacing."""

    def __init__(self) -> None:
        self.said: list[tuple[bytes, bool]] = []
        self.played = 0

    def send(self, payload: bytes, *, duration: int = 960, non_personal: bool = False) -> None:
        self.said.append((payload, non_personal))

    @property
    def queued_ms(self) -> float:
        return (len(self.said) - self.played) * 20.0


class Talk:
    """Stands for a session."""

    def __init__(self) -> None:
        self.audio_in = Ear()
        self.audio_out = Mouth()
        self.closed: Any = asyncio.Event()
        self.closed.done = self.closed.is_set


def talk() -> tuple[Talk, Echo]:
    session = Talk()
    greet(session)
    return session, Echo(session)


def heard(payloads: list[bytes]) -> np.ndarray:
    recording = Recording()
    for at, payload in enumerate(payloads):
        recording.add(AudioFrame(payload, at * 960, at, False, 111, None, 0.0))
    return recording.samples()


def test_the_greeting_comes_first_and_is_not_personal() -> None:
    session, _ = talk()
    assert [p for p, _ in session.audio_out.said] == list(greeting())
    assert all(non_personal for _, non_personal in session.audio_out.said)
    sound = heard([p for p, _ in session.audio_out.said])
    assert likeness(packaged_sound("greeting"), sound).correlation > 0.95


def test_what_is_said_comes_back_behind_the_greeting() -> None:
    session, echo = talk()
    for payload in WORDS:
        session.audio_in.push(payload)
        echo.handle_tick(0.0)
    said = session.audio_out.said
    assert not any(non_personal for _, non_personal in said[len(greeting()) :])
    reply = heard([p for p, _ in said])
    assert likeness(SPEECH, reply).correlation > 0.9


def test_silence_before_the_first_word_is_not_queued_behind_the_greeting() -> None:
    session, echo = talk()
    for payload in SILENCE:
        session.audio_in.push(payload)
    echo.handle_tick(0.0)
    assert echo.echoed == 0
    session.audio_out.played = len(session.audio_out.said)
    session.audio_in.push(SILENCE[0])
    echo.handle_tick(0.0)
    assert echo.echoed == 1


@pytest.mark.slow
def test_an_echo_far_behind_stops_growing() -> None:
    session, echo = talk()
    for _ in range(8):
        for payload in WORDS:
            session.audio_in.push(payload)
        echo.handle_tick(0.0)
    assert session.audio_out.queued_ms <= MAX_BEHIND_MS + 20
    assert echo.dropped > 0


@pytest.mark.slow
def test_a_caller_speaks_and_listens_until_the_other_side_is_quiet() -> None:
    async def main() -> Recording:
        session = Talk()

        async def answer() -> None:
            while len(session.audio_out.said) < 50:
                session.audio_out.played = len(session.audio_out.said)
                await asyncio.sleep(0.001)
            session.audio_out.played = 50
            for payload in WORDS[:100]:
                session.audio_in.push(payload)

        work = asyncio.create_task(answer())
        config = CallConfig(quiet_s=0.05, longest_tail_s=2.0)
        recording = await hold_call(session, WORDS[:50], config)
        await work
        return recording

    assert asyncio.run(main()).frames == 100


def test_a_caller_who_wants_no_more_has_what_was_heard_until_then() -> None:
    async def main() -> tuple[Recording, int]:
        session, stop = Talk(), asyncio.Event()

        async def answer() -> None:
            while not session.audio_out.said:
                await asyncio.sleep(0)
            for payload in WORDS[:30]:
                session.audio_in.push(payload)
            stop.set()

        work = asyncio.create_task(answer())
        recording = await hold_call(session, WORDS * 100, stop=stop)
        await work
        return recording, len(session.audio_out.said)

    recording, said = asyncio.run(main())
    assert recording.frames == 30
    assert said <= 50 < len(WORDS) * 100


def test_the_greeting_is_encoded_once_however_it_is_asked_for() -> None:
    """A server asks for it before the first call, and each call by its name."""
    assert greeting() is greeting("greeting") is greeting(sound="greeting")
