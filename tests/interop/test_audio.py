"""Real speech each way at once, compared with what was said."""

from __future__ import annotations

import asyncio

import numpy as np
import pytest

from tests.interop.calls import CONNECT_S, aiortc_calls, we_call
from tests.interop.loops import run
from tests.interop.sound import CLIP_S, Ear, clip, speaker
from warp.io import ServerConfig, Session
from warp.srtp import SrtpProfile
from warp_tools.audio import likeness
from warp_tools.audio.likeness import SAME_SPEECH
from warp_tools.caller import speak
from warp_tools.hearing import Recording
from warp_tools.opus import FRAME_SAMPLES, encoded

pytestmark = [pytest.mark.interop, pytest.mark.usefixtures("aiortc_on_loopback")]

# aiortc's jitter buffer keeps the last frames back until more follow
FLUSH = np.zeros(30 * FRAME_SAMPLES, np.int16)


async def hear(session: Session, seconds: float) -> Recording:
    """Record what aiortc says for so long."""
    recording = Recording()
    async for frame in session.audio_in:
        recording.add(frame)
        if recording.seconds >= seconds:
            break
    return recording


async def converse(session: Session, ear: Ear, ours: str, theirs: str) -> None:
    """Both speak at once; both have heard what the other said, and not themselves."""
    said, answered = clip(ours), clip(theirs)
    await session.connected(CONNECT_S)
    speaking = asyncio.ensure_future(speak(session, encoded(np.concatenate([said, FLUSH]))))
    recording = await hear(session, CLIP_S + 0.3)
    await speaking
    while session.audio_out.queued_ms or ear.seconds < CLIP_S + 0.2:
        await asyncio.sleep(0.02)

    heard_by_us, heard_by_them = recording.samples(), ear.samples()
    assert likeness(answered, heard_by_us).correlation > SAME_SPEECH
    assert likeness(said, heard_by_them).correlation > SAME_SPEECH
    assert likeness(said, heard_by_us).correlation < 0.5
    assert likeness(answered, heard_by_them).correlation < 0.5
    assert recording.concealed == 0


async def check_reports(session: Session, peer: object) -> None:
    """Each side's reports reached the other, and tell of no loss."""
    audio = session.stats()["audio"]
    [sent] = audio["sent"].values()
    [received] = audio["received"].values()
    assert received.lost == 0
    assert received.duplicates == 0
    assert sent.packets > 120
    assert sent.fraction_lost == 0.0
    assert audio["rtt_s"] is not None
    assert 0 <= audio["rtt_s"] < 0.5
    report = await peer.getStats()
    kinds = {entry.type: entry for entry in report.values()}
    assert kinds["remote-inbound-rtp"].packetsLost == 0
    assert kinds["inbound-rtp"].packetsLost == 0
    assert kinds["remote-outbound-rtp"].packetsSent > 0


@pytest.mark.slow
@pytest.mark.parametrize(
    ("config", "profile"),
    [
        (ServerConfig(), SrtpProfile.AEAD_AES_128_GCM),
        (ServerConfig(lite=False, passive=False), SrtpProfile.AEAD_AES_256_GCM),
    ],
    ids=["lite-passive", "full-active"],
)
def test_aiortc_calls_and_both_speak(config: ServerConfig, profile: SrtpProfile) -> None:
    def prepare(peer):
        peer.addTrack(speaker(clip("speech")))
        return Ear(peer)

    async def test() -> None:
        async with aiortc_calls(prepare, config) as (session, peer, ear):
            await converse(session, ear, "greeting", "speech")
            await check_reports(session, peer)
            assert session.stats()["srtp_profile"] == profile

    run(test())


@pytest.mark.slow
@pytest.mark.parametrize("setup", ["active", "passive"])
def test_we_call_with_aes_cm_and_both_speak(setup: str, monkeypatch: pytest.MonkeyPatch) -> None:
    from aiortc import rtcdtlstransport

    only = [rtcdtlstransport.SRTP_AES128_CM_SHA1_80]
    monkeypatch.setattr(rtcdtlstransport, "SRTP_PROFILES", only)

    def prepare(peer):
        peer.addTrack(speaker(clip("greeting")))
        return Ear(peer)

    async def test() -> None:
        async with we_call(prepare, setup=setup) as (session, peer, ear):
            await converse(session, ear, "speech", "greeting")
            await check_reports(session, peer)
            assert session.stats()["srtp_profile"] == SrtpProfile.AES128_CM_SHA1_80

    run(test())


@pytest.mark.slow
def test_our_goodbye_ends_aiortcs_track() -> None:
    def prepare(peer):
        peer.addTrack(speaker(clip("greeting")))
        return Ear(peer)

    async def test() -> None:
        async with aiortc_calls(prepare) as (session, _, ear):
            await session.connected(CONNECT_S)
            await anext(session.audio_in)
            await session.close()
            await asyncio.wait_for(ear.ended.wait(), 1)
            with pytest.raises(StopAsyncIteration):
                while True:
                    await anext(session.audio_in)

    run(test())


@pytest.mark.slow
@pytest.mark.parametrize("direction", ["sendonly", "recvonly"])
def test_one_of_us_only_listens(direction: str) -> None:
    def prepare(peer):
        track = speaker(clip("greeting"))
        peer.addTransceiver(track if direction == "sendonly" else "audio", direction=direction)
        return Ear(peer)

    async def test() -> None:
        async with aiortc_calls(prepare) as (session, _, ear):
            await session.connected(CONNECT_S)
            for payload in encoded(clip("speech"))[:60]:
                session.audio_out.send(payload)
            if direction == "sendonly":
                recording = await hear(session, 0.5)
                assert recording.frames >= 25
                assert ear.seconds == 0
                assert session.audio_out.queued_ms == 1200
                assert "a=recvonly" in session.answer
            else:
                while ear.seconds < 0.5:
                    await asyncio.sleep(0.02)
                assert session.audio_in.take() == []
                assert "a=sendonly" in session.answer

    run(test())
