"""Streams closed and reused while the network misbehaves (RFC 6525)."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.scenarios.sctp_pair import snap_pair
from tests.sim.network import LinkConfig, Rule, delay, drop, duplicate, swap
from tests.sim.pair import Pair
from warp.sctp import StreamsReset

RULES: list[Callable[[int], Rule]] = [drop, duplicate, swap, lambda n: delay(n, 0.7)]


def resets(pair: Pair) -> list[tuple[str, bool]]:
    return [
        (node.name, event.incoming)
        for node in (pair.client, pair.server)
        for _, event in node.named(StreamsReset)
    ]


@pytest.mark.parametrize("rule", RULES, ids=["drop", "duplicate", "swap", "late"])
@pytest.mark.parametrize("up", [False, True])
@pytest.mark.parametrize("index", range(4))
def test_one_packet_goes_astray(rule: Callable[[int], Rule], up: bool, index: int) -> None:
    pair = snap_pair(LinkConfig(delay_s=0.02))
    (pair.up if up else pair.down).rules.append(rule(index))
    client, server = pair.client.endpoint, pair.server.endpoint
    client.send_message(4, 51, b"old", pair.now)
    client.reset_streams([4], pair.now)
    client.send_message(4, 51, b"new", pair.now)
    pair.run_for(8.0)
    assert server.messages() == [(4, 51, b"old"), (4, 51, b"new")]
    assert sorted(resets(pair)) == [("client", False), ("server", True)]
    assert client._transmission.is_idle


@pytest.mark.slow
def test_opened_and_closed_many_times_under_loss() -> None:
    pair = snap_pair(LinkConfig(delay_s=0.005, loss=0.1, reorder=0.1, reorder_s=0.004), seed=9)
    client, server = pair.client.endpoint, pair.server.endpoint
    received: list[bytes] = []
    for n in range(60):
        for side in (client, server):
            side.send_message(4, 51, b"%d first" % n, pair.now)
            side.send_message(4, 51, b"%d last" % n, pair.now)
            side.reset_streams([4], pair.now)
        done = 2 * (n + 1)
        assert pair.run(
            until=lambda done=done: all(
                len(node.named(StreamsReset)) == done for node in (pair.client, pair.server)
            ),
            timeout_s=60,
        )
        received += [payload for _, _, payload in server.messages()]
        assert received[-2:] == [b"%d first" % n, b"%d last" % n]
        assert len(client.messages()) == 2
    assert len(received) == 120


def test_several_streams_while_others_carry_on() -> None:
    pair = snap_pair(LinkConfig(delay_s=0.01, loss=0.05), seed=10)
    client, server = pair.client.endpoint, pair.server.endpoint
    for n in range(30):
        for stream in range(4):
            client.send_message(stream, 51, b"%d" % n * 200, pair.now)
    client.reset_streams([1, 3], pair.now)
    for stream in range(4):
        client.send_message(stream, 51, b"after", pair.now)
    pair.run_for(30.0)
    got: dict[int, list[bytes]] = {}
    for stream, _, payload in server.messages():
        got.setdefault(stream, []).append(payload)
    expected = [b"%d" % n * 200 for n in range(30)] + [b"after"]
    assert got == dict.fromkeys(range(4), expected)
    [(_, event)] = pair.server.named(StreamsReset)
    assert isinstance(event, StreamsReset)
    assert event.stream_ids == (1, 3)
