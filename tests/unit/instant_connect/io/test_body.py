"""Bodies are bounded while they are read, and forms say what is wrong with them."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest
from starlette.requests import Request

from instant_connect.exchange import Refusal
from instant_connect.io.body import MAX_DROPPED_BYTES, Rest, parse_form, read_body

CHUNK = 65_536
FORM = "multipart/form-data; boundary=x"


class Sender:
    """A client that sends chunks, and how many of them were asked for."""

    def __init__(self, chunks: Sequence[bytes], *, ends: str = "http.request") -> None:
        self._chunks = list(chunks)
        self._ends = ends
        self.asked = 0

    async def receive(self) -> dict[str, Any]:
        self.asked += 1
        if self._chunks:
            return {"type": "http.request", "body": self._chunks.pop(0), "more_body": True}
        if self._ends == "never":
            await asyncio.Event().wait()
        return {"type": self._ends, "body": b"", "more_body": False}

    def request(self, **headers: str) -> Request:
        raw = [(name.replace("_", "-").encode(), value.encode()) for name, value in headers.items()]
        return Request({"type": "http", "headers": raw, "method": "POST"}, self.receive)


def read(sender: Sender, limit: int = CHUNK, timeout_s: float = 5.0, **headers: str) -> bytes:
    return asyncio.run(read_body(sender.request(**headers), limit, timeout_s))


def refused(sender: Sender, **options: Any) -> tuple[int, str]:
    with pytest.raises(Refusal) as caught:
        read(sender, **options)
    return caught.value.status, caught.value.code


def test_a_body_is_read_whole() -> None:
    assert read(Sender([b"a", b"", b"bc"])) == b"abc"
    assert read(Sender([])) == b""
    assert read(Sender([b"x" * CHUNK])) == b"x" * CHUNK
    assert read(Sender([b"abc"]), content_length="3", expect="100-continue") == b"abc"


def test_a_large_body_is_dropped_to_its_end() -> None:
    """Whoever is still writing would get a reset in place of the reason."""
    sender = Sender([b"x" * CHUNK] * 20)
    assert refused(sender) == (413, "too_large")
    assert sender.asked == 21


def test_a_body_without_end_is_not() -> None:
    sender = Sender([b"x" * CHUNK] * 1_000)
    assert refused(sender) == (413, "too_large")
    assert sender.asked == MAX_DROPPED_BYTES // CHUNK + 1


@pytest.mark.parametrize(
    "headers",
    [
        {"content_length": str(MAX_DROPPED_BYTES + 1)},
        {"content_length": "9" * 5_000},
        {"content_length": "-1"},
        {"content_length": "٣"},
        {"content_length": str(CHUNK + 1), "expect": "100-continue"},
    ],
)
def test_what_says_that_it_is_too_large_is_not_read(headers: dict[str, str]) -> None:
    sender = Sender([b"x"])
    raw = {name: value.encode().decode("latin-1") for name, value in headers.items()}
    assert refused(sender, **raw) == (413, "too_large")
    assert sender.asked == 0


def test_a_body_that_comes_too_slowly() -> None:
    assert refused(Sender([b"x"], ends="never"), timeout_s=0.01) == (408, "too_slow")


def test_a_client_that_goes_away() -> None:
    assert refused(Sender([b"x"], ends="http.disconnect")) == (400, "incomplete")


def left(sender: Sender, timeout_s: float = 5.0, **headers: str) -> int:
    """How often the rest of a request is asked for when it is answered unread."""

    async def story() -> int:
        request = sender.request(**headers)
        await Rest(request.headers, sender.receive, timeout_s).drop()
        return sender.asked

    return asyncio.run(story())


def test_what_nobody_has_read_is_dropped_to_its_end() -> None:
    assert left(Sender([b"x"] * 3), content_length="3") == 4
    assert left(Sender([b"x"] * 3), transfer_encoding="chunked") == 4
    assert left(Sender([b"x"], ends="http.disconnect"), content_length="3") == 2


def test_what_is_read_already_is_not_waited_for() -> None:
    async def story() -> None:
        sender = Sender([b"x"])
        request = sender.request(content_length="1")
        rest = Rest(request.headers, sender.receive, 5.0)
        while (await rest.receive())["more_body"]:
            pass
        await rest.drop()
        assert sender.asked == 2

    asyncio.run(story())


def test_a_rest_has_its_bounds() -> None:
    chunks = [b"x" * CHUNK] * 1_000
    assert left(Sender(chunks), transfer_encoding="chunked") == MAX_DROPPED_BYTES // CHUNK + 1
    assert left(Sender([b"x"], ends="never"), 0.01, content_length="3") == 2


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"content_length": "0"},
        {"content_length": str(MAX_DROPPED_BYTES + 1)},
        {"content_length": "3", "expect": "100-continue"},
    ],
)
def test_a_rest_that_is_none_or_not_wanted(headers: dict[str, str]) -> None:
    assert left(Sender([b"x"], ends="never"), **headers) == 0


def part(name: str, value: bytes, *more: str) -> bytes:
    lines = [f'Content-Disposition: form-data; name="{name}"', *more]
    return b"--x\r\n" + "\r\n".join(lines).encode() + b"\r\n\r\n" + value + b"\r\n"


def test_parts_are_found_by_name() -> None:
    body = part("sdp", b"v=0\r\ns=-\r\n", "Content-Type: application/sdp") + part("session", b"{}")
    expected = {"sdp": b"v=0\r\ns=-\r\n", "session": b"{}"}
    assert parse_form(FORM, body + b"--x--\r\n") == expected
    assert parse_form('multipart/form-data; boundary="x"', body + b"--x--") == expected


def test_a_file_is_a_part_like_any_other() -> None:
    body = part("sdp", b"v=0").replace(b'"sdp"', b'"sdp"; filename="a.sdp"') + b"--x--"
    assert parse_form(FORM, body) == {"sdp": b"v=0"}


@pytest.mark.parametrize(
    ("content_type", "body", "says"),
    [
        ("multipart/form-data", b"", "no boundary"),
        ("multipart/form-data; boundary=", b"", "no boundary"),
        (f"multipart/form-data; boundary={'x' * 71}", b"", "no boundary"),
        (FORM, b"", "last boundary is missing"),
        (FORM, part("sdp", b"v=0"), "last boundary is missing"),
        (FORM, b"nonsense", "cannot be read"),
        (FORM, part("a", b"1") + part("a", b"2") + b"--x--", "'a' occurs twice"),
        (FORM, b"--x\r\na: b\r\n\r\n1\r\n--x--", "has no name"),
        (FORM, b"".join(part(str(n), b"") for n in range(9)) + b"--x--", "more than 8 parts"),
        (FORM, part("sdp", b"v=0", "a: b" * 5_000) + b"--x--", "cannot be read"),
    ],
)
def test_what_is_no_form_says_why(content_type: str, body: bytes, says: str) -> None:
    with pytest.raises(Refusal, match=says) as caught:
        parse_form(content_type, body)
    assert (caught.value.status, caught.value.code) == (400, "invalid_form")
