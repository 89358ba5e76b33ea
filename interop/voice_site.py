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

from instant_connect.io import InstantServer, SignallingConfig, signalling_app
from interop.far import Edit, Far
from interop.wire import HOST, Wire
from warp.io import ServerConfig
from warp_tools.serve import EchoServer, open_echo_server
from warp_tools.web import open_web_port, run_web, web_url

if TYPE_CHECKING:
    from starlette.types import ASGIApp


@dataclass(frozen=True, slots=True, kw_only=True)
class VoiceSite:
    """A running server; made by `voice_site`."""

    url: str
    """The address of our page."""
    echoes: EchoServer
    wire: Wire
    """What its datagrams go through, if it is far."""
    far: Far | None
    """What its answers go through, if it is far."""
    stop: asyncio.Event
    """Set it to end the web server, and with it every call."""

    @property
    def calls(self) -> int:
        """How many sessions are alive."""
        server = self.echoes.server
        plain = server.server if isinstance(server, InstantServer) else server
        return len(plain.sessions)

    def hold_offers(self) -> None:
        """From now on let no offer arrive; only where the site is far."""
        if self.far is None:
            raise ValueError("a site that is not far has nobody who could hold offers")
        self.far.hold = asyncio.Event()


@asynccontextmanager
async def voice_site(
    *,
    rtt_s: float = 0.0,
    far: bool = False,
    max_calls: int = 100,
    instant: bool = True,
    edit_bundle: Edit | None = None,
) -> AsyncIterator[VoiceSite]:
    """Serve the page, signalling and an echo; gone when left.

    Calls go straight to the server's port, unless there is a distance or the server is `far`;
    bundles are changed only on a way like that. Without `instant` every call is signalled.
    """
    listener = open_web_port(HOST, 0)
    url = web_url(HOST, listener.getsockname()[1]) + "/"
    echoes = await open_echo_server(HOST, 0, ServerConfig(early_data=True), instant=instant)
    app: ASGIApp = signalling_app(
        echoes.server,
        accept=echoes.receive_call,
        config=SignallingConfig(max_calls=max_calls),
    )
    stop = asyncio.Event()
    with Wire(delay_s=rtt_s / 2) as wire:
        distance = None
        if far or rtt_s or edit_bundle is not None:
            app = distance = Far(app, wire, rtt_s / 2)
            distance.edit_bundle = edit_bundle
        running = asyncio.create_task(run_web(app, listener, stop))
        try:
            yield VoiceSite(url=url, echoes=echoes, wire=wire, far=distance, stop=stop)
        finally:
            stop.set()
            await running
            await echoes.close()
