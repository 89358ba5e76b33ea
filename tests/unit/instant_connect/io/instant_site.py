"""The application over an Instant Connect server on loopback, and callers that have bundles."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any

import httpx

from instant_connect.answers import Status
from instant_connect.bundle import parse_bundle
from instant_connect.io import Accept, CallInfo, SignallingConfig, signalling_app
from instant_connect.io.client import InstantClient, Posted
from instant_connect.io.listening import InstantConfig, listen_instant
from instant_connect.io.server import InstantServer
from tests.unit.instant_connect.io.site import BASE, CALLS, HOST, SDP
from tests.unit.sdp.build import capture
from warp.io import ClientConfig, Session

CLIENT = ClientConfig(host=HOST)
OFFER = capture("chromium156_warp_offer")


class InstantSite:
    """An open application. `answered` holds what its handler was given, in order."""

    def __init__(self, server: InstantServer, web: httpx.AsyncClient) -> None:
        self.server = server
        self.web = web
        self.answered: list[tuple[Session, CallInfo]] = []
        self.responses: list[httpx.Response] = []
        self.hold: asyncio.Event | None = None
        """What the next offers wait for before they are posted."""

    async def post(self, offer: str, headers: Mapping[str, str]) -> Posted:
        """Signalling as a client does it."""
        if self.hold is not None:
            await self.hold.wait()
        response = await self.web.post(CALLS, content=offer, headers={**SDP, **headers})
        self.responses.append(response)
        assert response.status_code == 201, response.text
        return Posted(Status(response.headers.get("instant-status", "new")), response.text)

    async def fill(self, client: InstantClient) -> None:
        """Fetch a bundle."""
        response = await self.web.get("/v1/instant")
        assert response.status_code == 200, response.text
        client.wallet.put(parse_bundle(response.text), asyncio.get_running_loop().time())

    async def accepted(self, count: int = 1) -> tuple[Session, CallInfo]:
        """The call that the application was given last, once it has been given so many."""
        await until(lambda: len(self.answered) >= count)
        assert len(self.answered) == count
        return self.answered[-1]

    @property
    def live(self) -> int:
        """How many sessions there are, proven or not."""
        return len(self.server.server.sessions)


async def until(condition: Any, timeout_s: float = 5.0) -> None:
    """Wait for something that other tasks bring about."""
    async with asyncio.timeout(timeout_s):
        while not condition():
            await asyncio.sleep(0.002)


@asynccontextmanager
async def open_instant_site(
    accept: Accept | None = None, instant: InstantConfig | None = None, **options: Any
) -> AsyncIterator[InstantSite]:
    """An application whose handler only takes notes, unless given."""
    config = {name: options.pop(name) for name in list(options) if name in _CONFIG}
    async with await listen_instant(HOST, config=instant) as made:
        notes: list[InstantSite] = []

        def note(session: Session, info: CallInfo) -> None:
            notes[0].answered.append((session, info))

        app = signalling_app(
            made, accept=accept or note, config=SignallingConfig(**config), **options
        )
        transport = httpx.ASGITransport(app=app, client=("192.0.2.1", 4711))
        async with (
            app.router.lifespan_context(app),
            httpx.AsyncClient(transport=transport, base_url=BASE) as web,
        ):
            notes.append(InstantSite(made, web))
            yield notes[0]


_CONFIG = frozenset(SignallingConfig.__slots__)
