"""What the bench of first datagrams sends is what it says that it is."""

from __future__ import annotations

import asyncio
import socket

from instant_connect.decisions import Dropped
from instant_connect.reasons import InstantDiscard
from tests.unit.instant_connect.door import NOW, flow, make_host
from warp_tools.bench import instant
from warp_tools.bench.flooder import flood


def test_each_bad_datagram_is_bad_in_its_own_way() -> None:
    host = make_host()
    decisions = [
        host.receive_unknown(data, flow(number), NOW)
        for number, data in enumerate(instant.bad_datagrams(host.bundle(NOW)))
    ]
    assert all(isinstance(decision, Dropped) for decision in decisions)
    assert [decision.reason for decision in decisions if isinstance(decision, Dropped)] == [
        InstantDiscard.NOT_FOR_US,
        InstantDiscard.UFRAG_LENGTH,
        InstantDiscard.VERSION,
        InstantDiscard.FORGED,
        InstantDiscard.WRONG_INTEGRITY,
    ]
    assert host.stats()["sessions"] == 0


def test_a_ticket_is_opened_and_a_forged_one_refused() -> None:
    figures = instant._tickets(1)
    assert set(figures) == {"open_us", "refuse_us", "open_ufrag_us"}
    assert all(value > 0 for value in figures.values())


def test_first_datagrams_make_sessions() -> None:
    figures = asyncio.run(instant._shells(1))
    assert figures["shells"] == 20
    assert figures["shell_ms"] > 0


def test_a_flood_keeps_its_rate_and_no_two_datagrams_are_equal() -> None:
    with (
        socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as target,
        socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as source,
    ):
        target.bind(("127.0.0.1", 0))
        target.setblocking(False)
        source.bind(("127.0.0.1", 0))
        kinds = [bytes(40), b"\x01" * 40]
        sent = flood([source], target.getsockname(), kinds, 1_000, 0.05)
        assert 0 < sent <= 51
        received = {target.recv(100) for _ in range(sent)}
        assert len(received) == sent
        assert {data[:8] for data in received} == {bytes(8), b"\x01" * 8}
