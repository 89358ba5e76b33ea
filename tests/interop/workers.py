"""`warp serve --workers` as a process, and callers that know which worker has their call.

async with served(3) as site:
    callers = Callers(site)
    talk = await callers.open()      # by its first datagram, with its offer beside it
    talk.worker, await talk.alive()
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import re
import signal
import sys
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import httpx

from instant_connect.answers import Status
from instant_connect.bundle import Bundle, parse_bundle
from instant_connect.calls import server_of
from instant_connect.io.client import InstantClient, Posted
from warp.io import Channel, ClientConfig, Session

HOST = "127.0.0.1"
START_S = 60.0
TALK_S = 20.0
GONE_S = 10.0


@dataclass
class Served:
    """The parent, what it has said so far, and its workers' processes."""

    process: asyncio.subprocess.Process
    url: str = ""
    udp_port: int = 0
    lines: list[str] = field(default_factory=list)
    pids: dict[int, int] = field(default_factory=dict)
    everybody: set[int] = field(default_factory=set)
    """Every process that ever served."""
    _news: asyncio.Event = field(default_factory=asyncio.Event)

    async def read(self) -> None:
        """Note what the parent says, to the end."""
        stream = self.process.stdout
        assert stream is not None
        while line := (await stream.readline()).decode().rstrip():
            self.lines.append(line)
            if match := re.fullmatch(r"worker (\d+) serves \(process (\d+)\)", line):
                self.pids[int(match[1])] = int(match[2])
                self.everybody.add(int(match[2]))
            self._news.set()

    async def line(self, pattern: str, since: int = 0) -> re.Match[str]:
        """Wait for a line, among those after the first `since`."""
        async with asyncio.timeout(START_S):
            while True:
                for line in self.lines[since:]:
                    if match := re.search(pattern, line):
                        return match
                self._news.clear()
                await self._news.wait()

    def tell(self, number: int | None, how: signal.Signals) -> None:
        """Send a signal to a worker, or (None) to the parent."""
        os.kill(self.process.pid if number is None else self.pids[number], how)

    async def end(self, how: signal.Signals = signal.SIGTERM) -> float:
        """End the parent; return how many seconds it took until nobody was left."""
        loop = asyncio.get_running_loop()
        began = loop.time()
        self.process.send_signal(how)
        async with asyncio.timeout(GONE_S):
            await self.process.wait()
            while self.left():
                await asyncio.sleep(0.01)
        return loop.time() - began

    def left(self) -> list[int]:
        """The workers whose processes are there."""
        return [pid for pid in self.everybody if is_running(pid)]


def is_running(pid: int) -> bool:
    """Whether there is such a process, and not merely what is left of one."""
    try:
        with open(f"/proc/{pid}/stat") as stat:
            return stat.read().rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


@contextlib.asynccontextmanager
async def served(workers: int, *arguments: str) -> AsyncIterator[Served]:
    """Run the command until it serves; all its processes are gone afterwards."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "warp_tools.main", "serve", "--backend", "echo", "--port", "0"),
        *("--workers", str(workers), *arguments),
        stdout=asyncio.subprocess.PIPE,
        env={**os.environ, "PYTHONUNBUFFERED": "1"},
    )
    site = Served(process)
    reading = asyncio.create_task(site.read())
    try:
        found = await site.line(r"echo at (http\S+) \(calls on UDP (\d+)")
        site.url, site.udp_port = found[1], int(found[2])
        yield site
    finally:
        if process.returncode is None:
            process.terminate()
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(process.wait(), GONE_S)
        if process.returncode is None:
            process.kill()
        for pid in site.left():
            os.kill(pid, signal.SIGKILL)
        reading.cancel()
        await asyncio.gather(reading, return_exceptions=True)
        await process.wait()


@dataclass(eq=False)
class Talk:
    """One call: the session, its events channel, and the name that the server gave it."""

    session: Session
    channel: Channel
    is_instant: bool
    call_id: str

    @property
    def worker(self) -> int:
        """Who has it."""
        number = server_of(self.call_id)
        assert number is not None
        return number

    async def alive(self) -> bool:
        """Whether the server answers on the channel, and still by this name."""
        if self.session.closed.done():
            return False
        self.channel.send(json.dumps({"type": "test.ping", "event_id": self.call_id}))
        async with asyncio.timeout(TALK_S):
            told = json.loads(await anext(self.channel))
        return bool(told["error"]["event_id"] == self.call_id)


class Callers:
    """Calls from this process, all by one client."""

    def __init__(self, site: Served, http: httpx.AsyncClient) -> None:
        self.site = site
        self.http = http
        self.statuses: Counter[str] = Counter()
        self.retries = 0
        self._purse: list[Bundle] = []
        """Bundles of one ticket each, as many as the last ones had."""
        self.client = InstantClient(post=self._post, config=ClientConfig(host=HOST))

    async def _ask(self, method: str, path: str, **options: Any) -> httpx.Response:
        """Ask, and again when the connection was one to a worker that is gone, or when told to.

        Whatever is asked here may be asked twice. Three hundred callers at one address are one to
        a rate limit; how many of them a worker gets is the kernel's business.
        """
        while True:
            try:
                answer = await self.http.request(method, path, **options)
                if answer.status_code != 429:
                    return answer
                await asyncio.sleep(float(answer.headers["retry-after"]))
            except (httpx.RemoteProtocolError, httpx.ReadError):
                self.retries += 1
                assert self.retries < 200

    async def _post(self, offer: str, headers: Mapping[str, str]) -> Posted:
        answer = await self._ask(
            "POST",
            "/v1/realtime/calls?dcid=4",
            content=offer,
            headers={"Content-Type": "application/sdp", **headers},
        )
        assert answer.status_code == 201, answer.text
        status = answer.headers.get("Instant-Status", "new")
        self.statuses[status] += 1
        return Posted(Status(status), answer.text)

    async def bundle(self) -> Bundle:
        """Fetch tickets for a few calls."""
        answer = await self._ask("GET", "/v1/instant")
        assert answer.status_code == 200, answer.text
        return parse_bundle(answer.text)

    async def prepare(self) -> None:
        """Have the tickets of another bundle, for a call each."""
        given = await self.bundle()
        self._purse += [replace(given, tickets=(ticket,)) for ticket in given.tickets]

    async def open(self, bundle: Bundle | None = None) -> Talk:
        """Call by a ticket of a bundle (None: of one that is kept), and hear who has the call."""
        while bundle is None:
            if not self._purse:
                await self.prepare()
            bundle = self._purse.pop() if self._purse else None
        # put and taken in one step: no other call has this ticket
        self.client.wallet.put(bundle, asyncio.get_running_loop().time())
        placed = await self.client.place(self._post)
        channel = placed.session.channel("oai-events", negotiated=True, stream_id=4)
        async with asyncio.timeout(TALK_S):
            created = json.loads(await anext(channel))
        assert created["type"] == "session.created"
        return Talk(placed.session, channel, placed.is_instant, created["session"]["id"])

    async def stats(self, call_id: str) -> int:
        """The status with which the server tells of a call, whichever worker is asked."""
        return (await self._ask("GET", f"/v1/realtime/calls/{call_id}/stats")).status_code

    async def counts(self, metric: str) -> dict[str, int]:
        """What all workers together count, by label."""
        text = (await self._ask("GET", "/metrics")).text
        found = re.findall(rf'^instant_connect_{metric}(?:{{\w+="(\w+)"}})? (\d+)$', text, re.M)
        return {label: int(value) for label, value in found}


@contextlib.asynccontextmanager
async def callers(site: Served) -> AsyncIterator[Callers]:
    """Callers of a site; their calls end with them."""
    limits = httpx.Limits(max_connections=24)
    async with httpx.AsyncClient(base_url=site.url, timeout=TALK_S, limits=limits) as http:
        made = Callers(site, http)
        try:
            yield made
        finally:
            await made.client.close()


async def together(many: Iterable[Awaitable[Any]], at_a_time: int = 20) -> list[Any]:
    """Await many things, so many at a time."""
    gate = asyncio.Semaphore(at_a_time)

    async def one(what: Awaitable[Any]) -> Any:
        async with gate:
            return await what

    return await asyncio.gather(*(one(what) for what in many))
