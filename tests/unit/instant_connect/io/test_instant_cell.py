"""Two servers of a cell with an application each: offers go where their attempts are."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager

import httpx
import pytest

from instant_connect.answers import Status
from instant_connect.bundle import parse_bundle
from instant_connect.exchange import Ask, Reply
from instant_connect.host import HostConfig
from instant_connect.io import CallInfo, Kind, signalling_app
from instant_connect.io.client import InstantClient, Posted
from instant_connect.io.listening import InstantConfig, listen_instant
from instant_connect.io.server import InstantServer
from instant_connect.keyring import Keyring
from instant_connect.router import Roster
from instant_connect.sessions import Path
from tests.unit.instant_connect.io.instant_site import CLIENT, until
from tests.unit.instant_connect.io.site import BASE, CALLS, HOST, SDP
from tests.unit.io.support import play
from warp.entropy import SystemEntropy
from warp.io import Session


class Cell:
    """Two servers; `forwarded` notes where offers went, `broken` cuts the way."""

    def __init__(self) -> None:
        self.servers: list[InstantServer] = []
        self.webs: list[httpx.AsyncClient] = []
        self.answered: list[tuple[int, CallInfo]] = []
        self.forwarded: list[int] = []
        self.broken = False

    async def forward(self, server: int, ask: Ask, kind: Kind) -> Reply:
        self.forwarded.append(server)
        if self.broken:
            raise ConnectionError("nobody there")
        assert ask.hops == 1
        transport = self.webs[server]._transport
        assert isinstance(transport, httpx.ASGITransport)
        reply: Reply = await transport.app.state.open(ask, kind)  # type: ignore[attr-defined]
        return reply

    async def client_of(self, number: int, *, posts_to: int, path: str = CALLS) -> InstantClient:
        """A client with a bundle of one server, whose offers go to another."""

        async def post(offer: str, headers: Mapping[str, str]) -> Posted:
            if path == CALLS:
                response = await self.webs[posts_to].post(
                    CALLS, content=offer, headers={**SDP, **headers}
                )
                text = response.text
            else:
                response = await self.webs[posts_to].post(
                    path, json={"sdp": offer, "type": "offer"}, headers=dict(headers)
                )
                text = response.json()["sdp"]
            return Posted(Status(response.headers["instant-status"]), text)

        client = InstantClient(post=post, config=CLIENT)
        bundle = parse_bundle((await self.webs[number].get("/v1/instant")).text)
        client.wallet.put(bundle, asyncio.get_running_loop().time())
        return client


@asynccontextmanager
async def open_cell() -> AsyncIterator[Cell]:
    cell = Cell()
    ring = Keyring.generate(SystemEntropy(), 1.79e9)
    for number in (0, 1):
        config = InstantConfig(host=HostConfig(server=number))
        server = await listen_instant(HOST, keyring=ring, config=config)
        server.set_roster(Roster.of(0, 1))
        cell.servers.append(server)

        def accept(session: Session, info: CallInfo, number: int = number) -> None:
            cell.answered.append((number, info))

        app = signalling_app(server, accept=accept, forward=cell.forward)
        cell.webs.append(httpx.AsyncClient(transport=httpx.ASGITransport(app=app), base_url=BASE))
    async with cell.servers[0], cell.servers[1], cell.webs[0], cell.webs[1]:
        yield cell


@pytest.mark.parametrize("path", [CALLS, "/api/offer"])
def test_an_offer_goes_where_its_attempt_is(path: str) -> None:
    async def story() -> None:
        async with open_cell() as cell:
            async with await cell.client_of(1, posts_to=0, path=path) as client:
                await client.connect()
                await until(lambda: cell.answered and cell.forwarded)
                [(number, _)] = cell.answered
                assert (number, cell.forwarded) == (1, [1])
                await until(lambda: cell.servers[1].stats()["proven"])
                assert [len(server.sessions) for server in cell.servers] == [0, 1]
                [session] = cell.servers[1].host.sessions.all()
                await until(lambda: session.path is Path.ATTACHED)
            await until(lambda: not cell.servers[1].sessions)

    play(story)


def test_an_offer_is_answered_here_when_there_is_no_way_to_its_attempt() -> None:
    async def story() -> None:
        async with open_cell() as cell:
            cell.broken = True
            async with await cell.client_of(1, posts_to=0) as client:
                # nobody hears its first datagrams either
                await cell.servers[1].close()
                await client.connect()
                await until(lambda: cell.answered)
                [(number, info)] = cell.answered
                assert (number, info.path) == (0, Path.SIGNALLED)
            await until(lambda: not cell.servers[0].sessions)

    play(story)
