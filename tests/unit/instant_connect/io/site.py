"""The application over a real server on loopback, asked without a socket for HTTP."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import httpx

from instant_connect.io import Accept, CallInfo, SignallingConfig, signalling_app
from tests.unit.sdp.build import capture
from warp.io import Server, ServerConfig, Session, listen

HOST = "127.0.0.1"
BASE = "http://voice.example"
OFFER = capture("chromium156_warp_offer")
SDP = {"Content-Type": "application/sdp"}
FRAGMENT = {"Content-Type": "application/trickle-ice-sdpfrag", "If-Match": "*"}
CALLS = "/v1/realtime/calls"


class Site:
    """An open application: `client` asks it, `answered` holds what its handler was given."""

    def __init__(self, server: Server, client: httpx.AsyncClient) -> None:
        self.server = server
        self.client = client
        self.answered: list[tuple[Session, CallInfo]] = []

    async def post(self, path: str = "/whip", offer: str = OFFER, **headers: str) -> httpx.Response:
        return await self.client.post(path, content=offer, headers={**SDP, **headers})


OF_ROUTES = ("authorize", "more_metrics")


@asynccontextmanager
async def open_site(
    accept: Accept | None = None, server: ServerConfig | None = None, **options: Any
) -> AsyncIterator[Site]:
    """An application whose handler only takes notes, unless given."""
    config = {name: options.pop(name) for name in list(options) if name not in OF_ROUTES}

    async with await listen(HOST, config=server) as made:
        notes: list[Site] = []

        def note(session: Session, info: CallInfo) -> None:
            notes[0].answered.append((session, info))

        app = signalling_app(
            made, accept=accept or note, config=SignallingConfig(**config), **options
        )
        transport = httpx.ASGITransport(app=app, client=("192.0.2.1", 4711))
        async with (
            app.router.lifespan_context(app),
            httpx.AsyncClient(transport=transport, base_url=BASE) as client,
        ):
            notes.append(Site(made, client))
            yield notes[0]
