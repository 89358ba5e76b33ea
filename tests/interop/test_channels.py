"""Data channels between aiortc and us: opened by either side, every kind, closed by either side."""

from __future__ import annotations

import asyncio
import hashlib
import random

import pytest

from tests.interop.calls import CONNECT_S, Wire, aiortc_calls, announced_channels, talk_channel
from tests.interop.loops import run
from warp.datachannel import ChannelState
from warp.errors import InvalidState, MessageTooLarge
from warp.io import Channel, ChannelClosedError, ServerConfig

pytestmark = [pytest.mark.interop, pytest.mark.usefixtures("aiortc_on_loopback")]

ROLES = pytest.mark.parametrize("passive", [True, False], ids=["passive", "active"])
MESSAGES: list[str | bytes] = [
    "text", "", b"", b"\x00", "ünï¢ödé \U0001f600", bytes(range(256)), b"x" * 1200, "y" * 70_000,
]  # fmt: skip
LARGEST = 262_144


async def both_ways(channel: Channel, wire: Wire, messages: list[str | bytes]) -> None:
    """Send the messages each way at once; all arrive whole, in order, with their kind."""
    await channel.opened()
    await wire.opened.wait()
    for message in messages:
        channel.send(message)
        wire.send(message)
    assert [await anext(channel) for _ in messages] == messages
    assert [await wire.next() for _ in messages] == messages


@ROLES
def test_negotiated_channels(passive: bool) -> None:
    async def test() -> None:
        def prepare(peer):
            return [Wire(peer.createDataChannel("n", negotiated=True, id=i)) for i in (0, 7, 1000)]

        async with aiortc_calls(prepare, ServerConfig(passive=passive)) as (session, _, wires):
            channels = [session.channel("n", negotiated=True, stream_id=i) for i in (0, 7, 1000)]
            await session.connected(CONNECT_S)
            for channel, wire in zip(channels, wires, strict=True):
                await both_ways(channel, wire, MESSAGES)

    run(test())


@ROLES
@pytest.mark.parametrize("early", [True, False], ids=["at-once", "later"])
def test_channels_that_aiortc_opens(passive: bool, early: bool) -> None:
    kinds = [
        {"label": "plain"},
        # aiortc counts characters where bytes are due, so that its labels have to be ASCII
        {"label": "longer", "protocol": "voice-control", "ordered": False},
        {"label": "lossy", "maxRetransmits": 0, "ordered": False},
        {"label": "timed", "maxPacketLifeTime": 2500},
        {"label": ""},
    ]

    async def test() -> None:
        def prepare(peer):
            talk_channel(peer)
            return [Wire(peer.createDataChannel(**kind)) for kind in kinds] if early else []

        async with aiortc_calls(prepare, ServerConfig(passive=passive)) as (session, peer, wires):
            await session.connected(CONNECT_S)
            incoming = session.channels()
            wires = wires or [Wire(peer.createDataChannel(**kind)) for kind in kinds]
            by_label = {}
            for _ in kinds:
                channel = await anext(incoming)
                by_label[channel.label] = channel
            for kind, wire in zip(kinds, wires, strict=True):
                channel = by_label[kind["label"]]
                await both_ways(channel, wire, ["a", b"b", "", b"c" * 3000])
                assert channel.protocol == kind.get("protocol", "")
                assert channel.ordered == kind.get("ordered", True)
                assert channel.max_retransmits == kind.get("maxRetransmits")
                timed = "maxPacketLifeTime" in kind
                assert channel.max_packet_lifetime_s == (2.5 if timed else None)
                assert channel.stream_id == wire.channel.id
                # RFC 8832 section 6: the DTLS client has the even ids
                assert wire.channel.id % 2 == (0 if passive else 1)

    run(test())


@ROLES
@pytest.mark.parametrize("early", [True, False], ids=["at-once", "later"])
def test_channels_that_we_open(passive: bool, early: bool) -> None:
    kinds = [
        {"label": "plain"},
        {"label": "länger", "protocol": "voice-control", "ordered": False},
        {"label": "lossy", "max_retransmits": 3, "ordered": False},
        {"label": "timed", "max_packet_lifetime_s": 0.25},
    ]

    async def test() -> None:
        def prepare(peer):
            talk_channel(peer)
            return announced_channels(peer)

        async with aiortc_calls(prepare, ServerConfig(passive=passive)) as (session, _, announced):
            session.channel("talk", negotiated=True, stream_id=0)
            channels = [session.channel(**kind) for kind in kinds] if early else []
            await session.connected(CONNECT_S)
            channels = channels or [session.channel(**kind) for kind in kinds]
            wires = {}
            for _ in kinds:
                wire = await announced.get()
                wires[wire.channel.label] = wire
            for kind, channel in zip(kinds, channels, strict=True):
                wire = wires[kind["label"]]
                await both_ways(channel, wire, ["a", b"b", "", b"c" * 3000])
                theirs = wire.channel
                assert theirs.protocol == kind.get("protocol", "")
                assert theirs.ordered == kind.get("ordered", True)
                assert theirs.maxRetransmits == kind.get("max_retransmits")
                assert theirs.maxPacketLifeTime == (250 if kind["label"] == "timed" else None)
                assert channel.stream_id == theirs.id
                assert theirs.id % 2 == (1 if passive else 0)

    run(test())


def test_the_largest_message_and_one_byte_more() -> None:
    async def test() -> None:
        async with aiortc_calls(talk_channel) as (session, _, wire):
            channel = session.channel("talk", negotiated=True, stream_id=0)
            await channel.opened()
            await wire.opened.wait()
            whole = random.Random(1).randbytes(LARGEST)
            channel.send(whole)
            wire.send(whole)
            assert await anext(channel) == whole
            assert await wire.next() == whole
            for message in (bytes(LARGEST + 1), "é" * (LARGEST // 2 + 1)):
                with pytest.raises(MessageTooLarge):
                    channel.send(message)
            # the channel has come to no harm
            await both_ways(channel, wire, ["after"])

    run(test())


def test_aiortc_keeps_to_the_limit_that_we_announce() -> None:
    async def test() -> None:
        config = ServerConfig(max_message_size=20_000)
        async with aiortc_calls(talk_channel, config) as (session, _, wire):
            channel = session.channel("talk", negotiated=True, stream_id=0)
            await wire.opened.wait()
            with pytest.raises(ValueError, match="20000 bytes"):
                wire.send(bytes(20_001))
            await both_ways(channel, wire, [bytes(20_000)])

    run(test())


@pytest.mark.slow
def test_much_at_once_both_ways() -> None:
    """Six megabytes each way in messages of every size, with back-pressure at our end."""
    rng = random.Random(2)
    sizes = [rng.choice((1, 100, 1171, 1172, 5000, 40_000)) for _ in range(800)]
    messages = [rng.randbytes(size) for size in sizes]
    digest = hashlib.sha256(b"".join(messages)).digest()

    async def send(channel: Channel) -> None:
        for message in messages:
            channel.send(message)
            await channel.drain()

    async def receive(channel: Channel) -> bytes:
        return hashlib.sha256(b"".join([await anext(channel) for _ in messages])).digest()

    async def test() -> None:
        async with aiortc_calls(talk_channel) as (session, _, wire):
            channel = session.channel("talk", negotiated=True, stream_id=0)
            await channel.opened()
            await wire.opened.wait()
            for message in messages:
                wire.send(message)
            _, got = await asyncio.gather(send(channel), receive(channel))
            assert got == digest
            theirs = [await wire.next() for _ in messages]
            assert hashlib.sha256(b"".join(theirs)).digest() == digest
            assert channel.buffered_amount == 0

    run(test(), seconds=40)


@ROLES
def test_a_channel_that_we_close_and_its_id_again(passive: bool) -> None:
    async def test() -> None:
        def prepare(peer):
            talk_channel(peer)
            return announced_channels(peer)

        async with aiortc_calls(prepare, ServerConfig(passive=passive)) as (session, _, announced):
            session.channel("talk", negotiated=True, stream_id=0)
            await session.connected(CONNECT_S)
            ids = set()
            for round_ in range(5):
                channel = session.channel(f"round {round_}")
                wire = await announced.get()
                await both_ways(channel, wire, ["hello"])
                channel.send("last words")
                channel.close()
                assert await wire.next() == "last words"
                await wire.closed.wait()
                assert [message async for message in channel] == []
                assert channel.state is ChannelState.CLOSED
                with pytest.raises(InvalidState):
                    channel.send("too late")
                ids.add(channel.stream_id)
            assert len(ids) == 1

    run(test())


@ROLES
def test_a_channel_that_aiortc_closes_and_its_id_again(passive: bool) -> None:
    async def test() -> None:
        async with aiortc_calls(talk_channel, ServerConfig(passive=passive)) as (session, peer, _):
            await session.connected(CONNECT_S)
            incoming = session.channels()
            for round_ in range(5):
                wire = Wire(peer.createDataChannel(f"round {round_}"))
                channel = await anext(incoming)
                assert channel.label == f"round {round_}"
                await both_ways(channel, wire, ["hello"])
                wire.channel.close()
                assert [message async for message in channel] == []
                await wire.closed.wait()
                assert wire.channel.readyState == "closed"

    run(test())


def test_the_peers_end_of_a_call_closes_its_channels() -> None:
    async def test() -> None:
        def prepare(peer):
            return talk_channel(peer), announced_channels(peer)

        async with aiortc_calls(prepare) as (session, peer, (wire, announced)):
            talk = session.channel("talk", negotiated=True, stream_id=0)
            ours = session.channel("ours")
            await talk.opened()
            theirs = await announced.get()
            await peer.close()
            assert [message async for message in talk] == []
            assert [message async for message in ours] == []
            await session.closed
            with pytest.raises(ChannelClosedError):
                await ours.opened()
            assert theirs.channel.readyState == wire.channel.readyState == "closed"

    run(test())
