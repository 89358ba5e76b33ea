"""The client's half of WHIP against servers that do as they should, and others."""

from __future__ import annotations

import asyncio
import contextlib
import json
import socket
import threading
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import pytest
from starlette.applications import Starlette
from starlette.requests import HTTPConnection

from instant_connect.io import InstantServer, signalling_app
from tests.unit.sdp.build import local
from tests.unit.tools.web_server import echo_site, web_server
from warp.io import ServerConfig
from warp.sdp import create_offer
from warp_tools import signalling
from warp_tools.failure import ToolFailure
from warp_tools.serve import ServeConfig, bearer, open_echo_server
from warp_tools.signalling import MAX_ANSWER_BYTES, HttpCall, open_call

OFFER = str(create_offer(local()))
Respond = Callable[[str, dict[str, str]], bytes]


class Site:
    """A server of one's own words; `asked` holds the request lines and headers that came."""

    def __init__(self, respond: Respond) -> None:
        self._respond = respond
        self.asked: list[tuple[str, dict[str, str]]] = []
        self.url = ""

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = (await reader.readuntil(b"\r\n\r\n")).decode()
        line, *rest = head.split("\r\n")
        headers = {
            name.lower(): value.strip() for name, _, value in (f.partition(":") for f in rest if f)
        }
        await reader.readexactly(int(headers.get("content-length", "0")))
        self.asked.append((line, headers))
        writer.write(self._respond(line, headers))
        await writer.drain()
        writer.close()


@asynccontextmanager
async def site(respond: Respond) -> AsyncIterator[Site]:
    made = Site(respond)
    async with await asyncio.start_server(made.serve, "127.0.0.1", 0) as server:
        made.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        yield made


def says(status: str, body: str = "", **headers: str) -> bytes:
    lines = [f"HTTP/1.1 {status}", f"Content-Length: {len(body.encode())}"]
    lines += [f"{name}: {value}" for name, value in headers.items()]
    return ("\r\n".join(lines) + "\r\n\r\n" + body).encode()


def test_a_call_is_opened_and_ended() -> None:
    async def story() -> None:
        async with site(lambda *_: says("201 Created", "v=0", Location="/whip/rtc_1")) as made:
            call = await open_call(made.url, "offer")
            assert call == HttpCall(answer="v=0", location=f"{made.url}/whip/rtc_1")
            await call.hang_up()
        (posted, headers), (ended, _) = made.asked
        assert posted == "POST /whip HTTP/1.1"
        assert headers["content-type"] == "application/sdp"
        assert "authorization" not in headers
        assert ended == "DELETE /whip/rtc_1 HTTP/1.1"

    asyncio.run(story())


@pytest.mark.parametrize("path", ["/v1/realtime/calls?dcid=0", "/voice/whip", "/voice/whip/"])
def test_an_endpoint_may_be_named(path: str) -> None:
    async def story() -> None:
        async with site(lambda *_: says("201 Created", "v=0")) as made:
            call = await open_call(made.url + path, "offer")
            # a server that names no session cannot be told of the end
            await call.hang_up()
        [(posted, _)] = made.asked
        assert posted == f"POST {path.removesuffix('/')} HTTP/1.1"

    asyncio.run(story())


def test_the_token_goes_with_every_request_and_never_into_words() -> None:
    async def story() -> None:
        async with site(lambda *_: says("201 Created", "v=0", Location="/x")) as made:
            call = await open_call(made.url, "offer", token="secret")
            await call.hang_up()
        assert [headers["authorization"] for _, headers in made.asked] == ["Bearer secret"] * 2
        assert "secret" not in repr(call)

    asyncio.run(story())


@pytest.mark.parametrize("status", ["307 Temporary Redirect", "308 Permanent Redirect"])
def test_a_redirect_that_keeps_the_method_is_followed(status: str) -> None:
    """RFC 9725 section 4.5."""

    def respond(line: str, _: dict[str, str]) -> bytes:
        if line.startswith("POST /whip "):
            return says(status, Location="/other")
        return says("201 Created", "v=0", Location="/other/1")

    async def story() -> None:
        async with site(respond) as made:
            call = await open_call(made.url, "offer", token="secret")
            assert call.location == f"{made.url}/other/1"
        assert made.asked[1][1]["authorization"] == "Bearer secret"

    asyncio.run(story())


def test_a_redirect_elsewhere_does_not_carry_the_token() -> None:
    async def story() -> None:
        async with site(lambda *_: says("201 Created", "v=0")) as other:
            elsewhere = other.url.replace("127.0.0.1", "localhost")
            async with site(lambda *_: says("307 Go", Location=f"{elsewhere}/x")) as made:
                await open_call(made.url, "offer", token="secret")
        assert "authorization" not in other.asked[0][1]

    asyncio.run(story())


def test_a_session_on_another_server_is_not_asked_for() -> None:
    async def story() -> None:
        respond = says("201 Created", "v=0", Location="http://192.0.2.1/whip/1")
        async with site(lambda *_: respond) as made:
            assert (await open_call(made.url, "offer")).location == ""

    asyncio.run(story())


@pytest.mark.parametrize(
    ("response", "reason"),
    [
        (says("307 Temporary Redirect", Location="/whip"), "again and again"),
        (says("302 Found", Location="/else"), "302 Found, to /else: only 307 and 308 keep"),
        (says("500 Internal Server Error", "<!DOCTYPE html>"), "500 Internal Server Error$"),
        (says("307 Temporary Redirect", Location="ftp://x/"), "not an http"),
        (says("307 Temporary Redirect", Location="http://[x/"), "not an http"),
        (says("307 Temporary Redirect", Location="http://x:99999/"), "not an http"),
        (says("503 Service Unavailable", "full\nof calls"), "503 full$"),
        (
            says("400 Bad Request", json.dumps({"error": {"message": "line 3: \x1b[31m no"}})),
            "400 line 3: \N{REPLACEMENT CHARACTER}",
        ),
        (says("400 Bad Request", '{"error": "words"}'), r'400 \{"error": "words"\}'),
        (says("400 Bad Request", "[" * 3_000), r"400 \[\["),
    ],
)
def test_refusals_are_one_line(response: bytes, reason: str) -> None:
    async def story() -> str:
        async with site(lambda *_: response) as made:
            with pytest.raises(ToolFailure, match=reason) as caught:
                await open_call(made.url, "offer")
            return str(caught.value)

    assert asyncio.run(story()).isprintable()


def test_an_answer_without_end_is_not_read_to_its_end() -> None:
    async def story() -> None:
        async with site(lambda *_: says("201 Created", "x" * 1_000_000)) as made:
            assert len((await open_call(made.url, "offer")).answer) == MAX_ANSWER_BYTES

    asyncio.run(story())


def test_an_answer_that_is_no_text_is_an_answer() -> None:
    async def story() -> None:
        head = b"HTTP/1.1 201 Created\r\nContent-Length: 3\r\n\r\n"
        async with site(lambda *_: head + b"v=\xff") as made:
            assert (await open_call(made.url, OFFER)).answer == "v=\ufffd"

    asyncio.run(story())


def test_bad_addresses_are_one_line() -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        closed = f"http://127.0.0.1:{unused.getsockname()[1]}"
        for url, reason in (
            ("nonsense", "not an http"),
            ("", "nothing is not an http"),
            ("ftp://host/", "not an http"),
            (closed, "no answer from .*refused"),
            ("http://[bad/", "not an http|no answer"),
        ):
            with pytest.raises(ToolFailure, match=reason) as caught:
                asyncio.run(open_call(url, "v=0"))
            assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("given", "passes"),
    [
        ("Bearer right", True),
        ("bearer right", True),
        ("BEARER  right ", True),
        ("", False),
        ("right", False),
        ("Basic right", False),
        ("Bearer", False),
        ("Bearer ", False),
        ("Bearer righ", False),
        ("Bearer right right", False),
        ("Bearer \xff", False),
    ],
)
def test_a_token_is_given_in_a_header(given: str, passes: bool) -> None:
    authorize = bearer("right")
    assert authorize is not None
    scope = {"type": "http", "headers": [(b"authorization", given.encode("latin-1"))]}
    assert authorize(HTTPConnection(scope)) is passes


@pytest.mark.parametrize("token", ["secret\n", " secret", "s\u00e9cret", "secret\x7f"])
def test_a_token_that_no_header_can_carry_is_not_shown(token: str) -> None:
    with pytest.raises(ToolFailure, match="a token is ASCII") as caught:
        asyncio.run(open_call("http://127.0.0.1:9", OFFER, token=token))
    with pytest.raises(ToolFailure, match="a token is ASCII"):
        ServeConfig(token=token)
    assert token.strip() not in str(caught.value)


def test_without_a_token_nobody_is_asked() -> None:
    assert bearer("") is None


def test_our_own_server_is_understood() -> None:
    async def story() -> None:
        async with echo_site(authorize=bearer("right")) as (url, echoes):
            for token in ("", "wrong"):
                with pytest.raises(ToolFailure, match="refused the offer: 401 send a valid token"):
                    await open_call(url, OFFER, token=token)
            call = await open_call(url, OFFER, token="right")
            assert call.answer.startswith("v=0\r\n")
            assert isinstance(echoes.server, InstantServer)
            assert echoes.server.stats()["held_offers"] == 1
            await call.hang_up()
            assert echoes.server.stats()["held_offers"] == 0
            with pytest.raises(ToolFailure, match="refused the offer: 400 line 1: the first line"):
                await open_call(url, "v=1", token="right")

    asyncio.run(story())


@pytest.mark.slow
@pytest.mark.parametrize("head", [b"HTTP/1.1 201 Created\r\nX: ", b"HTTP/1.1 201 Created\r\n\r\n"])
def test_an_answer_that_comes_byte_by_byte_is_given_up(
    head: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each byte comes in time, the last one never."""
    monkeypatch.setattr(signalling, "_LONGEST_S", 0.3)
    over = threading.Event()
    listener = socket.create_server(("127.0.0.1", 0))

    def serve() -> None:
        with contextlib.suppress(OSError):
            connection, _ = listener.accept()
            with connection:
                connection.recv(65_536)
                connection.sendall(head)
                while not over.wait(0.02):
                    connection.sendall(b"v")

    thread = threading.Thread(target=serve)
    thread.start()
    try:
        url = f"http://127.0.0.1:{listener.getsockname()[1]}/whip"
        with pytest.raises(ToolFailure, match="does not come to an end"):
            asyncio.run(signalling.open_call(url, "v=0\r\n"))
    finally:
        over.set()
        listener.close()
        thread.join()


def test_another_origin_gets_neither_token_nor_proof() -> None:
    assert signalling._redirected("https://a.example/whip", "/w") == ("https://a.example/w", True)
    assert signalling._redirected("https://a.example/whip", "https://b.example/whip")[1] is False
    with pytest.raises(ToolFailure, match="is not an http"):
        signalling._redirected("https://a.example/whip", "file:///etc/passwd")


# -- an application below a path ------------------------------------------------------------------


@pytest.mark.parametrize("path", ["/voice", "/voice/", "/voice/whip"])
def test_an_application_may_be_mounted_below_a_path(path: str) -> None:
    """As a framework mounts it: a page at its root, its endpoints below."""

    async def story() -> None:
        echoes = await open_echo_server("127.0.0.1", 0, ServerConfig(early_data=True), instant=True)
        app = Starlette()
        app.mount("/voice", signalling_app(echoes.server, accept=echoes.receive_call))
        try:
            async with web_server(app) as url:
                call = await open_call(url + path, OFFER)
                assert call.answer.startswith("v=0\r\n")
                assert call.url == f"{url}/voice/whip"
                assert call.location.startswith(f"{url}/voice/")
                await call.hang_up()
                assert echoes.server.stats()["held_offers"] == 0
        finally:
            await echoes.close()

    asyncio.run(story())


def test_a_slash_that_a_redirect_adds_is_kept() -> None:
    def respond(line: str, _: dict[str, str]) -> bytes:
        if line.startswith("POST /calls/ "):
            return says("201 Created", "v=0")
        return says("307 Temporary Redirect", Location="/calls/")

    async def story() -> None:
        async with site(respond) as made:
            assert (await open_call(f"{made.url}/calls", "offer")).url == f"{made.url}/calls/"
        assert len(made.asked) == 2

    asyncio.run(story())


@pytest.mark.parametrize("status", ["404 Not Found", "405 Method Not Allowed"])
def test_an_endpoint_is_looked_for_below_once(status: str) -> None:
    async def story() -> None:
        async with site(lambda *_: says(status)) as made:
            with pytest.raises(ToolFailure) as caught:
                await open_call(f"{made.url}/voice/", "offer")
            said = str(caught.value)
            assert said.endswith(f"{made.url}/voice/whip takes offers: {status[:3]}")
            assert said.startswith(f"neither {made.url}/voice nor ")
            assert [line for line, _ in made.asked] == [
                "POST /voice HTTP/1.1",
                "POST /voice/whip HTTP/1.1",
            ]
            for door in ("/whip", "/v1/realtime/calls"):
                made.asked.clear()
                with pytest.raises(ToolFailure, match=f"{door} refused the offer: {status[:3]}"):
                    await open_call(f"{made.url}/a{door}", "offer")
                assert len(made.asked) == 1

    asyncio.run(story())


def test_what_the_endpoint_below_says_counts() -> None:
    def respond(line: str, _: dict[str, str]) -> bytes:
        below = line.startswith("POST /voice/whip ")
        return says("401 Unauthorized", "who?") if below else says("404 Not Found")

    async def story() -> None:
        async with site(respond) as made:
            with pytest.raises(ToolFailure, match="/voice/whip refused the offer: 401 who"):
                await open_call(f"{made.url}/voice", "offer", token="secret")
        assert [headers["authorization"] for _, headers in made.asked] == ["Bearer secret"] * 2

    asyncio.run(story())


def test_elsewhere_it_is_looked_for_without_the_token() -> None:
    async def story() -> None:
        async with site(lambda *_: says("404 Not Found")) as other:
            elsewhere = other.url.replace("127.0.0.1", "localhost")
            async with site(lambda *_: says("307 Go", Location=f"{elsewhere}/x")) as made:
                with pytest.raises(ToolFailure, match="takes offers: 404"):
                    await open_call(made.url, "offer", token="secret")
        assert [line for line, _ in other.asked] == ["POST /x HTTP/1.1", "POST /x/whip HTTP/1.1"]
        assert not any("authorization" in headers for _, headers in other.asked)

    asyncio.run(story())


@pytest.mark.parametrize("url", ["http://me:hush@127.0.0.1:1/", "http://hush@[bad/", "x://hush@h/"])
def test_a_password_in_an_address_is_refused_and_not_repeated(url: str) -> None:
    with pytest.raises(ToolFailure, match="leave user and password out") as caught:
        asyncio.run(open_call(url, "v=0"))
    assert "hush" not in str(caught.value)
