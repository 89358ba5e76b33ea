"""libwebrtc (M152, the package `wrtc`) at the other end of a call, each instance in a process.

libwebrtc_calls: offer ─▶ Server.accept_offer ─▶ answer ─▶ libwebrtc
we_call:         Client offer ─▶ libwebrtc ─▶ answer ─▶ our session
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
import json
import os
import sys
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from interop.wire import Wire
from warp.io import Channel, ClientConfig, ServerConfig, Session, connect, listen
from warp.trace import MemoryTrace

HOST = "127.0.0.1"
PATIENCE_S = 8.0
PEER = Path(__file__).with_name("libwebrtc_peer.py")
LINE_LIMIT = 4 << 20

SPED = "WebRTC-IceHandshakeDtls/Enabled/"
SNAP = "WebRTC-Sctp-Snap/Enabled/"
WARP = SPED + SNAP
PQC = "WebRTC-EnableDtlsPqc/Enabled/"

TALK = {"label": "talk", "negotiated": True, "id": 0}


class Libwebrtc:
    """A handle on one process: `tell` it what to do, `wait` for what happens."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process = process
        self._events: list[dict[str, Any]] = []
        self._changed = asyncio.Event()
        self._reader = asyncio.ensure_future(self._read())

    @classmethod
    @contextlib.asynccontextmanager
    async def start(cls, trials: str = "", *options: str) -> AsyncIterator[Libwebrtc]:
        """Run a process with these field trials; it is gone afterwards."""
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            str(PEER),
            *options,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            limit=LINE_LIMIT,
            env={**os.environ, "WRTC_FIELD_TRIALS": trials, "WRTC_ALLOW_LOOPBACK": "1"},
        )
        peer = cls(process)
        try:
            await peer.wait("ready")
            yield peer
        finally:
            await peer._end()

    async def _end(self) -> None:
        if self._process.stdin is not None:
            self._process.stdin.close()
        try:
            await asyncio.wait_for(self._process.wait(), 2)
        except TimeoutError:
            self._process.kill()
            await self._process.wait()
        await self._reader

    async def _read(self) -> None:
        stream = self._process.stdout
        while stream is not None and (line := await stream.readline()):
            self._events.append(json.loads(line))
            self._changed.set()
        self._events.append({"ev": "gone"})
        self._changed.set()

    def tell(self, command: str, **arguments: Any) -> None:
        """Give a command."""
        stdin = self._process.stdin
        if stdin is not None:
            stdin.write(json.dumps({"cmd": command, **arguments}).encode() + b"\n")

    def seen(self, event: str, **wanted: Any) -> dict[str, Any] | None:
        """Return the first event with these values, or None."""
        for one in self._events:
            if one["ev"] == event and wanted.items() <= one.items():
                return one
        return None

    async def wait(self, event: str, **wanted: Any) -> dict[str, Any]:
        """Wait for the first event with these values; it stays known."""
        async with asyncio.timeout(PATIENCE_S):
            while (found := self.seen(event, **wanted)) is None:
                failure = self.seen("failed") or self.seen("gone")
                if failure is not None:
                    raise AssertionError(f"libwebrtc, asked for {event}: {failure}")
                self._changed.clear()
                await self._changed.wait()
        return found

    async def take(self, event: str, **wanted: Any) -> dict[str, Any]:
        """Wait for an event and forget it, so that the next call waits for another."""
        found = await self.wait(event, **wanted)
        self._events.remove(found)
        return found

    def forget(self, event: str) -> None:
        """Forget events of a kind, to wait for new ones."""
        self._events = [one for one in self._events if one["ev"] != event]

    # -- what tests do with it ----------------------------------------------------------------

    async def connected_at(self) -> float:
        """Return when its connection was connected (monotonic seconds)."""
        return float((await self.wait("connection_state", state="connected"))["t"])

    async def opened_at(self, label: str = "talk") -> float:
        """Return when a channel opened."""
        return float((await self.wait("open", label=label))["t"])

    def send(self, label: str, message: str | bytes) -> None:
        """Send a message."""
        if isinstance(message, str):
            self.tell("send", label=label, text=message)
        else:
            self.tell("send", label=label, binary=base64.b64encode(message).decode())

    async def message(self, label: str = "talk") -> str | bytes:
        """Return the next message received on a channel."""
        found = await self.take("message", label=label)
        return str(found["text"]) if "text" in found else base64.b64decode(found["binary"])

    async def stats(self, kind: str) -> dict[str, Any]:
        """Return the first report of a kind."""
        self.tell("stats")
        reports = (await self.take("stats"))["reports"]
        return next(report for report in reports if report["type"] == kind)


@dataclass
class Call:
    """A call between us and libwebrtc, over a wire that keeps its datagrams."""

    session: Session
    peer: Libwebrtc
    wire: Wire
    trace: MemoryTrace
    offer: str
    answer: str
    channel: Channel | None
    """What `prepare` has made of our session before anything was sent."""


def prepared(session: Session) -> Channel:
    """Give our side of a call the pre-negotiated channel 0."""
    return session.channel("talk", negotiated=True, stream_id=0)


async def talk(call: Call, *messages: str | bytes) -> None:
    """Wait until both ends are connected, and send each message each way on channel 0."""
    channel = call.channel
    if channel is None:
        raise AssertionError("the call has no channel: give it prepare=prepared")
    await call.session.connected(PATIENCE_S)
    await call.peer.connected_at()
    await channel.opened()
    await call.peer.opened_at()
    for message in messages:
        channel.send(message)
        call.peer.send("talk", message)
        assert await call.peer.message() == message
        assert await anext(channel) == message


def _nothing(session: Session) -> None:
    """Prepare nothing."""


@contextlib.asynccontextmanager
async def libwebrtc_calls(
    trials: str = "",
    config: ServerConfig | None = None,
    *,
    delay_s: float = 0.0,
    loss: float = 0.0,
    seed: int = 0,
    prepare: Callable[[Session], Channel | None] = _nothing,
    channels: list[dict[str, Any]] | None = None,
    audio: bool = False,
    options: tuple[str, ...] = (),
    edit_offer: Callable[[str], str] = str,
    edit_answer: Callable[[str], str] = str,
) -> AsyncIterator[Call]:
    """Hold a call that libwebrtc offers and our server answers; `delay_s` holds for all ways."""
    trace = MemoryTrace()
    with Wire(delay_s=delay_s, loss=loss, seed=seed) as wire:
        async with Libwebrtc.start(trials, *options) as peer:
            server = await listen(HOST, config=config, trace=trace)
            try:
                made = [TALK] if channels is None else channels
                peer.tell("offer", channels=made, audio=audio, restart=False)
                offer = (await peer.take("description"))["sdp"]
                await asyncio.sleep(delay_s)
                session = server.accept_offer(edit_offer(wire.through(offer, ours=False)))
                channel = prepare(session)
                await asyncio.sleep(delay_s)
                peer.tell("accept", sdp=edit_answer(wire.through(session.answer, ours=True)))
                yield Call(session, peer, wire, trace, offer, session.answer, channel)
            finally:
                await server.close()


@contextlib.asynccontextmanager
async def we_call(
    trials: str = "",
    config: ClientConfig | None = None,
    *,
    setup: str | None = None,
    delay_s: float = 0.0,
    loss: float = 0.0,
    seed: int = 0,
    prepare: Callable[[Session], Channel | None] = _nothing,
    channels: list[dict[str, Any]] | None = None,
    audio: bool = False,
    options: tuple[str, ...] = (),
) -> AsyncIterator[Call]:
    """Hold a call that we offer and libwebrtc answers; by itself it is the DTLS client."""
    trace = MemoryTrace()
    said: list[str] = []
    with Wire(delay_s=delay_s, loss=loss, seed=seed) as wire:
        async with Libwebrtc.start(trials, *options) as peer:

            async def signal(offer: str) -> str:
                await asyncio.sleep(delay_s)
                peer.tell(
                    "answer",
                    sdp=wire.through(offer, ours=True),
                    channels=[TALK] if channels is None else channels,
                    audio=audio,
                    setup=setup,
                )
                said.extend((offer, (await peer.take("description"))["sdp"]))
                await asyncio.sleep(delay_s)
                return wire.through(said[1], ours=False)

            session = await connect(signal, config=config or ClientConfig(host=HOST), trace=trace)
            channel = prepare(session)
            try:
                yield Call(session, peer, wire, trace, said[0], said[1], channel)
            finally:
                await session.close()
