"""Floods at the door: what strangers, thieves and crowds can make a server keep is bounded."""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable, Iterator

import pytest

from instant_connect.admission import AdmissionConfig
from instant_connect.decisions import Answered, Arrived, Dropped
from instant_connect.host import Host, HostConfig
from instant_connect.reasons import InstantDiscard
from tests.unit.instant_connect.door import (
    HELLO,
    LOCAL,
    NOW,
    RING,
    SPED_HELLO,
    Knocker,
    flow,
    make_host,
)
from warp.contract import Flow

MANY = 100_000
RATE = 1e-4  # 10,000 a second
MIB = 1 << 20
OPEN = AdmissionConfig(flood_per_s=1_000_000, ceiling_per_s=1_000_000)


def grown(work: Callable[[], None]) -> float:
    """Run `work` and return the MiB that are in use afterwards and were not before."""
    tracemalloc.start()
    try:
        before = tracemalloc.get_traced_memory()[0]
        work()
        return (tracemalloc.get_traced_memory()[0] - before) / MIB
    finally:
        tracemalloc.stop()


def addresses(count: int) -> Iterator[Flow]:
    for number in range(count):
        yield Flow(LOCAL, (f"10.{number >> 16}.{number >> 8 & 255}.{number & 255}", 5000))


def forged() -> list[bytes]:
    """First datagrams that nobody sealed or signed, of every kind."""
    knocker = Knocker(password="p" * 32)
    ufrag = Knocker().ufrag
    return [
        knocker.check(),
        Knocker().check(integrity=False),
        knocker.check(ufrag=ufrag[:60] + "AAAA" + ufrag[64:]),
        knocker.check(ufrag="A" * 140),
        knocker.check(ufrag="abcd"),
        HELLO,
        bytes(60),
    ]


def idle(host: Host) -> bool:
    stats = host.stats()
    return not any(stats[n] for n in ("sessions", "half_open", "waiting", "tickets_used"))


@pytest.mark.slow
@pytest.mark.parametrize("limits", [OPEN, AdmissionConfig()], ids=["all looked at", "gated"])
def test_forged_first_datagrams_leave_nothing(limits: AdmissionConfig) -> None:
    host, kinds = make_host(limits=limits), forged()

    def flood() -> None:
        for number, on in enumerate(addresses(MANY)):
            decision = host.receive_unknown(kinds[number % len(kinds)], on, NOW + number * RATE)
            assert not isinstance(decision, Answered | Arrived)

    assert grown(flood) < 1.5
    assert idle(host)
    # and an honest client is served at once
    honest = host.receive_unknown(Knocker(5).check(), flow(1), NOW + MANY * RATE + 2)
    assert isinstance(honest, Answered)


@pytest.mark.slow
def test_from_one_place_hardly_any_are_looked_at_and_others_are_served() -> None:
    host, bad = make_host(), Knocker(password="p" * 32).check()
    served = 0
    for number in range(MANY // 2):
        now = NOW + number * RATE
        host.receive_unknown(bad, flow(number % 1000), now)
        if number % 5000 == 4999:
            honest = flow(0, f"198.51.{number // 5000}.7")
            decision = host.receive_unknown(Knocker(number).check(), honest, now)
            served += isinstance(decision, Answered)
    assert served == 10
    looked = host.entrance.discards[InstantDiscard.WRONG_INTEGRITY]
    assert looked < 2000 + 5 * 20 + 60  # until it is a flood, then the rate of one prefix


@pytest.mark.slow
def test_real_tickets_in_any_number_fill_what_they_may_and_no_more() -> None:
    """A crowd that is all genuine, and never goes on to DTLS."""
    limits = AdmissionConfig(
        flood_per_s=1_000_000,
        ceiling_per_s=1_000_000,
        max_waiting=1_000,
        max_unproven_per_prefix=1_000,
    )
    host = make_host(limits=limits, config=HostConfig(max_tickets=4_000))
    checks = [Knocker(seed).check() for seed in range(6_000)]

    def crowd() -> None:
        for number, on in enumerate(addresses(MANY // 5)):
            host.receive_unknown(checks[number % 6_000], on, NOW + number * 10 * RATE)

    assert grown(crowd) < 4
    stats = host.stats()
    assert stats["waiting"] <= 1_000
    assert stats["tickets_used"] <= 4_000
    assert stats["sessions"] == 0
    assert set(stats["dropped"]) <= {
        InstantDiscard.OVERLOADED.value,
        InstantDiscard.TABLE_FULL.value,
    }


@pytest.mark.slow
def test_handshakes_that_are_never_finished_come_and_go() -> None:
    limits = AdmissionConfig(
        flood_per_s=1_000_000, ceiling_per_s=1_000_000, max_half_open=50, half_open_s=0.1
    )
    host = make_host(limits=limits)
    checks = [Knocker(seed).check(SPED_HELLO) for seed in range(2_000)]

    def storm() -> None:
        for number, on in enumerate(addresses(2_000)):
            now = NOW + number * 1e-3
            host.receive_unknown(checks[number], on, now)
            for session in host.overdue(now):
                session.peer.close(now)
                host.sessions.end(session)

    assert grown(storm) < 6
    assert host.stats()["half_open"] <= 50
    begun = 2_000 - sum(host.stats()["dropped"].values())
    assert begun >= 900  # a new one for each that is over


def test_nothing_of_a_flood_is_a_secret() -> None:
    host = make_host()
    for data in forged():
        decision = host.receive_unknown(data, flow(), NOW)
        assert isinstance(decision, Dropped) or data is HELLO
        assert "A" * 20 not in repr(decision)
    assert str(RING.current.certificate.der) not in repr(host.stats())
