"""Back-pressure, and the ways a channel ends."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from tests.unit.io.support import Call, FakeLoop, open_call, play, turns
from warp.datachannel import ChannelConfig, ChannelState
from warp.errors import MessageTooLarge, UsageError
from warp.io import Channel, ChannelClosedError, ServerConfig
from warp.io.channel import HIGH_WATER_BYTES, LOW_WATER_BYTES, MAX_QUEUED_BYTES, MIN_COST


class Inner:
    """A channel of the registry whose buffer fills and empties as told."""

    def __init__(self) -> None:
        self.config = ChannelConfig(label="stub", protocol="p")
        self.state = ChannelState.OPEN
        self.stream_id = 4
        self.buffered_amount = 0
        self.buffered_amount_low_threshold = 0
        self.closed_at: list[float] = []

    def send(self, message: str | bytes, now: float) -> None:
        self.buffered_amount += len(message)

    def close(self, now: float) -> None:
        self.closed_at.append(now)
        self.state = ChannelState.CLOSING


class Around:
    """The session of one channel."""

    def __init__(self) -> None:
        self.inner = Inner()
        self.loop = FakeLoop()
        self.driver = self
        self.flushes = 0
        self.ended = False
        self.closed = self
        session: Any = self
        inner: Any = self.inner
        self.channel = Channel(session, inner)

    def time(self) -> float:
        return 5.0

    def create_future(self) -> asyncio.Future[None]:
        return asyncio.get_running_loop().create_future()

    def flush_soon(self, session: Any) -> None:
        self.flushes += 1

    def done(self) -> bool:
        return self.ended


def around() -> Around:
    made = Around()
    loop: Any = made
    made.loop = loop
    return made


def test_a_drain_returns_at_once_below_the_high_mark() -> None:
    async def story() -> None:
        made = around()
        made.channel.send(bytes(HIGH_WATER_BYTES))
        await asyncio.wait_for(made.channel.drain(), 1)
        assert made.flushes == 1

    play(story)


def test_a_drain_waits_from_the_high_to_the_low_mark() -> None:
    async def story() -> None:
        made = around()
        assert made.inner.buffered_amount_low_threshold == LOW_WATER_BYTES
        made.channel.send(bytes(HIGH_WATER_BYTES + 1))
        draining = asyncio.ensure_future(made.channel.drain())
        await turns()
        for amount in (HIGH_WATER_BYTES, LOW_WATER_BYTES + 1):
            made.inner.buffered_amount = amount
            made.channel._wake()
            await turns()
            assert not draining.done()
        made.inner.buffered_amount = LOW_WATER_BYTES
        made.channel._wake()
        await asyncio.wait_for(draining, 1)

    play(story)


@pytest.mark.parametrize("how", ["channel", "session"])
def test_every_wait_ends_with_the_channel_and_with_the_session(how: str) -> None:
    async def story() -> None:
        made = around()
        made.channel.send(bytes(HIGH_WATER_BYTES + 1))
        draining = asyncio.ensure_future(made.channel.drain())
        reading = asyncio.ensure_future(collect(made.channel))
        await turns()
        made.channel._receive("last")
        if how == "channel":
            made.inner.state = ChannelState.CLOSED
        else:
            made.ended = True
        made.channel._wake()
        await asyncio.wait_for(draining, 1)
        assert await asyncio.wait_for(reading, 1) == ["last"]

    play(story)


async def collect(channel: Channel) -> list[str | bytes]:
    return [message async for message in channel]


def test_opening_may_fail() -> None:
    async def story() -> None:
        for ended in (False, True):
            made = around()
            made.inner.state = ChannelState.CONNECTING
            opening = asyncio.ensure_future(made.channel.opened())
            await turns()
            assert not opening.done()
            made.ended = ended
            if not ended:
                made.inner.state = ChannelState.CLOSED
            made.channel._wake()
            with pytest.raises(ChannelClosedError, match="'stub'"):
                await opening

    play(story)


def test_what_nobody_reads_closes_the_channel() -> None:
    async def story() -> None:
        made = around()
        message = bytes(MAX_QUEUED_BYTES // 4)
        for _ in range(4):
            made.channel._receive(message)
        assert made.inner.closed_at == []
        made.channel._receive(b"!")
        assert made.inner.closed_at == [5.0]

    play(story)


def test_empty_messages_count_as_well() -> None:
    async def story() -> None:
        made = around()
        for _ in range(MAX_QUEUED_BYTES // MIN_COST):
            made.channel._receive("")
        assert made.inner.closed_at == []
        made.channel._receive("")
        assert made.inner.closed_at == [5.0]

    play(story)


def test_what_is_taken_makes_room() -> None:
    async def story() -> None:
        made = around()
        message = bytes(MAX_QUEUED_BYTES // 4)
        for _ in range(4):
            made.channel._receive(message)
        await anext(made.channel)
        made.channel._receive(message)
        assert len(made.channel.take()) == 4
        assert made.channel.take() == []
        for _ in range(4):
            made.channel._receive(message)
        assert made.inner.closed_at == []

    play(story)


def test_a_cancelled_reader_loses_nothing() -> None:
    async def story() -> None:
        made = around()
        reading = asyncio.ensure_future(anext(made.channel))
        await turns()
        made.channel._receive("kept")
        reading.cancel()
        await asyncio.wait({reading})
        assert made.channel.take() == ["kept"]

    play(story)


def test_polling_with_a_timeout_leaves_no_waiters() -> None:
    async def story() -> None:
        made = around()
        for _ in range(3):
            reading = asyncio.ensure_future(anext(made.channel))
            await turns()
            reading.cancel()
            await asyncio.wait({reading})
        assert made.channel._waiters == []

    play(story)


# -- on the wire ---------------------------------------------------------------------------------


async def pair(made: Call, **options: Any) -> tuple[Channel, Channel]:
    ours = made.local.channel("x", negotiated=True, stream_id=0, **options)
    theirs = made.remote.channel("x", negotiated=True, stream_id=0, **options)
    await asyncio.gather(ours.opened(), theirs.opened())
    return ours, theirs


def test_properties() -> None:
    async def story() -> None:
        made = await open_call()
        opened = made.remote.channels()
        ours = made.local.channel("label", protocol="proto", max_retransmits=3, ordered=False)
        theirs = await anext(opened)
        for one in (ours, theirs):
            assert (one.label, one.protocol) == ("label", "proto")
            assert one.stream_id == ours.stream_id is not None
        await ours.opened()
        assert ours.state is theirs.state is ChannelState.OPEN
        assert ours.buffered_amount == 0
        await made.close()

    play(story)


def test_a_large_transfer_with_back_pressure_arrives_whole() -> None:
    async def story() -> None:
        made = await open_call()
        ours, theirs = await pair(made)
        message = bytes(range(256)) * 256
        most = 0

        async def send() -> None:
            nonlocal most
            for _ in range(40):
                ours.send(message)
                most = max(most, ours.buffered_amount)
                await ours.drain()
            ours.close()

        sending = asyncio.ensure_future(send())
        got = [one async for one in theirs]
        await sending
        assert got == [message] * 40
        assert most <= HIGH_WATER_BYTES + len(message)
        await made.close()

    play(story)


def test_a_channel_that_is_closed_ends_on_both_sides_and_the_session_goes_on() -> None:
    async def story() -> None:
        made = await open_call()
        ours, theirs = await pair(made)
        reading = asyncio.ensure_future(collect(theirs))
        ours.send("last words")
        ours.close()
        ours.close()
        assert await asyncio.wait_for(reading, 5) == ["last words"]
        with pytest.raises(UsageError):
            theirs.send("too late")
        assert made.local._channels == {} and made.remote._channels == {}
        again = made.local.channel("again")
        other = await anext(made.remote.channels())
        again.send("still here")
        assert await anext(other) == "still here"
        await made.close()

    play(story)


def test_a_message_that_the_peer_does_not_take() -> None:
    async def story() -> None:
        made = await open_call(server=ServerConfig(max_message_size=1000))
        ours, theirs = await pair(made)
        with pytest.raises(MessageTooLarge, match="1000"):
            ours.send(bytes(1001))
        wrong: Any
        for wrong in (None, 5, [1], "\ud800"):
            with pytest.raises(UsageError, match="message"):
                ours.send(wrong)
        ours.send(bytes(1000))
        assert len(await anext(theirs)) == 1000
        await made.close()

    play(story)
