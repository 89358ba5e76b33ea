"""`warp call`: places one call, speaks a recording, and writes down what comes back.

speech ─▶ call ─ signalling, or a ticket ─▶ session ═ hold_call ═▶ reply, CallResult
                                              └ the server hangs up first: Ended
"""

from __future__ import annotations

import asyncio
import contextlib
import http.client
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from instant_connect.io import CallerConfig, InstantCaller
from warp.errors import InvalidConfig, WarpError
from warp.io import ClientConfig, Session, connect
from warp.trace import JsonSeqTrace
from warp_tools.audio import likeness, packaged_sound, read_wav, write_wav
from warp_tools.call_plan import CallPlan
from warp_tools.call_result import CallResult, EndWatch
from warp_tools.caller import hold_call
from warp_tools.failure import CommandRefused, ToolFailure
from warp_tools.interruption import listen_for_interruption
from warp_tools.opus import SAMPLE_RATE, encoded
from warp_tools.outputs import check_output
from warp_tools.signalling import HttpCall, open_call

DCID = 4
"""Stream id of the events channel that bundles name unless told otherwise."""


@dataclass(slots=True)
class _Line:
    """A call that is connected."""

    session: Session
    path: Callable[[], str]


async def call(speech_path: Path | None, plan: CallPlan, out: Path) -> CallResult:
    """Call a server. Raises ToolFailure, one line, for everything that can go wrong."""
    plan.check()
    speech = packaged_sound("speech") if speech_path is None else read_wav(speech_path)
    check_output(out, keep=(speech_path,))
    if plan.trace is not None:
        check_output(plan.trace, keep=(speech_path, out))
    if plan.wallet is not None:
        check_output(plan.wallet, keep=(speech_path, out))

    payloads = encoded(speech)
    place = _by_tickets if plan.instant else _by_signalling
    loop = asyncio.get_running_loop()
    with _explained():
        async with place(plan) as begin:
            asked = loop.time()
            line = await begin()
            connected_ms = (loop.time() - asked) * 1000
            end = EndWatch(line.session, len(speech) / SAMPLE_RATE)
            stop = listen_for_interruption()
            recording = await hold_call(line.session, payloads, stop=stop)
            ended = end.interrupted() if stop.is_set() else await end.found()
            path = line.path()
            samples = recording.samples()
            # before anything of the end can fail
            write_wav(out, samples)
    return CallResult(
        seconds=recording.seconds,
        frames=recording.frames,
        concealed=recording.concealed,
        unsent_s=recording.unsent_s,
        correlation=likeness(speech, samples).correlation,
        path=path,
        connected_ms=connected_ms,
        ended=ended,
    )


@contextlib.contextmanager
def _explained() -> Iterator[None]:
    """Turn what goes wrong in a call into one line, with advice where there is any."""
    try:
        yield
    except (WarpError, TimeoutError) as error:
        raise ToolFailure(
            f"the call failed: {error or type(error).__name__}{_advice(error)}"
        ) from error
    except CommandRefused:
        raise
    except ToolFailure as failure:
        raise ToolFailure(f"{failure}{_advice(failure)}") from failure


def _advice(error: BaseException | None) -> str:
    """Return what may help against the cause of an error."""
    while error is not None:
        reason = getattr(error, "reason", None)
        for cause in (error, reason):
            if isinstance(cause, ssl.SSLCertVerificationError):
                return "; a certificate of your own is trusted with SSL_CERT_FILE=certificate.pem"
            if isinstance(cause, ssl.SSLError):
                return "; does it speak http:// there?"
            if isinstance(cause, http.client.RemoteDisconnected):
                return "; does it speak https:// there?"
            if isinstance(cause, ConnectionRefusedError):
                return "; is a server running there? warp serve starts one"
        error = error.__cause__
    return ""


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

    file = None if plan.trace is None else TraceFile(plan.trace)
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


class TraceFile:
    """The file of a trace; what cannot be written ends no call, and is said at its end."""

    __slots__ = ("_failure", "_file", "_path")

    def __init__(self, path: Path) -> None:
        """Raises ToolFailure, one line, when there can be no such file."""
        self._path = path
        self._failure: OSError | None = None
        try:
            self._file = path.open("w", encoding="utf-8")
        except OSError as error:
            raise CommandRefused(f"cannot write {path}: {error.strerror}") from error

    def write(self, text: str) -> None:
        """Take in some text."""
        if self._failure is None:
            try:
                self._file.write(text)
            except OSError as error:
                self._failure = error

    def close(self) -> None:
        """Write the rest. Raises ToolFailure, one line, when not everything could be written."""
        try:
            self._file.close()
        except OSError as error:
            self._failure = self._failure or error
        if self._failure is not None:
            raise ToolFailure(f"cannot write {self._path}: {self._failure.strerror}")


@asynccontextmanager
async def _by_tickets(plan: CallPlan) -> AsyncIterator[Begin]:
    """Tickets are fetched unless some are good; then the call begins with one datagram."""
    config = CallerConfig(
        url=plan.url,
        token=plan.token,
        dcid=DCID,
        state=plan.wallet,
        client=ClientConfig(loopback=True),
    )
    try:
        made = InstantCaller(config)
    except InvalidConfig as error:
        raise CommandRefused(str(error)) from error
    async with made as caller:
        if not caller.wallet.has_ticket(asyncio.get_running_loop().time()):
            await caller.refresh()
        async with contextlib.AsyncExitStack() as stack:

            async def begin() -> _Line:
                placed = await caller.call(plan.timeout_s)
                stack.push_async_callback(placed.hang_up)
                return _Line(placed.session, lambda: placed.path.value)

            yield begin
