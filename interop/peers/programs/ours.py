"""Our own stack as a peer: the row that others are compared with. See `interop.peers.lines`.

It offers as a client and answers as a full server, so that either role is the public one.
"""

from __future__ import annotations

import asyncio
import base64 as base64s
import json
from pathlib import Path
from typing import Any

from interop.peers.peer import TALK
from interop.peers.programs.obey import content, mark, serve, tell_message
from warp.crypto import NamedGroup
from warp.errors import WarpError
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

HOST = "127.0.0.1"
LARGEST = 1 << 21


def warp_options(options: dict[str, Any]) -> WarpOptions:
    """Return the parts of WARP that `create` names."""
    return WarpOptions(
        sped=options["sped"],
        snap=options["snap"],
        groups=(NamedGroup.X25519,) if options["pq"] is False else None,
    )


class Peer:
    """One connection."""

    def __init__(self, number: int, options: dict[str, Any]) -> None:
        self._number = number
        self._options = options
        self._warp = warp_options(options)
        self._owner: Client | Server | None = None
        self._session: Session | None = None
        self._channels: dict[str, Channel] = {}
        self._answered: asyncio.Future[str] | None = None
        self._calling: asyncio.Task[Any] | None = None
        self._tasks: list[asyncio.Task[None]] = []
        self._payloads: list[tuple[int, bytes]] = []

    def _mark(self, name: str, **more: Any) -> None:
        mark(self._number, name, **more)

    def _spawn(self, what: Any) -> None:
        self._tasks.append(asyncio.ensure_future(what))

    # -- descriptions ---------------------------------------------------------------------------

    async def offer(self, restart: bool) -> str:
        """Return an offer, applied; `accept` gives its answer back."""
        loop = asyncio.get_running_loop()
        offered: asyncio.Future[str] = loop.create_future()
        answered: asyncio.Future[str] = loop.create_future()
        self._answered = answered

        async def signal(sdp: str) -> str:
            offered.set_result(sdp)
            return await answered

        if self._session is None:
            config = ClientConfig(warp=self._warp, host=HOST, max_message_size=LARGEST)
            self._owner = Client(config)
            self._calling = asyncio.ensure_future(self._owner.connect(signal))
        else:
            self._calling = asyncio.ensure_future(
                self._session.renegotiate(signal, ice_restart=restart)
            )
        return await offered

    async def accept(self, sdp: str) -> None:
        """Apply the answer to our offer."""
        if self._answered is None or self._calling is None:
            raise RuntimeError("nothing was offered")
        self._answered.set_result(sdp)
        made = await self._calling
        if made is not None:
            self._begin(made)

    async def answer(self, sdp: str, setup: str | None) -> str:
        """Return an answer, applied."""
        if self._session is not None:
            again: str = self._session.accept_offer(sdp)
            return again
        config = ServerConfig(
            warp=self._warp, lite=False, passive=setup == "passive", max_message_size=LARGEST
        )
        self._owner = server = await listen(HOST, config=config)
        session = server.accept_offer(sdp)
        self._begin(session)
        return session.answer

    def _begin(self, session: Session) -> None:
        self._session = session
        for channel in self._options["channels"]:
            self.open(**channel)
        self._spawn(self._connected(session))
        self._spawn(self._announced(session))
        self._spawn(self._listen(session))

    async def _connected(self, session: Session) -> None:
        try:
            await session.connected()
        except WarpError:
            self._mark("connection:failed")
            return
        at = session.stats()["milestones"]["dtls_connected"]
        mark_at(self._number, "connection:connected", at)
        error = await session.closed
        self._mark("connection:closed" if error is None else "connection:failed")

    # -- channels -------------------------------------------------------------------------------

    def open(
        self,
        label: str,
        ordered: bool = True,
        negotiated: bool = False,
        stream: int | None = None,
        maxRetransmits: int | None = None,
        protocol: str = "",
    ) -> None:
        """Open a channel."""
        if self._session is None:
            raise RuntimeError("there is no call yet")
        self._follow(
            self._session.channel(
                label,
                negotiated=negotiated,
                stream_id=stream,
                ordered=ordered,
                max_retransmits=maxRetransmits,
                protocol=protocol,
            )
        )

    async def _announced(self, session: Session) -> None:
        async for channel in session.channels():
            self._mark(
                f"announced:{channel.label}",
                ordered=channel.ordered,
                maxRetransmits=channel.max_retransmits,
                protocol=channel.protocol,
            )
            self._follow(channel)

    def _follow(self, channel: Channel) -> None:
        self._channels[channel.label] = channel
        self._spawn(self._read(channel))

    async def _read(self, channel: Channel) -> None:
        label = channel.label
        try:
            await channel.opened()
        except WarpError:
            self._mark(f"closed:{label}")
            return
        at = self._session.stats()["milestones"].get("channel_open") if self._session else None
        if label == TALK and at is not None:
            mark_at(self._number, f"open:{label}", at)
        else:
            self._mark(f"open:{label}")
        async for message in channel:
            tell_message(self._number, label, message)
        self._mark(f"closed:{label}")

    def close_channel(self, label: str) -> None:
        """Close a channel."""
        self._channels[label].close()

    def send(self, label: str, text: str | None = None, base64: str | None = None) -> None:
        """Send a message."""
        self._channels[label].send(content(text, base64))

    def flood(self, label: str, count: int, text: str) -> None:
        """Send many."""
        for number in range(count):
            self._channels[label].send(f"{text}{number}")

    # -- sound ----------------------------------------------------------------------------------

    def add_audio(self) -> None:
        """Audio is in every description of ours."""

    def say(self, path: str) -> None:
        """Speak Opus payloads."""
        if self._session is None:
            raise RuntimeError("there is no call yet")
        for payload in json.loads(Path(path).read_text()):
            self._session.audio_out.send(base64s.b64decode(payload))

    async def _listen(self, session: Session) -> None:
        async for frame in session.audio_in:
            if frame.payload is not None:
                self._payloads.append((frame.timestamp & 0xFFFFFFFF, frame.payload))

    def heard(self, path: str) -> None:
        """Write what was heard."""
        lines = [
            json.dumps([at, base64s.b64encode(payload).decode()]) for at, payload in self._payloads
        ]
        Path(path).write_text("\n".join(lines))

    async def close(self) -> None:
        """Close the connection."""
        if self._session is not None:
            await self._session.close()
        if self._owner is not None:
            await self._owner.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self._mark("connection:closed")


def mark_at(pc: int, name: str, at: float) -> None:
    """Tell that something has happened before (monotonic seconds)."""
    mark(pc, name, t=at)


if __name__ == "__main__":
    serve("ours", Peer)
