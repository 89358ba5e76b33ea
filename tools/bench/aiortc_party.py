"""aiortc as a party of the bench: its released package, no codec, no STUN server, loopback only.

Media: encoded packets go in (aiortc passes `av.Packet` through) and the decoder is a pass-through,
so that what is measured is the stack and not libopus.
"""

from __future__ import annotations

import asyncio
import contextlib
import fractions
import time
from typing import Any

import aioice.ice
import aiortc
import aiortc.rtcrtpreceiver
import av
from aiortc.mediastreams import MediaStreamError, MediaStreamTrack

from warp_tools.bench.party import CLOCK_RATE, FRAME_S, PAYLOAD, TICKS, Arrivals, Party
from warp_tools.failure import ToolFailure

_TIME_BASE = fractions.Fraction(1, CLOCK_RATE)
_WINDOW = 1 << 20
_YIELD_EVERY = 64


def keep_to_loopback() -> None:
    """Let aioice offer the address that it leaves out by itself."""
    aioice.ice.get_host_addresses = lambda use_ipv4, use_ipv6: ["127.0.0.1"]


class _PassThrough:
    """Stands where aiortc's decoder would be."""

    def decode(self, frame: Any) -> list[Any]:
        """Hand on the encoded frame."""
        return [frame]


class _Microphone(MediaStreamTrack):
    """A packet every 20 ms on one absolute grid, once it is told to start."""

    kind = "audio"

    def __init__(self, party: Party, phase_s: float) -> None:
        super().__init__()
        self._party = party
        self._phase_s = phase_s
        self._count = 0
        self._began = 0.0
        self.started = asyncio.Event()

    async def recv(self) -> Any:
        """Return the next packet when it is due."""
        await self.started.wait()
        if not self._began:
            self._began = time.monotonic() + self._phase_s
        wait = self._began + self._count * FRAME_S - time.monotonic()
        if wait > 0:
            await asyncio.sleep(wait)
        packet = av.Packet(PAYLOAD)
        packet.pts = self._count * TICKS
        packet.time_base = _TIME_BASE
        self._count += 1
        self._party.packets += 1
        return packet


class AiortcParty(Party):
    """Drives RTCPeerConnections."""

    def __init__(self) -> None:
        super().__init__()
        self._connections: dict[str, Any] = {}
        self._channels: dict[str, Any] = {}
        self._opened: dict[str, asyncio.Event] = {}
        self._microphones: list[_Microphone] = []
        self._tasks: dict[str, list[asyncio.Task[None]]] = {}
        self._counts: dict[str, list[float]] = {}

    async def prepare(self, role: str) -> None:
        """Keep to loopback, which aioice leaves out by itself, and leave libopus out."""
        keep_to_loopback()
        receiver: Any = aiortc.rtcrtpreceiver
        receiver.get_decoder = lambda codec: _PassThrough()

    async def offer(self, session: str, kind: str) -> str:
        """Begin a session and return its offer."""
        connection = self._make(session, kind)
        await connection.setLocalDescription(await connection.createOffer())
        return str(connection.localDescription.sdp)

    async def accept(self, session: str, answer: str) -> None:
        """Take the answer to an offer of ours."""
        description = aiortc.RTCSessionDescription(answer, "answer")
        await self._connections[session].setRemoteDescription(description)

    async def answer(self, session: str, kind: str, offer: str) -> str:
        """Begin a session by an offer and return its answer."""
        connection = self._make(session, kind)
        await connection.setRemoteDescription(aiortc.RTCSessionDescription(offer, "offer"))
        await connection.setLocalDescription(await connection.createAnswer())
        return str(connection.localDescription.sdp)

    async def opened(self, session: str) -> None:
        """Wait until the session is up at this end."""
        await self._opened[session].wait()

    async def close(self, session: str) -> None:
        """End a session."""
        for task in self._tasks.pop(session, []):
            task.cancel()
        self._channels.pop(session, None)
        del self._opened[session]
        await self._connections.pop(session).close()

    async def start_media(self) -> None:
        """Let every microphone speak."""
        for microphone in self._microphones:
            microphone.started.set()

    async def blast(self, session: str, size: int, seconds: float) -> None:
        """Keep the channel's buffer filled, with back-pressure, for so long."""
        channel, message = self._channels[session], bytes(size)
        low = asyncio.Event()
        channel.bufferedAmountLowThreshold = _WINDOW // 2
        channel.on("bufferedamountlow", low.set)
        end = time.monotonic() + seconds
        count = 0
        while time.monotonic() < end:
            while channel.bufferedAmount < _WINDOW and time.monotonic() < end:
                channel.send(message)
                count += 1
                if count % _YIELD_EVERY == 0:
                    await asyncio.sleep(0)
            low.clear()
            if channel.bufferedAmount >= _WINDOW:
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(low.wait(), 1)
        while channel.bufferedAmount:
            await asyncio.sleep(0.005)
        await asyncio.sleep(0.2)

    def start_receiving(self, session: str) -> None:
        """Count what the channel receives from now on."""
        self._counts[session] = [0.0, 0.0, 0.0]

    def received(self, session: str) -> tuple[int, float]:
        """Bytes received, and the seconds from the first to the last message."""
        count, first, last = self._counts.pop(session)
        return int(count), last - first

    def _bare(self, session: str) -> Any:
        connection = aiortc.RTCPeerConnection(aiortc.RTCConfiguration(iceServers=[]))
        self._connections[session] = connection
        self._opened[session] = asyncio.Event()
        self._tasks[session] = []
        return connection

    def _open_when_connected(self, session: str, connection: Any) -> None:
        def changed() -> None:
            if connection.connectionState == "connected":
                self._opened[session].set()

        connection.on("connectionstatechange", changed)

    def _make(self, session: str, kind: str) -> Any:
        connection = self._bare(session)
        opened = self._opened[session]
        if kind in ("channel", "both"):
            channel = connection.createDataChannel("bench", negotiated=True, id=0)
            self._channels[session] = channel
            channel.on("open", opened.set)
            channel.on("message", lambda message: self._count(session, len(message)))
        if kind in ("audio", "both"):
            microphone = _Microphone(self, phase_s=len(self._microphones) % 20 / 1000)
            self._microphones.append(microphone)
            connection.addTrack(microphone)
            connection.on("track", lambda track: self._listen(session, track))
        if kind == "audio":
            self._open_when_connected(session, connection)
        elif kind not in ("channel", "both"):
            raise ToolFailure(f"no such kind of session: {kind}")
        return connection

    def _listen(self, session: str, track: Any) -> None:
        self._tasks[session].append(asyncio.ensure_future(self._note(session, track)))

    async def _note(self, session: str, track: Any) -> None:
        arrivals: Arrivals = self.arrivals
        number = arrivals.number(session)
        with contextlib.suppress(MediaStreamError):
            while True:
                frame = await track.recv()
                self.packets += 1
                arrivals.note(number, frame.timestamp, time.monotonic())

    def _count(self, session: str, size: int) -> None:
        counts = self._counts.get(session)
        if counts is not None:
            counts[2] = time.monotonic()
            counts[1] = counts[1] or counts[2]
            counts[0] += size
