"""Real speech between libwebrtc and us, both speaking at once, compared with what was said."""

from __future__ import annotations

import asyncio
from pathlib import Path

import numpy as np
import pytest

from tests.interop.libwebrtc import WARP, Call, libwebrtc_calls, we_call
from tests.interop.loops import run
from tests.interop.sound import clip
from warp.io import ServerConfig
from warp.srtp import SrtpProfile
from warp_tools.audio import likeness
from warp_tools.audio.likeness import SAME_SPEECH
from warp_tools.caller import speak
from warp_tools.hearing import Recording
from warp_tools.opus import SAMPLE_RATE, Samples, encoded

pytestmark = [pytest.mark.interop, pytest.mark.slow, pytest.mark.usefixtures("libwebrtc")]

LISTEN_S = 3.4
OTHER_SPEECH = 0.3
# libwebrtc's jitter buffer stretches and squeezes what it plays until it knows the path (NetEq):
# a few per cent in the first seconds, which shifts the bands' loudness by tens of milliseconds
STRETCHED_SPEECH = 0.7
RTCP = set(range(64, 96))  # second byte of RTCP without its highest bit (RFC 5761 section 4)
SILENCE = np.zeros(SAMPLE_RATE, np.int16)


async def hear(call: Call) -> Recording:
    """Record what libwebrtc says for a while."""
    recording = Recording()
    end = asyncio.get_running_loop().time() + LISTEN_S
    async for frame in call.session.audio_in:
        recording.add(frame)
        if asyncio.get_running_loop().time() > end:
            break
    return recording


async def heard_by(call: Call, folder: Path) -> Samples:
    """Return what libwebrtc has heard."""
    path = folder / "heard"
    call.peer.tell("heard", path=str(path))
    await call.peer.take("heard")
    return np.frombuffer(path.read_bytes(), np.int16)


async def converse(call: Call, folder: Path, profile: SrtpProfile) -> None:
    """Both speak at once; both have heard what the other said, and not themselves."""
    ours, theirs = clip("greeting"), clip("speech")
    said = folder / "said"
    said.write_bytes(theirs.tobytes())
    await call.session.connected()
    await call.peer.connected_at()
    call.peer.tell("say", path=str(said))
    speaking = asyncio.ensure_future(speak(call.session, encoded(np.concatenate([ours, SILENCE]))))
    recording = await hear(call)
    await speaking
    heard_by_us, heard_by_them = recording.samples(), await heard_by(call, folder)

    assert likeness(theirs, heard_by_us).correlation > SAME_SPEECH
    assert likeness(ours, heard_by_them).correlation > STRETCHED_SPEECH
    assert likeness(ours, heard_by_us).correlation < OTHER_SPEECH
    assert likeness(theirs, heard_by_them).correlation < OTHER_SPEECH
    assert recording.concealed == 0
    await check_reports(call)
    assert call.session.stats()["srtp_profile"] == profile


async def check_reports(call: Call) -> None:
    """Reports went both ways, and tell of no loss."""
    audio = call.session.stats()["audio"]
    [sent] = audio["sent"].values()
    [received] = audio["received"].values()
    assert received.lost == 0
    assert received.duplicates == 0
    assert sent.fraction_lost == 0.0
    assert audio["rtt_s"] is not None
    there = await call.peer.stats("inbound-rtp")
    assert there["packets_lost"] == 0
    assert there["packets_received"] == sent.packets
    assert (await call.peer.stats("remote-inbound-rtp"))["packets_lost"] == 0
    assert (await call.peer.stats("remote-outbound-rtp"))["packets_sent"] > 0


# whoever is the DTLS server chooses the profile: ours likes AES-GCM, libwebrtc's AES-CM
@pytest.mark.parametrize(
    ("trials", "config", "profile"),
    [
        (WARP, ServerConfig(), SrtpProfile.AEAD_AES_128_GCM),
        ("", ServerConfig(lite=False, passive=False), SrtpProfile.AES128_CM_SHA1_80),
    ],
    ids=["warp-lite-passive", "default-full-active"],
)
def test_libwebrtc_calls_and_both_speak(
    trials: str, config: ServerConfig, profile: SrtpProfile, tmp_path: Path
) -> None:
    async def test() -> None:
        async with libwebrtc_calls(trials, config, channels=[], audio=True) as call:
            await converse(call, tmp_path, profile)

    run(test())


@pytest.mark.parametrize(
    ("trials", "setup", "profile"),
    [
        ("", "active", SrtpProfile.AEAD_AES_128_GCM),
        (WARP, "passive", SrtpProfile.AES128_CM_SHA1_80),
    ],
    ids=["default-active", "warp-passive"],
)
def test_we_call_and_both_speak(
    trials: str, setup: str, profile: SrtpProfile, tmp_path: Path
) -> None:
    async def test() -> None:
        async with we_call(trials, setup=setup, audio=True) as call:
            await converse(call, tmp_path, profile)

    run(test())


def test_redundant_audio_makes_good_what_is_lost(tmp_path: Path) -> None:
    """RFC 2198: our answer puts it first, so that libwebrtc sends each frame twice."""
    said = tmp_path / "said"
    said.write_bytes(clip("speech").tobytes())

    async def test() -> None:
        async with libwebrtc_calls(
            WARP,
            audio=True,
            loss=0.1,
            edit_answer=lambda sdp: sdp.replace("SAVPF 111 63", "SAVPF 63 111"),
        ) as call:
            await call.session.connected()
            await call.peer.connected_at()
            call.peer.tell("say", path=str(said))
            recording = await hear(call)
            types = {r.data[1] & 127 for r in call.wire.rungs if r.is_media and not r.ours}
            assert types - RTCP == {63}
            [received] = call.session.stats()["audio"]["received"].values()
            assert received.recovered > 5
            # two in a row are lost once in a hundred; only those need to be guessed. Besides,
            # libwebrtc probes the path with padding, which nobody misses.
            assert recording.concealed < 0.05 * recording.frames
            assert likeness(clip("speech"), recording.samples()).correlation > SAME_SPEECH

    run(test())


def test_tones_go_by_without_a_gap() -> None:
    """RFC 4733: events share the numbers of the packets with the voice."""

    async def test() -> None:
        async with libwebrtc_calls(WARP, audio=True) as call:
            await call.session.connected()
            await call.peer.connected_at()
            await anext(call.session.audio_in)
            call.peer.tell("dial", tones="12#")
            recording = await hear(call)
            [received] = call.session.stats()["audio"]["received"].values()
            assert received.lost == 0
            assert recording.concealed == 0
            assert recording.frames > 100

    run(test())
