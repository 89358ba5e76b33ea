"""A program written for aiortc, over this stack, called by Chromium."""

from __future__ import annotations

import asyncio
import contextlib
import wave
from pathlib import Path

import numpy as np
import pytest

from interop.page_peer import PagePeer
from interop.site import Site
from tests.interop.browsers import SPEECH
from tests.interop.chromium import DEFAULT, Chromiums
from tests.interop.loops import run
from tests.interop.offer_server import OfferServer
from tests.interop.paced import OTHER, SAME, paced_likeness
from tests.interop.sound import clip
from warp.compat import aiortc as compat
from warp.compat.aiortc import call
from warp.compat.aiortc.contrib import media
from warp_tools.audio.resample import resample
from warp_tools.audio.wav import to_int16
from warp_tools.opus import SAMPLE_RATE, Samples

pytestmark = [pytest.mark.interop, pytest.mark.slow]
LONGEST_S = 10.0


def test_chromium_speaks_pings_and_hears_itself(
    chromium: Chromiums, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(call, "expand_host", lambda host, loopback: ["127.0.0.1"])
    wanted = clip("speech")

    async def heard_again(peer: PagePeer) -> bool:
        heard = await peer.heard()
        if len(heard.samples) / heard.rate <= len(wanted) / SAMPLE_RATE:
            return False
        echo = to_int16(resample(heard.samples / 32768.0, heard.rate, SAMPLE_RATE))
        return paced_likeness(wanted, echo) > OTHER

    async def test() -> None:
        server = OfferServer(compat, media, str(tmp_path / "said.wav"))

        async def offer(sdp: str) -> str:
            return (await server.offer(sdp, "offer"))[0]

        async with (
            Site({"/offer": offer}, files={"/speech.wav": SPEECH}) as site,
            chromium(DEFAULT).attach() as browser,
            contextlib.aclosing(server),
        ):
            page = await browser.open(site.url)
            sound = {"play": "/speech.wav"}
            chat = [{"label": "chat"}]
            peer = await PagePeer.connect(page, "/offer", channels=chat, audio=sound, record=True)
            await peer.happened("open:chat")
            await peer.send("chat", "ping 1")
            assert await peer.receive("chat") == ["pong 1"]
            await peer.say()
            async with asyncio.timeout(LONGEST_S):
                while not await heard_again(peer):
                    await asyncio.sleep(0.3)
            await peer.close()
            async with asyncio.timeout(LONGEST_S):
                while ("connection", "closed") not in server.seen:
                    await asyncio.sleep(0.02)
        assert ("track", "audio live") in server.seen

    def said() -> Samples:
        with wave.open(str(tmp_path / "said.wav"), "rb") as source:
            frames = np.frombuffer(source.readframes(source.getnframes()), np.int16)
            return frames[:: source.getnchannels()]

    run(test(), seconds=40)
    # what was concealed while other tests had the core shifts what follows, in this direction too
    assert paced_likeness(wanted, said()) >= SAME
