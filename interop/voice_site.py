"""What `warp serve` runs, on this event loop and, if wanted, at a distance.

    tab ─ HTTP ─ delay ─▶ signalling_app ─▶ EchoServer        the page, and signalling
    tab ═ UDP ═ Wire ═══▶ its port                            everything else

The delay is half a round trip each way, of signalling and of datagrams alike.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from instant_connect.exchange import SDP
from instant_connect.io import SignallingConfig, signalling_app
from interop.wire import HOST, Wire
from warp.io import ServerConfig
from warp_tools.serve import EchoServer, open_echo_server
from warp_tools.web import open_web_port, run_web, web_url

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Message, Receive, Scope, Send


class _Far:
    """An application whose answers come a round trip later, and lead through a wire."""

    def __init__(self, app: ASGIApp, wire: Wire, delay_s: float) -> None:
        self._app = app
        self._wire = wire
        self._delay_s = delay_s

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

        await asyncio.sleep(self._delay_s)
        await self._app(scope, receive, gather)
        headers = dict(start["headers"])
        if headers.get(b"content-type", b"") == SDP.encode():
            body = self._wire.through(body.decode(), ours=True).encode()
            headers[b"content-length"] = str(len(body)).encode()
        await asyncio.sleep(self._delay_s)
        await send({**start, "headers": list(headers.items())})
        await send({"type": "http.response.body", "body": body})


@dataclass(frozen=True, slots=True, kw_only=True)
class VoiceSite:
    """A running server; made by `voice_site`."""

    url: str
    """The address of our page."""
    echoes: EchoServer
    wire: Wire
    """What its datagrams go through, if it is far."""
    stop: asyncio.Event
    """Set it to end the web server, and with it every call."""

    @property
    def calls(self) -> int:
        """How many sessions are alive."""
        return len(self.echoes.server.sessions)


@asynccontextmanager
async def voice_site(
    *, rtt_s: float = 0.0, far: bool = False, max_calls: int = 100
) -> AsyncIterator[VoiceSite]:
    """Serve the page, signalling and an echo; gone when left.

    Calls go straight to the server's port, unless there is a distance or the server is `far`.
    """
    listener = open_web_port(HOST, 0)
    url = web_url(HOST, listener.getsockname()[1]) + "/"
    echoes = await open_echo_server(HOST, 0, ServerConfig(early_data=True))
    app: ASGIApp = signalling_app(
        echoes.server,
        accept=echoes.receive_call,
        config=SignallingConfig(max_calls=max_calls),
    )
    stop = asyncio.Event()
    with Wire(delay_s=rtt_s / 2) as wire:
        if far or rtt_s:
            app = _Far(app, wire, rtt_s / 2)
        running = asyncio.create_task(run_web(app, listener, stop))
        try:
            yield VoiceSite(url=url, echoes=echoes, wire=wire, stop=stop)
        finally:
            stop.set()
            await running
            await echoes.close()
