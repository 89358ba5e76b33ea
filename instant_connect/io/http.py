"""Requests of a caller over connections that are kept open, with the standard library alone.

    HttpOrigin.request ─ an idle connection, or a new one ─▶ Response
                         └ the server had closed it meanwhile ─▶ once more, on a new one

The waiting is done in threads of the loop's executor. Every request here may be repeated: offers
are known by their contents. Called by `caller`.
"""

from __future__ import annotations

import asyncio
import contextlib
import http.client
import ssl
from collections.abc import Mapping
from typing import Final, NamedTuple
from urllib.parse import urlsplit

from warp.errors import InvalidConfig

MAX_BYTES: Final = 1 << 20
_MAX_IDLE: Final = 4
_CLOSED: Final = (http.client.BadStatusLine, http.client.CannotSendRequest, ConnectionError)


class Response(NamedTuple):
    """What a server answered; names of headers are in lower case."""

    status: int
    headers: Mapping[str, str]
    body: bytes

    def text(self) -> str:
        """Return the body as text; what cannot be read is replaced."""
        return self.body.decode("utf-8", "replace")


class HttpOrigin:
    """One scheme, host and port."""

    __slots__ = ("_context", "_host", "_idle", "_is_closed", "_port", "_timeout_s", "is_secure")

    def __init__(
        self, url: str, *, timeout_s: float = 10.0, context: ssl.SSLContext | None = None
    ) -> None:
        """Take an address of http or https, of which only the origin counts.

        Raises `InvalidConfig` for what is none.
        """
        try:
            parts = urlsplit(url)
            host, port = parts.hostname, parts.port
        except ValueError:
            raise InvalidConfig(f"{url[:200]!r} is not an http(s) address") from None
        if parts.scheme not in ("http", "https") or not host:
            raise InvalidConfig(f"{url[:200]!r} is not an http(s) address")
        if parts.username is not None or parts.password is not None:
            raise InvalidConfig("an address here has no user and no password in it: give a token")
        self._host = host
        self._port = port
        self._timeout_s = timeout_s
        self._context = context
        self._idle: list[http.client.HTTPConnection] = []
        self._is_closed = False
        self.is_secure: Final = parts.scheme == "https"

    async def request(
        self, method: str, path: str, headers: Mapping[str, str], body: bytes = b""
    ) -> Response:
        """Ask, and return the answer whatever its status.

        Raises `OSError` or `http.client.HTTPException` when there is none.
        """
        return await asyncio.to_thread(self._request, method, path, headers, body)

    def _request(self, method: str, path: str, headers: Mapping[str, str], body: bytes) -> Response:
        try:
            kept = self._idle.pop()
        except IndexError:
            return self._ask(self._open(), method, path, headers, body)
        try:
            return self._ask(kept, method, path, headers, body)
        except _CLOSED:
            # a connection that has been idle may be closed just as a request leaves
            return self._ask(self._open(), method, path, headers, body)

    def _open(self) -> http.client.HTTPConnection:
        if self.is_secure:
            return http.client.HTTPSConnection(
                self._host, self._port, timeout=self._timeout_s, context=self._context
            )
        return http.client.HTTPConnection(self._host, self._port, timeout=self._timeout_s)

    def _ask(
        self,
        connection: http.client.HTTPConnection,
        method: str,
        path: str,
        headers: Mapping[str, str],
        body: bytes,
    ) -> Response:
        keep = False
        try:
            connection.request(method, path, body, dict(headers))
            with connection.getresponse() as answer:
                content = answer.read(MAX_BYTES + 1)
                if len(content) > MAX_BYTES:
                    raise http.client.HTTPException(f"the answer has more than {MAX_BYTES} bytes")
                if answer.length:  # of what was announced
                    raise http.client.IncompleteRead(content, answer.length)
                keep = not answer.will_close and len(self._idle) < _MAX_IDLE
                given = {name.lower(): value for name, value in answer.getheaders()}
                return Response(answer.status, given, content)
        finally:
            if keep:
                self._idle.append(connection)
            else:
                connection.close()
            if self._is_closed:  # while this was under way: nobody comes for it any more
                self.close()

    def close(self) -> None:
        """Close the connections; those in use when their answer is in. Harmless when repeated."""
        self._is_closed = True
        with contextlib.suppress(IndexError):  # another thread may have taken the last one
            while True:
                self._idle.pop().close()
