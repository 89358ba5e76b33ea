"""The first message of a channel: negotiated or announced, SNAP or four packets."""

from __future__ import annotations

import pytest

from tests.scenarios.channels import Channels
from warp.datachannel import (
    ChannelAnnounced,
    ChannelConfig,
    ChannelMessage,
    ChannelOpened,
    ChannelState,
)

NEGOTIATED = ChannelConfig(label="events", negotiated=True, stream_id=4)


def chunk_types(packet: bytes) -> list[int]:
    """The chunk types of an SCTP packet."""
    found, position = [], 12
    while position + 4 <= len(packet):
        found.append(packet[position])
        position += (int.from_bytes(packet[position + 2 : position + 4], "big") + 3) & ~3
    return found


def test_snap_and_negotiated_needs_no_packet_to_open() -> None:
    world = Channels(established=False)
    ours = world.ours.create_channel(NEGOTIATED, 0.0)
    theirs = world.theirs.create_channel(NEGOTIATED, 0.0)
    world.start()
    assert ours.state is theirs.state is ChannelState.OPEN
    sent_at = world.now
    ours.send("hello", sent_at)
    assert world.run(until=lambda: bool(world.messages(world.server)))
    (at, message) = world.server.named(ChannelMessage)[0]
    assert message == ChannelMessage(theirs, "hello")
    assert at - sent_at == pytest.approx(world.rtt_s / 2)
    # DATA (0) is the very first thing on the wire: no INIT, no COOKIE
    assert chunk_types(world.ladder[0].data) == [0]
    assert not {1, 2, 10, 11} & {kind for s in world.ladder for kind in chunk_types(s.data)}


def test_announced_channel_and_its_first_message_share_a_packet() -> None:
    world = Channels()
    sent_at = world.now
    world.ours.create_channel(ChannelConfig(label="a"), sent_at).send("with it", sent_at)
    assert world.run(until=lambda: bool(world.messages(world.server)))
    assert chunk_types(world.ladder[0].data) == [0, 0]
    kinds = [type(event) for _, event in world.server.events]
    assert kinds == [ChannelAnnounced, ChannelOpened, ChannelMessage]
    assert world.now - sent_at == pytest.approx(world.rtt_s / 2)


def test_an_unordered_first_message_never_overtakes_its_open() -> None:
    world = Channels()
    config = ChannelConfig(ordered=False, max_retransmits=0)
    for n in range(20):
        world.ours.create_channel(config, world.now).send(str(n), world.now)
    world.run(timeout_s=5.0)
    assert world.messages(world.server) == [str(n) for n in range(20)]
    assert not world.theirs.discards


def test_classic_start_opens_what_waits() -> None:
    world = Channels(snap=False, established=False)
    ours = world.ours.create_channel(ChannelConfig(label="early"), 0.0)
    theirs = world.theirs.create_channel(ChannelConfig(label="too"), 0.0)
    assert ours.stream_id is None
    world.start()
    assert (ours.stream_id, theirs.stream_id) == (0, 1)
    ours.send("a", world.now)
    theirs.send("b", world.now)
    world.run(timeout_s=5.0)
    assert world.messages(world.server) == ["a"] and world.messages(world.client) == ["b"]


def test_both_sides_open_many_at_once() -> None:
    world = Channels(seed=3)
    for n in range(50):
        world.ours.create_channel(ChannelConfig(label=f"c{n}"), world.now)
        world.theirs.create_channel(ChannelConfig(label=f"s{n}"), world.now)
    world.run(timeout_s=5.0)
    for registry in world.registries:
        assert len(registry.channels) == 100
        assert not any(channel.announces for channel in registry.channels)
        assert not registry.discards


@pytest.mark.parametrize("seed", range(3))
def test_opening_survives_loss(seed: int) -> None:
    """OPEN and ACK are reliable even where the channel is not (RFC 8832 section 6)."""
    world = Channels(seed=seed)
    for link in (world.up, world.down):
        link.config = type(link.config)(delay_s=0.01, loss=0.3)
    config = ChannelConfig(ordered=False, max_retransmits=0)
    for _ in range(10):
        world.ours.create_channel(config, world.now)
    assert world.run(
        until=lambda: (
            len(world.theirs.channels) == 10
            and not any(channel.announces for channel in world.ours.channels)
        ),
        timeout_s=30.0,
    )
