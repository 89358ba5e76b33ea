"""Two hundred calls in a row connect, and leave nothing behind."""

from __future__ import annotations

import asyncio
import gc

import pytest

from tests.interop.calls import (
    CONNECT_S,
    HOST,
    Wire,
    answer_of,
    new_peer,
    offer_of,
    take_answer,
    talk_channel,
)
from tests.interop.loops import open_files, other_tasks_end, run
from warp.io import ClientConfig, Server, Session, connect, listen
from warp.peer import PeerConnection

pytestmark = [pytest.mark.interop, pytest.mark.usefixtures("aiortc_on_loopback")]

STARTS = 200
# caches of certificates and candidates are bounded; of two hundred sessions there were thousands
MOST_OBJECTS_KEPT = 2 * STARTS


async def talk(session: Session, wire: Wire, number: int) -> None:
    """A message each way."""
    channel = session.channel("talk", negotiated=True, stream_id=0)
    await channel.opened()
    await wire.opened.wait()
    channel.send(f"{number} to aiortc")
    wire.send(f"{number} to us")
    assert await anext(channel) == f"{number} to us"
    assert await wire.next() == f"{number} to aiortc"


async def one_call(server: Server, number: int) -> None:
    """Each side offers in turn, is the DTLS client in turn, and hangs up in turn."""
    peer = new_peer()
    wire = talk_channel(peer)
    if number % 2:
        session = server.accept_offer(await offer_of(peer))
        await take_answer(peer, session.answer)
    else:
        setup = "passive" if number % 4 else "active"
        session = await connect(
            lambda offer: answer_of(peer, offer, setup=setup), config=ClientConfig(host=HOST)
        )
    async with asyncio.timeout(CONNECT_S):
        await talk(session, wire, number)
        if number % 3:
            await peer.close()
            assert await session.closed is None
        else:
            await session.close()
            await peer.close()


CALLS = (Session, PeerConnection)


def of_ours() -> list[object]:
    """Every live object of a class of ours: other modules may be imported, or work, meanwhile."""
    return [t for t in gc.get_objects() if str(type(t).__module__).partition(".")[0] == "warp"]


@pytest.mark.slow
def test_two_hundred_starts() -> None:
    async def test() -> None:
        server = await listen(HOST)
        for number in range(4):
            await one_call(server, number)
        await other_tasks_end()
        gc.collect()
        files, objects = open_files(), len(of_ours())
        # of other tests, which pytest may still hold
        before = {id(thing) for thing in gc.get_objects() if isinstance(thing, CALLS)}
        for number in range(STARTS):
            await one_call(server, number)
        await other_tasks_end()
        assert server.sessions == []
        assert open_files() == files
        await server.close()
        gc.collect()
        kept = of_ours()
        assert len(kept) - objects < MOST_OBJECTS_KEPT
        ours = [t for t in kept if isinstance(t, CALLS) and id(t) not in before]
        assert ours == []

    run(test(), seconds=100)
