"""aiortc's shape over this stack against aiortc itself, and one program over both.

The program is `offer_server`; its caller is a real aiortc, and what it does and sees has to be the
same whichever library it was written on.
"""

from __future__ import annotations

import asyncio
import importlib
import wave
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from tests.interop.calls import announced_channels, new_peer
from tests.interop.loops import run
from tests.interop.offer_server import OfferServer
from tests.interop.sound import CLIP_S, Ear, clip, speaker
from warp.compat import aiortc as compat
from warp_tools.audio import likeness
from warp_tools.audio.likeness import SAME_SPEECH

pytestmark = [pytest.mark.interop, pytest.mark.usefixtures("aiortc_on_loopback")]
OURS, THEIRS = "warp.compat.aiortc", "aiortc"
END_S = 8.0


def library(name: str) -> tuple[ModuleType, ModuleType]:
    return importlib.import_module(name), importlib.import_module(f"{name}.contrib.media")


async def until(condition: Any) -> None:
    async with asyncio.timeout(END_S):
        while not condition():
            await asyncio.sleep(0.01)


def speak(peer: Any, sound: np.ndarray) -> None:
    """Say `sound`, through a track of whichever library the connection is of."""
    theirs = speaker(sound)
    if isinstance(peer, compat.RTCPeerConnection):

        class Speaker(compat.MediaStreamTrack):
            kind = "audio"

            async def recv(self) -> Any:
                return await theirs.recv()

        peer.addTrack(Speaker())
    else:
        peer.addTrack(theirs)


async def exchange(offerer: Any, answerer: Any) -> None:
    """One offer and its answer between two libraries."""
    await offerer.setLocalDescription(await offerer.createOffer())
    await give(answerer, offerer.localDescription)
    await answerer.setLocalDescription(await answerer.createAnswer())
    await give(offerer, answerer.localDescription)


async def give(peer: Any, description: Any) -> None:
    ours = isinstance(peer, compat.RTCPeerConnection)
    module = compat if ours else importlib.import_module(THEIRS)
    await peer.setRemoteDescription(
        module.RTCSessionDescription(sdp=description.sdp, type=description.type)
    )


class CompatEar(Ear):
    """Records a track that is ours."""

    async def _record(self, track: Any) -> None:
        try:
            while True:
                frame = await track.recv()
                self._parts.append(frame.to_ndarray()[0, ::2].astype(np.int16))
        except compat.MediaStreamError:
            pass


@pytest.mark.slow
@pytest.mark.parametrize("offerer", ["ours", "theirs"])
def test_both_speak_write_and_hang_up(offerer: str) -> None:
    async def test() -> None:
        ours, theirs = compat.RTCPeerConnection(), new_peer()
        our_ear, their_ear = CompatEar(ours), Ear(theirs)
        speak(ours, clip("greeting"))
        speak(theirs, clip("speech"))
        first, second = (ours, theirs) if offerer == "ours" else (theirs, ours)
        opened = announced_channels(second)
        channel = first.createDataChannel("chat")
        answers: list[str | bytes] = []
        channel.on("message", answers.append)
        await exchange(first, second)
        try:
            async with asyncio.timeout(END_S):
                wire = await opened.get()
                await until(lambda: channel.readyState == "open")
                channel.send("ping")
                channel.send(b"\x00\xff")
                assert [await wire.next(), await wire.next()] == ["ping", b"\x00\xff"]
                wire.send("pong")
                await until(lambda: answers == ["pong"])
            wire.channel.close()
            await until(lambda: channel.readyState == "closed" and wire.closed.is_set())
            await until(lambda: min(our_ear.seconds, their_ear.seconds) > CLIP_S + 0.3)
            heard_by_us, heard_by_them = our_ear.samples(), their_ear.samples()
            assert likeness(clip("speech"), heard_by_us).correlation > SAME_SPEECH
            assert likeness(clip("greeting"), heard_by_them).correlation > SAME_SPEECH
            assert likeness(clip("greeting"), heard_by_us).correlation < 0.5
            kinds = {entry.type: entry for entry in (await ours.getStats()).values()}
            assert kinds["inbound-rtp"].packetsLost == 0
            assert kinds["outbound-rtp"].packetsSent > 100
            # whoever hangs up, both are at the end
            await second.close()
            await until(lambda: first.connectionState == "closed")
            await until(lambda: our_ear.ended.is_set() and their_ear.ended.is_set())
        finally:
            await ours.close()
            await theirs.close()

    run(test())


@pytest.mark.slow
def test_aiortc_may_only_listen_or_only_speak() -> None:
    async def test(direction: str) -> None:
        ours, theirs = compat.RTCPeerConnection(), new_peer()
        our_ear, their_ear = CompatEar(ours), Ear(theirs)
        if direction == "recvonly":
            theirs.addTransceiver("audio", direction=direction)
        else:
            theirs.addTransceiver(speaker(clip("speech")), direction=direction)
        speak(ours, clip("greeting"))
        await exchange(theirs, ours)
        try:
            [transceiver] = ours.getTransceivers()
            if direction == "recvonly":
                assert transceiver.currentDirection == "sendonly"
                await until(lambda: their_ear.seconds > 0.3)
                assert our_ear.seconds == 0
            else:
                assert transceiver.currentDirection == "recvonly"
                await until(lambda: our_ear.seconds > 0.3)
                assert their_ear.seconds == 0
        finally:
            await ours.close()
            await theirs.close()

    for direction in ("recvonly", "sendonly"):
        run(test(direction))


@pytest.mark.slow
def test_a_video_section_of_aiortcs_is_refused_and_the_rest_is_not() -> None:
    async def test() -> None:
        ours, theirs = compat.RTCPeerConnection(), new_peer()
        told: list[str] = []
        ours.on("track", lambda track: told.append(track.kind))
        try:
            theirs.addTransceiver("video", direction="sendrecv")
            theirs.addTrack(speaker(clip("speech")))
            theirs.createDataChannel("chat")
            await theirs.setLocalDescription(await theirs.createOffer())
            await give(ours, theirs.localDescription)
            await ours.setLocalDescription(await ours.createAnswer())
            lines = ours.localDescription.sdp.splitlines()
            sections = [line.split()[:2] for line in lines if line.startswith("m=")]
            refused = [kind for kind, port in sections if port == "0"]
            assert (len(sections), refused, told) == (3, ["m=video"], ["audio"])
        finally:
            await ours.close()
            await theirs.close()

    run(test())


def caller_of(server: OfferServer, answers: list[Any]) -> tuple[Any, Ear, Any]:
    """Return a real aiortc with a track, an ear, and a channel that counts pongs."""
    peer = new_peer()
    peer.addTrack(speaker(clip("speech")))
    channel = peer.createDataChannel("chat")
    channel.on("message", answers.append)
    return peer, Ear(peer), channel


async def visit(name: str, folder: Path) -> dict[str, Any]:
    """Call the program on one library; returns what it saw and what its caller got."""
    record_to = folder / f"{name}.wav"
    server = OfferServer(*library(name), str(record_to))
    answers: list[Any] = []
    peer, ear, channel = caller_of(server, answers)
    await peer.setLocalDescription(await peer.createOffer())
    sdp, kind = await server.offer(peer.localDescription.sdp, peer.localDescription.type)
    answer = importlib.import_module(THEIRS).RTCSessionDescription(sdp=sdp, type=kind)
    await peer.setRemoteDescription(answer)
    try:
        await until(lambda: channel.readyState == "open")
        channel.send("ping 1")
        channel.send("not a ping")
        channel.send(b"ping")
        channel.send("ping 2")
        await until(lambda: len(answers) == 2)
        await until(lambda: ear.seconds > CLIP_S + 0.5)
        echoed = ear.samples()
        await peer.close()
        await until(lambda: ("recorder", "stopped") in server.seen)
        await until(lambda: ("connection", "closed") in server.seen)
    finally:
        await peer.close()
        await server.aclose()
    return {
        "answers": answers,
        "kind": kind,
        "seen": {
            what: [value for entry, value in server.seen if entry == what]
            for what in dict(server.seen)
        },
        "echo": likeness(clip("speech"), echoed).correlation > SAME_SPEECH,
        "recording": recorded(record_to),
    }


def recorded(path: Path) -> tuple[int, int, bool]:
    """Return rate, channels and whether the file holds what was said."""
    with wave.open(str(path), "rb") as source:
        data = np.frombuffer(source.readframes(source.getnframes()), np.int16)
        channels = source.getnchannels()
        same = likeness(clip("speech"), data[::channels]).correlation > SAME_SPEECH
        return source.getframerate(), channels, same


@pytest.mark.slow
def test_a_program_for_aiortc_does_the_same_with_the_import_changed(tmp_path: Path) -> None:
    results = {}
    for name in (THEIRS, OURS):

        async def test(name: str = name) -> None:
            results[name] = await visit(name, tmp_path)

        run(test())
    assert results[OURS] == results[THEIRS]
    assert results[OURS]["answers"] == ["pong 1", "pong 2"]
    assert results[OURS]["echo"]
    assert results[OURS]["recording"] == (48_000, 2, True)
    assert results[OURS]["seen"]["connection"] == ["connecting", "connected", "closed"]
