"""LiveKit's `GPTLiveModel` inside an `AgentSession`, without a room: a microphone and a loudspeaker
of ours stand in for it. Run in an environment of its own."""

# mypy: ignore-errors
# what it imports is in the environment of its client alone

import asyncio
import time
from typing import Any

from livekit import rtc
from livekit.agents import Agent, AgentSession
from livekit.agents.voice import io
from livekit.plugins.openai.realtime import GPTLiveModel
from talk import RATE, Talk, arguments


class Microphone(io.AudioInput):
    def __init__(self, talk: Talk) -> None:
        super().__init__(label="microphone")
        self._pieces = talk.pieces(20)

    async def __anext__(self) -> rtc.AudioFrame:
        piece = await anext(self._pieces)
        return rtc.AudioFrame(piece, RATE, 1, len(piece) // 2)


class Loudspeaker(io.AudioOutput):
    def __init__(self, talk: Talk) -> None:
        capabilities = io.AudioOutputCapabilities(pause=False)
        super().__init__(label="loudspeaker", capabilities=capabilities, sample_rate=RATE)
        self._talk = talk
        self._played_s = 0.0

    async def capture_frame(self, frame: rtc.AudioFrame) -> None:
        await super().capture_frame(frame)
        if self._played_s == 0.0:
            self.on_playback_started(created_at=time.time())
        self._played_s += frame.duration
        self._talk.hear(bytes(frame.data))

    def flush(self) -> None:
        super().flush()
        played_s, self._played_s = self._played_s, 0.0
        if played_s:
            self.on_playback_finished(playback_position=played_s, interrupted=False)

    def clear_buffer(self) -> None:
        played_s, self._played_s = self._played_s, 0.0
        if played_s:
            self.on_playback_finished(playback_position=played_s, interrupted=True)


class Assistant(Agent):
    def __init__(self, talk: Talk) -> None:
        super().__init__(instructions="You are a helpful voice.")
        self._talk = talk

    async def on_enter(self) -> None:
        live = self.duplex_session

        def receive_event(event: dict) -> None:
            kind = event["type"]
            self._talk.note(kind)
            if kind == "session.output_transcript.delta":
                self._talk.word(event["delta"], mine=False)
            elif kind == "error":
                self._talk.errors.append(f"{event['error']['code']}: {event['error']['message']}")

        def receive_delegation(delegation: Any) -> None:
            live.append_commentary("It is noon.", delegation_id=delegation.id)

        live.on("openai_server_event_received", receive_event)
        live.on("delegation_created", receive_delegation)


async def main() -> None:
    talk = Talk(arguments())
    model = GPTLiveModel(api_key="sk-test", base_url=talk.given.url, delegation="client")
    session = AgentSession(llm=model)

    @session.on("user_input_transcribed")
    def transcribed(event: Any) -> None:
        talk.note(f"livekit.user_input_transcribed.{event.is_final}")
        if event.is_final:
            talk.word(event.transcript + " ", mine=True)

    @session.on("conversation_item_added")
    def added(event: Any) -> None:
        role = getattr(event.item, "role", "?")
        talk.note(f"livekit.{role}_message")

    session.input.audio = Microphone(talk)
    session.output.audio = Loudspeaker(talk)
    await session.start(agent=Assistant(talk))
    await talk.until_answered()
    await session.aclose()
    await model.aclose()
    talk.report()


asyncio.run(main())
