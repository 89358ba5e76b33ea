"""A Responses endpoint over a real socket: its stream, its failures, its hanging."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable

import pytest

from voice_backend.delegation import Part, Request
from voice_backend.io.live_helper import responses_helpers
from voice_backend.io.responses import (
    HelperFailed,
    ResponsesConfig,
    ResponsesHelper,
    parse_event,
)
from voice_backend.live.shapes import ResponsesBackend
from warp.errors import InvalidConfig

HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n"
Serve = Callable[[dict[str, object], asyncio.StreamWriter], Awaitable[None]]


def chunk(data: bytes) -> bytes:
    return b"%x\r\n%s\r\n" % (len(data), data)


def event(**members: object) -> bytes:
    return f"event: {members['type']}\ndata: {json.dumps(members)}\n\n".encode()


STREAM = (
    event(type="response.created")
    + event(type="response.output_text.delta", delta="Three ")
    + event(type="response.output_text.delta", delta="flights.")
    + event(type="response.completed", response={"output": []})
)


def ask(serve: Serve, *, ready: bool = True, **config: object) -> tuple[list[Part], list[str]]:
    """Ask a server that answers as `serve` does; returns the parts and its requests' heads."""
    heads: list[str] = []

    async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            head = (await reader.readuntil(b"\r\n\r\n")).decode()
            heads.append(head)
            size = int(head.lower().split("content-length: ")[1].split("\r\n")[0])
            await serve(json.loads(await reader.readexactly(size)), writer)
            await writer.drain()
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            writer.close()

    async def main() -> list[Part]:
        server = await asyncio.start_server(connected, "127.0.0.1", 0)
        port = server.sockets[0].getsockname()[1]
        given = {"model": "m", "silence_timeout_s": 5.0, **config}
        helper = ResponsesHelper(
            ResponsesConfig(base_url=f"http://127.0.0.1:{port}/v1", **given)  # type: ignore[arg-type]
        )
        try:
            if ready:
                await helper.open("the caller is Ann")
            request = Request(delegation_id="dlg_1\r\nX: y", ask="user: flights?")
            return [part async for part in helper.work(request)]
        finally:
            await helper.close()
            server.close()
            await server.wait_closed()

    return asyncio.run(main()), heads


@pytest.mark.parametrize("pieces", [1, 7, 1000])
@pytest.mark.parametrize("chunked", [True, False])
def test_a_streamed_answer(pieces: int, chunked: bool) -> None:
    asked: list[dict[str, object]] = []

    async def serve(body: dict[str, object], writer: asyncio.StreamWriter) -> None:
        asked.append(body)
        writer.write(HEAD + (b"Transfer-Encoding: chunked\r\n" if chunked else b"") + b"\r\n")
        size = max(1, len(STREAM) // pieces)
        for at in range(0, len(STREAM), size):
            data = STREAM[at : at + size]
            writer.write(chunk(data) if chunked else data)
        writer.write(b"0\r\n\r\n" if chunked else b"")

    parts, heads = ask(serve, api_key="sk-1")
    assert [part.text for part in parts if part.done] == ["Three flights."]
    assert [part.raw["type"] for part in parts if part.raw] == [
        "response.created",
        "response.output_text.delta",
        "response.output_text.delta",
        "response.completed",
    ]
    (body,) = asked
    assert (body["model"], body["input"], body["stream"]) == ("m", "user: flights?", True)
    assert "the caller is Ann" in str(body["instructions"])
    assert heads[0].startswith("POST /v1/responses HTTP/1.1\r\n")
    assert "Authorization: Bearer sk-1\r\n" in heads[0]
    assert "Idempotency-Key: dlg_1X:y\r\n" in heads[0]  # an id cannot add a header


@pytest.mark.parametrize("pieces", [1, 3, 10_000])
def test_ends_of_lines_may_be_two_characters_and_come_one_by_one(pieces: int) -> None:
    stream = STREAM.replace(b"\n", b"\r\n")
    size = max(1, len(stream) // pieces)

    async def serve(_: dict[str, object], writer: asyncio.StreamWriter) -> None:
        writer.write(HEAD + b"Transfer-Encoding: chunked\r\n\r\n")
        writer.writelines(chunk(stream[at : at + size]) for at in range(0, len(stream), size))

    parts, _ = ask(serve)
    assert parts[-1].text == "Three flights."
    assert len(parts) == 4


def test_text_that_was_not_streamed() -> None:
    done = event(
        type="response.completed",
        response={"output": [{"content": [{"type": "output_text", "text": "Yes."}]}, 7]},
    )

    async def serve(_: dict[str, object], writer: asyncio.StreamWriter) -> None:
        writer.write(HEAD + b"\r\n" + done)

    parts, _ = ask(serve, ready=False)
    assert parts[-1].text == "Yes."


@pytest.mark.parametrize(
    ("answer", "says"),
    [
        (b"HTTP/1.1 401 Unauthorized\r\n\r\n{}", "status 401"),
        (b"SSH-2.0-OpenSSH\r\n\r\n", "no HTTP"),
        (b"", "closed the connection"),
        (HEAD + b"\r\n" + event(type="response.created"), "broke off"),
        (HEAD + b"\r\n" + event(type="response.failed"), "failed"),
        (HEAD + b"Transfer-Encoding: chunked\r\n\r\nzz\r\n", "broke off"),
        (HEAD + b"Transfer-Encoding: chunked\r\n\r\n-5\r\n", "broke off"),
        (HEAD + b"\r\n" + b"data: " + b"x" * 1_100_000, "more than"),
    ],
)
def test_what_is_no_answer(answer: bytes, says: str) -> None:
    async def serve(_: dict[str, object], writer: asyncio.StreamWriter) -> None:
        writer.write(answer)

    with pytest.raises(HelperFailed, match=says):
        ask(serve)


def test_a_service_that_falls_silent() -> None:
    async def serve(_: dict[str, object], writer: asyncio.StreamWriter) -> None:
        writer.write(HEAD + b"\r\n" + event(type="response.created"))
        await writer.drain()
        await asyncio.sleep(0.2)

    with pytest.raises(HelperFailed, match="silent"):
        ask(serve, silence_timeout_s=0.02)


@pytest.mark.parametrize("last", [b"", b"HTTP/1.1 408 Request Timeout\r\n\r\n"])
def test_a_connection_that_was_closed_while_it_lay_idle_costs_nothing(last: bytes) -> None:
    async def main() -> list[Part]:
        requests = 0
        ended = asyncio.Event()

        async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            nonlocal requests
            requests += 1
            if requests == 1:
                writer.write(last)
            else:
                await reader.readuntil(b"\r\n\r\n")
                writer.write(HEAD + b"\r\n" + STREAM)
            await writer.drain()
            writer.close()
            ended.set()

        server = await asyncio.start_server(connected, "127.0.0.1", 0)
        port = server.sockets[0].getsockname()[1]
        helper = ResponsesHelper(ResponsesConfig(base_url=f"http://127.0.0.1:{port}/v1", model="m"))
        try:
            await helper.open("")
            await ended.wait()
            return [part async for part in helper.work(Request(delegation_id="d", ask="?"))]
        finally:
            await helper.close()
            server.close()
            await server.wait_closed()

    assert asyncio.run(main())[-1].text == "Three flights."


@pytest.mark.parametrize(
    "block", [b"", b"data: {", b"data: 7", b": ping", b"event: x", b"data: \xff", b"data: " * 99]
)
def test_blocks_without_an_event(block: bytes) -> None:
    assert parse_event(block) is None


def test_what_unicode_cannot_say_is_mended() -> None:
    """Services that cut text between the halves of a pair send such halves (RFC 8259, 8.2)."""
    half = parse_event(b'data: {"delta": "\\ud83d", "more": ["\\ud83d\\ude00"]}')
    assert half == {"delta": "\ufffd", "more": ["\U0001f600"]}
    assert parse_event(b'data: {"delta": NaN}') is None


@pytest.mark.parametrize("url", ["", "host/v1", "ftp://host", "http://user:pw@host/v1"])
def test_an_address_that_is_none(url: str) -> None:
    with pytest.raises(InvalidConfig):
        ResponsesHelper(ResponsesConfig(base_url=url, model="m"))


def test_the_key_is_not_shown() -> None:
    config = ResponsesConfig(base_url="http://host/v1", model="m", api_key="sk-1")
    assert "sk-1" not in repr(config)


def test_functions_of_the_clients_are_called_before_the_answer() -> None:
    call = {"type": "function_call", "call_id": "c1", "name": "flights", "arguments": "{}"}
    asked: list[dict[str, object]] = []

    async def serve(body: dict[str, object], writer: asyncio.StreamWriter) -> None:
        asked.append(body)
        writer.write(HEAD + b"\r\n")
        if len(asked) == 1:
            writer.write(event(type="response.output_item.done", item=call))
            writer.write(event(type="response.completed", response={"output": []}))
        else:
            writer.write(STREAM)

    async def main() -> list[Part]:
        async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            head = (await reader.readuntil(b"\r\n\r\n")).decode()
            size = int(head.lower().split("content-length: ")[1].split("\r\n")[0])
            await serve(json.loads(await reader.readexactly(size)), writer)
            writer.close()

        server = await asyncio.start_server(connected, "127.0.0.1", 0)
        port = server.sockets[0].getsockname()[1]
        make = responses_helpers(
            ResponsesConfig(base_url=f"http://127.0.0.1:{port}", model="default", api_key="sk-1")
        )
        helper = make(ResponsesBackend(model="gpt-5", tools=[{"type": "function", "name": "f"}]))
        parts = []
        try:
            async for part in helper.work(Request(delegation_id="d", ask="user: flights?")):
                parts.append(part)
                kind = None if part.raw is None else part.raw["type"]
                if kind == "response.completed" and not part.done:
                    output = {"type": "function_call_output", "call_id": "c1", "output": "3"}
                    helper.add_item(output)
                    helper.go_on()
        finally:
            await helper.close()
            server.close()
            await server.wait_closed()
        return parts

    parts = asyncio.run(main())
    assert [part.text for part in parts if part.done] == ["Three flights."]
    first, second = asked
    assert (first["model"], first["tools"]) == ("gpt-5", [{"type": "function", "name": "f"}])
    assert second["input"] == [
        {"role": "user", "content": "user: flights?"},
        call,
        {"type": "function_call_output", "call_id": "c1", "output": "3"},
    ]
