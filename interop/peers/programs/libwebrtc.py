"""libwebrtc (the package `wrtc`) as a peer: see `interop.peers.lines`.

Field trials hold for a whole process: `WRTC_FIELD_TRIALS`; `WRTC_ALLOW_LOOPBACK` for 127.0.0.1.
"""

from __future__ import annotations

import asyncio
import time
from importlib.metadata import version
from pathlib import Path
from typing import Any

import webrtc

from interop.peers.programs.obey import content, mark, serve, tell_message, with_setup

RATE = 48_000
CHUNK = 480


def plain(value: Any) -> Any:
    """Return an enum's value."""
    return getattr(value, "value", value)


class Voice:
    """A track that says what it is given in real time, and is silent otherwise."""

    def __init__(self, connection: Any) -> None:
        self._track = webrtc.MediaStreamTrackGenerator("audio")
        self.sound = b""
        connection.add_track(self._track)
        self.task = asyncio.ensure_future(self._run())

    async def _run(self) -> None:
        writer = self._track.writable.get_writer()
        began = time.monotonic()
        count = 0
        while True:
            chunk, self.sound = self.sound[: 2 * CHUNK], self.sound[2 * CHUNK :]
            data = webrtc.AudioDataInit(
                format="s16",
                sample_rate=RATE,
                number_of_frames=CHUNK,
                number_of_channels=1,
                timestamp=count * 10_000,
                data=chunk.ljust(2 * CHUNK, b"\0"),
            )
            await writer.write(webrtc.AudioData(data))
            count += 1
            await asyncio.sleep(max(0.0, began + count * CHUNK / RATE - time.monotonic()))


class Ear:
    """Keeps the left channel of what a remote track says."""

    def __init__(self, track: Any) -> None:
        init = webrtc.MediaStreamTrackProcessorInit(track=track, max_buffer_size=100)
        self._processor = webrtc.MediaStreamTrackProcessor(init)
        self.heard = bytearray()
        self.task = asyncio.ensure_future(self._run())

    async def _run(self) -> None:
        reader = self._processor.readable.get_reader()
        while not (result := await reader.read()).done:
            audio: Any = result.value
            samples = bytearray(2 * audio.number_of_frames * audio.number_of_channels)
            audio.copy_to(samples, webrtc.AudioDataCopyToOptions(plane_index=0, format="s16"))
            self.heard += memoryview(samples).cast("h")[:: audio.number_of_channels].tobytes()
            audio.close()


class Peer:
    """One connection."""

    def __init__(self, number: int, options: dict[str, Any]) -> None:
        self._number = number
        self._pc = pc = webrtc.RTCPeerConnection(webrtc.RTCConfiguration(ice_servers=[]))
        self._channels: dict[str, Any] = {}
        self._voice: Voice | None = None
        self._ears: list[Ear] = []
        pc.on("connectionstatechange", lambda _: self._tell_state())
        pc.on("datachannel", self._announced)
        pc.on("track", lambda event: self._ears.append(Ear(event.track)))
        if options["audio"]:
            self.add_audio()
        if options["video"]:
            pc.add_transceiver("video")
        for channel in options["channels"]:
            self.open(**channel)

    def _mark(self, name: str, **more: Any) -> None:
        mark(self._number, name, **more)

    def _tell_state(self) -> None:
        self._mark(f"connection:{plain(self._pc.connection_state)}")

    # -- channels -------------------------------------------------------------------------------

    def open(self, label: str, **options: Any) -> None:
        """Open a channel."""
        for name, theirs in (("maxRetransmits", "max_retransmits"), ("stream", "id")):
            if name in options:
                options[theirs] = options.pop(name)
        init = webrtc.RTCDataChannelInit(**options)
        self._follow(self._pc.create_data_channel(label, init))

    def _announced(self, event: Any) -> None:
        channel = event.channel
        self._mark(
            f"announced:{channel.label}",
            ordered=channel.ordered,
            maxRetransmits=channel.max_retransmits,
            protocol=channel.protocol,
        )
        self._follow(channel)

    def _follow(self, channel: Any) -> None:
        label = channel.label
        self._channels[label] = channel
        channel.binary_type = "arraybuffer"
        channel.on("open", lambda _: self._mark(f"open:{label}"))
        channel.on("close", lambda _: self._mark(f"closed:{label}"))
        channel.on("message", lambda event: tell_message(self._number, label, event.data))
        if plain(channel.ready_state) == "open":
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
        """Return an offer, applied, with every candidate in it."""
        options = webrtc.RTCOfferOptions(ice_restart=restart)
        return await self._set_local(await self._pc.create_offer(options))

    async def answer(self, sdp: str, setup: str | None) -> str:
        """Return an answer, applied."""
        offer = webrtc.RTCSessionDescriptionInit(type="offer", sdp=sdp)
        await self._pc.set_remote_description(offer)
        answer = await self._pc.create_answer()
        answer.sdp = with_setup(answer.sdp, setup)
        return await self._set_local(answer)

    async def _set_local(self, description: Any) -> str:
        pc: Any = self._pc
        await pc.set_local_description(description)
        # after a restart the state says `complete` of what was gathered before
        while (
            plain(pc.ice_gathering_state) != "complete"
            or "a=candidate:" not in pc.local_description.sdp
        ):
            await asyncio.sleep(0.002)
        return str(pc.local_description.sdp)

    async def accept(self, sdp: str) -> None:
        """Apply the answer to our offer."""
        answer = webrtc.RTCSessionDescriptionInit(type="answer", sdp=sdp)
        await self._pc.set_remote_description(answer)

    # -- sound ----------------------------------------------------------------------------------

    def add_audio(self) -> None:
        """Add a track."""
        self._voice = Voice(self._pc)

    def say(self, path: str) -> None:
        """Speak 16-bit samples at 48 kHz."""
        if self._voice is None:
            raise RuntimeError("there is no track to speak on")
        self._voice.sound = Path(path).read_bytes()

    def heard(self, path: str) -> None:
        """Write what was heard."""
        Path(path).write_bytes(b"".join(bytes(ear.heard) for ear in self._ears))

    async def close(self) -> None:
        """Close the connection."""
        for task in [ear.task for ear in self._ears]:
            task.cancel()
        if self._voice is not None:
            self._voice.task.cancel()
        self._pc.close()
        self._mark("connection:closed")


if __name__ == "__main__":
    serve(f"libwebrtc M152 (wrtc {version('wrtc')})", Peer)
