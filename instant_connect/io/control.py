"""What a parent and its workers say to each other: JSON, a line each, on a pair of sockets.

    parent: task ─▶ roster, keyring ... ─▶ stop          worker: ready ─▶ noted, say, drain, empty
    either end gone: the other reads the end of the stream

The pair is made before the worker is, and inherited: secrets are on no command line and in no
environment. Called by `io.supervisor` and `io.membership`.
"""

from __future__ import annotations

import asyncio
import json
import socket
from collections.abc import AsyncIterator
from typing import Any, Final

Line = dict[str, Any]
MAX_LINE_BYTES: Final = 1 << 20
_MAX_UNREAD_BYTES: Final = 4 << 20


class Control:
    """One end of the pair."""

    __slots__ = ("_reader", "_writer")

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer

    @classmethod
    async def open(cls, sock: socket.socket) -> Control:
        """Take over a connected socket."""
        return cls(*await asyncio.open_connection(sock=sock, limit=MAX_LINE_BYTES))

    def send(self, **fields: Any) -> bool:
        """Send one line; False when the other end has not read for so long that it must hang."""
        if self._writer.is_closing():
            return True
        self._writer.write(json.dumps(fields).encode() + b"\n")
        return self._writer.transport.get_write_buffer_size() <= _MAX_UNREAD_BYTES

    async def read(self) -> Line | None:
        """Return the next line; None at the end, or when the other end has gone wrong."""
        try:
            raw = await self._reader.readline()
            line = json.loads(raw) if raw.endswith(b"\n") else None
        except (OSError, ValueError):
            return None
        return line if isinstance(line, dict) else None

    async def __aiter__(self) -> AsyncIterator[Line]:
        """Iterate over what comes, to the end."""
        while (line := await self.read()) is not None:
            yield line

    def close(self) -> None:
        """Close this end. Harmless when repeated."""
        self._writer.close()
