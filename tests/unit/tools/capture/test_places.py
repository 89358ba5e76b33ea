"""Both ends captured and merged into one file: the same story, whatever one of them has missed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from tests.scenarios.start import WARP, Start, run
from tests.sim.network import drop
from tests.unit.tools.capture.builder import Packet, enhanced, interface, pcap, section
from tests.unit.tools.capture.simulated import packets
from warp_tools.capture.explain import explanation
from warp_tools.capture.facts import Facts
from warp_tools.capture.run import read

FULL13 = replace(WARP, sped=False, snap=False)
SKEW_NS = 3_000_000_000
Drop = Callable[[int, int], bool]
"""Of a place and the number of a packet there, from 0: whether its capture missed it."""


def merged(start: Start, missed: Drop = lambda place, n: False, *, two: bool, skew: int = 0):
    """Return a file merged from a capture at each end, with one interface or two."""
    pair = run(start).pair
    found = [
        packet._replace(at_ns=packet.at_ns + place * skew, interface=place)
        for place in (0, 1)
        for n, packet in enumerate(packets(pair, float(place), arrived=True))
        if not missed(place, n)
    ]
    found.sort(key=lambda packet: packet.at_ns)
    if not two:
        return pcap((packet._replace(interface=0) for packet in found), ns=True)
    blocks = [section(), interface(), interface()]
    return b"".join(blocks + [enhanced(packet) for packet in found])


def facts(data: bytes, tmp_path: Path) -> Facts:
    path = tmp_path / "merged"
    path.write_bytes(data)
    (only,) = read(path).facts()
    return only


def ids(told: dict) -> dict[str, dict]:
    return {finding["id"]: finding for finding in told["findings"]}


interfaces = pytest.mark.parametrize("two", [False, True])


@interfaces
@pytest.mark.parametrize("start", [WARP, FULL13, replace(WARP, lite=False, hybrid=True)])
def test_both_ends_tell_what_one_tells(start: Start, two: bool, tmp_path: Path) -> None:
    told = explanation(facts(merged(start, two=two), tmp_path))
    (one,) = (explanation(facts(pcap(packets(run(start).pair, 0.0), ns=True), tmp_path)),)
    assert ids(told).keys() == ids(one).keys() | {"two-places"}
    assert told["rtt"]["ms"] == pytest.approx(one["rtt"]["ms"], abs=1)
    assert told["rtt"]["vantage"] == "both ends"
    for name, stage in one["stages"].items():
        assert told["stages"][name]["own_ms"] == pytest.approx(stage["own_ms"], abs=1.5), name
        assert told["stages"][name]["round_trips"] == stage["round_trips"]


@interfaces
@pytest.mark.parametrize("place", [0, 1])
def test_what_one_capture_missed_was_not_sent_again(two: bool, place: int, tmp_path: Path) -> None:
    """Every fifth packet is missing in one of both files."""
    whole = explanation(facts(merged(FULL13, two=two), tmp_path))
    data = merged(FULL13, lambda p, n: p == place and n % 5 == 2, two=two)
    told = explanation(facts(data, tmp_path))
    assert "dtls-retransmission" not in ids(told) and "dtls-timer-wait" not in ids(told)
    assert told["rtt"]["ms"] == pytest.approx(whole["rtt"]["ms"], abs=1)
    for name in whole["stages"].keys() & told["stages"].keys():
        assert told["stages"][name]["round_trips"] == whole["stages"][name]["round_trips"]
    for finding in told["findings"]:
        if finding["id"] == "datagram-lost":
            assert "unless the capture missed " in finding["text"]
    if place == 0 and two:
        assert "missed at the first" in ids(told)["two-places"]["text"]


@pytest.mark.slow
def test_retransmissions_are_no_second_place(tmp_path: Path) -> None:
    for seed in range(8):
        start = replace(FULL13, loss=0.3, seed=seed, lite=seed % 2 == 0)
        told = facts(pcap(packets(run(start).pair, 0.0), ns=True), tmp_path)
        assert all(event.again_ns is None for event in told.session.events)


@interfaces
def test_an_answered_check_was_not_lost(two: bool, tmp_path: Path) -> None:
    """The first check is missing at the server only, and its answer is there."""
    told = facts(merged(FULL13, lambda p, n: p == 1 and n == 0, two=two), tmp_path)
    assert all(event.number != 1 for event in told.lost)


@interfaces
def test_what_the_network_lost_is_told(two: bool, tmp_path: Path) -> None:
    start = replace(FULL13, up_rules=(drop(3),))
    told = explanation(facts(merged(start, two=two), tmp_path))
    assert {"datagram-lost", "dtls-retransmission", "two-places"} <= ids(told).keys()
    assert len(ids(told)["datagram-lost"]["datagrams"]) == 1


@interfaces
def test_clocks_that_differ_are_said_and_one_place_is_told(two: bool, tmp_path: Path) -> None:
    one = explanation(facts(pcap(packets(run(FULL13).pair, 0.0), ns=True), tmp_path))
    told = explanation(facts(merged(FULL13, two=two, skew=SKEW_NS), tmp_path))
    assert "clocks differ by about 3000 ms" in ids(told)["two-places"]["text"]
    assert told["stages"].keys() == one["stages"].keys()
    assert told["rtt"]["ms"] == pytest.approx(one["rtt"]["ms"], abs=1)
    assert told["datagrams"] == one["datagrams"]


def test_the_hops_say_where_a_datagram_was_seen_alone(tmp_path: Path) -> None:
    """A router between both ends has counted the TTL down."""

    def routed(packet: Packet) -> Packet:
        far = bytearray(packet.data)
        far[14 + 8] -= 1  # behind Ethernet's header: TTL
        return packet._replace(data=bytes(far))

    pair = run(FULL13).pair
    ends = [packets(pair, float(place), arrived=True) for place in (0, 1)]
    client = ends[0][0].data[26:30]
    near = [p if p.data[26:30] == client else routed(p) for p in ends[0]]
    far = [routed(p) if p.data[26:30] == client else p for p in ends[1]]
    missed = [n for n, packet in enumerate(near) if packet.data[26:30] == client][4]
    found = [*near[:missed], *near[missed + 1 :], *far]
    found.sort(key=lambda packet: packet.at_ns)
    told = explanation(facts(pcap(found, ns=True), tmp_path))
    assert "datagram-lost" not in ids(told)
    assert "missed at the first" in ids(told)["two-places"]["text"]


def test_a_clock_that_runs_behind_hides_one_way_and_not_the_round_trip(tmp_path: Path) -> None:
    """What seems to take 5 ms one way passes for a copy; the other way is no round trip."""
    start = replace(FULL13, lite=False)
    one = explanation(facts(pcap(packets(run(start).pair, 0.0), ns=True), tmp_path))
    told = explanation(facts(merged(start, two=True, skew=-45_000_000), tmp_path))
    assert told["rtt"]["ms"] == pytest.approx(one["rtt"]["ms"], abs=1)
    assert told["rtt"]["ms"] == pytest.approx(100, abs=2)
