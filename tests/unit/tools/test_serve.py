"""`warp serve` and `warp call` against a counterpart that talks nonsense."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from tests.unit.sdp.build import local
from tests.unit.tools.web_server import echo_site
from warp.sdp import create_offer
from warp_tools import main as entry
from warp_tools.call import CallPlan, call
from warp_tools.failure import ToolFailure
from warp_tools.signalling import open_call

SPEECH = Path(entry.__file__).parent / "data" / "speech.wav"
OFFER = str(create_offer(local()))


def without(*beginnings: str) -> str:
    lines = [line for line in OFFER.split("\r\n") if not line.startswith(beginnings)]
    return "\r\n".join(lines)


@pytest.mark.parametrize(
    ("offer", "says"),
    [
        ("", "empty"),
        ("nonsense", "line 1"),
        ("<html></html>", "line 1"),
        (OFFER.replace("v=0", "v=7"), "line 1"),
        ("v=0\r\n" + "a" * 60_000, "line 2"),
        (without("m="), "line"),
        (without("a=fingerprint:"), "fingerprint"),
        (without("a=ice-ufrag:"), "ice-ufrag"),
        (without("a=ice-pwd:"), "ice-pwd"),
        (OFFER.replace("a=fingerprint:sha-256 ", "a=fingerprint:md5 "), "fingerprint"),
        (OFFER.replace("a=ice-pwd:", "a=ice-pwd:short\r\na=x:"), "ice-pwd"),
        (OFFER + "\0", "line"),
    ],
)
def test_a_wrong_offer_is_refused_in_one_line(offer: str, says: str) -> None:
    async def test() -> None:
        async with echo_site() as (url, _):
            with pytest.raises(ToolFailure, match=f"refused the offer: 400 .*{says}") as caught:
                await open_call(url, offer)
            assert "\n" not in str(caught.value)
            # and the next caller is served
            opened = await open_call(url, OFFER)
            assert opened.answer.startswith("v=0\r\n")
            await opened.hang_up()

    asyncio.run(test())


Serve = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


def says(answer: bytes) -> Serve:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        # the whole offer: a socket that is closed with bytes unread resets what it has sent
        [length] = re.findall(rb"(?i)content-length: (\d+)", head)
        await reader.readexactly(int(length))
        writer.write(answer)
        await writer.drain()
        writer.close()

    return serve


def page(body: bytes) -> bytes:
    return b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%b" % (len(body), body)


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        (b"", "no answer from"),
        (b"SSH-2.0-\x1b[31mOpenSSH\r\n", "no answer from"),
        (
            b"HTTP/1.1 400 \x1b[31m\r\n\r\n\x1b[2Jred\nand more",
            r"400 \N{REPLACEMENT CHARACTER}\[2Jred$",
        ),
        (b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n", "404 Not Found"),
        (page(b""), "line 1"),
        (page(b"<html>hello</html>"), "line 1"),
        (page(b"\xff\xfe"), "line 1"),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n", "no answer from"),
        (page(OFFER.encode()), "the call failed"),
    ],
)
def test_a_call_to_a_wrong_server_is_one_line(answer: bytes, reason: str, tmp_path: Path) -> None:
    async def test() -> None:
        web = await asyncio.start_server(says(answer), "127.0.0.1", 0)
        url = f"http://127.0.0.1:{web.sockets[0].getsockname()[1]}"
        out = tmp_path / "reply.wav"
        async with web:
            with pytest.raises(ToolFailure, match=reason) as caught:
                await call(SPEECH, CallPlan(url=url), out)
        assert str(caught.value).isprintable()
        assert not out.exists()

    asyncio.run(test())
