"""A helper that never answers: work that is given to it is under way until it is stopped."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator

from voice_backend.delegation import Part, Request
from voice_backend.live.shapes import JsonObject, ResponsesBackend


class HungHelper:
    """What `LiveHouse(make_helper=HungHelper)` asks."""

    def __init__(self, backend: ResponsesBackend) -> None:
        self._forever = asyncio.Event()

    async def open(self, context: str) -> None:
        """Nothing is to be got ready."""

    async def work(self, request: Request) -> AsyncGenerator[Part, None]:
        """Begin, and never end."""
        yield Part(text="on it")
        await self._forever.wait()

    async def close(self) -> None:
        """Nothing is held."""

    def add_item(self, item: JsonObject) -> None:
        """Nothing is asked with it."""

    def go_on(self) -> None:
        """It would not."""

    def reconfigure(self, backend: ResponsesBackend) -> None:
        """It would make no difference."""
