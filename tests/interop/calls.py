"""Calls between aiortc and us over real sockets, either side offering.

aiortc_calls: createOffer ─▶ Server.accept_offer ─▶ setRemoteDescription
we_call:      connect ─ offer ─▶ setRemoteDescription, createAnswer ─▶ answer
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable
from typing import TYPE_CHECKING, TypeVar

from warp.io import ClientConfig, ServerConfig, Session, WarpOptions, connect, listen

if TYPE_CHECKING:
    from aiortc import RTCDataChannel, RTCPeerConnection

HOST = "127.0.0.1"
CONNECT_S = 5.0

T = TypeVar("T")
Edit = Callable[[str], str]
Prepare = Callable[["RTCPeerConnection"], T]


def new_peer() -> RTCPeerConnection:
    """Return a connection of aiortc's that asks no STUN server."""
    from aiortc import RTCConfiguration, RTCPeerConnection

    return RTCPeerConnection(RTCConfiguration(iceServers=[]))


async def offer_of(peer: RTCPeerConnection) -> str:
    """Return aiortc's offer, applied."""
    await peer.setLocalDescription(await peer.createOffer())
    return str(peer.localDescription.sdp)


async def take_answer(peer: RTCPeerConnection, answer: str) -> None:
    """Give aiortc the answer to its offer."""
    from aiortc import RTCSessionDescription

    await peer.setRemoteDescription(RTCSessionDescription(answer, "answer"))


async def answer_of(peer: RTCPeerConnection, offer: str, *, setup: str = "active") -> str:
    """Return aiortc's answer to an offer, applied; by itself it is always the DTLS client."""
    from aiortc import RTCSessionDescription

    await peer.setRemoteDescription(RTCSessionDescription(offer, "offer"))
    answer = await peer.createAnswer()
    sdp = answer.sdp.replace("a=setup:active", f"a=setup:{setup}")
    await peer.setLocalDescription(RTCSessionDescription(sdp, "answer"))
    return str(peer.localDescription.sdp)


@contextlib.asynccontextmanager
async def aiortc_calls(
    prepare: Prepare[T],
    config: ServerConfig | None = None,
    *,
    edit_offer: Edit = str,
    edit_answer: Edit = str,
) -> AsyncIterator[tuple[Session, RTCPeerConnection, T]]:
    """Hold a call that aiortc offers and our server answers; closes both in the end.

    Yields our session, aiortc's connection, and what `prepare` made of it.
    """
    server = await listen(HOST, config=config)
    peer = new_peer()
    try:
        made = prepare(peer)
        session = server.accept_offer(edit_offer(await offer_of(peer)))
        await take_answer(peer, edit_answer(session.answer))
        yield session, peer, made
    finally:
        await server.close()
        await peer.close()


@contextlib.asynccontextmanager
async def we_call(
    prepare: Prepare[T],
    warp: WarpOptions | None = None,
    *,
    setup: str = "active",
    edit_answer: Edit = str,
) -> AsyncIterator[tuple[Session, RTCPeerConnection, T]]:
    """Hold a call that we offer and aiortc answers; yields as `aiortc_calls`."""
    peer = new_peer()
    made: list[T] = []

    async def signal(offer: str) -> str:
        made.append(prepare(peer))
        return edit_answer(await answer_of(peer, offer, setup=setup))

    config = ClientConfig(host=HOST, warp=warp or WarpOptions())
    try:
        session = await connect(signal, config=config)
        try:
            yield session, peer, made[0]
        finally:
            await session.close()
    finally:
        await peer.close()


class Wire:
    """A data channel of aiortc's with its messages and its end as awaitables."""

    def __init__(self, channel: RTCDataChannel) -> None:
        self.channel = channel
        self.messages: asyncio.Queue[str | bytes] = asyncio.Queue()
        self.opened = asyncio.Event()
        self.closed = asyncio.Event()
        channel.on("open", self.opened.set)
        channel.on("close", self.closed.set)
        channel.on("message", self.messages.put_nowait)
        if channel.readyState == "open":
            self.opened.set()

    def send(self, message: str | bytes) -> None:
        """Send a message."""
        self.channel.send(message)

    async def next(self) -> str | bytes:
        """Return the next message received."""
        return await self.messages.get()


def announced_channels(peer: RTCPeerConnection) -> asyncio.Queue[Wire]:
    """Return a queue of the channels that the other side opens on `peer`."""
    queue: asyncio.Queue[Wire] = asyncio.Queue()
    peer.on("datachannel", lambda channel: queue.put_nowait(Wire(channel)))
    return queue


def talk_channel(peer: RTCPeerConnection) -> Wire:
    """Give a connection the pre-negotiated channel 0."""
    return Wire(peer.createDataChannel("talk", negotiated=True, id=0))


async def state_of(peer: RTCPeerConnection, *wanted: str) -> str:
    """Wait until aiortc says that its connection is in one of these states."""
    changed = asyncio.Event()
    peer.on("connectionstatechange", changed.set)
    while peer.connectionState not in wanted:
        changed.clear()
        await changed.wait()
    return str(peer.connectionState)
