"""The smallest signalling: an offer is POSTed to /offer, the answer is what comes back.

POST /offer                    application/sdp ──▶ 200 application/sdp
                               a bad offer     ──▶ 400 text/plain, one line: line and rule
"""

from __future__ import annotations

import asyncio
import http.client
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Callable

from warp.errors import InvalidConfig, WarpError
from warp_tools.failure import ToolFailure

MAX_HEAD_BYTES = 16_384
MAX_OFFER_BYTES = 65_536
_TIMEOUT_S = 10.0
_MAX_SHOWN = 300
_MAX_DIGITS = 12

Answer = Callable[[str], str]
"""Takes an offer, returns the answer; raises WarpError when the offer is not usable."""


class _Refused(Exception):
    def __init__(self, status: str, text: str) -> None:
        super().__init__(text)
        self.status = status


async def serve_offers(host: str, port: int, answer: Answer) -> asyncio.Server:
    """Listen for offers. Raises ToolFailure when the port is taken."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            async with asyncio.timeout(_TIMEOUT_S):
                await _serve_one(reader, writer, answer)
        except (TimeoutError, ConnectionError, asyncio.IncompleteReadError):
            pass  # the client went away or dawdles: nobody is left to tell
        finally:
            writer.close()

    try:
        return await asyncio.start_server(serve, host, port, limit=MAX_HEAD_BYTES)
    except (OSError, OverflowError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise ToolFailure(f"cannot listen on http://{host}:{port}: {reason}") from error


async def _serve_one(
    reader: asyncio.StreamReader, writer: asyncio.StreamWriter, answer: Answer
) -> None:
    try:
        offer = await _read_offer(reader)
        status, kind, body = "200 OK", "application/sdp", answer(offer)
    except _Refused as refused:
        status, kind, body = refused.status, "text/plain; charset=utf-8", f"{refused}\n"
    except InvalidConfig as error:
        status, kind, body = "400 Bad Request", "text/plain; charset=utf-8", f"{error}\n"
    except WarpError as error:
        status, kind, body = "503 Service Unavailable", "text/plain; charset=utf-8", f"{error}\n"
    raw = body.encode()
    head = (
        f"HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {len(raw)}\r\n"
        "Cache-Control: no-store\r\nConnection: close\r\n\r\n"
    )
    writer.write(head.encode() + raw)
    await writer.drain()


async def _read_offer(reader: asyncio.StreamReader) -> str:
    try:
        head = await reader.readuntil(b"\r\n\r\n")
    except asyncio.LimitOverrunError:
        raise _Refused("431 Request Header Fields Too Large", "too many headers") from None
    lines = head.decode("latin-1").split("\r\n")
    fields = dict(
        (name.strip().lower(), value.strip())
        for name, colon, value in (line.partition(":") for line in lines[1:])
        if colon
    )
    method, _, rest = lines[0].partition(" ")
    if rest.split(" ")[0] != "/offer":
        raise _Refused("404 Not Found", "there is only POST /offer")
    if method != "POST":
        raise _Refused("405 Method Not Allowed", "POST the offer")
    length = fields.get("content-length", "")
    if not length.isascii() or not length.isdigit():
        raise _Refused("411 Length Required", "Content-Length is needed")
    # so many digits that int() refuses them are too large as well
    if len(length) > _MAX_DIGITS or int(length) > MAX_OFFER_BYTES:
        raise _Refused("413 Content Too Large", f"an offer has at most {MAX_OFFER_BYTES} bytes")
    try:
        return (await reader.readexactly(int(length))).decode()
    except UnicodeDecodeError:
        raise _Refused("400 Bad Request", "the offer is not UTF-8") from None


async def post_offer(url: str, offer: str) -> str:
    """Take an offer to a server and return its answer. Raises ToolFailure, one line."""
    return await asyncio.to_thread(_post, url, offer)


def _post(url: str, offer: str) -> str:
    try:
        parts = urllib.parse.urlsplit(url)
    except ValueError:
        raise ToolFailure(f"{url} is not an http(s) address") from None
    if parts.scheme not in ("http", "https") or not parts.netloc:
        raise ToolFailure(f"{url} is not an http(s) address")
    target = urllib.parse.urlunsplit(parts._replace(path=parts.path.rstrip("/") or "/offer"))
    request = urllib.request.Request(
        target, offer.encode(), {"Content-Type": "application/sdp"}, method="POST"
    )
    try:
        with urllib.request.urlopen(request, timeout=_TIMEOUT_S) as response:
            return str(response.read(MAX_OFFER_BYTES).decode())
    except urllib.error.HTTPError as error:
        reason = _printable(_first_line(error) or str(error.reason))
        raise ToolFailure(f"{target} refused the offer: {error.code} {reason}") from error
    except (OSError, http.client.HTTPException, ValueError) as error:
        reason = _printable(str(getattr(error, "reason", error)))
        raise ToolFailure(f"no answer from {target}: {reason}") from error


def _first_line(error: urllib.error.HTTPError) -> str:
    """Return what a refusal says, or "" when the server hung up before it had said it."""
    try:
        with error:
            said = error.read(1_000).decode(errors="replace").strip()
    except (OSError, http.client.HTTPException):
        return ""
    return said.splitlines()[0] if said else ""


def _printable(said: str) -> str:
    """Return what a stranger said as something to show on a terminal: one line, no escapes."""
    line = " ".join(said.split())[:_MAX_SHOWN]
    return "".join(c if c.isprintable() else "\N{REPLACEMENT CHARACTER}" for c in line)
