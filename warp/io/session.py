"""One call as an asyncio object: audio in, audio out, channels, and one reason for its end."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Generator
from typing import Any

from warp import datachannel
from warp.contract import Event
from warp.errors import HandshakeTimedOut, InternalError, UsageError, WarpError
from warp.ice import parse_candidate
from warp.io.audio import AudioIn, AudioOut
from warp.io.channel import Channel
from warp.io.driver import Driver
from warp.io.inbox import Inbox
from warp.io.port import Port, RawAddress
from warp.io.trickle import Trickle
from warp.peer import (
    AudioReceived,
    ConnectionState,
    FlowAuthenticated,
    MediaReady,
    PeerConnection,
    StateChanged,
    Terminated,
)
from warp.trace import Trace

MAX_UNCLAIMED = 1024  # channels of the peer's that nobody has asked for yet
Signal = Callable[[str], Awaitable[str]]


def _release(waiter: asyncio.Future[None]) -> None:
    if not waiter.done():
        waiter.set_result(None)


class SessionOwner:
    """What a server or a client does for its sessions."""

    def register(self, session: Session) -> None:
        """Know the session by every ufrag that may name it."""

    def route(self, session: Session, event: FlowAuthenticated) -> None:
        """Lead the event's address to the session."""
        raise NotImplementedError

    def connected(self, session: Session) -> None:
        """The session's peer is authenticated."""

    def release(self, session: Session) -> None:
        """Forget a session that has ended."""
        raise NotImplementedError

    def resolves_names(self) -> bool:
        """Whether `.local` names of the peer are of use: to whoever sends checks."""
        return True


class Ending:
    """The end of a session, to be awaited by anybody, any number of times.

    Yields the error that ended it, or None when either side closed it on purpose. Cancelling the
    await does not harm the session.
    """

    __slots__ = ("_future",)

    def __init__(self, future: asyncio.Future[WarpError | None]) -> None:
        self._future = future

    def __await__(self) -> Generator[Any, None, WarpError | None]:
        return asyncio.shield(self._future).__await__()

    def done(self) -> bool:
        """Whether the session has ended."""
        return self._future.done()

    def result(self) -> WarpError | None:
        """Return what ended it; raises `asyncio.InvalidStateError` before the end."""
        return self._future.result()

    def add_done_callback(self, callback: Callable[[Ending], object]) -> None:
        """Call `callback` with this object at the end, soon when that is past."""
        self._future.add_done_callback(lambda _: callback(self))


class Session:
    """A live connection. Made by `Server.accept_offer`, `Client.connect` and `connect`."""

    __slots__ = (
        "_channels",
        "_closed",
        "_connected",
        "_owner",
        "_trickle",
        "_unclaimed",
        "_waiting",
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
        self._unclaimed: Inbox[Channel] | None = None
        self._trickle: Trickle | None = None
        self._connected = False
        self._waiting: list[asyncio.Future[None]] = []
        self._closed: asyncio.Future[WarpError | None] = driver.loop.create_future()
        self.audio_in = AudioIn(driver, peer)
        self.audio_out = AudioOut(driver, peer)

    # -- the application's side ---------------------------------------------------------------

    async def connected(self, timeout_s: float = 30.0) -> None:
        """Wait until the peer is authenticated.

        Raises what ended the session if it ends first, `UsageError` if it was closed, and
        `HandshakeTimedOut` after `timeout_s`; the session itself goes on then.
        """
        if not self._connected and not self._closed.done():
            waiter: asyncio.Future[None] = self.driver.loop.create_future()
            self._waiting.append(waiter)
            timer = self.driver.loop.call_later(timeout_s, _release, waiter)
            try:
                await waiter
            finally:
                timer.cancel()
                if waiter in self._waiting:
                    self._waiting.remove(waiter)
        if self._connected:
            return
        if self._closed.done():
            raise self._closed.result() or UsageError("the session was closed before it connected")
        raise HandshakeTimedOut(f"not connected after {timeout_s:g} s")

    def _release_waiting(self) -> None:
        """Wake everybody who waits for the peer to be authenticated."""
        waiting, self._waiting = self._waiting, []
        for waiter in waiting:
            _release(waiter)

    async def __aenter__(self) -> Session:
        """Use the session for a block; it is closed when the block is left, however."""
        return self

    async def __aexit__(self, *exception: object) -> None:
        await self.close()

    @property
    def state(self) -> ConnectionState:
        """Where the connection stands."""
        return self.peer.state

    @property
    def remote_description(self) -> str:
        """The peer's description in force, as we understood it."""
        return self.peer.remote_description

    @property
    def closed(self) -> Ending:
        """The end, awaitable: the error that ended the session, or None when it was closed."""
        return Ending(self._closed)

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
        """Open a data channel; with `negotiated`, both ends call this with the same `stream_id`.

        Raises `InvalidConfig` for parameters that do not go together and `InvalidState` when the
        session has ended.
        """
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
        if self._connected:  # until then nothing leaves, and then everything does
            self.driver.flush_soon(self)
        return self._wrap(inner)

    def channels(self) -> Inbox[Channel]:
        """Iterate over the channels that the peer opens (DCEP, RFC 8832), until the end."""
        if self._unclaimed is None:
            self._unclaimed = Inbox()
            if self._closed.done():
                self._unclaimed.close()
        return self._unclaimed

    def local_candidates(self) -> Inbox[str]:
        """Iterate over candidate lines found after our description was made (RFC 8838).

        An application with trickle signalling passes them to the peer; ends when no more will
        come. Nothing depends on it towards a server with a public address.
        """
        if self._trickle is not None:
            return self._trickle.lines
        none: Inbox[str] = Inbox()
        none.close()
        return none

    def add_remote_candidate(self, line: str | None) -> None:
        """Take in a candidate line that the peer trickled; None or an empty one: no more come.

        A `.local` name is looked up by multicast DNS. Raises `InvalidConfig` for a line that is
        no candidate and `InvalidState` before the descriptions are exchanged.
        """
        now = self.driver.loop.time()
        self.peer.add_remote_candidate(line or None, now)
        if line:
            self._resolve_name(line)
        self.driver.flush_soon(self)

    def accept_offer(self, sdp: str) -> str:
        """Answer another offer of the same peer: an ICE restart, or changed media.

        Raises `warp.sdp.SdpError` naming line and rule when it is not usable (nothing has changed
        then), and `InvalidState` when the session has ended.
        """
        now = self.driver.loop.time()
        self.peer.set_remote_description("offer", sdp, now)
        self.answer = self.peer.create_answer(now)
        self.peer.set_local_description("answer", self.answer, now)
        self._owner.register(self)
        self.driver.flush_soon(self)
        return self.answer

    async def renegotiate(self, signal: Signal, *, ice_restart: bool = False) -> None:
        """Offer again in mid-call; `signal` takes the offer to the peer and returns its answer.

        With `ice_restart` new credentials replace the old ones and every path is checked afresh
        (RFC 8445 section 9). Raises what `signal` raises, the offer is withdrawn then, and
        `warp.sdp.SdpError` when the answer is not usable.
        """
        peer, loop = self.peer, self.driver.loop
        offer = peer.create_offer(loop.time(), ice_restart=ice_restart)
        peer.set_local_description("offer", offer, loop.time())
        self._owner.register(self)
        try:
            self.receive_answer(await signal(offer))
        except BaseException:
            with contextlib.suppress(UsageError):
                peer.rollback()
            raise

    async def close(self) -> None:
        """Say goodbye and end; every task of the session is gone when this returns.

        Takes no time unless a relay has to be given back: then a second at most.
        """
        if not self._closed.done():
            self.peer.close(self.driver.loop.time())
            self.driver.flush(self)
        await asyncio.shield(self._closed)
        if self._trickle is not None:
            await self._trickle.wait_closed()

    def stats(self) -> dict[str, Any]:
        """Return counters and the times of the start's milestones (monotonic seconds)."""
        return self.peer.stats()

    # -- the owner's side -----------------------------------------------------------------------

    def receive_answer(self, answer: str) -> None:
        """Apply the answer to our offer: the first check leaves now."""
        self.peer.set_remote_description("answer", answer, self.driver.loop.time())
        self.answer = answer
        if ".local " in answer:
            for line in answer.splitlines():
                if line.startswith("a=candidate:") and ".local " in line:
                    self._resolve_name(line)
        self.driver.flush(self)

    def make_trickle(self, trace: Trace | None = None) -> Trickle:
        """Return what finds out about addresses for this session."""
        if self._trickle is None:
            self._trickle = Trickle(self, trace)
        return self._trickle

    def _resolve_name(self, line: str) -> None:
        candidate = parse_candidate(line)
        if candidate.host.endswith(".local") and self._owner.resolves_names():
            self.make_trickle().resolve(candidate)

    # -- the driver's side --------------------------------------------------------------------

    def receive_events(self, now: float) -> None:
        """Drain the peer's events and wake whom they concern."""
        for event in self.peer.events():
            if (receive := _RECEIVERS.get(type(event))) is not None:
                receive(self, event)

    def _receive_audio(self, event: AudioReceived) -> None:
        self.audio_in._receive(event.frames)

    def _receive_message(self, event: datachannel.ChannelMessage) -> None:
        self._wrap(event.channel)._receive(event.data)

    def _receive_permission(self, event: MediaReady) -> None:
        self.audio_in._ready()
        self.audio_out._ready()

    def _receive_flow(self, event: FlowAuthenticated) -> None:
        self._owner.route(self, event)

    def _receive_state(self, event: StateChanged) -> None:
        if event.state is ConnectionState.CONNECTED:
            self._connected = True
            self._open_lanes()
            self._owner.connected(self)
            self._release_waiting()

    def _open_lanes(self) -> None:
        """The peer is authenticated: media from the addresses known so far goes the short way."""
        for port, key in self.routes:
            port.open_lane(self, key)

    def _receive_end(self, event: Terminated) -> None:
        self._end(event.error)

    def _receive_channel(self, event: datachannel.ChannelAnnounced) -> None:
        self._announce(self._wrap(event.channel))

    def _wake_channel(
        self, event: datachannel.ChannelOpened | datachannel.BufferedAmountLow
    ) -> None:
        self._wrap(event.channel)._wake()

    def _end_channel(self, event: datachannel.ChannelClosed) -> None:
        channel = self._wrap(event.channel)
        del self._channels[id(event.channel)]
        channel._wake()

    def _announce(self, channel: Channel) -> None:
        """Offer a channel of the peer's to whoever iterates; what nobody wants is closed."""
        unclaimed = self.channels()
        if unclaimed.unread < MAX_UNCLAIMED:
            unclaimed.put(channel)
        else:
            channel.close()

    def fail(self, error: Exception) -> None:
        """End for a bug of ours, which the driver has reported."""
        with contextlib.suppress(Exception):
            self.peer.close(self.driver.loop.time())
        self._end(error if isinstance(error, WarpError) else InternalError(repr(error)))

    def _wrap(self, inner: datachannel.Channel) -> Channel:
        channel = self._channels.get(id(inner))
        if channel is None:
            channel = self._channels[id(inner)] = Channel(self, inner)
        return channel

    def _end(self, error: WarpError | None) -> None:
        if self._closed.done():
            return
        self._closed.set_result(error)
        self._release_waiting()
        self.driver.forget(self)
        self.audio_in._close()
        self.audio_out._close()
        for channel in list(self._channels.values()):
            channel._wake()
        self._channels.clear()
        if self._unclaimed is not None:
            self._unclaimed.close()
        if self._trickle is not None:
            self._trickle.close()
        self._owner.release(self)


_RECEIVERS: dict[type[Event], Callable[[Session, Any], None]] = {
    AudioReceived: Session._receive_audio,
    MediaReady: Session._receive_permission,
    FlowAuthenticated: Session._receive_flow,
    StateChanged: Session._receive_state,
    Terminated: Session._receive_end,
    datachannel.ChannelMessage: Session._receive_message,
    datachannel.ChannelAnnounced: Session._receive_channel,
    datachannel.ChannelOpened: Session._wake_channel,
    datachannel.BufferedAmountLow: Session._wake_channel,
    datachannel.ChannelClosed: Session._end_channel,
}
"""Who takes what the peer connection says; nobody has to act on the rest."""
