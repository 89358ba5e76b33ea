"""Loops whose time is told, a session's surroundings made of stubs, and calls on loopback."""

from __future__ import annotations

import asyncio
import gc
import heapq
import itertools
import socket
from collections.abc import Awaitable, Callable
from typing import Any

from warp.contract import Address, Flow
from warp.entropy import SeededEntropy
from warp.io import Client, ClientConfig, Server, ServerConfig, Session, listen
from warp.io.interfaces import host_addresses
from warp.peer import SendPermission

OPUS = b"\x78" + bytes(60)
HOST = "127.0.0.1"
LOOPBACKS = [a for a in host_addresses(loopback=True) if a in (HOST, "::1")]
"""IPv6 only where this machine has it."""


class Handle:
    """What `call_at` returns."""

    def __init__(self, call: Callable[[], None]) -> None:
        self.call = call
        self.cancelled = False

    def cancel(self) -> None:
        self.cancelled = True


class FakeLoop:
    """An event loop whose time moves only by `advance`; readers and writers are just noted."""

    def __init__(self, now: float = 1000.0) -> None:
        self.now = now
        self.readers: dict[int, Callable[[], None]] = {}
        self.writers: dict[int, Callable[[], None]] = {}
        self.reported: list[dict[str, Any]] = []
        self._heap: list[tuple[float, int, Handle]] = []
        self._order = itertools.count()

    def time(self) -> float:
        return self.now

    def call_at(self, when: float, call: Callable[..., None], *args: Any) -> Handle:
        handle = Handle(lambda: call(*args))
        heapq.heappush(self._heap, (when, next(self._order), handle))
        return handle

    def call_soon(self, call: Callable[..., None], *args: Any) -> Handle:
        return self.call_at(self.now, call, *args)

    def call_exception_handler(self, context: dict[str, Any]) -> None:
        self.reported.append(context)

    def add_reader(self, number: int, call: Callable[[], None]) -> None:
        self.readers[number] = call

    def remove_reader(self, number: int) -> None:
        self.readers.pop(number, None)

    def add_writer(self, number: int, call: Callable[[], None]) -> None:
        self.writers[number] = call

    def remove_writer(self, number: int) -> None:
        self.writers.pop(number, None)

    @property
    def scheduled(self) -> int:
        return sum(not handle.cancelled for _, _, handle in self._heap)

    def advance(self, seconds: float) -> None:
        """Let time pass; every call is made at its own time."""
        end = self.now + seconds
        while self._heap and self._heap[0][0] <= end + 1e-9:
            when, _, handle = heapq.heappop(self._heap)
            if not handle.cancelled:
                self.now = max(self.now, when)
                handle.call()
        self.now = end

    def stall(self, seconds: float) -> None:
        """Let time pass in which nothing runs; the next `advance` makes the calls late."""
        self.now += seconds


class FakeSocket:
    """A UDP socket that sends nothing; `errors` are raised by the next sends, in order."""

    type = socket.SOCK_DGRAM

    def __init__(self, local: Address = (HOST, 4000)) -> None:
        self.local = local
        self.sent: list[tuple[bytes, Address]] = []
        self.runs: list[tuple[list[bytes], int]] = []
        self.errors: list[OSError | None] = []
        self.arrived: list[tuple[bytes, Any] | OSError] = []
        self.number = 7

    def fileno(self) -> int:
        return self.number

    def getsockname(self) -> Address:
        return self.local

    def _fail(self) -> None:
        error = self.errors.pop(0) if self.errors else None
        if error is not None:
            raise error

    def sendto(self, data: bytes, remote: Address) -> int:
        self._fail()
        self.sent.append((data, remote))
        return len(data)

    def sendmsg(self, run: list[bytes], control: Any, flags: int, remote: Address) -> int:
        self._fail()
        [(level, kind, size)] = control
        assert (level, kind) == (17, 103)
        self.runs.append((list(run), int.from_bytes(size, "little")))
        return sum(map(len, run))

    def recvfrom_into(self, buffer: memoryview) -> tuple[int, Any]:
        if not self.arrived:
            raise BlockingIOError
        item = self.arrived.pop(0)
        if isinstance(item, OSError):
            raise item
        data, address = item
        buffer[: len(data)] = data
        return len(data), address

    def close(self) -> None:
        self.number = -1


FLOW = Flow(("192.0.2.1", 1), ("192.0.2.2", 2))


class StubPeer:
    """A peer connection that does as it is told."""

    def __init__(self) -> None:
        self.local_ufrag = "ours"
        self.media_permission = SendPermission.ALL
        self.credit = 1_000_000
        self.audio: list[tuple[bytes, int, float, bool]] = []
        self.received: list[tuple[bytes, Flow]] = []
        self.out: list[tuple[bytes, Flow]] = []
        self.timer: float | None = None
        self.timers_handled: list[float] = []
        self.fault: Exception | None = None
        self.lane: Any = None

    def _break(self) -> None:
        if self.fault is not None:
            fault, self.fault = self.fault, None
            raise fault

    def make_audio(
        self, payload: bytes, at: int, now: float, *, marker: bool, non_personal: bool
    ) -> tuple[bytes, Flow] | None:
        allowed = self.media_permission is SendPermission.ALL or (
            non_personal and self.media_permission is SendPermission.NON_PERSONAL
        )
        if not self.credit or not allowed:
            return None
        self.credit -= 1
        self.audio.append((payload, at, now, marker))
        return payload, FLOW

    def receive_datagram(self, data: bytes, flow: Flow, now: float) -> None:
        self._break()
        self.received.append((data, flow))

    def datagrams_to_send(self, now: float) -> list[tuple[bytes, Flow]]:
        out, self.out = self.out, []
        return out

    def get_timer(self) -> float | None:
        return self.timer

    def get_media_timer(self) -> float | None:
        return self.timer

    def handle_timer(self, now: float) -> None:
        self.timers_handled.append(now)
        self.timer = None
        self._break()

    def events(self) -> list[Any]:
        return []


class StubSession:
    """What the driver drives."""

    def __init__(self) -> None:
        self.peer: Any = StubPeer()
        self.deadline: float | None = None
        self.touched = 0
        self.routes: list[Any] = []
        self.flushed = 0
        self.failed: list[Exception] = []

    def receive_events(self, now: float) -> None:
        self.flushed += 1

    def fail(self, error: Exception) -> None:
        self.failed.append(error)


class ShiftedLoop(asyncio.SelectorEventLoop):
    """A real loop whose clock can be put forward: sockets are real, waiting is not."""

    shift = 0.0

    def time(self) -> float:
        return super().time() + self.shift

    async def pass_time(self, seconds: float, step: float = 1.0) -> None:
        """Let time pass step by step, with all that falls due in between."""
        while seconds > 0:
            self.shift += min(step, seconds)
            seconds -= step
            for _ in range(4):
                await asyncio.sleep(0)


def play(story: Callable[[], Awaitable[None]]) -> None:
    """Run a story on a loop of its own; it may leave neither tasks nor sockets nor errors."""
    reported: list[dict[str, Any]] = []

    async def run() -> None:
        loop = asyncio.get_running_loop()
        loop.set_exception_handler(lambda _, context: reported.append(context))
        await story()
        for _ in range(3):
            await asyncio.sleep(0)
        assert asyncio.all_tasks() == {asyncio.current_task()}

    with asyncio.Runner(loop_factory=ShiftedLoop) as runner:
        runner.run(run())
    # an unclosed socket warns when it is collected, and warnings are errors
    gc.collect()
    assert reported == []


def shifted() -> ShiftedLoop:
    """Return the loop that `play` made."""
    loop = asyncio.get_running_loop()
    assert isinstance(loop, ShiftedLoop)
    return loop


async def turns(count: int = 5) -> None:
    """Let what is ready happen."""
    for _ in range(count):
        await asyncio.sleep(0)


class Call:
    """A server, a client and one session between them, on loopback."""

    server: Server
    client: Client
    local: Session
    remote: Session

    @property
    def driver(self) -> Any:
        return self.server._driver

    async def close(self) -> None:
        await self.client.close()
        await self.server.close()


async def open_call(
    *,
    host: str = HOST,
    server: ServerConfig | None = None,
    client: ClientConfig | None = None,
    connected: bool = True,
) -> Call:
    """Place a call; both ends are connected when this returns."""
    call = Call()
    call.server = await listen(host, config=server, entropy=SeededEntropy(1))
    call.client = Client(client or ClientConfig(host=host), entropy=SeededEntropy(2))

    async def signal(offer: str) -> str:
        call.remote = call.server.accept_offer(offer)
        return call.remote.answer

    call.local = await call.client.connect(signal)
    if connected:
        await call.local.connected(5)
        await call.remote.connected(5)
    return call
