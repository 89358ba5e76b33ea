"""A small HTTP server for a test's page and for descriptions: what signalling needs, no more.

    async with Site({"/offer": answer_of}) as site:     GET serves interop/pages, POST calls a route
        page = await browser.open(site.url)

It runs in the loop of the test, which so owns the WebRTC server and its sessions.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from http import HTTPStatus
from pathlib import Path

PAGES = Path(__file__).with_name("pages")
HOST = "127.0.0.1"
KINDS = {
    ".html": "text/html; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".wav": "audio/wav",
}
_LIMIT = 1 << 20

Route = Callable[[str], Awaitable[str]]
"""Takes the body of a POST and returns that of the answer."""


class Site:
    """A running server; `url` is its root, an origin that browsers trust with a microphone."""

    def __init__(
        self,
        routes: Mapping[str, Route] | None = None,
        *,
        files: Mapping[str, Path] | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        self.routes = dict(routes or {})
        self.files = dict(files or {})
        """More files by their path, e.g. {"/speech.wav": Path(...)}."""
        self.headers = dict(headers or {})
        self.url = ""
        self._server: asyncio.Server | None = None
        self._tasks: set[asyncio.Task[None]] = set()

    async def __aenter__(self) -> Site:
        self._server = await asyncio.start_server(self._accept, HOST, 0, limit=_LIMIT)
        port = self._server.sockets[0].getsockname()[1]
        self.url = f"http://localhost:{port}/"
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._server is not None:
            self._server.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.ensure_future(self._serve(reader, writer))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Answer one request; a browser opens a connection for each."""
        try:
            head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
            method, target, _ = head.split(" ", 2)
            length = 0
            for line in head.split("\r\n")[1:]:
                name, _, value = line.partition(":")
                if name.lower() == "content-length":
                    length = int(value)
            body = (await reader.readexactly(length)).decode()
            status, kind, content = await self._respond(method, target.partition("?")[0], body)
            writer.write(self._head(status, kind, len(content)) + content)
            await writer.drain()
        except (asyncio.IncompleteReadError, ConnectionError):
            # a browser opens connections ahead and closes what it did not need
            return
        finally:
            writer.close()

    async def _respond(self, method: str, path: str, body: str) -> tuple[HTTPStatus, str, bytes]:
        if method == "POST":
            return await self._post(path, body)
        name = "index.html" if path == "/" else path.rpartition("/")[2]
        file = self.files.get(path, PAGES / name)
        if not file.is_file():
            return HTTPStatus.NOT_FOUND, "text/plain", b""
        kind = KINDS.get(file.suffix, "application/octet-stream")
        return HTTPStatus.OK, kind, file.read_bytes()

    async def _post(self, path: str, body: str) -> tuple[HTTPStatus, str, bytes]:
        route = self.routes.get(path)
        if route is None:
            return HTTPStatus.NOT_FOUND, "text/plain", b""
        try:
            return HTTPStatus.CREATED, "application/sdp", (await route(body)).encode()
        except Exception as error:
            # the page throws this text, so that a test sees it
            return HTTPStatus.BAD_REQUEST, "text/plain", repr(error).encode()

    def _head(self, status: HTTPStatus, kind: str, length: int) -> bytes:
        lines = [
            f"HTTP/1.1 {status.value} {status.phrase}",
            f"Content-Type: {kind}",
            f"Content-Length: {length}",
            "Cache-Control: no-store",
            "Connection: close",
            *(f"{name}: {value}" for name, value in self.headers.items()),
        ]
        return ("\r\n".join(lines) + "\r\n\r\n").encode()
