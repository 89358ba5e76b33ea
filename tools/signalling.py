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
import urllib.error
import urllib.parse
import urllib.request
from dataclasses import dataclass, field
from typing import Any

from warp_tools.failure import ToolFailure

MAX_ANSWER_BYTES = 65_536
PATH = "/whip"
_TIMEOUT_S = 10.0
_GOODBYE_S = 2.0
_MAX_SHOWN = 300
_MAX_REDIRECTS = 3
_REDIRECTS = (307, 308)


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpCall:
    """A call that a server has answered."""

    answer: str
    location: str
    """Where the session is ended; empty when the server did not say."""
    token: str = field(default="", repr=False)

    async def hang_up(self) -> None:
        """Tell the server that the call is over; whether it hears that does not matter."""
        if self.location:
            await asyncio.to_thread(_delete, self.location, self.token)


def check_token(token: str) -> None:
    """Raise ToolFailure, one line without the token, when no header can carry it (RFC 6750)."""
    if token and re.fullmatch("[!-~](?:[ -~]*[!-~])?", token) is None:
        raise ToolFailure("a token is ASCII, without blanks or line ends around it (from a file?)")


async def open_call(url: str, offer: str, *, token: str = "") -> HttpCall:
    """Take an offer to a server. Raises ToolFailure, one line."""
    check_token(token)
    return await asyncio.to_thread(_post, url, offer, token)


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    """Leaves redirects to the caller: only those that keep the method may be followed."""

    def redirect_request(self, *_: Any) -> None:
        return None


_OPENER = urllib.request.build_opener(_NoRedirect)


def _request(url: str, method: str, token: str, body: bytes | None = None) -> Any:
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    if body is not None:
        headers["Content-Type"] = "application/sdp"
    return urllib.request.Request(url, body, headers, method=method)


def _post(url: str, offer: str, token: str) -> HttpCall:
    target = _endpoint(url)
    for _ in range(_MAX_REDIRECTS + 1):
        try:
            with _OPENER.open(
                _request(target, "POST", token, offer.encode()), timeout=_TIMEOUT_S
            ) as response:
                answer = response.read(MAX_ANSWER_BYTES).decode()
                location = _session_url(target, response.headers.get("Location") or "")
                return HttpCall(answer=answer, location=location, token=token)
        except urllib.error.HTTPError as error:
            location = error.headers.get("Location") or ""
            if error.code in _REDIRECTS and location:
                error.close()
                target, token = _redirected(target, location, token)
                continue
            reason = _printable(_first_line(error) or str(error.reason))
            raise ToolFailure(f"{target} refused the offer: {error.code} {reason}") from error
        except (OSError, http.client.HTTPException, ValueError) as error:
            reason = _printable(str(getattr(error, "reason", error)))
            raise ToolFailure(f"no answer from {target}: {reason}") from error
    raise ToolFailure(f"{target} redirects the offer again and again")


def _endpoint(url: str) -> str:
    try:
        parts = urllib.parse.urlsplit(url)
    except ValueError:
        raise ToolFailure(f"{url} is not an http(s) address") from None
    if parts.scheme not in ("http", "https") or not parts.netloc:
        raise ToolFailure(f"{url} is not an http(s) address")
    return urllib.parse.urlunsplit(parts._replace(path=parts.path.rstrip("/") or PATH))


def _redirected(target: str, location: str, token: str) -> tuple[str, str]:
    """Return where to go on, with the token only if that is the same origin (RFC 9110 15.4)."""
    following = _endpoint(urllib.parse.urljoin(target, location))
    before, after = urllib.parse.urlsplit(target), urllib.parse.urlsplit(following)
    same = (before.scheme, before.netloc) == (after.scheme, after.netloc)
    return following, token if same else ""


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
    return said.splitlines()[0] if said else ""


def _printable(said: str) -> str:
    """Return what a stranger said as something to show on a terminal: one line, no escapes."""
    line = " ".join(said.split())[:_MAX_SHOWN]
    return "".join(c if c.isprintable() else "\N{REPLACEMENT CHARACTER}" for c in line)
