"""Channels: their events, their states, and messages of both kinds."""

from __future__ import annotations

import pytest

from tests.unit.compat.pairs import Log, exchange, pair, until
from tests.unit.io.support import play
from warp.compat.aiortc import InvalidStateError, OperationError
from warp.compat.aiortc import rtcdatachannel as module
from warp.errors import InvalidConfig, MessageTooLarge


def test_messages_both_ways_and_a_close() -> None:
    async def story() -> None:
        async with pair() as (caller, callee):
            log, other = Log(caller), Log(callee)
            channel = log.watch(
                caller.createDataChannel("chat", protocol="bob", ordered=False, maxRetransmits=3)
            )
            assert (channel.id, channel.readyState, channel.bufferedAmount) == (
                None,
                "connecting",
                0,
            )
            with pytest.raises(InvalidStateError, match="connecting"):
                channel.send("too soon")
            await exchange(caller, callee)
            await until(lambda: channel.readyState == "open")
            channel.send("ping")
            channel.send(b"\x00\x01")
            channel.send("")
            await until(lambda: len(other.messages) == 3)
            assert sorted(map(repr, other.messages)) == sorted(map(repr, ["ping", b"\x00\x01", ""]))
            [announced] = other.channels
            assert (announced.label, announced.protocol, announced.ordered) == (
                "chat",
                "bob",
                False,
            )
            assert (announced.maxRetransmits, announced.maxPacketLifeTime) == (3, None)
            assert (announced.id, announced.negotiated) == (channel.id, False)
            announced.send("pong")
            await until(lambda: log.messages == ["pong"])
            with pytest.raises(ValueError, match="int"):
                channel.send(5)
            with pytest.raises(MessageTooLarge):
                channel.send(bytes(262_145))
            announced.close()
            await until(lambda: channel.readyState == announced.readyState == "closed")
            announced.close()
            with pytest.raises(InvalidStateError, match="closed"):
                channel.send("too late")
            assert log.of("channel") == ["connecting", "opened", "closed"]
            assert other.of("channel") == ["open", "closed"]

    play(story)


def test_a_negotiated_channel_is_announced_to_nobody() -> None:
    async def story() -> None:
        async with pair() as (caller, callee):
            other = Log(callee)
            ours = caller.createDataChannel("a", negotiated=True, id=4, maxPacketLifeTime=500)
            theirs = callee.createDataChannel("a", negotiated=True, id=4)
            theirs.on("message", other.messages.append)
            await exchange(caller, callee)
            await until(lambda: ours.readyState == theirs.readyState == "open")
            assert (ours.id, ours.maxPacketLifeTime, ours.negotiated) == (4, 500, True)
            ours.send("hello")
            await until(lambda: other.messages == ["hello"])
            assert other.channels == []
            with pytest.raises(InvalidConfig, match="stream_id"):
                caller.createDataChannel("b", negotiated=True)
            with pytest.raises(InvalidConfig, match="not both"):
                caller.createDataChannel("b", maxRetransmits=1, maxPacketLifeTime=1)

    play(story)


@pytest.mark.slow
def test_a_buffer_is_bounded_and_tells_when_it_is_low(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_BUFFERED_BYTES", 1_000_000)

    async def story() -> None:
        async with pair() as (caller, callee):
            other, low = Log(callee), []
            channel = caller.createDataChannel("bulk")
            assert channel.bufferedAmountLowThreshold == 0
            with pytest.raises(ValueError, match="range"):
                channel.bufferedAmountLowThreshold = -1
            channel.bufferedAmountLowThreshold = 100_000
            channel.on("bufferedamountlow", lambda: low.append(channel.bufferedAmount))
            await exchange(caller, callee)
            await until(lambda: channel.readyState == "open")
            with pytest.raises(OperationError):
                while True:
                    channel.send(bytes(100_000))
            assert 1_000_000 <= channel.bufferedAmount <= 1_100_000
            await until(lambda: len(other.messages) >= 10 and low)
            assert low[0] <= 100_000
            # the end of a connection is the end of its channels
            await caller.close()
            assert (channel.readyState, channel.bufferedAmount) == ("closed", 0)

    play(story)
