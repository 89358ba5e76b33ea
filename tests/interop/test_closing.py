"""Every way in which a call with aiortc ends: at once, on both sides, with nothing left over."""

from __future__ import annotations

import asyncio

import pytest

from tests.interop.calls import (
    CONNECT_S,
    HOST,
    aiortc_calls,
    new_peer,
    offer_of,
    state_of,
    take_answer,
    talk_channel,
    we_call,
)
from tests.interop.loops import END_S, run
from tests.interop.sound import Ear, clip, speaker
from warp.errors import UsageError
from warp.io import Session, listen
from warp.peer import ConnectionState

pytestmark = [pytest.mark.interop, pytest.mark.usefixtures("aiortc_on_loopback")]


def whole_call(peer):
    """Audio both ways and a channel."""
    peer.addTrack(speaker(clip("greeting")))
    return talk_channel(peer), Ear(peer)


async def both_up(session: Session) -> None:
    """Wait for audio and for the channel."""
    channel = session.channel("talk", negotiated=True, stream_id=0)
    await channel.opened()
    await anext(session.audio_in)


@pytest.mark.parametrize("call", [aiortc_calls, we_call], ids=["aiortc-calls", "we-call"])
def test_we_hang_up(call) -> None:
    async def test() -> None:
        async with call(whole_call) as (session, peer, (wire, ear)):
            await both_up(session)
            async with asyncio.timeout(END_S):
                await session.close()
                assert await session.closed is None
                assert session.state is ConnectionState.CLOSED
                await wire.closed.wait()
                await ear.ended.wait()
                await state_of(peer, "closed")
            await session.close()
            with pytest.raises(UsageError):
                session.audio_out.send(b"\x78")

    run(test())


@pytest.mark.parametrize("call", [aiortc_calls, we_call], ids=["aiortc-calls", "we-call"])
def test_aiortc_hangs_up(call) -> None:
    async def test() -> None:
        async with call(whole_call) as (session, peer, _):
            await both_up(session)
            await peer.close()
            async with asyncio.timeout(END_S):
                assert await session.closed is None
            assert session.state is ConnectionState.CLOSED
            async for _ in session.audio_in:
                pass

    run(test())


def test_aiortc_hangs_up_a_call_without_channels() -> None:
    async def test() -> None:
        def prepare(peer):
            peer.addTrack(speaker(clip("greeting")))

        async with aiortc_calls(prepare) as (session, peer, _):
            await session.connected(CONNECT_S)
            await anext(session.audio_in)
            await peer.close()
            async with asyncio.timeout(END_S):
                assert await session.closed is None

    run(test())


def test_a_server_hangs_up_on_everybody() -> None:
    async def test() -> None:
        server = await listen(HOST)
        peers = [new_peer() for _ in range(4)]
        sessions = []
        for peer in peers:
            talk_channel(peer)
            sessions.append(server.accept_offer(await offer_of(peer)))
            await take_answer(peer, sessions[-1].answer)
        # the last one is cut off in the middle of its start
        for session in sessions[:-1]:
            await session.connected(CONNECT_S)
        assert server.sessions == sessions
        async with asyncio.timeout(END_S):
            await server.close()
            assert [await session.closed for session in sessions] == [None] * 4
            for peer in peers[:-1]:
                await state_of(peer, "closed")
        assert server.sessions == []
        await peers[-1].close()

    run(test())


def test_closing_before_the_first_check() -> None:
    async def test() -> None:
        async with aiortc_calls(talk_channel) as (session, _, _):
            waiting = asyncio.ensure_future(session.connected(CONNECT_S))
            await asyncio.sleep(0)
            async with asyncio.timeout(END_S):
                await session.close()
                with pytest.raises(UsageError):
                    await waiting

    run(test())
