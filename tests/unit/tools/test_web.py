"""The web server of `warp serve`: ports that cannot be had, and an end that nobody can hold up."""

from __future__ import annotations

import asyncio
import socket
from typing import Any

import pytest

from tests.unit.tools.web_server import HOST, web_server
from warp_tools.failure import ToolFailure
from warp_tools.web import open_web_port, web_url


async def hello(scope: Any, receive: Any, send: Any) -> None:
    if scope["type"] == "lifespan":
        while (await receive())["type"] != "lifespan.shutdown":
            await send({"type": "lifespan.startup.complete"})
        await send({"type": "lifespan.shutdown.complete"})
        return
    message = {"more_body": True}
    while message.get("more_body"):
        message = await receive()
    await send({"type": "http.response.start", "status": 200, "headers": []})
    await send({"type": "http.response.body", "body": b"hello"})


def test_a_port_in_use_is_one_line() -> None:
    with open_web_port(HOST, 0) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(ToolFailure, match=rf"cannot listen on http://{HOST}:{port}: .*in use"):
            open_web_port(HOST, port)


@pytest.mark.parametrize(
    ("host", "port", "says"),
    [
        (HOST, -1, "a port is one of 0-65535"),
        (HOST, 65_536, "a port is one of 0-65535"),
        ("192.0.2.1", 0, r"cannot listen on http://192.0.2.1:0"),
        ("no such host", 0, "cannot listen on http://no such host:0"),
        ("a" * 300, 0, "cannot listen"),
    ],
)
def test_addresses_that_are_not_ours(host: str, port: int, says: str) -> None:
    with pytest.raises(ToolFailure, match=says) as caught:
        open_web_port(host, port)
    assert "\n" not in str(caught.value)


def test_addresses_are_written_as_browsers_read_them() -> None:
    assert web_url(HOST, 8080) == "http://127.0.0.1:8080"
    assert web_url("::1", 8080) == "http://[::1]:8080"


@pytest.mark.slow
def test_clients_that_dawdle_do_not_hold_up_the_end() -> None:
    reported: list[dict[str, Any]] = []

    async def story() -> None:
        asyncio.get_running_loop().set_exception_handler(lambda _, what: reported.append(what))
        async with web_server(hello) as url:
            place = (HOST, int(url.rpartition(":")[2]))
            idle = await asyncio.open_connection(*place)
            slow = await asyncio.open_connection(*place)
            slow[1].write(b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 10\r\n\r\nhalf")
            done = await asyncio.open_connection(*place)
            done[1].write(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
            assert b"200" in await done[0].readline()
        for reader, writer in (idle, slow, done):
            await reader.read()
            writer.close()
        with socket.socket() as again:
            again.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            again.bind(place)

    asyncio.run(story())
    assert reported == []
