"""A server with Instant Connect and its signalling on this event loop, at a distance.

It is the product's own: `listen_instant`, `signalling_app` and the page's module; only the page
that makes the calls is ours (interop/pages/instant.html).
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from starlette.applications import Starlette
from starlette.routing import Mount
from starlette.staticfiles import StaticFiles

from instant_connect.io import Arrival, InstantServer, listen_instant, signalling_app
from interop.far import Far
from interop.measure.start import greeting
from interop.site import PAGES
from interop.wire import HOST, Wire
from warp_tools.web import open_web_port, run_web, web_url

_SITE = "localhost"  # an origin that browsers trust with a microphone


@dataclass(slots=True, kw_only=True)
class InstantSite:
    """A running site; made by `instant_site`."""

    url: str
    server: InstantServer
    far: Far
    begun: list[Arrival] = field(default_factory=list)
    """Every session that has begun, proven or not, since somebody emptied the list."""

    @property
    def page(self) -> str:
        """The address of the page that calls."""
        return f"{self.url}pages/instant.html"

    def greet(self, arrival: Arrival) -> None:
        """Note a session, and speak as soon as something may leave."""
        self.begun.append(arrival)
        for payload in greeting():
            arrival.session.audio_out.send(payload, non_personal=True)


@asynccontextmanager
async def instant_site(*, rtt_s: float = 0.0) -> AsyncIterator[InstantSite]:
    """Serve until left; signalling and datagrams take `rtt_s` there and back."""
    greeting()
    listener = open_web_port(HOST, 0)
    url = web_url(_SITE, listener.getsockname()[1]) + "/"
    server = await listen_instant(HOST)
    app = Starlette(
        routes=[
            Mount("/pages", StaticFiles(directory=PAGES)),
            Mount("/", signalling_app(server, accept=lambda session, info: None)),
        ]
    )
    stop = asyncio.Event()
    with Wire(delay_s=rtt_s / 2) as wire:
        site = InstantSite(url=url, server=server, far=Far(app, wire, rtt_s / 2))
        server.set_greet(site.greet)
        running = asyncio.create_task(run_web(site.far, listener, stop))
        try:
            yield site
        finally:
            stop.set()
            await running
            await server.close()
