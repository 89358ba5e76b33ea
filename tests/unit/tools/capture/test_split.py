"""A ClientHello in two parts: only what the datagrams show is said of the second one.

A start of Chromium with itself, its datagrams sent anew in a network whose distances are known:
B's check carries the first part, A's answer and A's own check acknowledge it, B's answer to that
check carries the rest.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import pytest

from tests.captures.pcap import UdpPacket, read_pcap
from tests.unit.tools.capture.builder import frames, pcap
from tests.unit.tools.capture.simulated import facts_of
from warp.stun import Attribute, build_message, parse_message
from warp_tools.capture.facts import Facts
from warp_tools.capture.finding import Finding, Weight
from warp_tools.capture.findings import findings
from warp_tools.capture.split import Wait, split_of

WAY_S: Final = 0.02
NAME: Final = "stun/chromium156_warp"
REST: Final = 4
# when each datagram leaves, in ways: the first eight of the capture
SENDS: Final = {1: 0.0, 2: 1.0, 3: 1.0, REST: 2.0, 6: 3.0, 7: 3.0, 8: 4.0}


def seen_at(
    place: float, sends: dict[int, float], more: Sequence[UdpPacket] = (), way_s: float = WAY_S
) -> Facts:
    """The start, its datagrams leaving when `sends` says; captured at B (0), at A (1) or between.

    `more` comes in place of the rest of the ClientHello; its time is when it leaves, in ways.
    """
    packets = read_pcap(f"{NAME}.pcap")
    at_b = packets[0].source
    sent = [(when, packets[number - 1]) for number, when in sends.items()]
    sent += [(packet.time, packet) for packet in more]
    found = []
    for when, packet in sent:
        way = place if packet.source == at_b else 1 - place
        found.append(packet._replace(time=1000 + (when + way) * way_s))
    found.sort(key=lambda packet: packet.time)
    return facts_of(pcap(frames(found), ns=True))


def told(facts: Facts) -> Finding:
    (found,) = (one for one in findings(facts) if one.id.startswith("clienthello-split"))
    assert found.id == "clienthello-split-pq"
    return found


def wait_of(facts: Facts) -> Wait:
    assert facts.start.hello is not None
    split = split_of(facts.start, facts.vantage, facts.start.hello)
    assert split is not None
    return split.wait


def a_check_with_the_rest(when: float) -> UdpPacket:
    """A second check of B's, which could have left at any time."""
    packets = read_pcap(f"{NAME}.pcap")
    first, rest = packets[0], parse_message(packets[REST - 1].payload)
    check = parse_message(first.payload)
    rider = rest.get(Attribute.META_DTLS_IN_STUN)
    attributes = [
        (kind, rider if kind == Attribute.META_DTLS_IN_STUN and rider is not None else value)
        for kind, value in check.attributes
    ]
    payload = build_message(
        check.method, check.message_class, bytes(12), attributes, integrity_key=None
    )
    return first._replace(time=when, payload=payload)


def with_a_check(place: float, when: float, way_s: float = WAY_S) -> Facts:
    """B answers A's check without a rider; the rest goes in a check of B's own."""
    packets = read_pcap(f"{NAME}.pcap")
    answer = parse_message(packets[REST - 1].payload)
    kept = [(k, v) for k, v in answer.attributes if k != Attribute.META_DTLS_IN_STUN]
    bare = packets[REST - 1]._replace(
        time=2.0,
        payload=build_message(
            answer.method, answer.message_class, answer.transaction_id, kept, integrity_key=None
        ),
    )
    sends = {number: at for number, at in SENDS.items() if number != REST}
    sends.update({6: when + 1, 7: when + 1, 8: when + 2})
    return seen_at(place, sends, [bare, a_check_with_the_rest(when)], way_s)


@pytest.mark.parametrize("place", [0.0, 0.5, 1.0])
def test_the_rest_left_when_the_first_part_was_answered(place: float) -> None:
    facts = seen_at(place, SENDS)
    assert wait_of(facts) is Wait.ANSWER
    finding = told(facts)
    assert "the rest left 40 ms after the first part, when that was answered (#2)" in finding.text
    assert finding.weight is Weight.COST and finding.trips == 1.0
    assert finding.ms == pytest.approx(40, abs=0.1)


@pytest.mark.parametrize("place", [0.0, 0.5, 1.0])
def test_both_parts_left_together(place: float) -> None:
    facts = with_a_check(place, 0.001)
    assert wait_of(facts) is Wait.NOTHING
    finding = told(facts)
    assert finding.text.endswith("they left together, so it cost nothing.")
    assert finding.weight is Weight.NOTE and not finding.trips and not finding.ms
    assert facts.trips.hello == 0.0


@pytest.mark.parametrize("place", [0.0, 0.5, 1.0])
def test_the_rest_left_before_the_answer_arrived(place: float) -> None:
    """In the middle it passes behind the answer's sender had sent it, and yet too early."""
    facts = with_a_check(place, 1.3)
    assert wait_of(facts) is Wait.BEFORE
    finding = told(facts)
    assert "the rest left 26 ms after the first part, before an answer to that" in finding.text
    assert finding.weight is Weight.COST and not finding.trips
    assert facts.trips.hello == 0.0


@pytest.mark.parametrize("place", [0.0, 0.5, 1.0])
def test_the_rest_left_some_time_after_the_answer(place: float) -> None:
    """The next check left by its own pace: no round trip is held against the split."""
    facts = with_a_check(place, 2.5)
    assert wait_of(facts) is Wait.LATER
    finding = told(facts)
    assert "50 ms after the first part, and 10 ms after that one's answer (#" in finding.text
    assert finding.weight is Weight.COST and not finding.trips
    assert facts.trips.hello == 0.0


def test_a_check_that_left_right_behind_the_answer_waited_for_it() -> None:
    facts = with_a_check(0.5, 2.01)
    assert wait_of(facts) is Wait.ANSWER
    assert told(facts).trips == 1.0


@pytest.mark.parametrize("when", [2.01, 2.5, 6.0])
def test_at_a_round_trip_as_short_as_computing_order_shows_nothing(when: float) -> None:
    """A check that left behind the answer, as it would have anyway: no round trip is counted."""
    facts = with_a_check(0.5, when, way_s=0.0005)
    assert not facts.vantage.countable
    assert wait_of(facts) is Wait.UNTOLD
    finding = told(facts)
    assert "it cannot be told whether the rest waited" in finding.text
    assert finding.weight is Weight.NOTE and not finding.trips
    assert facts.trips.hello == 0.0


def test_at_any_round_trip_an_answer_needs_its_request() -> None:
    """The rest rides on the answer to a check that acknowledges the first part."""
    facts = seen_at(0.5, SENDS, way_s=0.0005)
    assert not facts.vantage.countable
    assert wait_of(facts) is Wait.ANSWER
    assert told(facts).trips == 1.0


def test_at_any_round_trip_what_goes_directly_needs_a_checked_pair() -> None:
    facts = facts_of(pcap(frames(read_pcap("stun/chromium156_sped_only.pcap")), ns=True))
    assert not facts.vantage.countable
    assert wait_of(facts) is Wait.ANSWER


def test_no_answer_to_the_first_part_is_in_the_capture() -> None:
    finding = told(facts_of(pcap(frames(read_pcap("stun/chromium156_first_flight.pcap")))))
    assert finding.text.endswith("and no answer to that one is in the capture.")
    assert finding.weight is Weight.COST and not finding.trips


def test_parts_close_together_of_which_no_answer_was_captured() -> None:
    """On a loopback an answer comes within 2 ms: without it nothing tells."""
    packets = read_pcap(f"{NAME}.pcap")
    finding = told(facts_of(pcap(frames([p for p in packets if p.source == packets[0].source]))))
    assert "the rest left 0.9 ms after the first part, and no answer to that" in finding.text
    assert finding.weight is Weight.NOTE and not finding.trips


def test_how_far_the_client_is_can_be_unknown() -> None:
    """A lite server, and nothing that shows how soon the client reacts: nothing is claimed."""
    packets = read_pcap("stun/chromium156_first_flight_ack.pcap")[:3]
    later = [packets[0], packets[1]._replace(time=packets[0].time + 0.001),
             packets[2]._replace(time=packets[0].time + 0.04)]  # fmt: skip
    facts = facts_of(pcap(frames(later), ns=True))
    assert wait_of(facts) is Wait.UNTOLD
    finding = told(facts)
    assert "how far A is from the capture is not known" in finding.text
    assert finding.weight is Weight.COST and not finding.trips


def test_fragments_in_one_datagram_are_no_split() -> None:
    """Two fragments of a ClientHello behind each other in one datagram."""
    packets = read_pcap("dtls/bssl_pq.pcap")
    assert facts_of(pcap(frames(packets))).start.hello is not None
    glued = packets[0]._replace(payload=packets[0].payload + packets[1].payload)
    facts = facts_of(pcap(frames([glued, *packets[2:]])))
    assert facts.start.hello is not None and facts.start.hello.parts == 1
    assert not any(one.id.startswith("clienthello-split") for one in findings(facts))
