"""Real speech between Chromium and us, both speaking at once, compared with what was said.

Its microphone hears a file again and again; its page records our track by Web Audio.
"""

from __future__ import annotations

import asyncio

import numpy as np
import pytest

from interop.chromium import ChromiumConfig
from tests.interop.browsers import PageCall, page_calls, prepared, talk, we_call_page
from tests.interop.chromium import DEFAULT, WARP, Chromiums
from tests.interop.loops import run
from tests.interop.paced import OTHER, SAME, paced_likeness
from tests.interop.sound import clip
from warp.io import ServerConfig
from warp.srtp import SrtpProfile
from warp_tools.audio import likeness
from warp_tools.audio.likeness import SAME_SPEECH
from warp_tools.audio.resample import resample
from warp_tools.audio.wav import to_int16
from warp_tools.caller import Listener, speak
from warp_tools.opus import SAMPLE_RATE, Samples, encoded

pytestmark = [pytest.mark.interop, pytest.mark.slow]

LOOP_S = 5.3
"""How long the file of the microphone is."""
LONGEST_S = 2 * LOOP_S + 2.4
STEP_S = 0.3


async def hear_speech(listener: Listener) -> Samples:
    """Listen until the microphone's speech has come, from wherever its file is just now."""
    wanted = clip("speech")
    while listener.recording.seconds < LONGEST_S:
        await asyncio.sleep(STEP_S)
        heard = listener.recording.samples()
        if len(heard) > len(wanted) and likeness(wanted, heard).correlation > SAME_SPEECH:
            break
    return await listener.stop()


async def heard_by(call: PageCall, wanted: Samples, index: int = 0) -> Samples:
    """Return what the page has heard, once the whole of `wanted` can be in it."""
    while True:
        heard = await call.peer.heard(index)
        if len(heard.samples) / heard.rate > len(wanted) / SAMPLE_RATE + 0.5:
            break
        await asyncio.sleep(STEP_S)
    return to_int16(resample(heard.samples / 32768.0, heard.rate, SAMPLE_RATE))


async def converse(call: PageCall, profile: SrtpProfile) -> None:
    """Both speak at once; both have heard what the other said, and not themselves."""
    ours, theirs = clip("greeting"), clip("speech")
    await call.session.connected()
    await call.peer.happened("connection:connected")
    await call.peer.record()
    listener = Listener(call.session)
    speaking = asyncio.ensure_future(speak(call.session, encoded(np.concatenate([ours, SILENCE]))))
    heard_by_us = await hear_speech(listener)
    await speaking
    heard_by_them = await heard_by(call, ours)

    assert likeness(theirs, heard_by_us).correlation > SAME_SPEECH
    # its jitter buffer changes the pace until it knows the path
    assert paced_likeness(ours, heard_by_them) > SAME
    assert paced_likeness(ours, heard_by_us) < OTHER
    assert paced_likeness(theirs, heard_by_them) < OTHER
    assert listener.recording.concealed == 0
    await check_reports(call)
    assert call.session.stats()["srtp_profile"] == profile
    assert call.page.errors == []


SILENCE = np.zeros(SAMPLE_RATE, np.int16)


async def check_reports(call: PageCall) -> None:
    """Reports went both ways, and tell of no loss."""
    audio = call.session.stats()["audio"]
    [sent] = audio["sent"].values()
    [received] = audio["received"].values()
    assert received.lost == 0
    assert received.duplicates == 0
    assert sent.fraction_lost == 0.0
    assert audio["rtt_s"] is not None
    [there] = await call.peer.stats("inbound-rtp")
    assert there["packetsLost"] == 0
    [later] = call.session.stats()["audio"]["sent"].values()
    # our silence at the end is still on its way
    assert sent.packets <= there["packetsReceived"] + 2
    assert there["packetsReceived"] <= later.packets
    [report] = await call.peer.stats("remote-inbound-rtp")
    assert report["packetsLost"] == 0
    [report] = await call.peer.stats("remote-outbound-rtp")
    assert report["packetsSent"] > 0


# whoever is the DTLS server chooses the profile: ours likes AES-GCM, Chromium's AES-CM
@pytest.mark.parametrize(
    ("config", "server", "profile"),
    [
        (WARP, ServerConfig(), SrtpProfile.AEAD_AES_128_GCM),
        (DEFAULT, ServerConfig(lite=False, passive=False), SrtpProfile.AES128_CM_SHA1_80),
    ],
    ids=["warp-lite-passive", "default-full-active"],
)
def test_chromium_calls_and_both_speak(
    chromium: Chromiums, config: ChromiumConfig, server: ServerConfig, profile: SrtpProfile
) -> None:
    async def test() -> None:
        async with (
            chromium(config).attach() as browser,
            page_calls(browser, server, channels=[], audio="microphone") as call,
        ):
            await converse(call, profile)

    run(test(), seconds=40)


def test_we_call_and_both_speak(chromium: Chromiums) -> None:
    async def test() -> None:
        async with (
            chromium(DEFAULT).attach() as browser,
            we_call_page(browser, audio="microphone") as call,
        ):
            await converse(call, SrtpProfile.AEAD_AES_128_GCM)

    run(test(), seconds=40)


def test_a_tone_arrives_at_its_pitch(chromium: Chromiums) -> None:
    """What the page hears is a clean 440 Hz, as long and as loud as it was sent."""
    seconds, pitch_hz, loudness = 1.0, 440.0, 8000
    moments = np.arange(int(seconds * SAMPLE_RATE)) / SAMPLE_RATE
    tone = (loudness * np.sin(2 * np.pi * pitch_hz * moments)).astype(np.int16)

    async def test() -> None:
        async with (
            chromium(WARP).attach() as browser,
            page_calls(browser, prepare=prepared, audio="receive") as call,
        ):
            await talk(call)
            await call.peer.record()
            await speak(call.session, encoded(np.concatenate([tone, SILENCE])))
            heard = await heard_by(call, np.concatenate([tone, SILENCE]))
            loud = np.flatnonzero(np.abs(heard) > loudness / 2)
            part = heard[loud[0] + SAMPLE_RATE // 4 : loud[-1] - SAMPLE_RATE // 4]
            spectrum = np.abs(np.fft.rfft(part * np.hanning(len(part))))
            frequency = np.fft.rfftfreq(len(part), 1 / SAMPLE_RATE)
            peak = int(np.argmax(spectrum))
            assert abs(frequency[peak] - pitch_hz) < 3
            near = np.abs(frequency - pitch_hz) < 20
            assert (spectrum[near] ** 2).sum() > 0.99 * (spectrum**2).sum()
            assert abs((loud[-1] - loud[0]) / SAMPLE_RATE - seconds) < 0.15
            assert 0.8 * loudness < np.abs(part).max() < 1.2 * loudness

    run(test())


def test_redundant_audio_makes_good_what_is_lost(chromium: Chromiums) -> None:
    """RFC 2198: our answer puts it first, so that Chromium sends each frame twice."""

    def prefer_red(sdp: str) -> str:
        return sdp.replace("SAVPF 111 63", "SAVPF 63 111")

    async def test() -> None:
        async with (
            chromium(DEFAULT).attach() as browser,
            page_calls(browser, audio="microphone", loss=0.1, edit_answer=prefer_red) as call,
        ):
            await call.session.connected()
            listener = Listener(call.session)
            heard = await hear_speech(listener)
            assert likeness(clip("speech"), heard).correlation > SAME_SPEECH
            [received] = call.session.stats()["audio"]["received"].values()
            assert received.recovered > 5
            # two in a row are lost once in a hundred; only those need to be guessed
            assert listener.recording.concealed < 0.05 * listener.recording.frames

    run(test(), seconds=40)


def test_tones_go_by_without_a_gap(chromium: Chromiums) -> None:
    """RFC 4733: events share the numbers of the packets with the voice."""

    async def test() -> None:
        async with (
            chromium(DEFAULT).attach() as browser,
            page_calls(browser, audio="microphone") as call,
        ):
            await call.session.connected()
            listener = Listener(call.session)
            while listener.recording.frames < 10:
                await asyncio.sleep(STEP_S / 10)
            await call.peer.dial("12#")
            while listener.recording.frames < 100:
                await asyncio.sleep(STEP_S)
            await listener.stop()
            [received] = call.session.stats()["audio"]["received"].values()
            assert received.lost == 0
            assert listener.recording.concealed == 0

    run(test())
