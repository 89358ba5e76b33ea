"""The Chrome DevTools Protocol: commands and events of a browser and its tabs on one websocket.

{"id", "sessionId", "method", "params"} ─▶        ◀─ {"id", "result" | "error"}
                                                  ◀─ {"sessionId", "method", "params"}
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import json
from collections.abc import AsyncIterator, Callable
from typing import Any

from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed

from interop.browser import BrowserError, PageCrashed

COMMAND_S = 30.0

Message = dict[str, Any]
Hearer = Callable[[str, Message], None]


class Connection:
    """A websocket to the browser; `command` with the id of a session speaks to that tab."""

    def __init__(self, socket: ClientConnection) -> None:
        self._socket = socket
        self._numbers = itertools.count(1)
        self._waiting: dict[int, tuple[str | None, asyncio.Future[Message]]] = {}
        self._hearers: dict[str | None, Hearer] = {}

    @classmethod
    @contextlib.asynccontextmanager
    async def open(cls, endpoint: str) -> AsyncIterator[Connection]:
        """Connect; what was asked and not answered fails in the end."""
        async with connect(endpoint, max_size=None, ping_interval=None) as socket:
            connection = cls(socket)
            reader = asyncio.ensure_future(connection._read())
            try:
                yield connection
            finally:
                reader.cancel()
                await asyncio.gather(reader, return_exceptions=True)

    def hear(self, session: str | None, hearer: Hearer) -> None:
        """Pass the events of a session (None: the browser's own) on."""
        self._hearers[session] = hearer

    def forget(self, session: str, why: str) -> None:
        """Fail what waits for an answer of a session that has gone."""
        self._hearers.pop(session, None)
        for owner, future in self._waiting.values():
            if owner == session and not future.done():
                future.set_exception(PageCrashed(why))

    async def command(
        self,
        method: str,
        *,
        session: str | None = None,
        timeout_s: float = COMMAND_S,
        **params: Any,
    ) -> Message:
        """Give a command and return its result; raises BrowserError with the browser's reason."""
        number = next(self._numbers)
        message: Message = {"id": number, "method": method, "params": params}
        if session is not None:
            message["sessionId"] = session
        future: asyncio.Future[Message] = asyncio.get_running_loop().create_future()
        self._waiting[number] = (session, future)
        try:
            await self._socket.send(json.dumps(message))
            async with asyncio.timeout(timeout_s):
                answer = await future
        except ConnectionClosed as error:
            raise BrowserError(f"{method}: the browser has gone ({error})") from error
        finally:
            del self._waiting[number]
        if "error" in answer:
            raise BrowserError(f"{method}: {answer['error'].get('message')}")
        return dict(answer["result"])

    async def _read(self) -> None:
        try:
            async for text in self._socket:
                self._receive(json.loads(text))
        except ConnectionClosed as error:
            for _, future in self._waiting.values():
                if not future.done():
                    future.set_exception(BrowserError(f"the browser has gone ({error})"))

    def _receive(self, message: Message) -> None:
        if "id" in message:
            _, future = self._waiting.get(message["id"], (None, None))
            if future is not None and not future.done():
                future.set_result(message)
            return
        hearer = self._hearers.get(message.get("sessionId"))
        if hearer is not None:
            hearer(message["method"], message.get("params", {}))
