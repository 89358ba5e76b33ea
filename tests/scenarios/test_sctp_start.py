"""Both kinds of start over the virtual network: round trips, loss, one side only."""

from __future__ import annotations

import pytest

from tests.scenarios.sctp_pair import snap_pair
from tests.sim.network import LinkConfig
from tests.sim.pair import Pair
from warp.entropy import SeededEntropy
from warp.sctp import Association, Established, SctpConfig, local_init


def classic_pair(link: LinkConfig, seed: int = 0) -> Pair:
    config = SctpConfig()
    client, server = (
        Association(config, local_init=None, entropy=SeededEntropy(f"{seed}{n}".encode()))
        for n in (0, 1)
    )
    pair = Pair(client, server, config=link, seed=seed)
    client.start(pair.now)
    server.start(pair.now)
    return pair


def test_the_first_message_takes_half_a_round_trip() -> None:
    pair = snap_pair(LinkConfig(delay_s=0.05))
    pair.client.endpoint.send_message(4, 51, b"hello", pair.now)
    assert pair.run(until=lambda: bool(pair.server.endpoint.messages()), timeout_s=1)
    assert pair.now == pytest.approx(1000.05)


def test_the_ordinary_start_takes_two_round_trips_before_data() -> None:
    pair = classic_pair(LinkConfig(delay_s=0.05))
    pair.client.endpoint.send_message(4, 51, b"hello", pair.now)
    assert pair.run(until=lambda: bool(pair.server.endpoint.messages()), timeout_s=2)
    assert 1000.15 <= pair.now <= 1000.26


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(20))
def test_the_ordinary_start_under_loss(seed: int) -> None:
    pair = classic_pair(LinkConfig(delay_s=0.05, loss=0.3, duplicate=0.2, reorder=0.2), seed)
    client, server = pair.client.endpoint, pair.server.endpoint
    client.send_message(1, 51, b"up", pair.now)
    server.send_message(1, 51, b"down", pair.now)
    assert pair.run(
        until=lambda: (
            client.established
            and server.established
            and client._transmission.is_idle
            and server._transmission.is_idle
        ),
        timeout_s=120,
    )
    assert client.messages() == [(1, 51, b"down")]
    assert server.messages() == [(1, 51, b"up")]
    for node in (pair.client, pair.server):
        assert len(node.named(Established)) == 1


@pytest.mark.parametrize("seed", range(4))
def test_snap_on_one_side_only(seed: int) -> None:
    """The other side never learnt of SNAP and starts the ordinary way, with fresh numbers."""
    config = SctpConfig()
    ours, theirs = local_init(config, SeededEntropy(1)), local_init(config, SeededEntropy(2))
    client = Association(config, local_init=ours, entropy=SeededEntropy(3))
    server = Association(config, local_init=theirs, entropy=SeededEntropy(4))
    pair = Pair(client, server, config=LinkConfig(delay_s=0.02, loss=0.1), seed=seed)
    client.start_snap(theirs, pair.now)
    client.send_message(1, 51, b"early", pair.now)
    server.start(pair.now)
    assert pair.run(until=lambda: client._transmission.is_idle, timeout_s=60)
    server.send_message(1, 51, b"down", pair.now)
    pair.run_for(5.0)
    assert server.messages() == [(1, 51, b"early")]
    assert client.messages() == [(1, 51, b"down")]


def test_a_peer_that_is_not_there_is_noticed() -> None:
    pair = snap_pair(LinkConfig(delay_s=0.02), config=SctpConfig(max_retransmissions=4))
    pair.up.down = pair.down.down = True
    pair.run_for(60.0)
    assert not pair.client.endpoint.established
    assert not pair.server.endpoint.established


def test_an_idle_pair_says_next_to_nothing() -> None:
    pair = snap_pair(LinkConfig(delay_s=0.02))
    pair.run_for(3600.0)
    # a heartbeat and its answer every half minute, for each side
    assert len(pair.ladder) < 4 * 121
    assert pair.client.endpoint.rtt_s == pytest.approx(0.04)
