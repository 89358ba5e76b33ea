"""Live sessions served by hypercorn on this loop, with a voice that follows a script."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

from openai import AsyncOpenAI
from starlette.applications import Starlette

from tests.unit.tools.web_server import web_server
from voice_backend.io.live import LiveHouse, live_routes
from voice_backend.io.voices import Voices, VoicesConfig, inline, open_voices
from voice_backend.live import LiveConfig
from voice_backend.models.scripted import Ask, Hear, Say, Script, ScriptedModel
from warp.io import Server, listen

TALK: Script = {
    25: [Hear(text="what is the time", frames=20)],
    30: [Ask(delegation_id="dlg_1"), Say(frames=30, text="let me see")],
}
SCRIPTS = {"": TALK, "talk": TALK, "mute": {}}


@dataclass(slots=True)
class Site:
    """What a test talks to."""

    url: str
    house: LiveHouse
    voices: Voices
    model: ScriptedModel

    def client(self, **options: Any) -> AsyncOpenAI:
        """The contract's public client, pointed at us."""
        ws = self.url.replace("http", "ws", 1)
        return AsyncOpenAI(
            api_key="sk-test",
            base_url=f"{self.url}/v1",
            websocket_base_url=f"{ws}/v1",
            max_retries=0,
            **options,
        )


@asynccontextmanager
async def live_site(
    scripts: dict[str, Script] | None = None, *, webrtc: bool = False, **options: Any
) -> AsyncIterator[Site]:
    """Serve; at the end nothing may be left."""
    server: Server | None = None
    if webrtc:
        server = await listen("127.0.0.1", 0)
    model = ScriptedModel(scripts or SCRIPTS)
    voices = await open_voices(
        inline(lambda: model),
        VoicesConfig(prepare_process=False),
        add_media_tick=None if server is None else server.add_media_tick,
    )
    options.setdefault("config", LiveConfig(voices=frozenset(SCRIPTS), start_timeout_s=5.0))
    house = LiveHouse(voices, server=server, **options)
    try:
        async with web_server(Starlette(routes=live_routes(house))) as url:
            yield Site(url, house, voices, model)
    finally:
        await house.close()
        await voices.close()
        if server is not None:
            await server.close()
    assert model.taken == 0
    assert house.runs == []
