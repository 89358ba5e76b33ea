"""aiortc as a peer: see `interop.peers.lines`; on 127.0.0.1 alone, which it leaves out itself."""

from __future__ import annotations

import asyncio
import contextlib
import fractions
from importlib.metadata import version
from pathlib import Path
from typing import Any

import aioice.ice
import av
import numpy as np
from aiortc import RTCConfiguration, RTCPeerConnection, RTCSessionDescription
from aiortc.mediastreams import MediaStreamError, MediaStreamTrack

from interop.peers.programs.obey import content, mark, serve, tell_message, with_setup

RATE = 48_000
FRAME = 960


class Voice(MediaStreamTrack):
    """A track that says what it is given, in real time, and is silent otherwise."""

    kind = "audio"

    def __init__(self) -> None:
        super().__init__()
        self.sound = np.zeros(0, np.int16)
        self._count = 0
        self._began = 0.0

    async def recv(self) -> av.AudioFrame:
        """Return the next 20 ms."""
        loop = asyncio.get_running_loop()
        self._began = self._began or loop.time()
        await asyncio.sleep(self._began + self._count * FRAME / RATE - loop.time())
        part, self.sound = self.sound[:FRAME], self.sound[FRAME:]
        samples = np.concatenate([part, np.zeros(FRAME - len(part), np.int16)])
        frame = av.AudioFrame.from_ndarray(samples.reshape(1, -1), "s16", "mono")
        frame.sample_rate = RATE
        frame.time_base = fractions.Fraction(1, RATE)
        frame.pts = self._count * FRAME
        self._count += 1
        return frame


class Peer:
    """One connection."""

    def __init__(self, number: int, options: dict[str, Any]) -> None:
        self._number = number
        self._pc = RTCPeerConnection(RTCConfiguration(iceServers=[]))
        self._channels: dict[str, Any] = {}
        self._voice: Voice | None = None
        self._heard: list[np.ndarray[Any, np.dtype[np.int16]]] = []
        self._ears: list[asyncio.Task[None]] = []
        pc = self._pc
        pc.on("connectionstatechange", lambda: self._mark(f"connection:{pc.connectionState}"))
        pc.on("datachannel", self._announced)
        pc.on("track", lambda track: self._ears.append(asyncio.ensure_future(self._listen(track))))
        if options["audio"]:
            self.add_audio()
        if options["video"]:
            pc.addTransceiver("video")
        for channel in options["channels"]:
            self.open(**channel)

    def _mark(self, name: str, **more: Any) -> None:
        mark(self._number, name, **more)

    # -- channels -------------------------------------------------------------------------------

    def open(self, label: str, **options: Any) -> None:
        """Open a channel."""
        if "stream" in options:
            options["id"] = options.pop("stream")
        self._follow(self._pc.createDataChannel(label, **options))

    def _announced(self, channel: Any) -> None:
        self._mark(
            f"announced:{channel.label}",
            ordered=channel.ordered,
            maxRetransmits=channel.maxRetransmits,
            protocol=channel.protocol,
        )
        self._follow(channel)

    def _follow(self, channel: Any) -> None:
        label = channel.label
        self._channels[label] = channel
        channel.on("open", lambda: self._mark(f"open:{label}"))
        channel.on("close", lambda: self._mark(f"closed:{label}"))
        channel.on("message", lambda data: tell_message(self._number, label, data))
        if channel.readyState == "open":
            self._mark(f"open:{label}")

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

    # -- descriptions ---------------------------------------------------------------------------

    async def offer(self, restart: bool) -> str:
        """Return an offer, applied."""
        if restart:
            raise NotImplementedError("aiortc restarts no ICE")
        await self._pc.setLocalDescription(await self._pc.createOffer())
        return str(self._pc.localDescription.sdp)

    async def answer(self, sdp: str, setup: str | None) -> str:
        """Return an answer, applied."""
        await self._pc.setRemoteDescription(RTCSessionDescription(sdp, "offer"))
        answer = await self._pc.createAnswer()
        answer = RTCSessionDescription(with_setup(answer.sdp, setup), "answer")
        await self._pc.setLocalDescription(answer)
        return str(self._pc.localDescription.sdp)

    async def accept(self, sdp: str) -> None:
        """Apply the answer to our offer."""
        await self._pc.setRemoteDescription(RTCSessionDescription(sdp, "answer"))

    # -- sound ----------------------------------------------------------------------------------

    def add_audio(self) -> None:
        """Add a track."""
        self._voice = Voice()
        self._pc.addTrack(self._voice)

    def say(self, path: str) -> None:
        """Speak 16-bit samples at 48 kHz."""
        if self._voice is None:
            raise RuntimeError("there is no track to speak on")
        self._voice.sound = np.frombuffer(Path(path).read_bytes(), np.int16)

    async def _listen(self, track: MediaStreamTrack) -> None:
        with contextlib.suppress(MediaStreamError):
            while True:
                frame: Any = await track.recv()
                # interleaved stereo: both sides carry the same voice
                self._heard.append(frame.to_ndarray()[0, ::2].astype(np.int16))

    def heard(self, path: str) -> None:
        """Write what was heard."""
        Path(path).write_bytes(b"".join(part.tobytes() for part in self._heard))

    async def close(self) -> None:
        """Close the connection."""
        await self._pc.close()
        for ear in self._ears:
            ear.cancel()
        self._mark("connection:closed")


def main() -> None:
    """Obey."""
    aioice.ice.get_host_addresses = lambda use_ipv4, use_ipv6: ["127.0.0.1"]
    serve(f"aiortc {version('aiortc')}", Peer)


if __name__ == "__main__":
    main()
