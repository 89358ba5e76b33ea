"""The bytes of a request, never more of them than allowed (Starlette's `Request`).

What is too large is refused by its Content-Length, or as soon as it has grown too long. What is
refused is read on to its end and dropped, up to a bound: a client that is still writing would get
a reset in place of the refusal, or lose the connection with its next request. Called by `asgi`,
and by `guard` for whatever is answered before it is read.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Mapping
from typing import Final

from python_multipart.exceptions import FormParserError
from python_multipart.multipart import MultipartParser, parse_options_header
from starlette.requests import ClientDisconnect, Request
from starlette.types import Message, Receive

from instant_connect.exchange import Refusal, too_large

MAX_DROPPED_BYTES: Final = 16 << 20
_MAX_DIGITS: Final = 12
_MAX_PARTS: Final = 8


async def read_body(request: Request, limit: int, timeout_s: float) -> bytes:
    """Return the whole body; raise `Refusal` when it is too large (413) or too slow (408)."""
    refusal = too_large("a request", limit)
    declared = declared_length(request.headers)
    if declared > MAX_DROPPED_BYTES or (declared > limit and "expect" in request.headers):
        raise refusal
    body = bytearray()
    size = 0
    try:
        async with asyncio.timeout(timeout_s):
            async for chunk in request.stream():
                size += len(chunk)
                if size <= limit:
                    body += chunk
                elif size > MAX_DROPPED_BYTES:
                    raise refusal
    except TimeoutError:
        raise Refusal(
            408, "too_slow", f"the request took more than {timeout_s:g} s", headers=_CLOSE
        ) from None
    except ClientDisconnect:
        raise Refusal(400, "incomplete", "the client went away in mid-request") from None
    if size > limit:
        raise refusal
    return bytes(body)


_CLOSE: Final = (("Connection", "close"),)


class Rest:
    """What is still to come of a request when it is answered. `receive` goes to the application."""

    __slots__ = ("_deadline", "_is_due", "_receive", "_size")

    def __init__(self, headers: Mapping[str, str], receive: Receive, timeout_s: float) -> None:
        declared = declared_length(headers)
        # whoever expects leave to send a body has not begun to
        self._is_due = (declared > 0 or "transfer-encoding" in headers) and "expect" not in headers
        self._size = declared if declared > MAX_DROPPED_BYTES else 0
        self._deadline = asyncio.get_running_loop().time() + timeout_s
        self._receive = receive

    async def receive(self) -> Message:
        """Return what comes next."""
        message = await self._receive()
        self._size += len(message.get("body", b""))
        self._is_due = self._is_due and message.get("more_body", False)
        return message

    async def drop(self) -> None:
        """Read what nobody has asked for, unless it is too much or takes too long."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout_at(self._deadline):
                while self._is_due and self._size <= MAX_DROPPED_BYTES:
                    await self.receive()


def declared_length(headers: Mapping[str, str]) -> int:
    """Return what Content-Length says; more than is ever read where that cannot be."""
    length = headers.get("content-length", "0")
    if not (length.isascii() and length.isdigit()) or len(length) > _MAX_DIGITS:
        return MAX_DROPPED_BYTES + 1
    return int(length)


def parse_form(content_type: str, body: bytes) -> dict[str, bytes]:
    """Return the parts of a multipart/form-data body by name (RFC 7578).

    Raises `Refusal` (400) when it is malformed, unfinished, has a part twice or too many.
    """
    _, options = parse_options_header(content_type.encode("latin-1", "replace"))
    boundary = options.get(b"boundary", b"")
    if not 0 < len(boundary) <= 70:
        raise malformed("its Content-Type names no boundary of 1 to 70 characters")
    reader = _FormReader()
    parser = MultipartParser(
        boundary,
        {
            "on_part_begin": reader.begin_part,
            "on_header_field": reader.add_name,
            "on_header_value": reader.add_value,
            "on_header_end": reader.end_header,
            "on_part_data": reader.add_data,
            "on_part_end": reader.end_part,
            "on_end": reader.end,
        },
    )
    try:
        parser.write(body)
        parser.finalize()
    except FormParserError as error:
        raise malformed(str(error)[:120]) from None
    if not reader.is_complete:
        raise malformed("its last boundary is missing")
    return reader.parts


def malformed(what: str) -> Refusal:
    """Return the refusal of a form."""
    return Refusal(400, "invalid_form", f"the form cannot be read: {what}")


class _FormReader:
    """Collects what the parser finds."""

    __slots__ = ("_data", "_field", "_name", "_value", "is_complete", "parts")

    def __init__(self) -> None:
        self.parts: dict[str, bytes] = {}
        self.is_complete = False
        self._field = b""
        self._value = b""
        self._name: str | None = None
        self._data = bytearray()

    def begin_part(self) -> None:
        self._name = None
        self._data = bytearray()

    def add_name(self, data: bytes, start: int, end: int) -> None:
        self._field += data[start:end]

    def add_value(self, data: bytes, start: int, end: int) -> None:
        self._value += data[start:end]

    def end_header(self) -> None:
        if self._field.lower() == b"content-disposition":
            _, options = parse_options_header(self._value)
            name = options.get(b"name")
            self._name = None if name is None else name.decode("utf-8", "replace")
        self._field = self._value = b""

    def add_data(self, data: bytes, start: int, end: int) -> None:
        self._data += data[start:end]

    def end_part(self) -> None:
        if self._name is None:
            raise malformed("a part has no name")
        if self._name in self.parts:
            raise malformed(f"the part {self._name[:80]!r} occurs twice")
        if len(self.parts) >= _MAX_PARTS:
            raise malformed(f"it has more than {_MAX_PARTS} parts")
        self.parts[self._name] = bytes(self._data)

    def end(self) -> None:
        self.is_complete = True
