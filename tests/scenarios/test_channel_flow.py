"""Large and many messages: buffered amounts, limits, order."""

from __future__ import annotations

import pytest

from tests.scenarios.channels import Channels
from warp.datachannel import BufferedAmountLow, ChannelConfig, RegistryConfig

CONFIG = ChannelConfig(negotiated=True, stream_id=2)
ROOMY = RegistryConfig(send_limit=None, receive_limit=None)


def opened(**settings):
    world = Channels(registry=ROOMY, **settings)
    ours = world.ours.create_channel(CONFIG, world.now)
    theirs = world.theirs.create_channel(CONFIG, world.now)
    return world, ours, theirs


@pytest.mark.parametrize("size", [1, 1162, 1163, 1164, 16_384, 65_536, 262_144])
def test_messages_of_every_size_arrive_whole(size: int) -> None:
    world, ours, theirs = opened()
    payload = bytes(n & 0xFF for n in range(size))
    ours.send(payload, world.now)
    theirs.send("x" * size, world.now)
    world.run(timeout_s=20.0)
    assert world.messages(world.server) == [payload]
    assert world.messages(world.client) == ["x" * size]


def test_buffered_amount_falls_to_zero_and_says_so() -> None:
    world, ours, _ = opened()
    ours.buffered_amount_low_threshold = 100_000
    for _ in range(10):
        ours.send(bytes(50_000), world.now)
    assert ours.buffered_amount == 500_000
    world.run(timeout_s=20.0)
    assert ours.buffered_amount == 0
    assert [e.channel for _, e in world.client.named(BufferedAmountLow)] == [ours]


def test_empty_messages_keep_their_place() -> None:
    world, ours, _ = opened()
    for data in ("a", "", b"", "b"):
        ours.send(data, world.now)
    world.run(timeout_s=5.0)
    assert world.messages(world.server) == ["a", "", b"", "b"]
