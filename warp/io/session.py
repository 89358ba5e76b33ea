"""One call as an asyncio object: audio in, audio out, channels, and one reason for its end."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

from warp import datachannel
from warp.errors import HandshakeTimedOut, UsageError, WarpError
from warp.io.audio import AudioIn, AudioOut
from warp.io.channel import Channel
from warp.io.driver import Driver, Port, RawAddress
from warp.peer import (
    AudioReceived,
    ConnectionState,
    FlowAuthenticated,
    MediaReady,
    PeerConnection,
    StateChanged,
    Terminated,
)


class Session:
    """A live connection. Made by `warp.io.Server.accept_offer` and `warp.io.connect`."""

    __slots__ = (
        "_channels",
        "_closed",
        "_connected",
        "_owner",
        "_unclaimed",
        "answer",
        "audio_in",
        "audio_out",
        "deadline",
        "driver",
        "peer",
        "routes",
        "touched",
    )

    def __init__(self, driver: Driver, peer: PeerConnection, owner: SessionOwner) -> None:
        self.driver = driver
        self.peer = peer
        self.answer = ""
        self.deadline: float | None = None
        self.touched = 0
        self.routes: list[tuple[Port, RawAddress]] = []
        self._owner = owner
        self._channels: dict[int, Channel] = {}
        self._unclaimed: asyncio.Queue[Channel] = asyncio.Queue()
        self._connected: asyncio.Future[None] = driver.loop.create_future()
        self._closed: asyncio.Future[WarpError | None] = driver.loop.create_future()
        self.audio_in = AudioIn()
        self.audio_out = AudioOut(self)

    # -- the application's side ---------------------------------------------------------------

    async def connected(self, timeout_s: float = 30.0) -> None:
        """Wait until the peer is authenticated; raises what ended the session if it ends first."""
        waiter = asyncio.shield(self._connected)
        closed = asyncio.shield(self._closed)
        done, _ = await asyncio.wait(
            (waiter, closed), timeout=timeout_s, return_when=asyncio.FIRST_COMPLETED
        )
        if waiter in done:
            return
        if closed in done:
            raise closed.result() or UsageError("the session was closed before it connected")
        raise HandshakeTimedOut(f"not connected after {timeout_s:g} s")

    @property
    def state(self) -> ConnectionState:
        """Where the connection stands."""
        return self.peer.state

    @property
    def closed(self) -> asyncio.Future[WarpError | None]:
        """Awaitable end: the error that ended the session, or None when it was closed on purpose.

        Cancelling the await does not harm the session.
        """
        return asyncio.shield(self._closed)

    def channel(
        self,
        label: str = "",
        *,
        protocol: str = "",
        ordered: bool = True,
        max_retransmits: int | None = None,
        max_packet_lifetime_s: float | None = None,
        negotiated: bool = False,
        stream_id: int | None = None,
    ) -> Channel:
        """Open a data channel; with `negotiated`, both ends call this with the same `stream_id`."""
        config = datachannel.ChannelConfig(
            label=label,
            protocol=protocol,
            ordered=ordered,
            max_retransmits=max_retransmits,
            max_packet_lifetime_s=max_packet_lifetime_s,
            negotiated=negotiated,
            stream_id=stream_id,
        )
        inner = self.peer.create_channel(config, self.driver.loop.time())
        self.driver.flush_soon(self)
        return self._wrap(inner)

    async def channels(self) -> AsyncIterator[Channel]:
        """Iterate over the channels that the peer opens (DCEP, RFC 8832)."""
        while not self._closed.done():
            getter = asyncio.ensure_future(self._unclaimed.get())
            closed = self.closed
            await asyncio.wait((getter, closed), return_when=asyncio.FIRST_COMPLETED)
            if getter.done():
                yield getter.result()
            else:
                getter.cancel()

    async def close(self) -> None:
        """Say goodbye and end; every task of the session is gone when this returns."""
        if not self._closed.done():
            self.peer.close(self.driver.loop.time())
            self.driver.flush(self)
        await self._closed

    def stats(self) -> dict[str, Any]:
        """Return counters and the times of the start's milestones (monotonic seconds)."""
        return self.peer.stats()

    # -- the driver's side --------------------------------------------------------------------

    def receive_events(self, now: float) -> None:
        """Drain the peer's events and wake whom they concern."""
        for event in self.peer.events():
            if type(event) is AudioReceived:
                self.audio_in._receive(event.frames)
            elif type(event) is datachannel.ChannelMessage:
                self._wrap(event.channel)._receive(event.data)
            elif isinstance(event, MediaReady):
                self.audio_out._ready()
            elif isinstance(event, FlowAuthenticated):
                self._owner.route(self, event)
            elif isinstance(event, StateChanged):
                if event.state is ConnectionState.CONNECTED and not self._connected.done():
                    self._connected.set_result(None)
            elif isinstance(event, Terminated):
                self._end(event.error)
            elif isinstance(event, datachannel.ChannelAnnounced):
                self._unclaimed.put_nowait(self._wrap(event.channel))
            elif isinstance(
                event,
                datachannel.ChannelOpened
                | datachannel.ChannelClosed
                | datachannel.BufferedAmountLow,
            ):
                self._wrap(event.channel)._wake()

    def _wrap(self, inner: datachannel.Channel) -> Channel:
        channel = self._channels.get(id(inner))
        if channel is None:
            channel = self._channels[id(inner)] = Channel(self, inner)
        if inner.state is datachannel.ChannelState.CLOSED:
            self._channels.pop(id(inner), None)
        return channel

    def _end(self, error: WarpError | None) -> None:
        if self._closed.done():
            return
        self.driver.forget(self)
        self.audio_in._close()
        self.audio_out._close()
        for channel in list(self._channels.values()):
            channel._wake()
        self._channels.clear()
        self._owner.release(self)
        self._closed.set_result(error)


class SessionOwner:
    """What a server or a client does for its sessions."""

    def route(self, session: Session, event: FlowAuthenticated) -> None:
        """Lead the event's address to the session."""
        raise NotImplementedError

    def release(self, session: Session) -> None:
        """Forget a session that has ended."""
        raise NotImplementedError
