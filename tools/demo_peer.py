"""The two processes of `warp demo`: `python -m warp_tools.demo_peer server|client`.

They take their orders from the parent over JSON lines, which is the signalling as well:

    parent ── offer ─▶ client ── {"event": "offer"} ─▶ parent ── answer ─▶ server
           ◀─────────── {"event": "answer"} ──────────────────────────────────┘
    parent ── bundle ─▶ server ── {"event": "bundle"} ─▶ parent ── call ─▶ client: the call begins
           ── attach ─▶ server: the client's offer, which comes beside it
    then each says when DTLS was done and when its channel opened (monotonic seconds)
"""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import Awaitable, Coroutine, Mapping
from pathlib import Path

import numpy as np

from instant_connect.answers import Status
from instant_connect.bundle import parse_bundle
from instant_connect.host import HostConfig
from instant_connect.io import (
    Arrival,
    InstantClient,
    InstantConfig,
    InstantServer,
    listen_instant,
)
from instant_connect.io.client import Posted
from warp.crypto import NamedGroup
from warp.dtls import DtlsVersion
from warp.errors import WarpError
from warp.io import (
    Channel,
    ClientConfig,
    ServerConfig,
    Session,
    WarpOptions,
    connect,
    prepare_process,
)
from warp_tools.audio import packaged_sound, read_wav, write_wav
from warp_tools.caller import hold_call
from warp_tools.echo import greet, greeting
from warp_tools.failure import ToolFailure
from warp_tools.lines import Line, Lines, pin_to_core
from warp_tools.opus import SAMPLE_RATE, Samples, encoded
from warp_tools.serve import EchoServer, open_echo_server

CHANNEL = "ledger"
CHANNEL_ID = 0
_TIMEOUT_S = 20.0


def options(order: Line) -> WarpOptions:
    """Read the parts of WARP that an order names."""
    hybrid = (NamedGroup.X25519MLKEM768, NamedGroup.X25519)
    return WarpOptions(
        sped=order["sped"],
        snap=order["snap"],
        versions=(DtlsVersion[order["version"]],),
        groups=hybrid if order["hybrid"] else (NamedGroup.X25519,),
        simultaneous_open=order["snap"],
    )


async def watch(lines: Lines, session: Session, order: Line, events: Channel | None = None) -> None:
    """Tell the parent when DTLS is done and when the channel is open at this end."""

    async def mark(name: str, event: Awaitable[object]) -> None:
        await event
        lines.write(event="mark", name=name, at=time.monotonic())

    role = order["role"]
    async with asyncio.timeout(_TIMEOUT_S):
        await asyncio.gather(
            mark(f"dtls_{role}", session.connected(_TIMEOUT_S)),
            mark(
                f"channel_{role}",
                channel_opened(session, order) if events is None else events.opened(),
            ),
        )
    lines.write(event="started")


async def channel_opened(session: Session, order: Line) -> None:
    """Wait for the channel: pre-negotiated at both ends, or announced by the client."""
    if order["negotiated"]:
        await session.channel(CHANNEL, negotiated=True, stream_id=CHANNEL_ID).opened()
    elif order["role"] == "client":
        await session.channel(CHANNEL).opened()
    else:
        async for channel in session.channels():
            await channel.opened()
            return


async def attach(lines: Lines, server: InstantServer, order: Line) -> None:
    """Answer the offer of a call that begins by itself, once it would have arrived."""
    await asyncio.sleep(order["at"] - time.monotonic())
    headers = order["headers"]
    ufrag, proof = headers["Instant-Ufrag"], headers["Instant-Proof"]
    answer = server.answer(order["offer"], ufrag=ufrag, proof=proof)
    status, at = answer.status.value, time.monotonic()
    lines.write(event="attached", sdp=answer.sdp, status=status, at=at)


class Peer:
    """What both processes have in common: tasks whose failure the parent hears of."""

    def __init__(self, lines: Lines) -> None:
        self.lines = lines
        self._tasks: set[asyncio.Task[None]] = set()

    def start(self, work: Coroutine[None, None, None]) -> None:
        """Run something beside the orders."""
        self._tasks.add(asyncio.create_task(self._guard(work)))

    async def _guard(self, work: Coroutine[None, None, None]) -> None:
        try:
            await work
        except (WarpError, ToolFailure, TimeoutError) as error:
            self.lines.write(event="failure", text=str(error) or type(error).__name__)

    async def obey(self, order: Line) -> None:
        """Carry out one order."""
        raise NotImplementedError


async def obey_all(peer: Peer) -> None:
    """Carry out orders until the parent closes the pipe."""
    lines = peer.lines
    # what is loaded by now is never garbage: to look through it takes as long as half a round trip
    prepare_process()
    lines.write(event="ready")
    while (order := await lines.read()) is not None:
        try:
            await peer.obey(order)
        except (WarpError, ToolFailure) as error:
            lines.write(event="failure", text=str(error))


class ServerPeer(Peer):
    """Answers each offer on a fresh port, so that no start profits from another."""

    def __init__(self, lines: Lines) -> None:
        super().__init__(lines)
        self._servers: list[EchoServer] = []
        self._instant: InstantServer | None = None

    async def obey(self, order: Line) -> None:
        """Carry out one order."""
        if order["order"] == "bundle":
            await self._open(order)
        elif order["order"] == "attach" and self._instant is not None:
            self.start(attach(self.lines, self._instant, order))
        elif order["order"] == "answer":
            config = ServerConfig(warp=options(order), early_data=order["version"] == "DTLS13")
            server = await open_echo_server("127.0.0.1", 0, config)
            self._servers.append(server)
            session = server.accept(order["offer"])
            self.lines.write(event="answer", sdp=session.answer)
            self.start(watch(self.lines, session, order))
        else:
            self._instant = None
            while self._servers:
                await self._servers.pop().close()
            self.lines.write(event="hung_up")

    async def _open(self, order: Line) -> None:
        """Open a server that holds nothing for anybody, and give out a bundle of it."""
        config = InstantConfig(
            host=HostConfig(dcid=CHANNEL_ID),
            server=ServerConfig(warp=options(order), early_data=True),
        )
        made = self._instant = await listen_instant("127.0.0.1", 0, config=config)
        echoes = EchoServer(made)
        self._servers.append(echoes)

        def greet_it(arrival: Arrival) -> None:
            self.lines.write(event="mark", name="session", at=time.monotonic())
            greet(arrival.session)

        def accept(arrival: Arrival) -> None:
            echoes.attend(arrival.session)
            self.start(watch(self.lines, arrival.session, order, arrival.events))

        made.set_greet(greet_it)
        made.receive_arrivals(accept)
        self.lines.write(event="bundle", text=made.bundle())


class ClientPeer(Peer):
    """Places one call after the other."""

    def __init__(self, lines: Lines, speech: Samples) -> None:
        super().__init__(lines)
        self._session: Session | None = None
        self._answer: asyncio.Future[Line] | None = None
        self._instant: InstantClient | None = None
        # encoded before any call, so that no start waits for the codec
        self._speech = encoded(speech)
        self._silence = encoded(np.zeros(SAMPLE_RATE, np.int16))

    async def obey(self, order: Line) -> None:
        """Carry out one order."""
        match order["order"]:
            case "offer":
                self.start(self._call(order))
            case "call":
                self.start(self._call_by_ticket(order))
            case "accept":
                if self._answer is not None:
                    self._answer.set_result(order)
            case "hang_up":
                if self._session is not None:
                    await self._session.close()
                if self._instant is not None:
                    await self._instant.close()
                    self._instant = None
                self.lines.write(event="hung_up")

    async def _call(self, order: Line) -> None:
        answer: asyncio.Future[Line] = asyncio.get_running_loop().create_future()
        self._answer = answer

        async def signal(offer: str) -> str:
            self.lines.write(event="offer", sdp=offer)
            return str((await answer)["answer"])

        config = ClientConfig(warp=options(order), host="127.0.0.1", loopback=True)
        session = self._session = await connect(signal, config=config)
        if order["out"]:
            self.start(self._speak(session, Path(order["out"])))
        else:
            # a second of quiet shows as well when the client's media may leave
            for payload in self._silence:
                session.audio_out.send(payload)
        await watch(self.lines, session, order)

    async def _call_by_ticket(self, order: Line) -> None:
        session = await self._connect_by_ticket(order)
        for payload in self._silence:
            session.audio_out.send(payload)
        await watch(self.lines, session, order)

    async def _connect_by_ticket(self, order: Line) -> Session:
        """Call with what a bundle says; the offer goes to the parent beside that."""
        loop = asyncio.get_running_loop()
        answer: asyncio.Future[Line] = loop.create_future()
        self._answer = answer

        async def post(offer: str, headers: Mapping[str, str]) -> Posted:
            asked = {"sdp": offer, "headers": dict(headers), "at": time.monotonic()}
            self.lines.write(event="offer", **asked)
            answered = await answer
            await asyncio.sleep(answered["at"] - time.monotonic())
            return Posted(Status(answered["status"]), str(answered["answer"]))

        config = ClientConfig(warp=options(order), host="127.0.0.1", loopback=True)
        client = self._instant = InstantClient(post=post, config=config)
        client.wallet.put(parse_bundle(order["bundle"]), loop.time())
        self.lines.write(event="intent", at=time.monotonic())
        session = self._session = await client.connect(_TIMEOUT_S)
        return session

    async def _speak(self, session: Session, out: Path) -> None:
        recording = await hold_call(session, self._speech)
        write_wav(out, recording.samples())
        self.lines.write(
            event="spoken",
            seconds=recording.seconds,
            frames=recording.frames,
            concealed=recording.concealed,
        )


async def main(role: str, speech: str = "") -> None:
    """Obey the parent until it closes the pipe."""
    pin_to_core()
    lines = Lines()
    peer: Peer
    if role == "server":
        greeting()
        peer = ServerPeer(lines)
    else:
        peer = ClientPeer(lines, read_wav(Path(speech)) if speech else packaged_sound("speech"))
    await obey_all(peer)


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
