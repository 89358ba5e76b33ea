"""HTTP at a distance: answers a round trip later, and addresses in them that lead through a wire.

tab ─ request ─ half ─▶ application ─ answer, candidates rewritten ─ half ─▶ tab
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from starlette.responses import Response

from instant_connect.exchange import JSON, SDP
from interop.wire import Wire

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

Edit = Callable[[dict[str, Any]], None]
"""Changes a bundle on its way to the page."""
Refuse = Callable[[str, str], int | None]
"""Says for method and path which status is answered, unasked; None: the application is asked."""


class Far:
    """An ASGI application whose answers come a round trip later, and lead through a wire."""

    def __init__(self, app: ASGIApp, wire: Wire, delay_s: float) -> None:
        self._app = app
        self.wire = wire
        """May be replaced between two calls."""
        self.delay_s = delay_s
        """Of each way."""
        self.edit_bundle: Edit | None = None
        self.refuse: Refuse | None = None
        self.hold: asyncio.Event | None = None
        """What POSTs wait for on their way."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        start: Message = {}
        body = b""

        async def gather(message: Message) -> None:
            nonlocal body
            if message["type"] == "http.response.start":
                start.update(message)
            else:
                body += message.get("body", b"")

        method, path = scope["method"], scope["path"]
        await asyncio.sleep(self.delay_s)
        if self.hold is not None and method == "POST":
            await self.hold.wait()
        status = None if self.refuse is None else self.refuse(method, path)
        app = self._app if status is None else Response(status_code=status)
        await app(scope, receive, gather)
        headers = dict(start["headers"])
        body = self._rewritten(headers.get(b"content-type", b"").decode(), body)
        if b"content-length" in headers:
            headers[b"content-length"] = str(len(body)).encode()
        await asyncio.sleep(self.delay_s)
        await send({**start, "headers": list(headers.items())})
        await send({"type": "http.response.body", "body": body})

    def _rewritten(self, kind: str, body: bytes) -> bytes:
        if kind == SDP:
            return self.wire.through(body.decode(), ours=True).encode()
        if kind != JSON or b'"candidates"' not in body:
            return body
        bundle = json.loads(body)
        addresses = [line.split() for line in bundle["candidates"]]
        aliases = [self.wire.alias((host, int(port)), ours=True) for _, host, port in addresses]
        bundle["candidates"] = [f"udp {host} {port}" for host, port in aliases]
        if self.edit_bundle is not None:
            self.edit_bundle(bundle)
        return json.dumps(bundle).encode()
