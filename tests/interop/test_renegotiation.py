"""Offers in mid-call, from either side: the call goes on, and media may be added."""

from __future__ import annotations

import asyncio

import pytest

from tests.interop.calls import (
    CONNECT_S,
    Wire,
    aiortc_calls,
    announced_channels,
    answer_of,
    offer_of,
    take_answer,
    talk_channel,
    we_call,
)
from tests.interop.loops import run
from tests.interop.sound import Ear, clip, speaker
from warp.io import Channel, ServerConfig, Session
from warp.sdp import SdpError
from warp_tools.opus import encoded

pytestmark = [pytest.mark.interop, pytest.mark.usefixtures("aiortc_on_loopback")]

CALLS = pytest.mark.parametrize("call", [aiortc_calls, we_call], ids=["aiortc-called", "we-called"])


async def open_talk(session: Session, wire: Wire) -> Channel:
    channel = session.channel("talk", negotiated=True, stream_id=0)
    await channel.opened()
    await wire.opened.wait()
    return channel


async def still_talks(channel: Channel, wire: Wire, text: str) -> None:
    channel.send(text)
    wire.send(text)
    assert await anext(channel) == text
    assert await wire.next() == text


def transport_lines(sdp: str) -> list[str]:
    """What names the transport: it may not change in mid-call."""
    names = ("a=ice-ufrag:", "a=ice-pwd:", "a=fingerprint:sha-256", "a=mid:", "m=")
    return [line for line in sdp.splitlines() if line.startswith(names)]


@CALLS
def test_aiortc_offers_the_same_again(call) -> None:
    async def test() -> None:
        async with call(talk_channel) as (session, peer, wire):
            channel = await open_talk(session, wire)
            for round_ in range(3):
                before = session.stats()["flow"]
                answer = session.accept_offer(await offer_of(peer))
                await take_answer(peer, answer)
                await still_talks(channel, wire, f"after offer {round_}")
                assert session.stats()["flow"] == before
                assert peer.signalingState == "stable"

    run(test())


@CALLS
def test_we_offer_the_same_again(call) -> None:
    async def test() -> None:
        async with call(talk_channel) as (session, peer, wire):
            channel = await open_talk(session, wire)
            offers = []

            async def signal(offer: str) -> str:
                offers.append(offer)
                # aiortc keeps its role by itself
                return await answer_of(peer, offer)

            for round_ in range(3):
                await session.renegotiate(signal)
                await still_talks(channel, wire, f"after offer {round_}")
            assert all("a=setup:actpass" in offer for offer in offers)
            assert transport_lines(offers[0]) == transport_lines(offers[2])
            assert peer.signalingState == "stable"

    run(test())


@CALLS
def test_turns_at_offering(call) -> None:
    async def test() -> None:
        def prepare(peer):
            peer.addTrack(speaker(clip("greeting")))
            return talk_channel(peer), announced_channels(peer)

        async with call(prepare) as (session, peer, (wire, announced)):
            channel = await open_talk(session, wire)
            await session.renegotiate(lambda offer: answer_of(peer, offer))
            await take_answer(peer, session.accept_offer(await offer_of(peer)))
            await session.renegotiate(lambda offer: answer_of(peer, offer))
            await still_talks(channel, wire, "at last")
            late = session.channel("late")
            await still_talks(late, await announced.get(), "and late")
            session.audio_in.take()
            await anext(session.audio_in)

    run(test())


@pytest.mark.slow
@pytest.mark.parametrize("passive", [True, False], ids=["passive", "active"])
def test_aiortc_adds_audio_in_mid_call(passive: bool) -> None:
    async def test() -> None:
        config = ServerConfig(passive=passive)
        async with aiortc_calls(talk_channel, config) as (session, peer, wire):
            channel = await open_talk(session, wire)
            ear = Ear(peer)
            peer.addTrack(speaker(clip("greeting")))
            offer = await offer_of(peer)
            # aiortc's task of the offer trips over an answer that needs no time on its way
            await asyncio.sleep(0.02)
            await take_answer(peer, session.accept_offer(offer))
            for payload in encoded(clip("speech"))[:100]:
                session.audio_out.send(payload)
            await anext(session.audio_in)
            while ear.seconds < 0.5:
                await asyncio.sleep(0.02)
            # what was added is reported on as well
            while "remote-inbound-rtp" not in {s.type for s in (await peer.getStats()).values()}:
                await asyncio.sleep(0.02)
            await still_talks(channel, wire, "with audio")

    run(test())


@pytest.mark.slow
@pytest.mark.parametrize("passive", [True, False], ids=["passive", "active"])
def test_aiortc_adds_a_channel_in_mid_call(passive: bool) -> None:
    async def test() -> None:
        def prepare(peer):
            peer.addTrack(speaker(clip("greeting")))

        async with aiortc_calls(prepare, ServerConfig(passive=passive)) as (session, peer, _):
            await session.connected(CONNECT_S)
            early = session.channel("talk", negotiated=True, stream_id=0)
            await anext(session.audio_in)
            wire = talk_channel(peer)
            offer = await offer_of(peer)
            await asyncio.sleep(0.02)
            await take_answer(peer, session.accept_offer(offer))
            await early.opened()
            await wire.opened.wait()
            await still_talks(early, wire, "a channel after all")
            session.audio_in.take()
            await anext(session.audio_in)

    run(test())


def test_an_answer_that_cannot_be_used_leaves_the_call_as_it_was() -> None:
    async def test() -> None:
        async with aiortc_calls(talk_channel) as (session, peer, wire):
            channel = await open_talk(session, wire)

            async def signal(offer: str) -> str:
                return "v=0\r\nnonsense\r\n"

            with pytest.raises(SdpError, match="line 2"):
                await session.renegotiate(signal)
            await still_talks(channel, wire, "no harm done")
            with pytest.raises(SdpError, match="line 1"):
                session.accept_offer("nonsense")
            await session.connected(CONNECT_S)
            await session.renegotiate(lambda offer: answer_of(peer, offer))
            await still_talks(channel, wire, "and again")

    run(test())
