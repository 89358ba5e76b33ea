"""`warp call`: places one call, speaks a recording, and writes down what comes back."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TextIO

from instant_connect.io import CallerConfig, InstantCaller
from warp.errors import WarpError
from warp.io import ClientConfig, Session, connect
from warp.trace import JsonSeqTrace
from warp_tools.audio import likeness, packaged_sound, read_wav, write_wav
from warp_tools.caller import hold_call
from warp_tools.failure import ToolFailure
from warp_tools.opus import encoded
from warp_tools.signalling import HttpCall, open_call

ECHO_LIKENESS = 0.5
DCID = 4
"""Stream id of the events channel that bundles name unless told otherwise."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CallResult:
    """How a call went."""

    seconds: float
    frames: int
    concealed: int
    correlation: float
    """How surely the reply holds the speech, as of an echo; 0 when it does not."""
    path: str = "signalled"
    """Which way the call came: instant, attached or signalled."""
    connected_ms: float = 0.0
    """From the intent to a peer that is proven."""

    def to_json(self) -> dict[str, Any]:
        """Return it for machines."""
        return {
            "path": self.path,
            "connected_ms": round(self.connected_ms, 1),
            "seconds": round(self.seconds, 2),
            "frames": self.frames,
            "concealed": self.concealed,
            "correlation": round(self.correlation, 3),
        }

    def __str__(self) -> str:
        # what is no echo resembles the speech by chance, which says nothing
        is_echo = self.correlation >= ECHO_LIKENESS
        alike = f", likeness to the speech sent {self.correlation:.2f}" if is_echo else ""
        return (
            f"{self.seconds:.1f} s, {self.concealed} of {self.frames} frames concealed{alike}; "
            f"{self.path}, connected after {self.connected_ms:.0f} ms"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class CallPlan:
    """Whom to call, and which way."""

    url: str
    token: str = field(default="", repr=False)
    instant: bool = False
    """By tickets, as far as there are any."""
    wallet: Path | None = None
    """File that keeps tickets for later calls."""
    timeout_s: float = 15.0
    trace: Path | None = None
    """File for what our machines did (qlog's JSON-SEQ): `warp trace` draws it."""


@dataclass(slots=True)
class _Line:
    """A call that is connected."""

    session: Session
    path: Callable[[], str]


async def call(speech_path: Path | None, plan: CallPlan, out: Path) -> CallResult:
    """Call a server. Raises ToolFailure, one line, for everything that can go wrong."""
    speech = packaged_sound("speech") if speech_path is None else read_wav(speech_path)
    if not out.parent.is_dir() or out.is_dir():
        raise ToolFailure(f"cannot write {out}: it is no file in a directory that exists")

    payloads = encoded(speech)
    place = _by_tickets if plan.instant else _by_signalling
    loop = asyncio.get_running_loop()
    try:
        async with place(plan) as begin:
            asked = loop.time()
            line = await begin()
            connected_ms = (loop.time() - asked) * 1000
            recording = await hold_call(line.session, payloads)
            path = line.path()
    except (WarpError, TimeoutError) as error:
        raise ToolFailure(f"the call failed: {error or type(error).__name__}") from error
    samples = recording.samples()
    write_wav(out, samples)
    return CallResult(
        seconds=recording.seconds,
        frames=recording.frames,
        concealed=recording.concealed,
        correlation=likeness(speech, samples).correlation,
        path=path,
        connected_ms=connected_ms,
    )


Begin = Callable[[], Awaitable[_Line]]


@asynccontextmanager
async def _by_signalling(plan: CallPlan) -> AsyncIterator[Begin]:
    """WHIP: the offer is answered before the first check leaves."""
    opened: list[HttpCall] = []
    sessions: list[Session] = []

    async def signal(offer: str) -> str:
        opened.append(await open_call(plan.url, offer, token=plan.token))
        return opened[0].answer

    async def begin() -> _Line:
        trace = None if file is None else JsonSeqTrace(file.write, title=plan.url)
        config = ClientConfig(loopback=True)
        sessions.append(await connect(signal, config=config, trace=trace))
        await sessions[0].connected(plan.timeout_s)
        return _Line(sessions[0], lambda: "signalled")

    file = _open_trace(plan.trace)
    try:
        yield begin
    finally:
        for session in sessions:
            async with asyncio.timeout(2):
                await session.close()
        for held in opened:
            await held.hang_up()
        if file is not None:
            file.close()


def _open_trace(path: Path | None) -> TextIO | None:
    try:
        return None if path is None else path.open("w", encoding="utf-8")
    except OSError as error:
        raise ToolFailure(f"cannot write {path}: {error.strerror}") from error


@asynccontextmanager
async def _by_tickets(plan: CallPlan) -> AsyncIterator[Begin]:
    """Tickets are fetched unless there are some; then the call begins with one datagram."""
    config = CallerConfig(
        url=plan.url,
        token=plan.token,
        dcid=DCID,
        state=plan.wallet,
        client=ClientConfig(loopback=True),
    )
    async with InstantCaller(config) as caller:
        if not len(caller.wallet):
            await caller.refresh()
        async with contextlib.AsyncExitStack() as stack:

            async def begin() -> _Line:
                placed = await caller.call(plan.timeout_s)
                stack.push_async_callback(placed.hang_up)
                return _Line(placed.session, lambda: placed.path.value)

            yield begin
