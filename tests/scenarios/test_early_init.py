"""Without SNAP a DTLS 1.3 server's INIT leaves right behind its flight, before it knows its client.

    client  hello ▶        ▶ last flight, INIT ACK       ▶ COOKIE ACK
    server        ▶ flight, INIT        ▶ COOKIE ECHO          (the channel is open at the client)

A round trip less than with an INIT that waits for the client's Finished (RFC 8446 section 2 calls
it half-RTT data). It tells nothing, and its loss costs no more than its absence.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from tests.scenarios.start import (
    CERTIFICATES,
    WARP,
    Call,
    Start,
    begin,
    meddle,
    meet,
    open_channel,
    opened,
    signal,
)
from tests.sim.network import Transit
from tests.sim.pair import Pair
from warp.datachannel import ChannelOpened
from warp.peer import PeerConfig

SPED = replace(WARP, snap=False)
DIRECT = replace(SPED, sped=False)
STARTS = pytest.mark.parametrize("start", [SPED, DIRECT], ids=["sped", "direct"])


class DataOnly(Start):
    """A start without media."""

    def config(self, *, server: bool) -> PeerConfig:
        return replace(super().config(server=server), audio=False)


def is_data(data: bytes) -> bool:
    """Whether a datagram begins with a record of epoch 3 (RFC 9147 section 4)."""
    return 20 <= data[0] <= 63 and data[0] & 0x23 == 0x23


def known_at(call: Call) -> float:
    """When the server knew its client."""
    return float(call.server.stats()["milestones"]["dtls_connected"])


def opened_after(pair: Pair, start: Start) -> float:
    """Round trips from the first check until the channel was open at the client."""
    first = pair.sent("client")[0].time
    return (pair.client.named(ChannelOpened)[0][0] - first) / start.rtt_s


def lose(pair: Pair, which: Callable[[str, bytes], bool]) -> list[bytes]:
    """Lose the first datagram of this kind; returns what was lost."""
    lost: list[bytes] = []

    def rule(sender: str, data: bytes, copies: list[Transit]) -> list[Transit]:
        if not lost and which(sender, data):
            lost.append(data)
            return []
        return copies

    meddle(pair, rule)
    return lost


@STARTS
def test_one_packet_leaves_before_the_client_is_known(start: Start) -> None:
    call = begin(start)
    assert call.until_up()
    records = [step for step in call.pair.sent("server") if is_data(step.data)]
    early = [step for step in records if step.time < known_at(call)]
    assert len(early) == 1
    flight = call.server.stats()["milestones"]["early_write"]
    assert early[0].time == flight
    assert call.works()


@STARTS
def test_nothing_leaves_before_unless_early_data_is_wanted(start: Start) -> None:
    call = begin(replace(start, early_data=False))
    assert call.until_up()
    records = [step for step in call.pair.sent("server") if is_data(step.data)]
    assert records[0].time >= known_at(call)


@STARTS
def test_its_loss_costs_what_its_absence_does(start: Start) -> None:
    call = begin(start)
    lost = lose(call.pair, lambda sender, data: sender == "server" and is_data(data))
    assert call.until_up()
    assert lost
    without = begin(replace(start, early_data=False))
    assert without.until_up()
    assert opened_after(call.pair, start) == pytest.approx(
        opened_after(without.pair, start), abs=0.02
    )


@STARTS
def test_it_may_overtake_the_flight(start: Start) -> None:
    call = begin(start)

    def slow_flight(sender: str, data: bytes, copies: list[Transit]) -> list[Transit]:
        if sender == "server" and not is_data(data):
            for copy in copies:
                copy.arrives_at += 0.01
        return copies

    meddle(call.pair, slow_flight)
    assert call.until_up()
    assert call.works()


@pytest.mark.parametrize("sped", [True, False], ids=["sped", "direct"])
def test_without_media(sped: bool) -> None:
    start = DataOnly(sped=sped, snap=False)
    pair = meet(start)
    signal(pair.client.endpoint, pair.server.endpoint, pair.now)
    open_channel(start, pair)
    assert pair.run(until=lambda: opened(pair.client) and opened(pair.server), timeout_s=5.0)
    assert opened_after(pair, start) == pytest.approx(2.0 if sped else 3.0, abs=0.02)


def test_a_stranger_gets_an_init_and_nothing_else() -> None:
    """A client whose certificate is not the one that its description named."""
    pair = meet(SPED)
    client, server, now = pair.client.endpoint, pair.server.endpoint, pair.now
    offer = client.create_offer(now)
    client.set_local_description("offer", offer, now)
    true, false = (CERTIFICATES[name].fingerprint() for name in ("client", "stranger"))
    server.set_remote_description("offer", offer.replace(true, false), now)
    answer = server.create_answer(now)
    server.set_local_description("answer", answer, now)
    client.set_remote_description("answer", answer, now)
    open_channel(SPED, pair)
    pair.run(until=lambda: bool(server.error), timeout_s=5.0)
    pair.run_for(1.0)
    assert not opened(pair.server)
    records = [step for step in pair.sent("server") if is_data(step.data)]
    assert len(records) <= 2  # the INIT, and the alert
