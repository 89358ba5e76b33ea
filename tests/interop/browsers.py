"""Calls between a page in a real browser and us, over a wire that keeps every datagram.

page_calls:     page ─ POST offer ─▶ Desk ─▶ Server.accept_offer ─▶ answer ─▶ page
we_call_page:   Client offer ─▶ page ─▶ answer ─▶ our session
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import warp_tools.data
from interop.browser import Browser, Page
from interop.page_peer import PagePeer
from interop.site import Site
from interop.wire import Rule, Wire
from warp.ice import IceCredentials
from warp.io import Channel, ClientConfig, Server, ServerConfig, Session, connect, listen
from warp.trace import MemoryTrace

HOST = "127.0.0.1"
PATIENCE_S = 8.0
TALK = {"label": "talk", "negotiated": True, "id": 0}
SOUNDS = Path(warp_tools.data.__path__[0])
SPEECH = SOUNDS / "speech.wav"

Edit = Callable[[str], str]
Prepare = Callable[[Session], Channel | None]


def nothing(session: Session) -> None:
    """Prepare nothing."""


def prepared(session: Session) -> Channel:
    """Give our side of a call the pre-negotiated channel 0."""
    return session.channel("talk", negotiated=True, stream_id=0)


@dataclass
class Desk:
    """Our server behind HTTP: POST to /offer makes a session, to /again changes the last one."""

    server: Server
    wire: Wire
    trace: MemoryTrace
    site: Site
    prepare: Prepare = nothing
    delay_s: float = 0.0
    edit_offer: Edit = str
    edit_answer: Edit = str
    credentials: IceCredentials | None = None
    """Ours for the next session; None: drawn."""
    sessions: list[Session] = field(default_factory=list)
    channels: list[Channel | None] = field(default_factory=list)
    said: list[tuple[str, str]] = field(default_factory=list)
    """Offers and answers as their makers have written them."""

    async def offer(self, sdp: str) -> str:
        """Answer an offer with a new session."""
        await asyncio.sleep(self.delay_s)
        session = self.server.accept_offer(
            self.edit_offer(self.wire.through(sdp, ours=False)), credentials=self.credentials
        )
        self.sessions.append(session)
        self.channels.append(self.prepare(session))
        return await self._answered(sdp, session.answer)

    async def again(self, sdp: str) -> str:
        """Answer another offer of the last session's peer."""
        await asyncio.sleep(self.delay_s)
        return await self._answered(
            sdp, self.sessions[-1].accept_offer(self.wire.through(sdp, ours=False))
        )

    async def _answered(self, offer: str, answer: str) -> str:
        self.said.append((offer, answer))
        await asyncio.sleep(self.delay_s)
        return self.edit_answer(self.wire.through(answer, ours=True))


@contextlib.asynccontextmanager
async def open_desk(
    config: ServerConfig | None = None,
    *,
    delay_s: float = 0.0,
    loss: float = 0.0,
    seed: int = 0,
    rule: Rule | None = None,
    prepare: Prepare = nothing,
    edit_offer: Edit = str,
    edit_answer: Edit = str,
    headers: dict[str, str] | None = None,
    credentials: IceCredentials | None = None,
) -> AsyncIterator[Desk]:
    """Run a server, its wire and its site; `delay_s` holds for all ways, each way."""
    trace = MemoryTrace()
    files = {"/speech.wav": SPEECH, "/greeting.wav": SOUNDS / "greeting.wav"}
    with Wire(delay_s=delay_s, loss=loss, seed=seed) as wire:
        wire.rule = rule
        server = await listen(HOST, config=config, trace=trace)
        try:
            async with Site(files=files, headers=headers) as site:
                desk = Desk(
                    server,
                    wire,
                    trace,
                    site,
                    prepare,
                    delay_s,
                    edit_offer,
                    edit_answer,
                    credentials,
                )
                site.routes.update({"/offer": desk.offer, "/again": desk.again})
                yield desk
        finally:
            await server.close()


@dataclass
class PageCall:
    """A call between a page and us."""

    session: Session
    channel: Channel | None
    """What `prepare` has made of our session before anything was sent."""
    page: Page
    peer: PagePeer
    wire: Wire
    trace: MemoryTrace
    offer: str
    answer: str


@contextlib.asynccontextmanager
async def page_calls(
    browser: Browser,
    config: ServerConfig | None = None,
    *,
    delay_s: float = 0.0,
    loss: float = 0.0,
    seed: int = 0,
    rule: Rule | None = None,
    prepare: Prepare = nothing,
    edit_offer: Edit = str,
    edit_answer: Edit = str,
    headers: dict[str, str] | None = None,
    credentials: IceCredentials | None = None,
    **options: Any,
) -> AsyncIterator[PageCall]:
    """Hold a call that a page offers and our server answers; options: see `connect` in peer.js."""
    async with open_desk(
        config,
        delay_s=delay_s,
        loss=loss,
        seed=seed,
        rule=rule,
        prepare=prepare,
        edit_offer=edit_offer,
        edit_answer=edit_answer,
        headers=headers,
        credentials=credentials,
    ) as desk:
        page = await browser.open(desk.site.url)
        peer = await PagePeer.connect(page, "/offer", **{"channels": [TALK], **options})
        yield PageCall(
            desk.sessions[0], desk.channels[0], page, peer, desk.wire, desk.trace, *desk.said[0]
        )


@contextlib.asynccontextmanager
async def we_call_page(
    browser: Browser,
    config: ClientConfig | None = None,
    *,
    setup: str = "active",
    delay_s: float = 0.0,
    loss: float = 0.0,
    seed: int = 0,
    rule: Rule | None = None,
    prepare: Prepare = nothing,
    **options: Any,
) -> AsyncIterator[PageCall]:
    """Hold a call that we offer and a page answers; by itself it is the DTLS client."""
    trace = MemoryTrace()
    said: list[str] = []
    with Wire(delay_s=delay_s, loss=loss, seed=seed) as wire:
        wire.rule = rule
        async with Site(files={"/speech.wav": SPEECH}) as site:
            page = await browser.open(site.url)
            peer = await PagePeer.create(page, **{"channels": [TALK], **options})

            async def signal(offer: str) -> str:
                await asyncio.sleep(delay_s)
                edits = [["a=setup:active", f"a=setup:{setup}"]]
                answer = await peer.answer(wire.through(offer, ours=True), edits=edits)
                said.extend((offer, answer))
                await asyncio.sleep(delay_s)
                return wire.through(answer, ours=False)

            session = await connect(signal, config=config or ClientConfig(host=HOST), trace=trace)
            try:
                channel = prepare(session)
                yield PageCall(session, channel, page, peer, wire, trace, said[0], said[1])
            finally:
                await session.close()


async def talk(call: PageCall, *messages: str | bytes) -> None:
    """Wait until both ends are connected, and send each message each way on channel 0."""
    channel = call.channel
    if channel is None:
        raise AssertionError("the call has no channel: give it prepare=prepared")
    await call.session.connected(PATIENCE_S)
    await channel.opened()
    await call.peer.happened("connection:connected")
    await call.peer.happened("open:talk")
    for message in messages:
        channel.send(message)
        await call.peer.send("talk", message)
        assert await call.peer.receive("talk") == [message]
        assert await anext(channel) == message
