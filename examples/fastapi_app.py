"""Voice in an application of your own: our routes mounted in FastAPI beside yours.

    pip install 'warp-rtc[server]' fastapi
    hypercorn examples.fastapi_app:app          # then open http://127.0.0.1:8000/voice/

Every call is answered by `answer`: it says back what it hears, without looking at it, and greets
on the events channel if the client has one.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from fastapi import FastAPI

from instant_connect.io import CallInfo, SignallingConfig, events_channel, signalling_app
from warp.io import ServerConfig, Session, listen


async def answer(session: Session, info: CallInfo) -> None:
    """Answer one call; what is raised by its end is no error."""
    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(talk(session))
        tasks.create_task(greet(session, info))


async def talk(session: Session) -> None:
    """Say back what is heard: Opus in, Opus out."""
    async for frame in session.audio_in:
        if frame.payload is not None:
            session.audio_out.send(frame.payload)


async def greet(session: Session, info: CallInfo) -> None:
    """Say on the events channel that the call has begun; `info.config` came with the offer."""
    events = await events_channel(session, info)
    await events.opened()
    events.send(json.dumps({"type": "session.created", "session": {"id": info.id}}))


@asynccontextmanager
async def lifespan(app: FastAPI) -> AsyncIterator[None]:
    """One UDP port carries all calls, from the application's start to its end."""
    async with await listen("127.0.0.1", config=ServerConfig()) as server:
        config = SignallingConfig(max_calls=100)
        app.mount("/voice", signalling_app(server, accept=answer, config=config))
        yield


app = FastAPI(lifespan=lifespan)


@app.get("/health")
async def health() -> dict[str, str]:
    """A route of your own."""
    return {"status": "ok"}
