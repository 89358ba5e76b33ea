"""WebDriver BiDi over one WebSocket: commands and their results, and events by context.

command(method, ...) ─▶ {"id", "method", "params"}        result or BidiError ◀─ {"id", ...}
                        subscriber(context)(event) ◀────────────────────────── {"method", ...}
"""

from __future__ import annotations

import asyncio
import itertools
import json
from collections.abc import Callable
from typing import Any

import websockets

from interop.browser import BrowserError

COMMAND_S = 60.0
_GONE: dict[str, Any] = {"type": "gone"}

Subscriber = Callable[[str, dict[str, Any]], None]
"""Takes an event's method and parameters."""


class BidiError(BrowserError):
    """Firefox refused a command; `code` is WebDriver's word for the reason."""

    def __init__(self, method: str, code: str, message: str) -> None:
        super().__init__(f"Firefox refused {method}: {code}: {message}")
        self.code = code
        self.message = message


class Connection:
    """One WebSocket to a Firefox. Made by `open_connection`."""

    def __init__(self, socket: websockets.ClientConnection) -> None:
        self._socket = socket
        self._numbers = itertools.count(1)
        self._waiting: dict[int, asyncio.Future[dict[str, Any]]] = {}
        self.subscribers: dict[str, Subscriber] = {}
        """By the id of the browsing context."""
        self._reader = asyncio.ensure_future(self._read())

    async def command(
        self, method: str, parameters: dict[str, Any], *, timeout_s: float = COMMAND_S
    ) -> dict[str, Any]:
        """Return a command's result. Raises BidiError, BrowserError when Firefox has gone."""
        number = next(self._numbers)
        waiting: asyncio.Future[dict[str, Any]] = asyncio.get_running_loop().create_future()
        self._waiting[number] = waiting
        try:
            text = json.dumps({"id": number, "method": method, "params": parameters})
            if self._reader.done():
                raise BrowserError(f"Firefox has gone, before {method}")
            await self._socket.send(text)
            async with asyncio.timeout(timeout_s):
                reply = await waiting
        except websockets.ConnectionClosed as error:
            raise BrowserError(f"Firefox has gone, before {method}") from error
        finally:
            del self._waiting[number]
        if reply is _GONE:
            raise BrowserError(f"Firefox has gone, during {method}")
        if reply["type"] == "error":
            raise BidiError(method, str(reply["error"]), str(reply["message"]))
        result: dict[str, Any] = reply["result"]
        return result

    async def close(self) -> None:
        """Close the socket; what waits fails."""
        await self._socket.close()
        await self._reader

    async def _read(self) -> None:
        try:
            async for text in self._socket:
                self._receive(json.loads(text))
        except websockets.ConnectionClosed:
            pass  # the browser ended without a goodbye: whoever waits is told below
        finally:
            for waiting in list(self._waiting.values()):
                if not waiting.done():
                    waiting.set_result(_GONE)

    def _receive(self, message: dict[str, Any]) -> None:
        if message.get("type") == "event":
            parameters = message["params"]
            context = parameters.get("context") or parameters.get("source", {}).get("context")
            subscriber = self.subscribers.get(str(context))
            if subscriber is not None:
                subscriber(str(message["method"]), parameters)
            return
        waiting = self._waiting.get(message.get("id", 0))
        if waiting is not None and not waiting.done():
            waiting.set_result(message)


async def open_connection(url: str) -> Connection:
    """Connect to `ws://HOST:PORT/session` or to a session under it."""
    try:
        # messages of megabytes pass here as base64
        return Connection(await websockets.connect(url, max_size=None, proxy=None))
    except (OSError, websockets.WebSocketException) as error:
        raise BrowserError(f"no WebDriver BiDi at {url}: {error}") from error
