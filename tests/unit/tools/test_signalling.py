from __future__ import annotations

import asyncio
import socket

import pytest

from warp.errors import InvalidConfig, InvalidState
from warp_tools.failure import ToolFailure
from warp_tools.signalling import MAX_OFFER_BYTES, post_offer, serve_offers


def answer(offer: str) -> str:
    if offer == "bad":
        raise InvalidConfig("line 3: no v= line (RFC 8866 section 5)")
    if offer == "full":
        raise InvalidState("the server already serves 10000 sessions")
    return f"answer to {offer}"


async def exchange(port: int, request: bytes) -> str:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(request)
    writer.write_eof()
    response = await reader.read()
    writer.close()
    await writer.wait_closed()
    return response.decode()


def run(*requests: bytes) -> list[str]:
    async def main() -> list[str]:
        async with await serve_offers("127.0.0.1", 0, answer) as server:
            port = server.sockets[0].getsockname()[1]
            return [await exchange(port, request) for request in requests]

    return asyncio.run(main())


def post(body: bytes, path: bytes = b"/offer", length: bytes | None = None) -> bytes:
    length = str(len(body)).encode() if length is None else length
    return b"POST " + path + b" HTTP/1.1\r\nContent-Length: " + length + b"\r\n\r\n" + body


def test_an_offer_gets_its_answer() -> None:
    [response] = run(post(b"v=0"))
    head, _, body = response.partition("\r\n\r\n")
    assert head.startswith("HTTP/1.1 200 OK\r\n")
    assert "Content-Type: application/sdp" in head
    assert body == "answer to v=0"


@pytest.mark.parametrize(
    ("request_bytes", "status", "says"),
    [
        (post(b"bad"), "400", "line 3: no v= line"),
        (post(b"full"), "503", "10000 sessions"),
        (post(b"x", path=b"/"), "404", "POST /offer"),
        (b"GET /offer HTTP/1.1\r\n\r\n", "405", "POST"),
        (b"POST /offer HTTP/1.1\r\n\r\n", "411", "Content-Length"),
        (post(b"x", length=b"-1"), "411", "Content-Length"),
        (post(b"x", length=str(MAX_OFFER_BYTES + 1).encode()), "413", "at most"),
        (post(b"x", length=b"9" * 5_000), "413", "at most"),
        (post(b"\xff\xfe"), "400", "UTF-8"),
        (b"POST /offer HTTP/1.1\r\n" + b"a: b\r\n" * 5_000, "431", "too many headers"),
    ],
)
def test_what_is_not_an_offer_is_refused(request_bytes: bytes, status: str, says: str) -> None:
    [response] = run(request_bytes)
    assert response.startswith(f"HTTP/1.1 {status} ")
    assert says in response


def test_a_client_that_goes_away_harms_nobody() -> None:
    assert run(b"POST /of", post(b"x", length=b"9"), post(b"v=0"))[2].endswith("answer to v=0")


def test_the_caller_and_the_server_understand_each_other() -> None:
    async def main() -> tuple[str, str]:
        async with await serve_offers("127.0.0.1", 0, answer) as server:
            url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
            with pytest.raises(ToolFailure, match="refused the offer: 400 line 3: no v= line"):
                await post_offer(url, "bad")
            return await post_offer(url, "a"), await post_offer(f"{url}/offer", "b")

    assert asyncio.run(main()) == ("answer to a", "answer to b")


def test_bad_addresses_are_one_line() -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        closed = f"http://127.0.0.1:{unused.getsockname()[1]}"
        for url, says in (
            ("nonsense", "not an http"),
            ("ftp://host/", "not an http"),
            (closed, "no answer from .*refused"),
            ("http://[bad/", "not an http|no answer"),
        ):
            with pytest.raises(ToolFailure, match=says) as caught:
                asyncio.run(post_offer(url, "v=0"))
            assert "\n" not in str(caught.value)


def test_a_port_in_use_is_one_line() -> None:
    async def main() -> None:
        async with await serve_offers("127.0.0.1", 0, answer) as server:
            port = server.sockets[0].getsockname()[1]
            with pytest.raises(ToolFailure, match=rf"cannot listen on http://127.0.0.1:{port}"):
                await serve_offers("127.0.0.1", port, answer)

    asyncio.run(main())
