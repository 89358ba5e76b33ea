"""Captures of starts in the virtual network: the same wire, seen from any place on it."""

from __future__ import annotations

from io import BytesIO

from tests.scenarios.start import Outcome
from tests.sim.pair import Pair
from tests.unit.tools.capture.builder import Packet, ethernet, ip_udp, pcap
from warp_tools.capture.facts import Facts, measure
from warp_tools.capture.finder import Finder
from warp_tools.capture.reader import Reader


def packets(pair: Pair, place: float, *, arrived: bool = False) -> list[Packet]:
    """Return the packets that a capture at `place` sees: 0 at the client, 1 at the server.

    `arrived`: without those that the network has lost, which else are lost behind the capture.
    """
    found: list[tuple[float, bytes]] = []
    ends = {name: node.address for name, node in pair.nodes.items()}
    first = pair.ladder[0].time
    for step in pair.ladder:
        before = place if step.sender == "client" else 1 - place
        if arrived and before and not step.arrivals:
            continue
        arrival = step.arrivals[0] if step.arrivals else None
        way = pair.up.config.delay_s if arrival is None else arrival - step.time
        data = ethernet(ip_udp(ends[step.sender], ends[step.receiver], step.data))
        found.append((step.time + before * way - first, data))
    found.sort(key=lambda packet: packet[0])
    return [Packet(round(at * 1e9), data) for at, data in found]


def captured(pair: Pair, place: float) -> bytes:
    """Return what a capture at `place` shows: 0 at the client, 1 at the server, 0.5 half way."""
    return pcap(packets(pair, place), ns=True)


def finder_of(capture: bytes, **options: bool) -> Finder:
    """Read a capture."""
    finder = Finder(**options)
    for datagram in Reader(BytesIO(capture)):
        finder.receive(datagram)
    finder.finish()
    return finder


def facts_of(capture: bytes) -> Facts:
    """Measure the only session of a capture."""
    (session,) = finder_of(capture).sessions
    return measure(session)


def seen(outcome: Outcome, place: float) -> Facts:
    """Measure a start that was captured at a place."""
    return facts_of(captured(outcome.pair, place))
