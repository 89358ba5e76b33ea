"""Requests over connections that are kept: reuse, servers that close, answers that are none."""

from __future__ import annotations

import asyncio
import http.client
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from instant_connect.io import http as caller_http
from instant_connect.io.http import HttpOrigin
from warp.errors import InvalidConfig

HOST = "127.0.0.1"


class Web:
    """A server that counts connections and answers as it is told."""

    def __init__(self) -> None:
        self.connections = 0
        self.asked: list[bytes] = []
        self.answer = b"HTTP/1.1 200 OK\r\nX-Seen: yes\r\nContent-Length: 2\r\n\r\nok"
        self.then_close = False

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        try:
            while True:
                head = await reader.readuntil(b"\r\n\r\n")
                told = [line for line in head.split(b"\r\n") if line[:15] == b"Content-Length:"]
                length = int(told[0][15:]) if told else 0
                self.asked.append(head + await reader.readexactly(length))
                writer.write(self.answer)
                await writer.drain()
                if self.then_close:
                    break
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            writer.close()


@asynccontextmanager
async def serving() -> AsyncIterator[tuple[Web, HttpOrigin]]:
    web = Web()
    server = await asyncio.start_server(web.serve, HOST, 0)
    origin = HttpOrigin(f"http://{HOST}:{server.sockets[0].getsockname()[1]}/path", timeout_s=2)
    try:
        async with server:
            yield web, origin
            origin.close()
            await asyncio.sleep(0)
    finally:
        origin.close()


def test_a_connection_is_kept_and_used_again() -> None:
    async def story() -> None:
        async with serving() as (web, origin):
            for _ in range(3):
                answer = await origin.request("POST", "/a?b=c", {"X-Asked": "yes"}, b"body")
                assert (answer.status, answer.text()) == (200, "ok")
                assert answer.headers["x-seen"] == "yes"
            assert web.connections == 1
            assert web.asked[0].startswith(b"POST /a?b=c HTTP/1.1\r\n")
            assert web.asked[0].endswith(b"\r\n\r\nbody")
            assert b"X-Asked: yes" in web.asked[0]

    asyncio.run(story())


def test_a_connection_in_use_is_closed_when_its_answer_is_in() -> None:
    async def story() -> None:
        async with serving() as (web, origin):
            asking = asyncio.ensure_future(origin.request("GET", "/", {}))
            while not web.asked:
                await asyncio.sleep(0.001)
            origin.close()
            assert (await asking).status == 200
            assert origin._idle == []

    asyncio.run(story())


def test_what_is_asked_at_once_has_connections_of_its_own() -> None:
    async def story() -> None:
        async with serving() as (web, origin):
            await asyncio.gather(*(origin.request("GET", "/", {}) for _ in range(6)))
            assert 1 <= web.connections <= 6
            assert len(web.asked) == 6

    asyncio.run(story())


def test_a_server_that_has_closed_meanwhile_is_asked_again() -> None:
    async def story() -> None:
        async with serving() as (web, origin):
            web.then_close = True
            for _ in range(3):
                assert (await origin.request("GET", "/", {})).status == 200
            assert web.connections == 3

    asyncio.run(story())


@pytest.mark.parametrize(
    "answer",
    [
        b"SSH-2.0-nonsense\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nshort",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
        b"",
    ],
)
def test_what_is_no_answer(answer: bytes) -> None:
    async def story() -> None:
        async with serving() as (web, origin):
            web.answer, web.then_close = answer, True
            with pytest.raises((OSError, http.client.HTTPException)):
                await origin.request("GET", "/", {})

    asyncio.run(story())


def test_an_answer_without_end_is_not_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(caller_http, "MAX_BYTES", 10)

    async def story() -> None:
        async with serving() as (web, origin):
            web.answer = b"HTTP/1.1 200 OK\r\nContent-Length: 11\r\n\r\n" + b"x" * 11
            with pytest.raises(http.client.HTTPException, match="more than 10 bytes"):
                await origin.request("GET", "/", {})
            web.answer = b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\n" + b"x" * 10
            assert len((await origin.request("GET", "/", {})).body) == 10

    asyncio.run(story())


def test_a_server_that_says_nothing_is_given_up() -> None:
    async def story() -> None:
        async with serving() as (web, origin):
            web.answer = b""
            short = HttpOrigin(f"http://{origin._host}:{origin._port}", timeout_s=0.1)
            with pytest.raises(TimeoutError):
                await short.request("GET", "/", {})

    asyncio.run(story())


@pytest.mark.parametrize(
    "url", ["", "nowhere", "ftp://a", "http://", "http://a:b", "http://[", "http://me:pw@host"]
)
def test_what_is_no_address(url: str) -> None:
    with pytest.raises(InvalidConfig) as caught:
        HttpOrigin(url)
    assert "pw" not in str(caught.value)
