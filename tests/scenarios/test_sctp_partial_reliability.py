"""Unreliable channels under loss: no wedge, reliable siblings undisturbed (RFC 3758)."""

from __future__ import annotations

import pytest

from tests.scenarios.sctp_pair import Traffic, run_traffic, snap_pair, traffics
from tests.sim.network import LinkConfig, drop
from warp.sctp import SctpConfig


def check_subset(sender: Traffic, receiver: Traffic, *, ordered: bool) -> int:
    """What arrives was sent, arrives once, and in order where that was asked for."""
    count = 0
    for stream, received in receiver.received.items():
        numbers = [int.from_bytes(payload[:8], "big") for payload in received]
        assert [sender.sent[stream][n] for n in numbers] == received
        assert len(set(numbers)) == len(numbers)
        if ordered:
            assert numbers == sorted(numbers)
        count += len(numbers)
    return count


@pytest.mark.slow
@pytest.mark.parametrize("interleaving", [False, True])
@pytest.mark.parametrize("ordered", [False, True])
@pytest.mark.parametrize(("limit", "least"), [(0, 0.4), (2, 0.9)])
def test_limited_retransmissions(
    interleaving: bool, ordered: bool, limit: int, least: float
) -> None:
    config = SctpConfig(interleaving=interleaving)
    pair = snap_pair(LinkConfig(delay_s=0.02, loss=0.1, reorder=0.05), seed=5, config=config)
    a, b = traffics(pair, 200_000, 6000, ordered=ordered, max_retransmits=limit)
    run_traffic(pair, a, b)
    for sender, receiver in ((a, b), (b, a)):
        sent = sum(map(len, sender.sent.values()))
        assert check_subset(sender, receiver, ordered=ordered) >= least * sent


@pytest.mark.slow
@pytest.mark.parametrize("ordered", [False, True])
def test_limited_lifetime(ordered: bool) -> None:
    pair = snap_pair(LinkConfig(delay_s=0.02, loss=0.2), seed=6)
    a, b = traffics(pair, 200_000, 4000, ordered=ordered, lifetime_s=0.1)
    run_traffic(pair, a, b)
    check_subset(a, b, ordered=ordered)
    check_subset(b, a, ordered=ordered)


@pytest.mark.slow
def test_small_datagram_like_messages_keep_flowing() -> None:
    """maxRetransmits 0, unordered, tiny: the usual game traffic, under 30 % loss."""
    pair = snap_pair(LinkConfig(delay_s=0.05, loss=0.3), seed=7)
    client, server = pair.client.endpoint, pair.server.endpoint
    for n in range(400):
        pair.at(
            1000.0 + n * 0.02,
            lambda now, n=n: client.send_message(
                1, 53, n.to_bytes(4, "big"), now, ordered=False, max_retransmits=0
            ),
        )
    arrivals: list[tuple[float, int]] = []

    def collect(node: object, now: float) -> None:
        for _, _, payload in server.messages():
            arrivals.append((now, int.from_bytes(payload, "big")))

    pair.after_step.append(collect)
    pair.run_for(30.0)
    assert len(arrivals) > 220
    late = [at - (1000.0 + n * 0.02) for at, n in arrivals]
    assert sorted(late)[len(late) // 2] < 0.06
    assert client._transmission.is_idle


@pytest.mark.slow
def test_a_reliable_channel_beside_an_unreliable_one() -> None:
    pair = snap_pair(LinkConfig(delay_s=0.02, loss=0.1), seed=8)
    client, server = pair.client.endpoint, pair.server.endpoint
    for n in range(300):
        client.send_message(1, 53, n.to_bytes(2, "big") * 300, pair.now, max_retransmits=0)
        client.send_message(2, 53, n.to_bytes(2, "big") * 300, pair.now)
    received: dict[int, list[int]] = {1: [], 2: []}

    def collect(node: object, now: float) -> None:
        for stream, _, payload in server.messages():
            received[stream].append(int.from_bytes(payload[:2], "big"))

    pair.after_step.append(collect)
    assert pair.run(until=lambda: client._transmission.is_idle, timeout_s=120)
    assert received[2] == list(range(300))
    assert received[1] == sorted(received[1])
    assert 200 < len(received[1]) < 300


@pytest.mark.parametrize("lost", range(4))
def test_a_lost_forward_tsn_is_said_again(lost: int) -> None:
    pair = snap_pair(LinkConfig(delay_s=0.02))
    client, server = pair.client.endpoint, pair.server.endpoint
    pair.up.rules += [drop(0), *(drop(1 + n) for n in range(lost))]
    client.send_message(1, 53, b"given up", pair.now, max_retransmits=0)
    assert pair.run(until=lambda: client._transmission.is_idle, timeout_s=30)
    client.send_message(1, 53, b"next", pair.now)
    pair.run_for(1.0)
    assert server.messages() == [(1, 53, b"next")]
    assert client._transmission.flight_size == 0
