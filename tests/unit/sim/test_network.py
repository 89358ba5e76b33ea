from __future__ import annotations

from dataclasses import replace

import pytest

from tests.sim.clock import VirtualClock
from tests.sim.network import Fate, LinkConfig, Network, delay, drop, duplicate, swap

A = ("192.0.2.1", 1)
B = ("192.0.2.2", 2)


def network(**changes: object) -> Network:
    net = Network(replace(LinkConfig(), **changes), seed=7)
    net.attach("a", A)
    net.attach("b", B)
    return net


def arrivals(net: Network, count: int, size: int = 100, gap: float = 0.01) -> list[list[float]]:
    return [
        [t.arrives_at for t in net.transmit(bytes(size), A, B, i * gap)[0]] for i in range(count)
    ]


def test_the_clock_only_goes_forward() -> None:
    clock = VirtualClock()
    clock.advance_to(clock.now + 1)
    with pytest.raises(ValueError, match="cannot go back"):
        clock.advance_to(clock.now - 1)


def test_a_perfect_link_delays_and_nothing_else() -> None:
    assert arrivals(network(), 3) == [[0.05], [pytest.approx(0.06)], [pytest.approx(0.07)]]


def test_the_same_seed_gives_the_same_luck() -> None:
    mess = {"loss": 0.2, "jitter_s": 0.03, "reorder": 0.1, "duplicate": 0.1, "burst_enter": 0.05}
    assert arrivals(network(**mess), 200) == arrivals(network(**mess), 200)


def test_the_other_direction_has_its_own_luck() -> None:
    quiet, busy = network(loss=0.5), network(loss=0.5)
    expected = arrivals(quiet, 50)
    for i in range(50):
        busy.transmit(b"x", B, A, i * 0.01)
    assert arrivals(busy, 50) == expected


def test_loss_is_about_what_was_asked_for() -> None:
    lost = sum(not a for a in arrivals(network(loss=0.1), 2000))
    assert 150 < lost < 250


def test_bursts_lose_in_runs() -> None:
    got = [bool(a) for a in arrivals(network(burst_enter=0.02, burst_leave=0.25), 2000)]
    runs = "".join("." if g else "x" for g in got).split(".")
    lengths = [len(r) for r in runs if r]
    assert sum(lengths) / len(lengths) > 2.5


def test_jitter_keeps_the_order_and_reorder_breaks_it() -> None:
    calm = [a[0] for a in arrivals(network(jitter_s=0.05), 100)]
    assert calm == sorted(calm)
    wild = [a[0] for a in arrivals(network(reorder=0.2, reorder_s=0.05), 100)]
    assert wild != sorted(wild)


def test_a_rate_queues_and_then_drops() -> None:
    net = network(rate_bit_s=80_000.0, queue_s=0.05)
    fates = [net.transmit(bytes(972), A, B, 0.0)[1] for _ in range(4)]
    # 1000 bytes on the wire last 0.1 s
    assert fates == [Fate.DELIVERED, Fate.QUEUE_FULL, Fate.QUEUE_FULL, Fate.QUEUE_FULL]
    assert net.transmit(bytes(972), A, B, 0.06)[0][0].arrives_at == pytest.approx(0.25)


def test_too_large_vanishes() -> None:
    assert network(mtu_bytes=1200).transmit(bytes(1201), A, B, 0.0)[1] is Fate.TOO_LARGE


def test_rules_hit_exactly_their_datagram() -> None:
    net = network()
    net.link("a", "b").rules += [drop(0), duplicate(1), delay(2, 0.5)]
    assert arrivals(net, 4, gap=0.0) == [
        [],
        [0.05, pytest.approx(0.051)],
        [pytest.approx(0.55)],
        [0.05],
    ]
    assert [t.arrives_at for t in net.transmit(b"x", B, A, 0.0)[0]] == [0.05]


def test_swap_moves_a_datagram_behind_the_next() -> None:
    net = network()
    net.link("a", "b").rules.append(swap(0))
    first = net.transmit(b"1", A, B, 0.0)[0][0]
    assert first.arrives_at == pytest.approx(1.05)
    second = net.transmit(b"2", A, B, 0.2)[0][0]
    assert first.arrives_at == second.arrives_at == pytest.approx(0.25)
    assert first.moved


def test_a_link_that_is_down_loses_all() -> None:
    net = network()
    net.link("a", "b").down = True
    assert arrivals(net, 2) == [[], []]


def test_a_nat_shows_another_address_and_forgets_the_old_one() -> None:
    net = network()
    outside, later = ("198.51.100.9", 4000), ("198.51.100.9", 4001)
    net.rebind(A, outside)
    assert net.transmit(b"x", A, B, 0.0)[0][0].source == outside
    assert net.transmit(b"x", B, outside, 0.0)[2] == "a"
    assert net.transmit(b"x", B, A, 0.0)[1] is Fate.NO_ROUTE
    net.rebind(A, later)
    assert net.transmit(b"x", A, B, 0.0)[0][0].source == later
    assert net.transmit(b"x", B, outside, 0.0)[1] is Fate.NO_ROUTE
