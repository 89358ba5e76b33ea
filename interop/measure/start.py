"""One start that a page makes, over a wire of half a round trip each way, signalling included.

t = 0 is when the page sends its offer; nothing is subtracted. The page times all of it: see
interop/pages/measure.js.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np

from interop.browser import Browser
from interop.site import Site
from interop.wire import HOST, Wire
from warp.io import Server, ServerConfig, Session, listen
from warp_tools.opus import SAMPLE_RATE, encoded

_PAGE = "measure.html"
_TONE_S = 3.0
_TONE_HZ = 440.0
_LOUDNESS = 8000
_PATIENCE_S = 30.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Figures:
    """What one start has cost, in milliseconds since the offer was sent."""

    answered_ms: float
    connected_ms: float
    """DTLS, at the client."""
    channel_ms: float
    """The negotiated channel, open at the client."""
    audible_ms: float | None = None
    """The first sample of the peer's voice, in the page; None where nobody listened."""
    ladder: tuple[tuple[float, bool, bytes], ...] = ()
    """Every datagram: milliseconds since the offer, whether the client sent it, its bytes."""


@cache
def greeting() -> tuple[bytes, ...]:
    """Return a sound that can be heard from its first sample on, as Opus payloads."""
    at = np.arange(int(_TONE_S * SAMPLE_RATE)) / SAMPLE_RATE
    return tuple(encoded((_LOUDNESS * np.sin(2 * np.pi * _TONE_HZ * at)).astype(np.int16)))


def _greet(session: Session) -> None:
    """Do what a voice server does: the channel that the page has agreed on, and a greeting."""
    session.channel("talk", negotiated=True, stream_id=0)
    for payload in greeting():
        session.audio_out.send(payload, non_personal=True)


@contextlib.asynccontextmanager
async def open_server() -> AsyncIterator[Server]:
    """Run our server as `warp serve` does: ICE-lite, passive, early data."""
    greeting()
    server = await listen(HOST, config=ServerConfig(early_data=True))
    try:
        yield server
    finally:
        await server.close()


async def start_to_us(browser: Browser, server: Server, rtt_s: float) -> Figures:
    """Let a new page call our server."""
    with Wire(delay_s=rtt_s / 2) as wire:

        async def answer(offer: str) -> str:
            await asyncio.sleep(rtt_s / 2)
            session = server.accept_offer(wire.through(offer, ours=False))
            _greet(session)
            text = wire.through(session.answer, ours=True)
            await asyncio.sleep(rtt_s / 2)
            return text

        async with Site({"/offer": answer}) as site:
            page = await browser.open(site.url + _PAGE)
            try:
                times = await page.call("start", "/offer", timeout_s=_PATIENCE_S)
            finally:
                await page.close()
        await asyncio.gather(*(session.close() for session in server.sessions))
        return _figures(times, wire)


async def start_to_its_own(browser: Browser, rtt_s: float) -> Figures:
    """Let a new page call another page of the same browser, which is ready for it."""
    with Wire(delay_s=rtt_s / 2) as wire:

        async def answer(offer: str) -> str:
            await asyncio.sleep(rtt_s / 2)
            text = await callee.call("answerCall", wire.through(offer, ours=False))
            text = wire.through(text, ours=True)
            await asyncio.sleep(rtt_s / 2)
            return text

        async with Site({"/offer": answer}) as site:
            callee = await browser.open(site.url + _PAGE)
            await callee.call("expectCall")
            page = await browser.open(site.url + _PAGE)
            try:
                options = {"listens": False}
                times = await page.call("start", "/offer", options, timeout_s=_PATIENCE_S)
            finally:
                await page.close()
                await callee.close()
        return _figures(times, wire)


def _figures(times: dict[str, Any], wire: Wire) -> Figures:
    sent = times["sent"] / 1000 - time.time() + time.monotonic()
    return Figures(
        answered_ms=times["answered"],
        connected_ms=times["connected"],
        channel_ms=times["open"],
        audible_ms=times.get("audible"),
        ladder=tuple((1000 * at, not rung.ours, rung.data) for at, rung in wire.since(sent)),
    )
