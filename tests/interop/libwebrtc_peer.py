"""One libwebrtc connection as a process: commands in, what happened out, JSON lines both ways.

    {"cmd": "offer", ...} ─▶ stdin │ RTCPeerConnection of package `wrtc` │ stdout ─▶ {"ev": ...}

A process of its own, because field trials hold for a whole process (`WRTC_FIELD_TRIALS`). It ends
with its standard input. Times are seconds of the system's monotonic clock, which asyncio's loops
read as well. Driven by `tests.interop.libwebrtc`.
"""

from __future__ import annotations

import asyncio
import base64
import json
import os
import sys
import time
from pathlib import Path
from typing import Any

import webrtc

RATE = 48_000
CHUNK = 480
LINE_LIMIT = 4 << 20


def emit(event: str, **data: Any) -> None:
    """Tell the driver."""
    sys.stdout.write(json.dumps({"ev": event, "t": time.monotonic(), **data}) + "\n")
    sys.stdout.flush()


def plain(value: Any) -> Any:
    """Return what JSON can hold."""
    value = getattr(value, "value", value)
    return value if isinstance(value, str | int | float | bool | None) else str(value)


class Voice:
    """A track that says what it is given in real time, and is silent otherwise."""

    def __init__(self, connection: webrtc.RTCPeerConnection) -> None:
        self._track = webrtc.MediaStreamTrackGenerator("audio")
        self._sound = b""
        connection.add_track(self._track)
        self.task = asyncio.ensure_future(self._run())

    def say(self, sound: bytes) -> None:
        """Speak 16-bit samples at 48 kHz from now on."""
        self._sound = sound

    async def _run(self) -> None:
        writer = self._track.writable.get_writer()
        began = time.monotonic()
        count = 0
        while True:
            chunk, self._sound = self._sound[: 2 * CHUNK], self._sound[2 * CHUNK :]
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

    def __init__(self, track: webrtc.MediaStreamTrack) -> None:
        init = webrtc.MediaStreamTrackProcessorInit(track=track, max_buffer_size=100)
        self._processor = webrtc.MediaStreamTrackProcessor(init)
        self.heard = bytearray()
        self.task = asyncio.ensure_future(self._run())

    async def _run(self) -> None:
        reader = self._processor.readable.get_reader()
        told = False
        while not (result := await reader.read()).done:
            audio = result.value
            channels = audio.number_of_channels
            samples = bytearray(2 * audio.number_of_frames * channels)
            audio.copy_to(samples, webrtc.AudioDataCopyToOptions(plane_index=0, format="s16"))
            left = memoryview(samples).cast("h")[::channels]
            if not told and any(left):
                told = True
                emit("audible", rate=audio.sample_rate, channels=channels)
            self.heard += left.tobytes()
            audio.close()
        emit("track_ended")


class Peer:
    """The connection and its channels by label."""

    def __init__(self, certificate: webrtc.RTCCertificate | None) -> None:
        self.connection = connection = webrtc.RTCPeerConnection(
            webrtc.RTCConfiguration(
                ice_servers=[], certificates=[certificate] if certificate is not None else None
            )
        )
        self._channels: dict[str, webrtc.RTCDataChannel] = {}
        self._voice: Voice | None = None
        self._ears: list[Ear] = []
        for name in ("connection_state", "ice_connection_state", "ice_gathering_state"):
            connection.on(name.replace("_", "") + "change", lambda _, name=name: self._tell(name))
        connection.on("datachannel", self._take)
        connection.on("track", lambda event: self._ears.append(Ear(event.track)))

    def _tell(self, name: str) -> None:
        emit(name, state=plain(getattr(self.connection, name)))

    # -- channels -----------------------------------------------------------------------------

    def create_channel(self, label: str, **options: Any) -> None:
        """Open a channel."""
        init = webrtc.RTCDataChannelInit(**options)
        self._follow(self.connection.create_data_channel(label, init))

    def _take(self, event: webrtc.RTCDataChannelEvent) -> None:
        channel = event.channel
        emit(
            "announced",
            label=channel.label,
            id=channel.id,
            protocol=channel.protocol,
            ordered=channel.ordered,
            max_retransmits=channel.max_retransmits,
            max_packet_life_time=channel.max_packet_life_time,
        )
        self._follow(channel)

    def _follow(self, channel: webrtc.RTCDataChannel) -> None:
        label = channel.label
        self._channels[label] = channel
        channel.binary_type = "arraybuffer"
        channel.on("open", lambda _: emit("open", label=label, id=channel.id))
        channel.on("close", lambda _: emit("channel_closed", label=label))
        channel.on("error", lambda event: emit("channel_error", label=label, why=str(event)))
        channel.on("message", lambda event: self._hear(label, event.data))
        if plain(channel.ready_state) == "open":
            emit("open", label=label, id=channel.id)

    def _hear(self, label: str, data: str | bytes) -> None:
        if isinstance(data, str):
            emit("message", label=label, text=data)
        else:
            emit("message", label=label, binary=base64.b64encode(data).decode())

    # -- descriptions -------------------------------------------------------------------------

    def _prepare(self, channels: list[dict[str, Any]], audio: bool) -> None:
        for options in channels:
            self.create_channel(**options)
        if audio:
            self._voice = Voice(self.connection)

    async def offer(self, channels: list[dict[str, Any]], audio: bool, restart: bool) -> None:
        """Make an offer with every candidate in it."""
        self._prepare(channels, audio)
        options = webrtc.RTCOfferOptions(ice_restart=restart)
        await self._set_local(await self.connection.create_offer(options))

    async def answer(
        self, sdp: str, channels: list[dict[str, Any]], audio: bool, setup: str | None
    ) -> None:
        """Answer an offer; `setup` replaces the DTLS role that libwebrtc would take (active)."""
        offer = webrtc.RTCSessionDescriptionInit(type="offer", sdp=sdp)
        await self.connection.set_remote_description(offer)
        self._prepare(channels, audio)
        answer = await self.connection.create_answer()
        if setup is not None:
            answer.sdp = answer.sdp.replace("a=setup:active", f"a=setup:{setup}")
        await self._set_local(answer)

    async def _set_local(self, description: webrtc.RTCSessionDescriptionInit) -> None:
        connection = self.connection
        await connection.set_local_description(description)
        # after a restart the state says `complete` of what was gathered before
        while (
            plain(connection.ice_gathering_state) != "complete"
            or "a=candidate:" not in connection.local_description.sdp
        ):
            await asyncio.sleep(0.002)
        emit("description", kind=plain(description.type), sdp=connection.local_description.sdp)

    async def accept(self, sdp: str) -> None:
        """Apply the answer to our offer."""
        answer = webrtc.RTCSessionDescriptionInit(type="answer", sdp=sdp)
        await self.connection.set_remote_description(answer)
        emit("accepted")

    # -- the rest -----------------------------------------------------------------------------

    def send(self, label: str, text: str | None = None, binary: str | None = None) -> None:
        """Send a message: text, or bytes in base64."""
        channel = self._channels[label]
        channel.send(text if binary is None else base64.b64decode(binary))

    def say(self, path: str) -> None:
        """Speak the samples in a file."""
        if self._voice is not None:
            self._voice.say(Path(path).read_bytes())

    def dial(self, tones: str) -> None:
        """Send DTMF (RFC 4733) on our voice."""
        [sender] = [one for one in self.connection.get_senders() if one.track is not None]
        sender.dtmf.insert_dtmf(tones)

    def heard(self, path: str) -> None:
        """Write what was heard to a file."""
        Path(path).write_bytes(b"".join(bytes(ear.heard) for ear in self._ears))
        emit("heard", samples=sum(len(ear.heard) for ear in self._ears) // 2)

    async def stats(self) -> None:
        """Tell every report of getStats."""
        report = await self.connection.get_stats()
        found = []
        for entry in report.values():
            names = [name for name in vars(entry) if not name.startswith("_")]
            found.append({name: plain(getattr(entry, name)) for name in names})
        emit("stats", reports=found)

    def close_channel(self, label: str) -> None:
        """Close one channel."""
        self._channels[label].close()

    def close(self) -> None:
        """Close the connection."""
        for task in [ear.task for ear in self._ears] + ([self._voice.task] if self._voice else []):
            task.cancel()
        self.connection.close()
        emit("closed")


async def main() -> None:
    """Obey until the standard input ends."""
    loop = asyncio.get_running_loop()
    reader = asyncio.StreamReader(limit=LINE_LIMIT)
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
    certificate = None
    if "rsa" in sys.argv[1:]:
        algorithm = webrtc.RsaHashedKeyGenParams(
            "RSASSA-PKCS1-v1_5", modulus_length=2048, public_exponent=b"\1\0\1", hash="SHA-256"
        )
        certificate = await webrtc.RTCPeerConnection.generate_certificate(algorithm)
    peer = Peer(certificate)
    emit("ready", trials=os.environ.get("WRTC_FIELD_TRIALS", ""), pid=os.getpid())
    while line := await reader.readline():
        command = json.loads(line)
        name = command.pop("cmd")
        try:
            result = getattr(peer, name)(**command)
            if asyncio.iscoroutine(result):
                await result
        except Exception as error:
            emit("failed", cmd=name, why=f"{type(error).__name__}: {error}")
    os._exit(0)


if __name__ == "__main__":
    asyncio.run(main())
