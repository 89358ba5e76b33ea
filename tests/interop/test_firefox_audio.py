"""Real speech between Firefox and us, both speaking at once, compared with what was said.

Firefox's microphone without hardware knows one tone. Its page speaks a file instead: Web Audio
plays it into the track that is sent; and it records our track by Web Audio.
"""

from __future__ import annotations

import asyncio

import numpy as np
import pytest

from interop.firefox import FirefoxProcess
from tests.interop.browsers import PageCall, page_calls, we_call_page
from tests.interop.loops import run
from tests.interop.sound import clip
from tests.interop.test_chromium_audio import SILENCE, heard_by
from warp.io import ServerConfig
from warp_tools.audio import likeness
from warp_tools.audio.likeness import SAME_SPEECH
from warp_tools.caller import Listener, speak
from warp_tools.opus import SAMPLE_RATE, Samples, encoded

pytestmark = [pytest.mark.interop, pytest.mark.slow]

OTHER_SPEECH = 0.3
# Firefox's jitter buffer (NetEq, as in Chromium) stretches the first seconds of what it plays, and
# the clock of a loudspeaker without hardware is slow by a few per cent: that, too, it makes good
# by squeezing. A short part keeps its shape; over seconds the two drift apart
PART_S = 0.8
SQUEEZED_SPEECH = 0.6
LISTEN_S = 3.4
"""The part of the recording that is looked for has been spoken by then."""
FAKE_MICROPHONE_HZ = 1000.0
SPOKEN = {"play": "/speech.wav"}


async def listen_for(listener: Listener, seconds: float) -> None:
    """Wait until so much has been heard."""
    while listener.recording.seconds < seconds:
        await asyncio.sleep(0.1)


def likeness_of_parts(speech: Samples, heard: Samples) -> list[float]:
    """How surely each part of a speech was heard, the most surely heard first."""
    size = int(PART_S * SAMPLE_RATE)
    parts = [speech[at : at + size] for at in range(0, len(speech) - size + 1, size)]
    return sorted((likeness(part, heard).correlation for part in parts), reverse=True)


async def converse(call: PageCall) -> None:
    """Both speak at once; both have heard what the other said, and not themselves."""
    ours, theirs = clip("greeting"), clip("speech")
    await call.session.connected()
    await call.peer.happened("connection:connected")
    await call.peer.record()
    listener = Listener(call.session)
    await call.peer.say()
    speaking = asyncio.ensure_future(speak(call.session, encoded(np.concatenate([ours, SILENCE]))))
    await listen_for(listener, LISTEN_S)
    await speaking
    heard_by_us = await listener.stop()
    heard_by_them = await heard_by(call, ours)

    assert likeness(theirs, heard_by_us).correlation > SAME_SPEECH
    best, second, *_ = likeness_of_parts(ours, heard_by_them)
    assert best > SAME_SPEECH
    assert second > SQUEEZED_SPEECH
    assert likeness(ours, heard_by_us).correlation < OTHER_SPEECH
    assert likeness(theirs, heard_by_them).correlation < OTHER_SPEECH
    assert listener.recording.concealed == 0
    await check_reports(call)
    assert call.page.errors == []


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
    [report] = await call.peer.stats("remote-inbound-rtp")
    assert report["packetsLost"] == 0


@pytest.mark.parametrize(
    "server",
    [ServerConfig(early_data=True), ServerConfig(lite=False, passive=False)],
    ids=["lite-passive", "full-active"],
)
def test_firefox_calls_and_both_speak(firefox: FirefoxProcess, server: ServerConfig) -> None:
    async def test() -> None:
        async with (
            firefox.attach() as browser,
            page_calls(browser, server, channels=[], audio=SPOKEN) as call,
        ):
            await converse(call)

    run(test(), seconds=30)


def test_we_call_and_both_speak(firefox: FirefoxProcess) -> None:
    async def test() -> None:
        async with firefox.attach() as browser, we_call_page(browser, audio=SPOKEN) as call:
            await converse(call)

    run(test(), seconds=30)


def test_its_microphone_arrives_at_its_pitch(firefox: FirefoxProcess) -> None:
    """getUserMedia: the device without hardware says one tone."""

    async def test() -> None:
        async with (
            firefox.attach() as browser,
            page_calls(browser, channels=[], audio="microphone") as call,
        ):
            await call.session.connected()
            listener = Listener(call.session)
            await listen_for(listener, 1.2)
            heard = (await listener.stop())[SAMPLE_RATE // 5 :]
            spectrum = np.abs(np.fft.rfft(heard * np.hanning(len(heard))))
            frequency = np.fft.rfftfreq(len(heard), 1 / SAMPLE_RATE)
            assert abs(frequency[int(np.argmax(spectrum))] - FAKE_MICROPHONE_HZ) < 5
            near = np.abs(frequency - FAKE_MICROPHONE_HZ) < 50
            assert (spectrum[near] ** 2).sum() > 0.9 * (spectrum**2).sum()

    run(test())


def test_speech_on_a_path_that_loses(firefox: FirefoxProcess) -> None:
    """What is lost is made good by FEC or guessed; the speech stays the same."""

    async def test() -> None:
        async with (
            firefox.attach() as browser,
            page_calls(browser, channels=[], audio=SPOKEN, loss=0.05, seed=3) as call,
        ):
            await call.session.connected()
            listener = Listener(call.session)
            await call.peer.say()
            await listen_for(listener, LISTEN_S)
            heard = await listener.stop()
            assert likeness(clip("speech"), heard).correlation > SAME_SPEECH
            assert 0 < listener.recording.concealed < 0.15 * listener.recording.frames

    run(test())


def test_tones_go_by_without_a_gap(firefox: FirefoxProcess) -> None:
    """RFC 4733: events share the numbers of the packets with the voice."""

    async def test() -> None:
        async with (
            firefox.attach() as browser,
            page_calls(browser, channels=[], audio="microphone") as call,
        ):
            await call.session.connected()
            listener = Listener(call.session)
            await listen_for(listener, 0.2)
            await call.peer.dial("12#")
            await listen_for(listener, 2.0)
            await listener.stop()
            [received] = call.session.stats()["audio"]["received"].values()
            assert received.lost == 0
            assert listener.recording.concealed == 0

    run(test())
