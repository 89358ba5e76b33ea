"""Our stack as a party of the bench, through `warp.io` as any application would use it.

Media: the server passes every frame back to who sent it, as a bridge does: by a reader.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from functools import cache

from warp.crypto import NamedGroup
from warp.io import (
    Channel,
    Client,
    ClientConfig,
    Server,
    ServerConfig,
    Session,
    WarpOptions,
    listen,
)
from warp.rtp import AudioFrame
from warp_tools.bench.party import FRAME_S, PAYLOAD, Party

Signal = Callable[[str], Awaitable[str]]
_QUEUE_MS = 2_000
_FEED_S = 1.0
_TURNS = 100
# the same group at both ends and for both stacks: aiortc has no hybrid
_OPTIONS = WarpOptions(groups=(NamedGroup.X25519,))


@cache
def _client_config(kind: str) -> ClientConfig:
    return ClientConfig(
        warp=_OPTIONS,
        host="127.0.0.1",
        loopback=True,
        audio=kind != "channel",
        data=kind != "audio",
    )


class OurParty(Party):
    """Drives `warp.io` sessions."""

    audio_in_order = True
    """Whether sessions put frames in order: what has a jitter buffer does that itself."""

    def __init__(self) -> None:
        super().__init__()
        self._server: Server | None = None
        self._client: Client | None = None
        self._sessions: dict[str, Session] = {}
        self._channels: dict[str, Channel] = {}
        self._answers: dict[str, asyncio.Future[str]] = {}
        self._calls: dict[str, asyncio.Task[Session]] = {}
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._counts: dict[str, list[float]] = {}

    async def prepare(self, role: str) -> None:
        """Open the server's one port, or the client of all calls."""
        if role == "server":
            config = ServerConfig(
                warp=_OPTIONS, early_data=True, audio_in_order=self.audio_in_order
            )
            self._server = await listen("127.0.0.1", 0, config=config)
        else:
            self._client = Client()

    async def offer(self, session: str, kind: str) -> str:
        """Begin a session and return its offer."""
        loop = asyncio.get_running_loop()
        offer: asyncio.Future[str] = loop.create_future()
        answer: asyncio.Future[str] = loop.create_future()
        self._answers[session] = answer

        async def signal(sdp: str) -> str:
            offer.set_result(sdp)
            return await answer

        call = self._call(session, kind, signal, _client_config(kind))
        self._calls[session] = loop.create_task(call)
        return await offer

    async def _call(self, session: str, kind: str, signal: Signal, config: ClientConfig) -> Session:
        if self._client is None:
            raise RuntimeError("only the client calls")
        made = self._sessions[session] = await self._client.connect(signal, config=config)
        self._use(session, kind, made)
        return made

    async def accept(self, session: str, answer: str) -> None:
        """Take the answer to an offer of ours."""
        self._answers.pop(session).set_result(answer)
        await self._calls.pop(session)

    async def answer(self, session: str, kind: str, offer: str) -> str:
        """Begin a session by an offer and return its answer."""
        if self._server is None:
            raise RuntimeError("only the server answers")
        made = self._sessions[session] = self._server.accept_offer(offer)
        self._use(session, kind, made)
        return made.answer

    def _use(self, session: str, kind: str, made: Session) -> None:
        if kind != "audio":
            self._channels[session] = made.channel("bench", negotiated=True, stream_id=0)

    async def opened(self, session: str) -> None:
        """Wait until the session is up at this end."""
        await self._sessions[session].connected()
        channel = self._channels.get(session)
        if channel is not None:
            await channel.opened()

    async def close(self, session: str) -> None:
        """End a session."""
        task = self._tasks.pop(session, None)
        if task is not None:
            task.cancel()
        self._channels.pop(session, None)
        await self._sessions.pop(session).close()

    async def start_media(self) -> None:
        """Speak, for all sessions in one loop (client), or pass back what is said (server)."""
        if self._server is None:
            self._tasks["media"] = asyncio.create_task(self._speak())
            return
        for name, session in self._sessions.items():
            self._pass_back(name, session)

    async def _speak(self) -> None:
        # in turns, as sessions that know nothing of each other would: all at once would hold up
        # the pacing of all
        while True:
            sessions = list(self._sessions.values())
            for turn in range(_TURNS):
                for session in sessions[turn::_TURNS]:
                    self._feed(session)
                await asyncio.sleep(_FEED_S / _TURNS)

    def _feed(self, session: Session) -> None:
        out = session.audio_out
        for _ in range(int((_QUEUE_MS - out.queued_ms) / (FRAME_S * 1000))):
            out.send(PAYLOAD)
        self.packets += len(session.audio_in.take()) * 2

    def _pass_back(self, name: str, session: Session) -> None:
        send, note, number = session.audio_out.send, self.arrivals.note, self.arrivals.number(name)

        def read(frames: list[AudioFrame]) -> None:
            now = time.monotonic()
            for frame in frames:
                if frame.payload is not None:
                    self.packets += 2
                    note(number, frame.timestamp, now)
                    send(frame.payload)

        session.audio_in.set_reader(read)

    async def blast(self, session: str, size: int, seconds: float) -> None:
        """Keep the channel's buffer filled, with back-pressure, for so long."""
        channel, message = self._channels[session], bytes(size)
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            channel.send(message)
            await channel.drain()
        while channel.buffered_amount:
            await asyncio.sleep(0.005)
        await asyncio.sleep(0.2)

    def start_receiving(self, session: str) -> None:
        """Count what the channel receives from now on."""
        self._counts[session] = [0.0, 0.0, 0.0]
        self._tasks[session] = asyncio.create_task(self._receive(session))

    async def _receive(self, session: str) -> None:
        counts = self._counts[session]
        async for message in self._channels[session]:
            counts[2] = time.monotonic()
            counts[1] = counts[1] or counts[2]
            counts[0] += len(message)

    def received(self, session: str) -> tuple[int, float]:
        """Bytes received, and the seconds from the first to the last message."""
        count, first, last = self._counts.pop(session)
        return int(count), last - first
