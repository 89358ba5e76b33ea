"""A client of live sessions that can be rude: over a WebSocket, and over a call with events.

LiveSocket.connect ─▶ send(event) ─▶ until(kind) ─▶ close (RFC 6455) | leave | cut (a reset)
post(path, body) for offers and hang-ups: one request, one connection
"""

from __future__ import annotations

import asyncio
import json
import socket
import struct
from collections import deque
from typing import Any, Final
from urllib.parse import urlsplit

from wsproto import ConnectionType, WSConnection
from wsproto.events import (
    AcceptConnection,
    CloseConnection,
    Message,
    Ping,
    RejectConnection,
    Request,
)

PATH: Final = "/v1/live/sessions"
WAIT_S: Final = 30.0
_READ_BYTES: Final = 65_536


class Refused(Exception):
    """The server would not have it."""


async def post(url: str, path: str, body: dict[str, Any]) -> dict[str, Any]:
    """POST JSON and return the answer. Raises Refused."""
    parts = urlsplit(url)
    content = json.dumps(body).encode()
    head = (
        f"POST {path} HTTP/1.1\r\nHost: {parts.netloc}\r\nContent-Type: application/json\r\n"
        f"Content-Length: {len(content)}\r\nConnection: close\r\n\r\n"
    )
    reader, writer = await asyncio.open_connection(parts.hostname, parts.port)
    try:
        writer.write(head.encode() + content)
        async with asyncio.timeout(WAIT_S):
            answer = await reader.read()
    finally:
        writer.close()
    status, _, rest = answer.partition(b"\r\n")
    text = rest.partition(b"\r\n\r\n")[2]
    if not status.startswith((b"HTTP/1.1 200", b"HTTP/1.1 201")):
        raise Refused(f"{status.decode()}: {text.decode()[:200]}")
    found: dict[str, Any] = json.loads(text)
    return found


class LiveSocket:
    """One WebSocket."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader, self._writer = reader, writer
        self._protocol = WSConnection(ConnectionType.CLIENT)
        self._text = ""
        self._unread: deque[dict[str, Any]] = deque()
        self.is_open = False

    @classmethod
    async def connect(cls, url: str, path: str = PATH) -> LiveSocket:
        """Open one. Raises Refused."""
        parts = urlsplit(url)
        made = cls(*await asyncio.open_connection(parts.hostname, parts.port))
        request = Request(host=parts.netloc, target=path)
        made._writer.write(made._protocol.send(request))
        await made._receive()
        if not made.is_open:
            made.cut()
            raise Refused("no WebSocket")
        return made

    def send(self, kind: str, **members: Any) -> None:
        """Send an event."""
        text = json.dumps({"type": kind, **members})
        self._writer.write(self._protocol.send(Message(data=text)))

    async def until(self, *kinds: str) -> dict[str, Any]:
        """Return the next event of these kinds. Raises Refused when there is none any more."""
        async with asyncio.timeout(WAIT_S):
            while self._unread or self.is_open:
                if not self._unread:
                    await self._receive()
                elif (event := self._unread.popleft())["type"] in kinds:
                    return event
        raise Refused(f"the connection ended before {' or '.join(kinds)}")

    async def _receive(self) -> None:
        data = await self._reader.read(_READ_BYTES)
        self._protocol.receive_data(data or None)
        for event in self._protocol.events():
            if isinstance(event, AcceptConnection):
                self.is_open = True
            elif isinstance(event, Message):
                self._text += str(event.data)
                if event.message_finished:
                    self._unread.append(json.loads(self._text))
                    self._text = ""
            elif isinstance(event, Ping):
                self._writer.write(self._protocol.send(event.response()))
            elif isinstance(event, CloseConnection | RejectConnection):
                self.is_open = False
        self.is_open = self.is_open and bool(data)

    async def leave(self) -> None:
        """Go, as RFC 6455 section 7 has it, but waiting for nobody."""
        if self.is_open:
            self._writer.write(self._protocol.send(CloseConnection(code=1000)))
            await self._writer.drain()
        self._writer.close()

    def cut(self) -> None:
        """Be gone at once: what follows is a reset (RFC 9293 section 3.10.7)."""
        found = self._writer.get_extra_info("socket")
        if found is not None:
            found.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self._writer.transport.abort()
