"""A request on its way from one process of a port to another, and what came of it.

    | length 4 | head, JSON | length 4 | body |        the same for the outcome

A whole request as it came (`of`), to be answered by the other's application; or an offer that has
been read and admitted already (`of_ask`), to be answered there without being admitted again. Both
ends are ours; lengths are bounded all the same. Called by `io.forwarding`.
"""

from __future__ import annotations

import asyncio
import json
import struct
from collections.abc import Awaitable, Callable, MutableMapping
from dataclasses import asdict, replace
from typing import Any, Final, NamedTuple

from instant_connect.exchange import Ask, AttemptNames, Headers, Reply
from instant_connect.io.body import parse_form
from instant_connect.offers import Kind

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]

MAX_BYTES: Final = 1 << 20
_LENGTH: Final = struct.Struct("!I")
_TEXTS: Final = ("method", "scheme", "path", "root_path")


class Outcome(NamedTuple):
    """What goes back."""

    status: int
    headers: Headers
    body: bytes
    content_type: str = ""
    """Of a `Reply`; of a whole response it is among the headers."""

    def reply(self) -> Reply:
        """Return the answer to an offer."""
        return Reply(
            status=self.status,
            body=self.body.decode(),
            content_type=self.content_type,
            headers=self.headers,
        )


class Errand(NamedTuple):
    """What is asked of another process."""

    head: dict[str, Any]
    body: bytes

    def __repr__(self) -> str:
        # tokens and attempts are in the head
        return f"<Errand {len(self.body)} bytes>"

    @classmethod
    def of(cls, scope: Scope, body: bytes) -> Errand:
        """Return a request as it came."""
        head: dict[str, Any] = {name: scope.get(name, "") for name in _TEXTS}
        head["query_string"] = scope["query_string"].decode("latin-1")
        head["headers"] = [
            [name.decode("latin-1"), value.decode("latin-1")] for name, value in scope["headers"]
        ]
        head["client"] = scope.get("client")
        return cls(head, body)

    @classmethod
    def of_ask(cls, ask: Ask, kind: Kind) -> Errand:
        """Return an offer that has been admitted."""
        attempt = ask.attempt
        head = {
            "kind": kind.value,
            "is_form": ask.parts is not None,
            "attempt": None if attempt is None else asdict(attempt),
            **{name: getattr(ask, name) for name in _ASK},
            "query": dict(ask.query),
        }
        return cls(head, ask.body)

    def ask(self) -> tuple[Ask, Kind] | None:
        """Return the offer, if it is one that has been admitted."""
        head = self.head
        if "kind" not in head:
            return None
        attempt = head["attempt"]
        ask = Ask(
            body=self.body,
            query=head["query"],
            attempt=None if attempt is None else AttemptNames(**attempt),
            **{name: head[name] for name in _ASK},
        )
        if head["is_form"]:
            ask = replace(ask, parts=parse_form(ask.content_type, self.body))
        return ask, Kind(head["kind"])

    async def run(self, app: App) -> Outcome:
        """Let an application answer the request."""
        head = self.head
        scope: Scope = {
            "type": "http",
            "asgi": {"version": "3.0"},
            "http_version": "1.1",
            **{name: head[name] for name in _TEXTS},
            "raw_path": head["path"].encode(),
            "query_string": head["query_string"].encode("latin-1"),
            "headers": [(n.encode("latin-1"), v.encode("latin-1")) for n, v in head["headers"]],
            "client": None if head["client"] is None else tuple(head["client"]),
            "server": None,
        }
        started: dict[str, Any] = {"status": 500, "headers": []}
        chunks: list[bytes] = []
        parts = [{"type": "http.request", "body": self.body, "more_body": False}]

        async def receive() -> MutableMapping[str, Any]:
            return parts.pop() if parts else {"type": "http.disconnect"}

        async def send(message: MutableMapping[str, Any]) -> None:
            if message["type"] == "http.response.start":
                started.update(message)
            elif message["type"] == "http.response.body":
                chunks.append(message.get("body", b""))

        try:
            await app(scope, receive, send)
        except Exception as error:
            # its response says so; whoever asked is in another process
            context = {"message": "an application failed for another process", "exception": error}
            asyncio.get_running_loop().call_exception_handler(context)
        headers = [(n.decode("latin-1"), v.decode("latin-1")) for n, v in started["headers"]]
        return Outcome(started["status"], tuple(headers), b"".join(chunks))


_ASK: Final = (
    "content_type",
    "if_match",
    "base",
    "client",
    "policy",
    "hops",
    "settled",
    "now",
)
_ADMITTED: Final = frozenset({*_ASK, "kind", "is_form", "attempt", "query"})
_WHOLE: Final = frozenset({*_TEXTS, "query_string", "headers", "client"})


async def write_errand(writer: asyncio.StreamWriter, errand: Errand) -> None:
    """Send what is asked."""
    await _write(writer, errand.head, errand.body)


async def read_errand(reader: asyncio.StreamReader) -> Errand:
    """Return what is asked; raises `EOFError` or `ValueError` when it does not read."""
    head, body = await _read(reader)
    needed = _ADMITTED if "kind" in head else _WHOLE
    if not needed <= head.keys():
        raise ValueError("a request of another process lacks a part")
    return Errand(head, body)


async def write_outcome(writer: asyncio.StreamWriter, outcome: Outcome | Reply) -> None:
    """Send what came of it."""
    body = outcome.body
    head = {
        "status": outcome.status,
        "headers": outcome.headers,
        "content_type": outcome.content_type,
    }
    await _write(writer, head, body.encode() if isinstance(body, str) else body)


async def read_outcome(reader: asyncio.StreamReader) -> Outcome:
    """Return what came of it; raises `EOFError` or `ValueError` when it does not read."""
    head, body = await _read(reader)
    headers = tuple([(str(name), str(value)) for name, value in head["headers"]])
    return Outcome(int(head["status"]), headers, body, str(head["content_type"]))


async def _write(writer: asyncio.StreamWriter, head: dict[str, Any], body: bytes) -> None:
    for part in (json.dumps(head).encode(), body):
        writer.write(_LENGTH.pack(len(part)) + part)
    await writer.drain()


async def _read(reader: asyncio.StreamReader) -> tuple[dict[str, Any], bytes]:
    parts = []
    for _ in range(2):
        (size,) = _LENGTH.unpack(await reader.readexactly(_LENGTH.size))
        if size > MAX_BYTES:
            raise ValueError("a request of another process is too long")
        parts.append(await reader.readexactly(size))
    head = json.loads(parts[0])
    if not isinstance(head, dict):
        raise ValueError("a request of another process has no head")
    return head, parts[1]
