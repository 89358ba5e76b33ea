"""Two connections of ours that call each other on loopback."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from typing import Any

from warp.compat.aiortc import RTCConfiguration, RTCPeerConnection

END_S = 5.0


async def until(condition: Any) -> None:
    """Wait for a condition; fails when it does not come true."""
    async with asyncio.timeout(END_S):
        while not condition():
            await asyncio.sleep(0.005)


class Log:
    """What a connection tells, in order."""

    def __init__(self, peer: Any) -> None:
        self.entries: list[tuple[str, str]] = []
        self.tracks: list[Any] = []
        self.channels: list[Any] = []
        self.messages: list[str | bytes] = []
        for event, state in (
            ("signalingstatechange", "signalingState"),
            ("icegatheringstatechange", "iceGatheringState"),
            ("iceconnectionstatechange", "iceConnectionState"),
            ("connectionstatechange", "connectionState"),
        ):
            peer.on(event, lambda s=state: self.entries.append((s, getattr(peer, s))))
        peer.on("track", self._add_track)
        peer.on("datachannel", self.watch)

    def _add_track(self, track: Any) -> None:
        self.tracks.append(track)
        self.entries.append(("track", track.kind))
        track.on("ended", lambda: self.entries.append(("track", "ended")))

    def watch(self, channel: Any) -> Any:
        self.channels.append(channel)
        self.entries.append(("channel", channel.readyState))
        channel.on("open", lambda: self.entries.append(("channel", "opened")))
        channel.on("close", lambda: self.entries.append(("channel", "closed")))
        channel.on("message", self.messages.append)
        return channel

    def of(self, name: str) -> list[str]:
        return [value for entry, value in self.entries if entry == name]


async def exchange(offerer: Any, answerer: Any) -> None:
    """One offer and its answer."""
    await offerer.setLocalDescription(await offerer.createOffer())
    await answerer.setRemoteDescription(offerer.localDescription)
    await answerer.setLocalDescription(await answerer.createAnswer())
    await offerer.setRemoteDescription(answerer.localDescription)


async def connected(*peers: Any) -> None:
    await until(lambda: all(peer.connectionState == "connected" for peer in peers))


@contextlib.asynccontextmanager
async def pair(
    configuration: RTCConfiguration | None = None,
) -> AsyncIterator[tuple[RTCPeerConnection, RTCPeerConnection]]:
    """Yield two connections; both are closed in the end."""
    first, second = RTCPeerConnection(configuration), RTCPeerConnection()
    try:
        yield first, second
    finally:
        await first.close()
        await second.close()
