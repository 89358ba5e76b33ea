"""A peer as a program of our own around a library: JSON lines in, JSON lines out.

    {"id": 7, "cmd": "offer", "pc": 1, ...} ─▶ stdin │ program │ stdout ─▶ {"re": 7, "value": ...}
                                                                          {"re": 7, "error": "..."}
    ◀─ {"pc": 1, "ev": "mark", "name": "open:talk", "t": 12.5}     what happens, at any time
    ◀─ {"pc": 1, "ev": "message", "label": "talk", "text" | "base64": ...}

A program ends with its standard input. `t` is in seconds of the system's monotonic clock, which
our own loop reads as well. Programs: interop/peers/programs, interop/pion, interop/str0m.
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
import itertools
import json
import os
import signal
import tempfile
from collections import deque
from collections.abc import AsyncIterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from interop.peers.peer import (
    PATIENCE_S,
    Announced,
    ChannelOptions,
    PeerConfig,
    PeerError,
    PeerGone,
    Samples,
)
from interop.peers.sound import heard_payloads, payloads_as_text, spoken

ROOT = Path(__file__).parents[2]
_LINE_LIMIT = 64 << 20
_START_S = 40.0
_END_S = 2.0
_LAST_WORDS_S = 0.5
_POLL_S = 0.05
_LOG_LINES = 60


class LineProcess:
    """A running program; made by `run`."""

    def __init__(self, process: asyncio.subprocess.Process, opus: bool, folder: Path) -> None:
        self._process = process
        self._numbers = itertools.count(1)
        self._waiting: dict[int, asyncio.Future[Any]] = {}
        self._peers: dict[int, LinePeer] = {}
        self._log: deque[str] = deque(maxlen=_LOG_LINES)
        self._reader = asyncio.ensure_future(self._read())
        self._log_reader = asyncio.ensure_future(self._read_log())
        self._watcher = asyncio.ensure_future(self._watch())
        self.opus = opus
        """Whether the program deals in Opus payloads; else in samples."""
        self.folder = folder
        """For what is too much for a line."""

    @classmethod
    @contextlib.asynccontextmanager
    async def run(
        cls,
        command: Sequence[str],
        *,
        opus: bool,
        environment: Mapping[str, str] | None = None,
    ) -> AsyncIterator[LineProcess]:
        """Start a program; it is gone afterwards, and everything that it has started."""
        with tempfile.TemporaryDirectory(prefix="warp-peer-") as folder:
            process = await asyncio.create_subprocess_exec(
                *command,
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.PIPE,
                limit=_LINE_LIMIT,
                cwd=ROOT,
                env={
                    # a key log is one call's; a process has many
                    **{name: text for name, text in os.environ.items() if name != "SSLKEYLOGFILE"},
                    **(environment or {}),
                },
                start_new_session=True,
            )
            running = cls(process, opus, Path(folder))
            try:
                await running.ask("hello", timeout_s=_START_S)
                yield running
            finally:
                await running._end()

    async def _end(self) -> None:
        if self._process.stdin is not None:
            self._process.stdin.close()
        try:
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._exit(), _END_S)
        finally:
            # its group, whose number is its own: nothing that it has started stays
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGKILL)
            await self._process.wait()
            tasks = (self._reader, self._log_reader, self._watcher)
            await asyncio.gather(*tasks, return_exceptions=True)

    async def _exit(self) -> None:
        """Wait until it has ended; the process's own `wait` may wait for its pipes as well."""
        while self._process.returncode is None:
            await asyncio.sleep(_POLL_S)

    def log(self) -> str:
        """Return the end of what it has printed."""
        return "\n".join(self._log)

    async def create(self, config: PeerConfig) -> LinePeer:
        """Make a connection."""
        number = next(self._numbers)
        peer = self._peers[number] = LinePeer(self, number)
        await self.ask(
            "create",
            pc=number,
            audio=config.audio,
            video=config.video,
            setup=config.setup,
            sped=config.wants.sped,
            snap=config.wants.snap,
            pq=config.wants.pq,
            channels=[channel.as_json() for channel in config.channels],
        )
        return peer

    def forget(self, number: int) -> None:
        """Hear no more of a connection."""
        self._peers.pop(number, None)

    async def ask(self, command: str, *, timeout_s: float = PATIENCE_S, **arguments: Any) -> Any:
        """Give a command and return what it comes to."""
        number = next(self._numbers)
        stdin = self._process.stdin
        if stdin is None or self._process.returncode is not None:
            raise self._gone(command)
        future: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self._waiting[number] = future
        try:
            stdin.write(json.dumps({"id": number, "cmd": command, **arguments}).encode() + b"\n")
            async with asyncio.timeout(timeout_s):
                return await future
        except TimeoutError:
            raise PeerError(f"{command}: no answer within {timeout_s:g} s; {self.log()}") from None
        finally:
            del self._waiting[number]

    def _gone(self, asked: str) -> PeerGone:
        return PeerGone(f"{asked}: the process has ended; it said: {self.log()}")

    async def _read(self) -> None:
        stream = self._process.stdout
        while stream is not None and (line := await stream.readline()):
            try:
                message = json.loads(line)
            except ValueError:
                self._log.append(line.decode(errors="replace").rstrip())
                continue
            self._receive(message)

    async def _watch(self) -> None:
        """Fail whoever waits for a process that has ended; its children may hold its output."""
        await self._exit()
        await asyncio.wait([self._reader, self._log_reader], timeout=_LAST_WORDS_S)
        for future in self._waiting.values():
            if not future.done():
                future.set_exception(self._gone("a command"))
        for peer in self._peers.values():
            peer.fail(self._gone("waiting"))

    async def _read_log(self) -> None:
        stream = self._process.stderr
        while stream is not None and (line := await stream.readline()):
            self._log.append(line.decode(errors="replace").rstrip())

    def _receive(self, message: dict[str, Any]) -> None:
        if "re" not in message:
            peer = self._peers.get(message.get("pc", 0))
            if peer is not None:
                peer.receive_event(message)
            return
        future = self._waiting.get(message["re"])
        if future is None or future.done():
            return
        if "error" in message:
            future.set_exception(PeerError(str(message["error"])))
        else:
            future.set_result(message.get("value"))


class LinePeer:
    """One connection of a program's."""

    def __init__(self, process: LineProcess, number: int) -> None:
        self._process = process
        self._number = number
        self._marks: dict[str, dict[str, Any]] = {}
        self._messages: dict[str, list[str | bytes]] = {}
        self._changed = asyncio.Event()
        self._error: PeerError | None = None

    async def _ask(self, command: str, **arguments: Any) -> Any:
        return await self._process.ask(command, pc=self._number, **arguments)

    # -- what happens ---------------------------------------------------------------------------

    def receive_event(self, event: dict[str, Any]) -> None:
        """Take in what the program tells."""
        if event["ev"] == "mark":
            self._marks.setdefault(event["name"], event)
        else:
            text = event.get("text")
            data = text if text is not None else base64.b64decode(event["base64"])
            self._messages.setdefault(event["label"], []).append(data)
        self._changed.set()

    def fail(self, error: PeerError) -> None:
        """The process has gone: wake whoever waits."""
        self._error = error
        self._changed.set()

    async def _wait(self) -> None:
        if self._error is not None:
            raise self._error
        self._changed.clear()
        await self._changed.wait()

    async def _mark(self, names: Sequence[str], within_s: float) -> dict[str, Any]:
        try:
            async with asyncio.timeout(within_s):
                while True:
                    for name in names:
                        if name in self._marks:
                            return self._marks[name]
                    await self._wait()
        except TimeoutError:
            seen = " ".join(self._marks) or "nothing"
            wanted = " or ".join(names)
            raise PeerError(f"no {wanted} within {within_s:g} s; seen: {seen}") from None

    async def happened(self, *names: str, within_s: float = PATIENCE_S) -> float:
        """Wait for the first of some marks, which stays known; returns when it was."""
        return float((await self._mark(names, within_s))["t"])

    async def announced(self, label: str) -> Announced:
        """Wait for a channel of ours and return what was said of it."""
        found = await self._mark([f"announced:{label}"], PATIENCE_S)
        return Announced(found["ordered"], found.get("maxRetransmits"), found["protocol"])

    # -- descriptions ---------------------------------------------------------------------------

    async def offer(self, *, restart: bool = False) -> str:
        """Return an offer, applied, with every candidate in it."""
        return str(await self._ask("offer", restart=restart))

    async def answer(self, sdp: str, *, setup: str | None = None) -> str:
        """Return the answer to an offer, applied."""
        return str(await self._ask("answer", sdp=sdp, setup=setup))

    async def accept(self, sdp: str) -> None:
        """Apply the answer to its offer."""
        await self._ask("accept", sdp=sdp)

    # -- channels -------------------------------------------------------------------------------

    async def open_channel(self, options: ChannelOptions) -> None:
        """Open a channel."""
        await self._ask("open", **options.as_json())

    async def close_channel(self, label: str) -> None:
        """Close a channel."""
        await self._ask("closeChannel", label=label)

    async def send(self, label: str, message: str | bytes) -> None:
        """Send a message."""
        if isinstance(message, str):
            await self._ask("send", label=label, text=message)
        else:
            await self._ask("send", label=label, base64=base64.b64encode(message).decode())

    async def flood(self, label: str, count: int, text: str) -> None:
        """Send `count` messages, each the text with its number behind it."""
        await self._ask("flood", label=label, count=count, text=text, timeout_s=4 * PATIENCE_S)

    async def receive_all(self, label: str, count: int, within_s: float) -> None:
        """Wait until so many messages are there."""
        there = self._messages.setdefault(label, [])
        try:
            async with asyncio.timeout(within_s):
                while len(there) < count:
                    await self._wait()
        except TimeoutError:
            raise PeerError(
                f"{len(there)} of {count} messages on {label} within {within_s:g} s"
            ) from None

    async def receive(self, label: str, count: int = 1) -> list[str | bytes]:
        """Wait for messages and return them, in order."""
        await self.receive_all(label, count, PATIENCE_S + count / 200)
        there = self._messages[label]
        found = there[:count]
        del there[:count]
        return found

    async def taken(self, label: str) -> list[str | bytes]:
        """Return the messages that are there, without waiting."""
        return self._messages.pop(label, [])

    # -- sound ----------------------------------------------------------------------------------

    async def add_audio(self) -> None:
        """Add a track in mid-call; its next description tells of it."""
        await self._ask("addAudio")

    async def say(self) -> None:
        """Begin to speak the clip `speech`."""
        path = self._process.folder / f"said-{self._number}"
        if self._process.opus:
            path.write_text(payloads_as_text("speech"))
        else:
            path.write_bytes(spoken("speech").tobytes())
        await self._ask("say", path=str(path))

    async def heard(self) -> Samples:
        """Return what it has heard."""
        path = self._process.folder / f"heard-{self._number}"
        await self._ask("heard", path=str(path))
        if not self._process.opus:
            return np.frombuffer(path.read_bytes(), np.int16)
        packets = [json.loads(line) for line in path.read_text().splitlines()]
        return heard_payloads([(int(at), base64.b64decode(data)) for at, data in packets])

    async def close(self) -> None:
        """Close the connection."""
        await self._ask("close")

    async def release(self) -> None:
        """Close it if that has not been done, and forget it."""
        with contextlib.suppress(PeerError):
            await self._ask("close", timeout_s=_END_S)
        self._process.forget(self._number)
