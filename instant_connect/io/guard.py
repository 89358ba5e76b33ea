"""Around every route: pages of other origins, their preflights, that no call is cached, and that
whoever is answered before its time has been listened to.

Called by Starlette as the middleware of `asgi`; the rules are those of `instant_connect.origins`.
"""

from __future__ import annotations

from typing import Final

from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send
from starlette.websockets import WebSocket

from instant_connect.exchange import Refusal, Reply
from instant_connect.io.body import Rest
from instant_connect.origins import (
    cors_headers,
    is_preflight,
    preflight_headers,
    require_origin,
)

METHODS: Final = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS")
SAFE: Final = ("GET", "HEAD", "OPTIONS")
_POLICY: Final = 1008  # RFC 6455 section 7.4.1


class Guard:
    """The middleware. `origins` are those of pages elsewhere that may call."""

    def __init__(self, app: ASGIApp, *, origins: tuple[str, ...], read_timeout_s: float) -> None:
        self._app = app
        self._origins = origins
        self._read_timeout_s = read_timeout_s

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        headers = {
            name.decode("latin-1"): value.decode("latin-1") for name, value in scope["headers"]
        }
        rest = Rest(headers, receive, self._read_timeout_s)
        extra = cors_headers(headers, self._origins)
        response: Response | None = None
        if is_preflight(scope["method"], headers):
            extra += preflight_headers(METHODS)
        elif scope["method"] not in SAFE:
            try:
                require_origin(headers, self._origins)
            except Refusal as refusal:
                response = response_of(refusal.reply())

        async def send_guarded(message: Message) -> None:
            if message["type"] == "http.response.start":
                await rest.drop()
                given = message.setdefault("headers", [])
                names = {name.lower() for name, _ in given}
                if b"cache-control" not in names:
                    given.append((b"cache-control", b"no-store"))
                if b"x-content-type-options" not in names:
                    given.append((b"x-content-type-options", b"nosniff"))
                given += [(name.lower().encode(), value.encode("latin-1")) for name, value in extra]
            await send(message)

        await (response or self._app)(scope, rest.receive, send_guarded)


def response_of(reply: Reply) -> Response:
    """Return the response that a reply describes."""
    response = Response(reply.body, status_code=reply.status)
    if reply.content_type:
        response.headers["Content-Type"] = reply.content_type
    for name, value in reply.headers:
        response.headers.append(name, value)
    return response


async def deny(socket: WebSocket, refusal: Refusal) -> None:
    """Refuse a WebSocket before it is one, with the status where the server can say it."""
    if "websocket.http.response" in socket.scope.get("extensions", {}):
        await socket.send_denial_response(response_of(refusal.reply()))
    else:
        await socket.close(_POLICY, refusal.code)
