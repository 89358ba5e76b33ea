"""A helper behind an OpenAI-compatible Responses endpoint: one POST, an answer as an event stream.

    work(request) ── POST {base_url}/responses, stream ──▶ service
                 ◀── event: response.output_text.delta, ..., response.completed

With asyncio's streams alone, so that a cancelled request is a closed connection at once. HTTP/1.1,
bodies by length, chunked or until the end; server-sent events as WHATWG has them. Keys and texts of
the service's errors are not repeated.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import ssl
from collections.abc import AsyncGenerator, Awaitable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final
from urllib.parse import urlsplit

from voice_backend.delegation import Part, Request
from warp.errors import InvalidConfig, WarpError

MAX_EVENT_BYTES: Final = 1 << 20
MAX_ANSWER_BYTES: Final = 8 << 20
MAX_ITEMS: Final = 64
_MAX_HEAD_BYTES: Final = 1 << 16


class HelperFailed(WarpError):
    """A helper's service refused, broke off, or said something that is no answer."""


class _Gone(HelperFailed):
    """A connection was closed without an answer."""


_Connection = tuple[asyncio.StreamReader, asyncio.StreamWriter]


@dataclass(frozen=True, slots=True, kw_only=True)
class ResponsesConfig:
    """Where the service is and what it is asked for."""

    base_url: str
    """`https://host/v1`: the path `/responses` is added."""
    model: str
    instructions: str = "Do what the user of this spoken conversation asks for. Answer briefly."
    api_key: str = field(default="", repr=False)
    max_output_tokens: int = 400
    connect_timeout_s: float = 10.0
    silence_timeout_s: float = 60.0  # between two pieces of an answer
    extra: Mapping[str, Any] = field(default_factory=dict)
    """More members of the request, such as `tools` or `reasoning`."""


class ResponsesHelper:
    """Asks a Responses endpoint. One connection a delegation; the first is opened ahead."""

    __slots__ = (
        "_config", "_context", "_go_on", "_host", "_items", "_path", "_port", "_ready", "_tls",
    )  # fmt: skip

    def __init__(self, config: ResponsesConfig) -> None:
        parts = urlsplit(config.base_url)
        if parts.scheme not in ("http", "https") or not parts.hostname or parts.username:
            raise InvalidConfig(f"{config.base_url[:200]!r} is not an http(s) address")
        self._config = config
        self._host = parts.hostname
        self._tls = parts.scheme == "https"
        self._port = parts.port or (443 if self._tls else 80)
        self._path = parts.path.rstrip("/") + "/responses"
        self._context = ""
        self._items: list[dict[str, Any]] = []
        self._go_on = asyncio.Event()
        self._ready: _Connection | None = None

    async def open(self, context: str) -> None:
        """Connect ahead, and keep what is known for every request."""
        self._context = context
        self._ready = await self._connect()

    async def close(self) -> None:
        """Close the connection that nobody used."""
        ready, self._ready = self._ready, None
        if ready is not None:
            ready[1].close()

    def add_item(self, item: dict[str, Any]) -> None:
        """Add an item, such as a tool's result, to what the service is asked with."""
        self._items.append(item)
        del self._items[:-MAX_ITEMS]

    def go_on(self) -> None:
        """Ask again, with the items that were added."""
        self._go_on.set()

    async def work(self, request: Request) -> AsyncGenerator[Part, None]:
        """Ask; the service's events are passed on as they come, its text as the answer.

        A response that calls functions is no answer: their results come by `add_item`, and with
        `go_on` the service is asked again.
        """
        items: list[dict[str, Any]] = [{"role": "user", "content": request.ask}]
        while True:
            calls: list[dict[str, Any]] = []
            self._go_on.clear()
            async with contextlib.aclosing(self._respond(request, items)) as parts:
                async for part, fresh in parts:
                    calls += fresh
                    if not part.done or not calls:
                        yield part
                        if part.done:
                            return
                    else:
                        yield Part(raw=part.raw)
            await self._go_on.wait()
            items = [*items, *calls, *self._items][-MAX_ITEMS:]
            self._items.clear()

    async def _respond(
        self, request: Request, items: list[dict[str, Any]]
    ) -> AsyncGenerator[tuple[Part, list[dict[str, Any]]], None]:
        """Ask once; each part comes with the function calls that it holds."""
        reader, writer, headers = await self._begin(self._request(request, items))
        try:
            said: list[str] = []
            async with contextlib.aclosing(self._events(reader, headers)) as events:
                async for event in events:
                    kind = event.get("type")
                    if kind == "response.output_text.delta":
                        said.append(str(event.get("delta", "")))
                    elif kind in ("response.failed", "error"):
                        raise HelperFailed("the service failed")
                    elif kind in ("response.completed", "response.incomplete"):
                        text = "".join(said) or _text_of(event)
                        yield Part(text=text, done=True, raw=event), []
                        return
                    yield Part(raw=event), _calls_of(event)
            raise HelperFailed("the service broke off")
        finally:
            writer.close()

    async def _begin(self, asked: bytes) -> tuple[*_Connection, dict[str, str]]:
        """Send a request and return where its answer comes from, and that one's headers."""
        ready, self._ready = self._ready, None
        if ready is not None:
            # services end what lies idle, some with a word of theirs (408, RFC 9110 15.5.9)
            with contextlib.suppress(_Gone, OSError):
                return await self._ask(ready, asked)
        return await self._ask(await self._connect(), asked)

    async def _ask(
        self, connection: _Connection, asked: bytes
    ) -> tuple[*_Connection, dict[str, str]]:
        reader, writer = connection
        try:
            writer.write(asked)
            await writer.drain()
            status, headers = await self._head(reader)
            if status != 200:
                kind = _Gone if status == 408 else HelperFailed
                raise kind(f"the service answered with status {status}")
        except BaseException:
            writer.close()
            raise
        return reader, writer, headers

    async def _connect(self) -> _Connection:
        async with asyncio.timeout(self._config.connect_timeout_s):
            return await asyncio.open_connection(
                self._host,
                self._port,
                ssl=ssl.create_default_context() if self._tls else None,
                limit=MAX_EVENT_BYTES,
            )

    def _request(self, request: Request, items: list[dict[str, Any]]) -> bytes:
        config = self._config
        background = f"\n\nWhat is known:\n{self._context}" if self._context else ""
        body = json.dumps(
            {
                **config.extra,
                "model": config.model,
                "instructions": config.instructions + background,
                "input": request.ask if len(items) == 1 else items,
                "max_output_tokens": config.max_output_tokens,
                "stream": True,
                "store": False,
                "metadata": {"delegation_id": request.delegation_id[:64]},
            }
        ).encode()
        head = [
            f"POST {self._path} HTTP/1.1",
            f"Host: {self._host}:{self._port}",
            "Content-Type: application/json",
            "Accept: text/event-stream",
            "Connection: close",
            f"Content-Length: {len(body)}",
            # whoever asks twice by the same id means the same
            f"Idempotency-Key: {_token(request.delegation_id)}",
        ]
        if config.api_key:
            head.append(f"Authorization: Bearer {_token(config.api_key)}")
        return "\r\n".join([*head, "", ""]).encode("latin-1") + body

    async def _events(
        self, reader: asyncio.StreamReader, headers: Mapping[str, str]
    ) -> AsyncGenerator[dict[str, Any], None]:
        buffer = bytearray()
        total = looked_at = 0
        async with contextlib.aclosing(self._body(reader, headers)) as chunks:
            async for chunk in chunks:
                total += len(chunk)
                # an end of line may come in two pieces
                begin = len(buffer) - buffer.endswith(b"\r")
                buffer[begin:] = (buffer[begin:] + chunk).replace(b"\r\n", b"\n")
                while (end := buffer.find(b"\n\n", looked_at)) >= 0:
                    block = bytes(buffer[:end])
                    del buffer[: end + 2]
                    looked_at = 0
                    event = parse_event(block)
                    if event is not None:
                        yield event
                looked_at = max(0, len(buffer) - 2)
                if len(buffer) > MAX_EVENT_BYTES or total > MAX_ANSWER_BYTES:
                    raise HelperFailed("the service says more than anybody could use")

    async def _head(self, reader: asyncio.StreamReader) -> tuple[int, dict[str, str]]:
        lines: list[bytes] = []
        while (line := (await self._wait(reader.readline())).strip()) or not lines:
            if not line and reader.at_eof():
                raise _Gone("the service closed the connection")
            lines.append(line)
            if sum(map(len, lines)) > _MAX_HEAD_BYTES:
                raise HelperFailed("the service's answer is no HTTP")
        status = lines[0].split()
        if len(status) < 2 or not status[0].startswith(b"HTTP/1.") or not status[1].isdigit():
            raise HelperFailed("the service's answer is no HTTP")
        headers = {}
        for line in lines[1:]:
            name, _, value = line.decode("latin-1").partition(":")
            headers[name.strip().lower()] = value.strip()
        return int(status[1]), headers

    async def _body(
        self, reader: asyncio.StreamReader, headers: Mapping[str, str]
    ) -> AsyncGenerator[bytes, None]:
        if headers.get("transfer-encoding", "").lower() != "chunked":
            while chunk := await self._wait(reader.read(65536)):
                yield chunk
            return
        while True:
            try:
                size = int((await self._wait(reader.readline())).split(b";")[0], 16)
                if size == 0:
                    return
                if not 0 < size <= MAX_ANSWER_BYTES:
                    raise ValueError(size)
                yield await self._wait(reader.readexactly(size))
                await self._wait(reader.readline())
            except (ValueError, asyncio.IncompleteReadError) as error:
                raise HelperFailed("the service broke off in mid-answer") from error

    async def _wait(self, piece: Awaitable[bytes]) -> bytes:
        try:
            async with asyncio.timeout(self._config.silence_timeout_s):
                return await piece
        except TimeoutError:
            raise HelperFailed("the service fell silent") from None


def parse_event(block: bytes) -> dict[str, Any] | None:
    """Return the JSON object of one server-sent event, None when it holds none.

    It can be sent on as it is: half of a surrogate pair becomes U+FFFD.
    """
    data = [line[5:].lstrip(b" ") for line in block.split(b"\n") if line.startswith(b"data:")]
    try:
        event = json.loads(b"\n".join(data), parse_constant=_no_constant)
        if not isinstance(event, dict):
            return None
        # RFC 8259 section 8.2: its strings may hold what no encoding of Unicode can
        text = json.dumps(event, ensure_ascii=False)
        whole = text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
        return event if whole == text else dict(json.loads(whole))
    except (ValueError, RecursionError):
        return None


def _no_constant(name: str) -> None:
    raise ValueError(f"{name} is no JSON")


def _text_of(event: Mapping[str, Any]) -> str:
    """The text of a completed response that was not streamed."""
    response = event.get("response")
    output = response.get("output") if isinstance(response, dict) else None
    texts = [
        part["text"]
        for item in (output if isinstance(output, list) else [])
        if isinstance(item, dict) and isinstance(item.get("content"), list)
        for part in item["content"]
        if isinstance(part, dict) and isinstance(part.get("text"), str)
    ]
    return "".join(texts)


def _calls_of(event: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The function call that is complete with an event."""
    item = event.get("item")
    if event.get("type") != "response.output_item.done" or not isinstance(item, dict):
        return []
    return [item] if item.get("type") == "function_call" else []


def _token(text: str) -> str:
    """A header's value without anything that could end it."""
    return "".join(c for c in text if 32 < ord(c) < 127)
