"""Partial reliability as channels see it (RFC 3758, RFC 8831 section 6.4)."""

from __future__ import annotations

import pytest

from tests.scenarios.channels import Channels
from tests.sim.network import LinkConfig, drop
from warp.datachannel import ChannelConfig

LOSSY = LinkConfig(delay_s=0.01, loss=0.15)


def lossy(seed: int, **config):
    world = Channels(seed=seed)
    channel = world.ours.create_channel(ChannelConfig(**config), world.now)
    world.run(timeout_s=5.0)
    world.up.config = world.down.config = LOSSY
    return world, channel


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize(
    "config",
    [
        {"max_retransmits": 0},
        {"max_retransmits": 0, "ordered": False},
        {"max_packet_lifetime_s": 0.1},
        {"max_packet_lifetime_s": 0.0, "ordered": False},
    ],
    ids=["once", "once unordered", "100 ms", "0 ms unordered"],
)
def test_loss_never_wedges_a_channel(config: dict, seed: int) -> None:
    world, channel = lossy(seed, **config)
    for n in range(100):
        world.at(
            world.now + n * 0.02, lambda now, n=n: channel.send(n.to_bytes(2, "big") * 400, now)
        )
    world.run(timeout_s=30.0)
    world.up.config = world.down.config = LinkConfig(delay_s=0.01)
    channel.send("still here", world.now)
    world.run(timeout_s=30.0)
    heard = world.messages(world.server)
    assert heard[-1] == "still here"
    assert 40 < len(heard) <= 101
    if channel.config.ordered:
        numbers = [int.from_bytes(data[:2], "big") for data in heard[:-1]]
        assert numbers == sorted(set(numbers))


def test_zero_retransmits_is_not_unset() -> None:
    world, channel = lossy(0, max_retransmits=0)
    world.up.config = world.down.config = LinkConfig(delay_s=0.01)
    world.up.rules.append(drop(world.up.count))
    channel.send("lost", world.now)
    world.run(timeout_s=10.0)
    channel.send("kept", world.now)
    world.run(timeout_s=10.0)
    assert world.messages(world.server) == ["kept"]


def test_a_reliable_sibling_loses_nothing() -> None:
    world, unreliable = lossy(5, max_retransmits=0, ordered=False)
    reliable = world.ours.create_channel(ChannelConfig(label="r"), world.now)
    for n in range(50):
        unreliable.send(bytes(900), world.now)
        reliable.send(str(n), world.now)
    world.run(timeout_s=60.0)
    assert world.messages(world.server, reliable.stream_id) == [str(n) for n in range(50)]
