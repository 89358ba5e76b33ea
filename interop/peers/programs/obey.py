"""What programs in Python have in common: commands from standard input, what happens to its output.

serve(version, make)     make(number, options) ─▶ a connection whose methods are the commands
"""

from __future__ import annotations

import asyncio
import base64
import inspect
import json
import os
import re
import sys
import time
from collections.abc import Callable
from typing import Any, Protocol

_LINE_LIMIT = 64 << 20


class Connection(Protocol):
    """What a program makes for `create`; the other commands are methods of their names."""

    async def close(self) -> None:
        """Close it. Harmless when repeated."""


def emit(**message: Any) -> None:
    """Write one line."""
    sys.stdout.write(json.dumps(message) + "\n")
    sys.stdout.flush()


def mark(pc: int, name: str, **more: Any) -> None:
    """Tell that something has happened just now."""
    emit(**{"pc": pc, "ev": "mark", "name": name, "t": time.monotonic(), **more})


def tell_message(pc: int, label: str, data: str | bytes) -> None:
    """Tell of a message."""
    if isinstance(data, str):
        emit(pc=pc, ev="message", label=label, text=data)
    else:
        emit(pc=pc, ev="message", label=label, base64=base64.b64encode(data).decode())


def content(text: str | None, encoded: str | None) -> str | bytes:
    """Return the message that a command holds."""
    return text if text is not None else base64.b64decode(encoded or "")


def with_setup(sdp: str, setup: str | None) -> str:
    """Return an answer with the role that is wanted."""
    return re.sub(r"a=setup:\w+", f"a=setup:{setup}", sdp) if setup else sdp


def _method(command: str) -> str:
    return re.sub(r"[A-Z]", lambda found: "_" + found[0].lower(), command)


async def _obey(
    command: dict[str, Any],
    version: str,
    make: Callable[[int, dict[str, Any]], Any],
    known: dict[int, Any],
) -> Any:
    name = command.pop("cmd")
    if name == "hello":
        return {"version": version}
    number = int(command.pop("pc"))
    if name == "create":
        made = make(number, command)
        known[number] = await made if inspect.isawaitable(made) else made
        return None
    if name == "close":
        connection = known.pop(number, None)
        return None if connection is None else await connection.close()
    result = getattr(known[number], _method(name))(**command)
    return await result if inspect.isawaitable(result) else result


async def _serve(version: str, make: Callable[[int, dict[str, Any]], Any]) -> None:
    reader = asyncio.StreamReader(limit=_LINE_LIMIT)
    loop = asyncio.get_running_loop()
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
    known: dict[int, Any] = {}
    tasks: set[asyncio.Task[None]] = set()

    async def answer(command: dict[str, Any]) -> None:
        number = command.pop("id")
        try:
            emit(re=number, value=await _obey(command, version, make, known))
        except Exception as error:
            emit(re=number, error=f"{type(error).__name__}: {error}")

    while line := await reader.readline():
        task = asyncio.ensure_future(answer(json.loads(line)))
        tasks.add(task)
        task.add_done_callback(tasks.discard)
    # some libraries hold threads that would wait for more
    os._exit(0)


def serve(version: str, make: Callable[[int, dict[str, Any]], Any]) -> None:
    """Obey until standard input ends."""
    asyncio.run(_serve(version, make))
