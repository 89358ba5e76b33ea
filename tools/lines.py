"""JSON lines between a parent and the processes it starts: the signalling of demo and bench.

parent: Worker.start("warp_tools.demo_peer", "server") ── stdin ──▶ child: Lines.read()
                                                       ◀─ stdout ── child: Lines.write()
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import sys
from collections import deque
from typing import Any

from warp_tools.failure import ToolFailure

Line = dict[str, Any]
_LIMIT = 1 << 24
_CHUNK = 1 << 16


class Lines:
    """The child's end: reads commands from stdin without a thread, writes to stdout."""

    __slots__ = ("_buffer", "_ended", "_loop", "_ready", "_waiter")

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._buffer = b""
        self._ready: deque[bytes] = deque()
        self._ended = False
        self._waiter: asyncio.Future[None] | None = None
        os.set_blocking(sys.stdin.fileno(), False)
        self._loop.add_reader(sys.stdin.fileno(), self._read)

    async def read(self) -> Line | None:
        """Return the next command, or None when the parent has gone."""
        while not self._ready:
            if self._ended:
                return None
            self._waiter = self._loop.create_future()
            await self._waiter
        line: Line = json.loads(self._ready.popleft())
        return line

    def write(self, **fields: Any) -> None:
        """Send one line to the parent; when it has gone nobody hears, and `read` will say so."""
        try:
            sys.stdout.write(json.dumps(fields) + "\n")
            sys.stdout.flush()
        except BrokenPipeError:
            # what is buffered goes the same way, and not into a complaint at exit
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())

    def _read(self) -> None:
        try:
            chunk = os.read(sys.stdin.fileno(), _CHUNK)
        except BlockingIOError:
            return
        if not chunk:
            self._ended = True
            self._loop.remove_reader(sys.stdin.fileno())
        self._buffer += chunk
        *whole, self._buffer = self._buffer.split(b"\n")
        self._ready.extend(whole)
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)


class Worker:
    """The parent's end: one child process."""

    __slots__ = ("_name", "_process", "_waiting")

    def __init__(self, name: str, process: asyncio.subprocess.Process) -> None:
        self._name = name
        self._process = process
        self._waiting: deque[Line] = deque()

    @classmethod
    async def start(cls, module: str, *arguments: str, core: int | None = None) -> Worker:
        """Run `python -m module arguments`, on one core if asked for."""
        environment = {**os.environ, "PYTHONUNBUFFERED": "1"}
        if core is not None:
            environment["WARP_TOOLS_CORE"] = str(core)
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            "-m",
            module,
            *arguments,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            env=environment,
            limit=_LIMIT,
            # Ctrl-C is for the parent, which stops its children
            start_new_session=True,
        )
        return cls(" ".join([module.rpartition(".")[2], *filter(None, arguments)]), process)

    def send(self, **fields: Any) -> None:
        """Send one command."""
        if self._process.stdin is None or self._process.returncode is not None:
            raise ToolFailure(f"{self._name} has ended with status {self._process.returncode}")
        self._process.stdin.write(json.dumps(fields).encode() + b"\n")

    async def expect(self, event: str, *, timeout_s: float = 30.0) -> Line:
        """Return the next line of this kind; other kinds wait for who wants them.

        Raises ToolFailure when the child fails, ends or takes too long.
        """
        for line in self._waiting:
            if line.get("event") == event:
                self._waiting.remove(line)
                return line
        try:
            async with asyncio.timeout(timeout_s):
                while True:
                    line = await self._next()
                    if line.get("event") == event:
                        return line
                    self._waiting.append(line)
        except TimeoutError:
            raise ToolFailure(f"{self._name} said no {event!r} within {timeout_s:g} s") from None

    async def _next(self) -> Line:
        stdout = self._process.stdout
        raw = await stdout.readline() if stdout is not None else b""
        if not raw:
            status = await self._process.wait()
            raise ToolFailure(f"{self._name} ended with status {status}")
        line: Line = json.loads(raw)
        if line.get("event") == "failure":
            raise ToolFailure(f"{self._name}: {line.get('text')}")
        return line

    async def stop(self) -> None:
        """End the child: politely, then for sure."""
        if self._process.stdin is not None:
            self._process.stdin.close()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(3):
                await self._process.wait()
        if self._process.returncode is None:
            self._process.kill()
            await self._process.wait()


def pin_to_core() -> None:
    """Keep this process on the core that its parent chose, where the system can do that."""
    core = os.environ.get("WARP_TOOLS_CORE")
    if core is not None and hasattr(os, "sched_setaffinity"):
        with contextlib.suppress(OSError):
            os.sched_setaffinity(0, {int(core)})
