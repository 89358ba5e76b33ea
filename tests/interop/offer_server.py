"""A program written for aiortc: answers an offer, echoes the sound, answers pings, records.

What its well-known server example does, with the library as an argument, so that it runs over
aiortc and over us unchanged: `offer` returns the answer; what it observes is in `seen`.
"""

from __future__ import annotations

from types import ModuleType
from typing import Any


class OfferServer:
    """Holds the connections of one library. `media` is that library's `contrib.media`."""

    def __init__(self, library: ModuleType, media: ModuleType, record_to: str) -> None:
        self.library, self.media = library, media
        self.record_to = record_to
        self.relay = media.MediaRelay()
        self.peers: set[Any] = set()
        self.seen: list[tuple[str, str]] = []

    async def offer(self, sdp: str, kind: str) -> tuple[str, str]:
        """Answer an offer; returns the answer and its type."""
        pc = self.library.RTCPeerConnection(self.library.RTCConfiguration(iceServers=[]))
        self.peers.add(pc)
        recorder = self.media.MediaRecorder(self.record_to)

        @pc.on("datachannel")
        def on_datachannel(channel):
            self.seen.append(("channel", f"{channel.label} {channel.readyState}"))

            @channel.on("message")
            def on_message(message):
                if isinstance(message, str) and message.startswith("ping"):
                    channel.send("pong" + message[4:])

            channel.on("close", lambda: self.seen.append(("channel", channel.readyState)))

        @pc.on("connectionstatechange")
        async def on_connectionstatechange():
            self.seen.append(("connection", pc.connectionState))
            if pc.connectionState == "failed":
                await pc.close()
                self.peers.discard(pc)

        @pc.on("signalingstatechange")
        def on_signalingstatechange():
            self.seen.append(("signaling", pc.signalingState))

        @pc.on("iceconnectionstatechange")
        def on_iceconnectionstatechange():
            self.seen.append(("ice", pc.iceConnectionState))

        @pc.on("icegatheringstatechange")
        def on_icegatheringstatechange():
            self.seen.append(("gathering", pc.iceGatheringState))

        @pc.on("track")
        def on_track(track):
            self.seen.append(("track", f"{track.kind} {track.readyState}"))
            pc.addTrack(self.relay.subscribe(track))
            recorder.addTrack(self.relay.subscribe(track))

            @track.on("ended")
            async def on_ended():
                await recorder.stop()
                self.seen.append(("recorder", "stopped"))

        await pc.setRemoteDescription(self.library.RTCSessionDescription(sdp=sdp, type=kind))
        await recorder.start()
        await pc.setLocalDescription(await pc.createAnswer())
        return pc.localDescription.sdp, pc.localDescription.type

    async def aclose(self) -> None:
        """End every connection."""
        for pc in self.peers:
            await pc.close()
        self.peers.clear()
