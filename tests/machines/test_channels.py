"""Open, send and close in any order on both sides, on a network that loses and reorders.

Whatever the order: nothing raises, each channel hears a prefix of what was sent on it, in order,
and all of it unless its own side closed first; and in the end no channel is left.
"""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from tests.scenarios.channels import Channels
from tests.sim.network import LinkConfig
from warp.datachannel import (
    Channel,
    ChannelAnnounced,
    ChannelClosed,
    ChannelConfig,
    ChannelMessage,
    ChannelState,
)

pytestmark = pytest.mark.slow

SIDES = st.sampled_from([0, 1])


class ChannelMachine(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.made = 0
        self.sent: dict[tuple[int, str], list[str]] = {}
        self.closed_by: set[tuple[int, str]] = set()

    @initialize(seed=st.integers(0, 1000), snap=st.booleans(), loss=st.sampled_from([0.0, 0.1]))
    def begin(self, seed: int, snap: bool, loss: float) -> None:
        network = LinkConfig(delay_s=0.01, loss=loss, reorder=loss, reorder_s=0.03, duplicate=loss)
        self.world = Channels(seed=seed, snap=snap, config=network)
        self.nodes = [self.world.client, self.world.server]

    def live(self, side: int) -> list[Channel]:
        return [
            channel
            for channel in self.world.registries[side].channels
            if channel.state is ChannelState.OPEN
        ]

    def names(self, side: int) -> set[str]:
        return {channel.label for channel in self.world.registries[side].channels}

    @rule(side=SIDES, ordered=st.booleans())
    def open(self, side: int, ordered: bool) -> None:
        label = f"{self.made}{'' if ordered else ' unordered'}"
        self.made += 1
        config = ChannelConfig(label=label, ordered=ordered)
        self.world.registries[side].create_channel(config, self.world.now)

    @rule(side=SIDES, index=st.integers(0, 9), count=st.integers(1, 5))
    def send(self, side: int, index: int, count: int) -> None:
        channels = self.live(side)
        if not channels:
            return
        channel = channels[index % len(channels)]
        log = self.sent.setdefault((side, channel.label), [])
        for _ in range(count):
            text = f"{len(log)} " + "x" * (len(log) * 400)
            channel.send(text, self.world.now)
            log.append(text)

    @rule(side=SIDES, index=st.integers(0, 9))
    def close(self, side: int, index: int) -> None:
        channels = self.live(side)
        if channels:
            channel = channels[index % len(channels)]
            channel.close(self.world.now)
            self.closed_by.add((side, channel.label))

    @rule(steps=st.sampled_from([0.001, 0.011, 0.05, 0.5]))
    def pass_time(self, steps: float) -> None:
        self.world.run_for(steps)

    @precondition(lambda self: hasattr(self, "world"))
    @invariant()
    def what_was_heard_is_a_prefix(self) -> None:
        for side, node in enumerate(self.nodes):
            for label, heard in self.heard(node).items():
                sent = self.sent.get((1 - side, label), [])
                if "unordered" in label:
                    assert set(heard) <= set(sent) and len(set(heard)) == len(heard)
                else:
                    assert heard == sent[: len(heard)]

    def heard(self, node: Any) -> dict[str, list[str]]:
        by_label: dict[str, list[str]] = {}
        for _, event in node.named(ChannelMessage):
            by_label.setdefault(event.channel.label, []).append(event.data)
        return by_label

    def teardown(self) -> None:
        if not hasattr(self, "world"):
            return
        world = self.world
        assert world.run(until=self.settled, timeout_s=60.0)
        for side, node in enumerate(self.nodes):
            heard = self.heard(node)
            for (sender, label), sent in self.sent.items():
                if sender != side and (side, label) not in self.closed_by:
                    assert sorted(heard.get(label, [])) == sorted(sent)
        for registry in world.registries:
            for channel in list(registry.channels):
                channel.close(world.now)
        assert world.run(until=world.closed, timeout_s=60.0)
        for node in self.nodes:
            errors = [event.error for _, event in node.named(ChannelClosed)]
            assert errors == [None] * len(errors)
        announced = sum(len(node.named(ChannelAnnounced)) for node in self.nodes)
        assert announced == self.made

    def settled(self) -> bool:
        """Both sides know the same channels, and nothing waits to be sent or acknowledged."""
        ours, theirs = self.world.registries
        same = self.names(0) == self.names(1)
        states = {c.state for r in (ours, theirs) for c in r.channels}
        waiting = any(c.announces for r in (ours, theirs) for c in r.channels)
        quiet = all(
            r.association.get_timer() is None and not any(c.buffered_amount for c in r.channels)
            for r in (ours, theirs)
        )
        return same and states <= {ChannelState.OPEN} and not waiting and quiet


TestChannels = ChannelMachine.TestCase
TestChannels.settings = settings(max_examples=40, stateful_step_count=25, deadline=None)
