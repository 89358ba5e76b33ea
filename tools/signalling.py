"""The client's half of WHIP (RFC 9725): the offer is POSTed, the answer comes back, DELETE ends it.

    open_call ─ POST ─▶ 201, answer, Location ─▶ HttpCall ─ hang_up ─ DELETE ─▶ 200

With the standard library alone, in a thread: a caller needs no HTTP client of its own.
"""

from __future__ import annotations

import asyncio
import contextlib
import http.client
import json
import re
import threading
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar, cast

from warp_tools.failure import CommandRefused, ToolFailure

MAX_ANSWER_BYTES = 65_536
PATH = "/whip"
_TIMEOUT_S = 10.0
_LONGEST_S = 20.0
_GOODBYE_S = 2.0
_MAX_SHOWN = 300
_MAX_REDIRECTS = 3
_REDIRECTS = (307, 308)
_NO_ENDPOINT = (404, 405)
_DOORS = (PATH, "/v1/realtime/calls")
T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpCall:
    """A call that a server has answered."""

    answer: str
    location: str
    """Where the session is ended; empty when the server did not say."""
    token: str = field(default="", repr=False)
    url: str = field(default="", compare=False)
    """Where the offer was answered in the end."""
    status: str = ""
    """`Instant-Status`: "attached" when the offer has joined a call that was under way."""

    async def hang_up(self) -> None:
        """Tell the server that the call is over; whether it hears that does not matter."""
        if self.location:
            with contextlib.suppress(TimeoutError):
                await _aside(_delete, self.location, self.token)


def check_token(token: str) -> None:
    """Raise ToolFailure, one line without the token, when no header can carry it (RFC 6750)."""
    if token and re.fullmatch("[!-~](?:[ -~]*[!-~])?", token) is None:
        raise CommandRefused(
            "a token is ASCII, without blanks or line ends around it (from a file?)"
        )


async def open_call(
    url: str, offer: str, *, token: str = "", headers: Mapping[str, str] | None = None
) -> HttpCall:
    """Take an offer to a server. Raises ToolFailure, one line."""
    check_token(token)
    try:
        return await _aside(_post, url, offer, token, headers or {})
    except TimeoutError as error:
        raise ToolFailure(f"no answer from {url}: it does not come to an end") from error


async def fetch(url: str, *, token: str = "") -> str | None:
    """Return the text at an address, or None: refused, redirected, too long, not there."""
    try:
        return await _aside(_get, url, token)
    except TimeoutError:
        return None


async def _aside(work: Callable[..., T], *arguments: object) -> T:
    """Do what blocks in a thread; `TimeoutError` after `_LONGEST_S`, however slowly it goes on.

    Nobody waits for the thread: a server that sends a byte now and then would hold us up for days.
    """
    loop = asyncio.get_running_loop()
    done: asyncio.Future[T] = loop.create_future()

    def tell(error: Exception | None, found: T | None) -> None:
        if not done.done():
            done.set_exception(error) if error is not None else done.set_result(cast(T, found))

    def run() -> None:
        error, found = None, None
        try:
            found = work(*arguments)
        except Exception as failure:
            error = failure  # raised where it is awaited
        with contextlib.suppress(RuntimeError):  # the loop is closed: nobody wants to know
            loop.call_soon_threadsafe(tell, error, found)

    threading.Thread(target=run, daemon=True).start()
    async with asyncio.timeout(_LONGEST_S):
        return await done


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    """Leaves redirects to the caller: only those that keep the method may be followed."""

    def http_error_302(self, req: Any, fp: Any, code: int, msg: str, headers: Any) -> None:
        return None  # before its address is looked at: whatever that is, the answer is closed

    http_error_301 = http_error_303 = http_error_307 = http_error_308 = http_error_302


_OPENER = urllib.request.build_opener(_NoRedirect)


def _request(
    url: str,
    method: str,
    token: str,
    body: bytes | None = None,
    more: Mapping[str, str] | None = None,
) -> Any:
    headers = {**(more or {}), **({"Authorization": f"Bearer {token}"} if token else {})}
    if body is not None:
        headers["Content-Type"] = "application/sdp"
    return urllib.request.Request(url, body, headers, method=method)


def _get(url: str, token: str) -> str | None:
    try:
        with _OPENER.open(_request(url, "GET", token), timeout=_TIMEOUT_S) as response:
            body = response.read(MAX_ANSWER_BYTES + 1)
        return body.decode() if len(body) <= MAX_ANSWER_BYTES else None
    except (OSError, http.client.HTTPException, ValueError):
        return None


def _post(url: str, offer: str, token: str, headers: Mapping[str, str]) -> HttpCall:
    target = _endpoint(url)
    try:
        return _offer(target, offer, token, headers)
    except _Refused as refusal:
        # a page, or an application that is mounted here: its endpoint is below
        path = urllib.parse.urlsplit(refusal.target).path.rstrip("/")
        if refusal.code not in _NO_ENDPOINT or path.endswith(_DOORS):
            raise
        parts = urllib.parse.urlsplit(refusal.target)
        below = urllib.parse.urlunsplit(parts._replace(path=path + PATH))
        if not _same_origin(target, below):
            token, headers = "", {}
        try:
            return _offer(below, offer, token, headers)
        except _Refused as second:
            if second.code not in _NO_ENDPOINT:
                raise
            raise ToolFailure(
                f"neither {refusal.target} nor {below} takes offers: {refusal.code}"
            ) from refusal.__cause__


class _Refused(ToolFailure):
    """A server has answered an offer with an error."""

    def __init__(self, target: str, code: int, reason: str) -> None:
        super().__init__(f"{target} refused the offer: {code} {reason}")
        self.target = target
        self.code = code


def _offer(target: str, offer: str, token: str, headers: Mapping[str, str]) -> HttpCall:
    for _ in range(_MAX_REDIRECTS + 1):
        try:
            with _OPENER.open(
                _request(target, "POST", token, offer.encode(), headers), timeout=_TIMEOUT_S
            ) as response:
                answer = response.read(MAX_ANSWER_BYTES).decode(errors="replace")
                location = _session_url(target, response.headers.get("Location") or "")
                status = response.headers.get("Instant-Status") or ""
                return HttpCall(
                    answer=answer, location=location, token=token, status=status, url=target
                )
        except urllib.error.HTTPError as error:
            location = error.headers.get("Location") or ""
            if error.code in _REDIRECTS and location:
                error.close()
                target, same = _redirected(target, location)
                if not same:  # RFC 9110 section 15.4
                    token, headers = "", {}
                continue
            reason = _printable(_first_line(error) or str(error.reason))
            if location and 300 <= error.code < 400:
                reason += f", to {_printable(location)}: only 307 and 308 keep an offer"
            raise _Refused(target, error.code, reason) from error
        except (OSError, http.client.HTTPException, ValueError) as error:
            reason = _printable(str(getattr(error, "reason", error)))
            raise ToolFailure(f"no answer from {target}: {reason}") from error
    raise ToolFailure(f"{target} redirects the offer again and again")


def _split(url: str) -> urllib.parse.SplitResult:
    """Take an address apart. Raises ToolFailure, without the password that may stand in it."""
    try:
        parts = urllib.parse.urlsplit(url)
        known = parts.hostname and parts.scheme in ("http", "https") and (parts.port or True)
    except ValueError:
        known = False
    if "@" in url.partition("://")[2].partition("/")[0]:
        raise CommandRefused("leave user and password out of the address, and use a token")
    if not known:
        raise CommandRefused(f"{_printable(url) or 'nothing'} is not an http(s) address")
    return parts


def _endpoint(url: str) -> str:
    parts = _split(url)
    return urllib.parse.urlunsplit(parts._replace(path=parts.path.rstrip("/") or PATH))


def _redirected(target: str, location: str) -> tuple[str, bool]:
    """Return where to go on, and whether that is the same origin: only there secrets go along."""
    try:
        joined = urllib.parse.urljoin(target, location)
    except ValueError:
        joined = location
    try:
        following = urllib.parse.urlunsplit(_split(joined))
    except CommandRefused as error:
        raise ToolFailure(f"{target} redirects the offer: {error}") from None
    return following, _same_origin(target, following)


def _same_origin(one: str, other: str) -> bool:
    before, after = urllib.parse.urlsplit(one), urllib.parse.urlsplit(other)
    return (before.scheme, before.netloc) == (after.scheme, after.netloc)


def _session_url(target: str, location: str) -> str:
    """Return the URL of the session; empty unless it is on the server that answered."""
    if not location:
        return ""
    try:
        url = urllib.parse.urljoin(target, location)
        asked, named = urllib.parse.urlsplit(target), urllib.parse.urlsplit(url)
    except ValueError:
        return ""
    return url if (asked.scheme, asked.netloc) == (named.scheme, named.netloc) else ""


def _delete(url: str, token: str) -> None:
    # the media path has said goodbye already; this only frees the name sooner
    with (
        contextlib.suppress(OSError, http.client.HTTPException, ValueError),
        _OPENER.open(_request(url, "DELETE", token), timeout=_GOODBYE_S),
    ):
        pass


def _first_line(error: urllib.error.HTTPError) -> str:
    """Return what a refusal says, or "" when the server hung up before it had said it."""
    try:
        with error:
            said = error.read(4_000).decode(errors="replace").strip()
    except (OSError, http.client.HTTPException):
        return ""
    with contextlib.suppress(ValueError, KeyError, TypeError, RecursionError):
        return str(json.loads(said)["error"]["message"])
    return said.splitlines()[0] if said and not said.startswith("<") else ""


def _printable(said: str) -> str:
    """Return what a stranger said as something to show on a terminal: one line, no escapes."""
    line = " ".join(said.split())[:_MAX_SHOWN]
    return "".join(c if c.isprintable() else "\N{REPLACEMENT CHARACTER}" for c in line)
