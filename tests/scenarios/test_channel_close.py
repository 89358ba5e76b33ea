"""Channels close over real stream resets: under loss, from both sides, again and again."""

from __future__ import annotations

import pytest

from tests.scenarios.channels import Channels
from tests.sim.network import LinkConfig, drop
from warp.datachannel import ChannelClosed, ChannelClosing, ChannelConfig, ChannelState
from warp.errors import AssociationLost
from warp.sctp import PeerAborted


def opened(world: Channels, **config):
    channel = world.ours.create_channel(ChannelConfig(**config), world.now)
    world.run(timeout_s=5.0)
    return channel, world.theirs.channel(channel.stream_id)


def test_close_takes_one_round_trip_and_loses_nothing() -> None:
    world = Channels()
    ours, theirs = opened(world)
    for n in range(200):
        ours.send(bytes(1000) + bytes([n]), world.now)
    ours.close(world.now)
    assert world.run(until=world.closed, timeout_s=10.0)
    assert len(world.messages(world.server)) == 200
    kinds = [type(event) for _, event in world.server.events][-2:]
    assert kinds == [ChannelClosing, ChannelClosed]
    assert ours.error is None and theirs.error is None


@pytest.mark.parametrize("index", range(4))
@pytest.mark.parametrize("way", ["up", "down"])
def test_any_packet_of_the_close_may_be_lost(way: str, index: int) -> None:
    world = Channels()
    ours, _ = opened(world)
    link = getattr(world, way)
    link.rules.append(drop(link.count + index))
    ours.close(world.now)
    assert world.run(until=world.closed, timeout_s=10.0)
    assert [event.error for _, event in world.client.named(ChannelClosed)] == [None]


@pytest.mark.parametrize("seed", range(4))
def test_both_sides_close_under_loss(seed: int) -> None:
    world = Channels(seed=seed)
    pairs = [opened(world) for _ in range(5)]
    for link in (world.up, world.down):
        link.config = LinkConfig(delay_s=0.01, loss=0.2)
    for ours, theirs in pairs:
        ours.send("from us", world.now)
        theirs.send("from them", world.now)
        ours.close(world.now)
        theirs.close(world.now)
    assert world.run(until=world.closed, timeout_s=30.0)


def test_the_next_channel_on_an_id_sees_none_of_the_old_messages() -> None:
    world = Channels(seed=1, config=LinkConfig(delay_s=0.005, jitter_s=0.004))
    for n in range(30):
        channel = world.ours.create_channel(
            ChannelConfig(label=str(n), ordered=n % 2 == 0), world.now
        )
        assert channel.stream_id == 0
        for _ in range(3):
            channel.send(str(n), world.now)
        channel.close(world.now)
        assert world.run(until=world.closed, timeout_s=10.0)
    heard = [
        (event.channel.label, event.data)
        for _, event in world.server.events
        if hasattr(event, "data")
    ]
    assert heard == [(str(n), str(n)) for n in range(30) for _ in range(3)]
    assert not world.theirs.discards


@pytest.mark.slow
def test_a_thousand_cycles() -> None:
    world = Channels(config=LinkConfig(delay_s=0.001))
    for n in range(1000):
        channel = world.ours.create_channel(ChannelConfig(label=str(n)), world.now)
        assert channel.stream_id == 0
        channel.send(str(n), world.now)
        channel.close(world.now)
        assert world.run(until=world.closed, timeout_s=10.0)
        world.ladder.clear()
    assert world.messages(world.server) == [str(n) for n in range(1000)]


def test_negotiated_ids_are_reused_too() -> None:
    world = Channels()
    config = ChannelConfig(negotiated=True, stream_id=7)
    for n in range(3):
        ours = world.ours.create_channel(config, world.now)
        theirs = world.theirs.create_channel(config, world.now)
        ours.send(f"up {n}", world.now)
        theirs.send(f"down {n}", world.now)
        world.run(timeout_s=5.0)
        theirs.close(world.now)
        assert world.run(until=world.closed, timeout_s=5.0)
    assert world.messages(world.server) == ["up 0", "up 1", "up 2"]
    assert world.messages(world.client) == ["down 0", "down 1", "down 2"]


def test_a_peer_that_aborts_closes_everything_with_the_cause() -> None:
    world = Channels()
    ours, theirs = opened(world)
    world.theirs.association.abort(world.now, "enough")
    world.run(timeout_s=5.0)
    assert ours.state is theirs.state is ChannelState.CLOSED
    assert isinstance(ours.error, PeerAborted) and ours.error.cause == 12
    assert isinstance(theirs.error, AssociationLost)


def test_closing_the_registry_tells_the_peer() -> None:
    world = Channels()
    ours, theirs = opened(world)
    world.ours.close(world.now)
    world.run(timeout_s=5.0)
    assert ours.state is theirs.state is ChannelState.CLOSED
    assert ours.error is None and isinstance(theirs.error, PeerAborted)


def test_an_orderly_shutdown_closes_without_error() -> None:
    world = Channels()
    ours, theirs = opened(world)
    ours.send("last", world.now)
    world.ours.association.close(world.now)
    world.run(timeout_s=20.0)
    assert world.messages(world.server) == ["last"]
    assert ours.state is theirs.state is ChannelState.CLOSED
    assert theirs.error is None


def test_an_open_that_meets_a_shutdown_is_dropped() -> None:
    world = Channels()
    opened(world)
    world.ours.association.close(world.now)
    world.theirs.create_channel(ChannelConfig(), world.now)
    world.run(timeout_s=20.0)
    assert world.closed()
