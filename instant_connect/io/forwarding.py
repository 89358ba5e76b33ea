"""Requests that another process of the port has to answer: taken there, and its answer back.

    request ─ call id in its path or body ─▶ the process that gave it
            ─ an offer beside an attempt ──▶ here first, and from there where the attempt is
            ─ any other offer ─────────────▶ rendezvous of its ICE credentials, as a retry of it
            ─ GET /metrics ────────────────▶ every process, added up
            ─ anything else ───────────────▶ here

Any process may get any request; a client cannot tell them apart. A request travels whole, on a
stream of its own that only it uses, and its answer comes back on that. A process that dies closes
its streams: then the request is answered here, as by a server that does not know the call. Wraps
the application of `io.asgi`; called by the server that runs it.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import re
import socket
from collections import deque
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any, Final

from instant_connect.calls import server_of
from instant_connect.exchange import Ask, Refusal, Reply
from instant_connect.io.cluster import Cluster
from instant_connect.io.errand import (
    App,
    Errand,
    Outcome,
    Receive,
    Scope,
    Send,
    read_errand,
    read_outcome,
    write_errand,
    write_outcome,
)
from instant_connect.metrics import add_prometheus
from instant_connect.offers import Kind
from instant_connect.router import rendezvous

Open = Callable[[Ask, Kind], Awaitable[Reply]]

MAX_ERRANDS: Final = 256
"""Requests of other processes that are answered at a time."""
TIMEOUT_S: Final = 5.0
_READ_TIMEOUT_S: Final = 10.0
_MAX_BODY_BYTES: Final = 262_144
_PATH_ID: Final = re.compile(r"/(rtc_[0-9a-f]{40})(?:/|$)", re.ASCII)
_BODY_ID: Final = re.compile(rb'"pc_id"\s*:\s*"(rtc_[0-9a-f]{40})"')
_CREDENTIALS: Final = re.compile(rb"a=ice-(?:ufrag|pwd):[A-Za-z0-9+/]{4,256}")
_DOORS: Final = ("/whip", "/v1/realtime/calls", "/api/offer")


class Forwarding:
    """The door of one process: an ASGI application around its own."""

    __slots__ = ("_app", "_cluster", "_open", "_own", "_tasks")

    def __init__(self, cluster: Cluster, own: int) -> None:
        self._cluster = cluster
        self._own = own
        self._app: App | None = None
        self._open: Open | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        cluster.set_answer(self._answer)

    def wrap(self, app: App, open_call: Open) -> App:
        """Return the application that takes requests to where they belong.

        `app` answers ours, and `open_call` offers that others have admitted (`app.state.open`).
        """
        self._app, self._open = app, open_call
        return self

    # -- what we are asked --------------------------------------------------------------------

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request, here or elsewhere."""
        app = self._ours()
        if scope["type"] != "http":
            await app(scope, receive, send)
            return
        path, method = scope["path"], scope["method"]
        match = _PATH_ID.search(path)
        is_offer = method in ("POST", "PATCH") and path.endswith(_DOORS) and match is None
        if not (is_offer or match is not None or path.endswith("/metrics")):
            await app(scope, receive, send)
            return
        body, receive = await _read(receive)
        if body is None:
            await app(scope, receive, send)
            return
        if path.endswith("/metrics") and match is None:
            await self._add_up(scope, body, send)
            return
        server = self._server_of(match[1]) if match is not None else self._place(scope, body)
        if server is not None:
            with contextlib.suppress(ConnectionError):
                outcome = await self._ask(server, Errand.of(scope, body))
                await _respond(outcome, send)
                return
        await app(scope, receive, send)

    def _ours(self) -> App:
        if self._app is None:
            raise RuntimeError("there is no application yet: call wrap() first")
        return self._app

    def _server_of(self, call_id: str) -> int | None:
        server = server_of(call_id)
        return server if server in self._cluster.numbers else None

    def _place(self, scope: Scope, body: bytes) -> int | None:
        """Return which other process an offer goes to; None: it is answered here, or not at all."""
        if any(name == b"instant-ufrag" for name, _ in scope["headers"]):
            return None
        named = _BODY_ID.search(body)
        if named is not None:
            server = self._server_of(named[1].decode())
            if server is not None or scope["method"] == "PATCH":
                return server
        credentials = _CREDENTIALS.findall(body)[:2]
        server = rendezvous(_key(credentials), self._cluster.taking) if credentials else None
        return None if server == self._own else server

    async def _add_up(self, scope: Scope, body: bytes, send: Send) -> None:
        """Answer with the counts of all processes; of those that cannot be asked there are none."""
        errand = Errand.of(scope, body)
        total = await errand.run(self._ours())
        if total.status == 200:
            asked = [self._ask(server, errand) for server in sorted(self._cluster.numbers)]
            answers = await asyncio.gather(*asked, return_exceptions=True)
            texts = [a.body for a in answers if isinstance(a, Outcome) and a.status == 200]
            text = add_prometheus([part.decode() for part in (total.body, *texts)]).encode()
            headers = [h for h in total.headers if h[0].lower() != "content-length"]
            length = ("content-length", str(len(text)))
            total = total._replace(body=text, headers=(*headers, length))
        await _respond(total, send)

    async def forward(self, server: int, ask: Ask, kind: Kind) -> Reply:
        """Take an offer to the process that has its attempt (`io.asgi.Forward`)."""
        return (await self._ask(server, Errand.of_ask(ask, kind))).reply()

    async def _ask(self, server: int, errand: Errand) -> Outcome:
        """Return the answer of another process; raises `ConnectionError` when there is none."""
        reader, writer = await asyncio.open_connection(sock=self._cluster.ask(server))
        try:
            async with asyncio.timeout(TIMEOUT_S):
                await write_errand(writer, errand)
                return await read_outcome(reader)
        except (TimeoutError, EOFError, ValueError) as error:
            raise ConnectionError(f"worker {server} has not answered") from error
        finally:
            writer.close()

    # -- what others ask ----------------------------------------------------------------------

    def _answer(self, stream: socket.socket) -> None:
        if len(self._tasks) >= MAX_ERRANDS:
            stream.close()
            return
        task = asyncio.get_running_loop().create_task(self._serve(stream))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _serve(self, stream: socket.socket) -> None:
        reader, writer = await asyncio.open_connection(sock=stream)
        try:
            async with asyncio.timeout(TIMEOUT_S):
                errand = await read_errand(reader)
                await write_outcome(writer, await self._run(errand))
        except (OSError, EOFError, ValueError, TimeoutError):
            # whoever asked has gone, or has asked nothing that can be read
            return
        finally:
            writer.close()

    async def _run(self, errand: Errand) -> Outcome | Reply:
        """Answer a request as if it had come here."""
        ask = errand.ask()
        if ask is None:
            return await errand.run(self._ours())
        if self._open is None:
            raise ValueError("no offers are taken here")
        try:
            return await self._open(*ask)
        except Refusal as refusal:
            return refusal.reply()

    async def close(self) -> None:
        """Leave what others have asked unanswered."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)


def _key(credentials: list[bytes]) -> bytes:
    """Return what a retry of an offer has in common with it: RFC 8839 draws them at random."""
    return hashlib.blake2b(b"\n".join(credentials), digest_size=16).digest()


async def _read(receive: Receive) -> tuple[bytes | None, Receive]:
    """Return the body of a request, and what gives it out again from the beginning.

    None for one that is too long or too slow: whoever answers here has limits of its own, and
    goes on reading where this has stopped.
    """
    held: deque[MutableMapping[str, Any]] = deque()
    size, is_whole = 0, False
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(_READ_TIMEOUT_S):
            while size <= _MAX_BODY_BYTES and not is_whole:
                message = await receive()
                held.append(message)
                size += len(message.get("body", b""))
                is_whole = message["type"] != "http.request" or not message.get("more_body")

    async def again() -> MutableMapping[str, Any]:
        return held.popleft() if held else await receive()

    body = b"".join([message.get("body", b"") for message in held])
    return body if is_whole and size <= _MAX_BODY_BYTES else None, again


async def _respond(outcome: Outcome, send: Send) -> None:
    """Give out another process's answer."""
    headers = [(name.encode("latin-1"), value.encode("latin-1")) for name, value in outcome.headers]
    await send({"type": "http.response.start", "status": outcome.status, "headers": headers})
    await send({"type": "http.response.body", "body": outcome.body})
