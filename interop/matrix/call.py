"""Calls between a peer and us, over a wire that delays, loses and keeps every datagram.

peer.offer ─▶ half a round trip ─▶ Server.accept_offer ─▶ half ─▶ peer.accept
connect's offer ─▶ half a round trip ─▶ peer.answer ─▶ half ─▶ our session
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from dataclasses import dataclass, field

from interop.matrix.scenario import Scenario
from interop.peers.peer import (
    PATIENCE_S,
    TALK,
    Peer,
    PeerConfig,
    PeerKind,
    RunningPeer,
)
from interop.wire import HOST, Wire
from warp.io import Channel, ClientConfig, ServerConfig, Session, connect, listen
from warp.trace import MemoryTrace

LARGEST = 1 << 21
"""What we say that we take: more than any scenario sends."""


class Failed(Exception):
    """Something is not as it has to be; the text says what."""


class Cannot(Exception):
    """A peer has shown that it can't: the text says how."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Cost:
    """Round trips from the first check that anybody sent."""

    peer_connected: float
    peer_open: float
    we_connected: float
    we_open: float

    @property
    def works(self) -> float:
        """Until the channel is open at both ends."""
        return max(self.peer_open, self.we_open)


@dataclass(slots=True)
class Call:
    """A call that is under way."""

    scenario: Scenario
    session: Session
    channel: Channel
    """Ours, of the pair that every call has."""
    peer: Peer
    wire: Wire
    trace: MemoryTrace
    offer: str
    answer: str

    async def up(self) -> Cost:
        """Wait until both ends are connected and have the channel open."""
        # what is lost three times is sent again after 3, 6 and 12 s by who begins with 3 s
        patience_s = 3 * PATIENCE_S if self.scenario.loss else PATIENCE_S
        await self.session.connected(patience_s)
        async with asyncio.timeout(patience_s):
            await self.channel.opened()
        # an open channel is proof enough: some libraries tell of it first, or of nothing else
        opened = f"open:{TALK}"
        peer_open = await self.peer.happened(opened, within_s=patience_s)
        peer_connected = min(peer_open, await self.peer.happened("connection:connected", opened))
        milestones = await self._milestones()
        first = next(rung.time for rung in list(self.wire.rungs) if rung.is_check)

        def trips(moment: float) -> float:
            return round((moment - first) / self.scenario.rtt_s, 2)

        return Cost(
            peer_connected=trips(peer_connected),
            peer_open=trips(peer_open),
            we_connected=trips(milestones["dtls_connected"]),
            we_open=trips(milestones["channel_open"]),
        )

    async def _milestones(self) -> dict[str, float]:
        """Return when our end was where; a channel may be open before that is written down."""
        async with asyncio.timeout(PATIENCE_S):
            while "channel_open" not in (found := self.session.stats()["milestones"]):
                await asyncio.sleep(0.01)
        return dict(found)

    async def talk(self, *messages: str | bytes) -> None:
        """Send messages each way on the channel, and compare."""
        for message in messages:
            self.channel.send(message)
            await self.peer.send(TALK, message)
            same("the peer got", await self.peer.receive(TALK), [message])
            same("we got", await self.received(), message)

    async def received(self, within_s: float = PATIENCE_S) -> str | bytes:
        """Return the next message of ours."""
        return await next_message(self.channel, within_s)


async def next_message(channel: Channel, within_s: float = PATIENCE_S) -> str | bytes:
    """Return the next message of a channel."""
    try:
        async with asyncio.timeout(within_s):
            return await anext(channel)
    except TimeoutError:
        raise Failed(f"nothing came on {channel.label!r} within {within_s:g} s") from None
    except StopAsyncIteration:
        raise Failed(f"channel {channel.label!r} was closed while a message was due") from None


def same(what: str, found: object, wanted: object) -> None:
    """Raise `Failed` unless they are equal."""
    if found != wanted:
        raise Failed(f"{what} {found!r:.120}, not {wanted!r:.120}")


def require(condition: bool, otherwise: str) -> None:
    """Raise `Failed` with this text unless it holds."""
    if not condition:
        raise Failed(otherwise)


@dataclass(slots=True)
class Stage:
    """What a play is given: a peer that runs, and the scenario to play."""

    kind: PeerKind
    running: RunningPeer
    scenario: Scenario
    wires: list[Wire] = field(default_factory=list)
    traces: list[MemoryTrace] = field(default_factory=list)
    descriptions: list[str] = field(default_factory=list)

    @contextlib.asynccontextmanager
    async def call(self, *, seed: int = 0, peer_offers: bool | None = None) -> AsyncIterator[Call]:
        """Hold a call; everything of it has ended afterwards."""
        scenario = self.scenario
        trace = MemoryTrace()
        with Wire(delay_s=scenario.rtt_s / 2, loss=scenario.loss, seed=seed) as wire:
            # of many calls the last two are evidence enough
            self.wires, self.traces = [*self.wires[-1:], wire], [*self.traces[-1:], trace]
            self.descriptions = self.descriptions[-2:]
            peer = await self.running.create(
                PeerConfig(
                    audio=scenario.audio,
                    video=scenario.video,
                    wants=scenario.wants,
                    setup=scenario.setup,
                )
            )
            offers = scenario.peer_offers if peer_offers is None else peer_offers
            open_call = self._peer_calls if offers else self._we_call
            try:
                async with open_call(peer, wire, trace) as call:
                    yield call
            finally:
                await peer.release()

    @contextlib.asynccontextmanager
    async def _peer_calls(self, peer: Peer, wire: Wire, trace: MemoryTrace) -> AsyncIterator[Call]:
        scenario = self.scenario
        config = ServerConfig(
            warp=scenario.ours,
            lite=scenario.lite,
            passive=scenario.passive,
            max_message_size=LARGEST,
        )
        async with await listen(HOST, config=config, trace=trace) as server:
            offer = await peer.offer()
            self.descriptions.append(offer)
            await asyncio.sleep(scenario.rtt_s / 2)
            session = server.accept_offer(wire.through(offer, ours=False))
            self.descriptions.append(session.answer)
            channel = session.channel(TALK, negotiated=True, stream_id=0)
            await asyncio.sleep(scenario.rtt_s / 2)
            await peer.accept(wire.through(session.answer, ours=True))
            yield Call(scenario, session, channel, peer, wire, trace, offer, session.answer)

    @contextlib.asynccontextmanager
    async def _we_call(self, peer: Peer, wire: Wire, trace: MemoryTrace) -> AsyncIterator[Call]:
        scenario = self.scenario
        said: list[str] = []

        async def signal(offer: str) -> str:
            self.descriptions.append(offer)
            await asyncio.sleep(scenario.rtt_s / 2)
            answer = await peer.answer(wire.through(offer, ours=True), setup=scenario.setup)
            self.descriptions.append(answer)
            said.extend((offer, answer))
            await asyncio.sleep(scenario.rtt_s / 2)
            return wire.through(answer, ours=False)

        config = ClientConfig(warp=scenario.ours, host=HOST, max_message_size=LARGEST)
        session = await connect(signal, config=config, trace=trace)
        try:
            channel = session.channel(TALK, negotiated=True, stream_id=0)
            yield Call(scenario, session, channel, peer, wire, trace, said[0], said[1])
        finally:
            await session.close()


async def peer_reoffers(call: Call, *, restart: bool = False) -> None:
    """The peer makes another offer and we answer it."""
    offer = await call.peer.offer(restart=restart)
    answer = call.session.accept_offer(call.wire.through(offer, ours=False))
    await call.peer.accept(call.wire.through(answer, ours=True))


async def we_reoffer(call: Call, *, restart: bool = False) -> None:
    """We make another offer and the peer answers it."""

    async def signal(offer: str) -> str:
        answer = await call.peer.answer(call.wire.through(offer, ours=True))
        return call.wire.through(answer, ours=False)

    await call.session.renegotiate(signal, ice_restart=restart)
