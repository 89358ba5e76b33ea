"""The `openai` SDK's live client holds a spoken conversation; run in an environment of its own."""

# mypy: ignore-errors
# what it imports is in the environment of its client alone

import asyncio
import base64

from openai import AsyncOpenAI
from talk import Talk, arguments


async def main() -> None:
    talk = Talk(arguments())
    base = talk.given.url
    client = AsyncOpenAI(
        api_key="sk-test", base_url=base, websocket_base_url=base.replace("http", "ws", 1)
    )
    async with client, client.live.connect() as connection:
        await connection.session.start(
            session={
                "model": "gpt-live-1",
                "instructions": "You are a helpful voice.",
                "audio": {"format": {"type": "audio/pcm", "rate": 24000}},
                "delegation": {"type": "client"},
            }
        )

        async def listen() -> None:
            async for event in connection:
                talk.note(event.type)
                if event.type == "session.output_audio.delta":
                    talk.hear(base64.b64decode(event.delta))
                elif event.type == "session.input_transcript.delta":
                    talk.word(event.delta, mine=True)
                elif event.type == "session.output_transcript.delta":
                    talk.word(event.delta, mine=False)
                elif event.type == "session.delegation.created":
                    await connection.session.commentary.append(
                        content="It is noon.", delegation_id=event.delegation.id
                    )
                elif event.type == "error":
                    talk.errors.append(f"{event.error.code}: {event.error.message}")
                elif event.type == "session.started":
                    tasks.append(asyncio.create_task(speak()))
                elif event.type == "session.closed":
                    return

        async def speak() -> None:
            async for piece in talk.pieces(20):
                await connection.session.input_audio.append(audio=base64.b64encode(piece).decode())

        tasks: list[asyncio.Task[None]] = []
        listening = asyncio.create_task(listen())
        await talk.until_answered()
        for task in tasks:
            task.cancel()
        await connection.session.close()
        await asyncio.wait_for(listening, 10)
    talk.report()


asyncio.run(main())
