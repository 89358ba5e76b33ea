"""Each finding where it belongs: starts in the virtual network, and datagrams taken away or added.

What is lost, late, refused or ignored is made to happen; the explanation has to name it, and
nothing else.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.captures.pcap import UdpPacket, read_pcap
from tests.scenarios.start import PLAIN, WARP, Start, begin, run
from tests.sim.network import delay, drop
from tests.unit.tools.capture.builder import frames, pcap
from tests.unit.tools.capture.simulated import captured, facts_of, seen
from warp.dtls.records import PLAIN_HEADER
from warp.stun import Attribute, MessageClass, build_message, encode_error_code, parse_message
from warp_tools.capture.explain import explanation
from warp_tools.capture.facts import Facts, measure
from warp_tools.capture.finding import IDS, Finding, Weight
from warp_tools.capture.findings import findings

ROOT = Path(__file__).parents[4]
PAIR = struct.Struct("!QQ")
FULL13 = replace(WARP, sped=False, snap=False, early_data=False)
DEFAULT = "stun/chromium156_default"


def found(facts: Facts) -> dict[str, Finding]:
    return {finding.id: finding for finding in findings(facts)}


def of(start: Start, place: float = 0.0) -> dict[str, Finding]:
    return found(seen(run(start), place))


def of_packets(packets: list[UdpPacket]) -> dict[str, Finding]:
    return found(facts_of(pcap(frames(packets))))


def changed(name: str, change: Callable[[int, UdpPacket], UdpPacket | None]) -> list[UdpPacket]:
    """Walk over a capture's packets, numbered from 1; None takes one away."""
    made = [change(n, packet) for n, packet in enumerate(read_pcap(f"{name}.pcap"), 1)]
    return [packet for packet in made if packet is not None]


def without(*numbers: int) -> Callable[[int, UdpPacket], UdpPacket | None]:
    return lambda number, packet: None if number in numbers else packet


# -- the network ----------------------------------------------------------------------------------


@pytest.mark.parametrize("place", [0.0, 0.5])
def test_a_first_check_that_is_lost(place: float) -> None:
    """Dropped behind the capture: it is in there, and nobody answers it."""
    told = of(replace(WARP, up_rules=(drop(0),)), place)
    lost = told["first-check-lost"]
    assert lost.weight is Weight.COST
    assert 20 < lost.ms < 200 and lost.datagrams[0] == 1


@pytest.mark.parametrize("place", [0.0, 1.0])
def test_a_client_hello_that_is_lost_waits_for_a_timer(place: float) -> None:
    start = replace(FULL13, up_rules=(drop(3),))  # three checks before it
    told = of(start, place)
    assert "dtls-retransmission" in told
    assert told["dtls-timer-wait"].ms > 90


def test_a_server_flight_that_is_lost() -> None:
    """Dropped behind the server's capture: the flight is in there, and comes again."""
    told = of(replace(FULL13, down_rules=(drop(3),)), 1.0)
    assert told["dtls-retransmission"].datagrams


def test_a_server_that_is_slow() -> None:
    """The flight is held back by 300 ms on its way to the capture."""
    pair = run(replace(FULL13, down_rules=(delay(3, 0.3),))).pair
    told = found(facts_of(captured(pair, 0.0)))
    assert told["server-flight-late"].ms == pytest.approx(300, abs=1)


def test_nothing_answers() -> None:
    told = of(replace(WARP, loss=1.0, connect_timeout_s=3.0))
    assert set(told) == {"no-answer", "dtls-unanswered"}
    assert told["no-answer"].weight is Weight.FAULT


@pytest.mark.slow
def test_a_clean_start_has_no_faults() -> None:
    for start in (WARP, FULL13, PLAIN, replace(WARP, hybrid=True), replace(WARP, lite=False)):
        for place in (0.0, 0.5, 1.0):
            weights = {finding.weight for finding in of(start, place).values()}
            assert Weight.FAULT not in weights


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(12))
def test_lossy_starts_are_explained_without_contradictions(seed: int) -> None:
    """Whatever was lost: ids are known, costs are not negative, stages come in their order."""
    start = replace(WARP, loss=0.25, seed=seed, hybrid=seed % 2 == 0, lite=seed % 3 > 0)
    outcome = run(start)
    for place in (0.0, 0.5, 1.0):
        facts = seen(outcome, place)
        for finding in findings(facts):
            assert finding.id in IDS
            assert finding.ms is None or finding.ms >= 0
            assert finding.trips is None or finding.trips >= 0
        order = [facts.stage(n) for n in ("client_hello", "server_hello", "dtls_client")]
        times = [stage.own_ms for stage in order if stage is not None]
        assert times == sorted(times)


# -- SPED -----------------------------------------------------------------------------------------


def test_a_server_without_sped() -> None:
    told = of(replace(WARP, server_sped=False))
    ignored = told["sped-ignored"]
    assert "sent again, directly" in ignored.text and ignored.ms < 5
    assert "warp" not in told


def test_warp_is_praised_once_data_flows() -> None:
    call = begin(WARP)
    assert call.until_up() and call.works(1.0)
    told = found(facts_of(captured(call.pair, 0.0)))
    assert told["warp"].weight is Weight.GOOD and "early-media" in told
    assert "no-snap" not in told and "no-sped" not in told


def test_no_snap_where_the_server_has_none() -> None:
    call = begin(replace(WARP, server_snap=False))
    assert call.until_up() and call.works(1.0)
    told = found(facts_of(captured(call.pair, 0.0)))
    assert told["no-snap"].trips == 2.0 and "warp" not in told


def test_a_flight_that_comes_after_the_answer_that_could_carry_it() -> None:
    """The answer to the first check loses its rider; the flight comes directly, 40 ms later."""

    def change(number: int, packet: UdpPacket) -> UdpPacket | None:
        if number in (3, 4):
            return None
        if number > 2:
            return packet._replace(time=packet.time + 0.04)
        if number == 2:
            return packet._replace(payload=_without_rider(packet.payload))
        return packet

    packets = changed("stun/chromium156_warp_nopqc", change)
    flight = parse_message(read_pcap("stun/chromium156_warp_nopqc.pcap")[1].payload)
    direct = packets[1]._replace(
        time=packets[1].time + 0.04, payload=flight.get(Attribute.META_DTLS_IN_STUN)
    )
    told = of_packets(sorted([*packets, direct], key=lambda packet: packet.time))
    assert told["flight-not-in-answer"].ms == pytest.approx(40, abs=1)


def _without_rider(payload: bytes) -> bytes:
    message = parse_message(payload)
    kept = [(k, v) for k, v in message.attributes if k != Attribute.META_DTLS_IN_STUN]
    return build_message(
        message.method, message.message_class, message.transaction_id, kept, integrity_key=None
    )


def _with(payload: bytes, kind: int, value: bytes) -> bytes:
    message = parse_message(payload)
    kept = [(k, v) for k, v in message.attributes if k != kind]
    return build_message(
        message.method, message.message_class, message.transaction_id, [*kept, (kind, value)],
        integrity_key=None,
    )  # fmt: skip


def test_a_malformed_acknowledgement_and_one_of_nothing() -> None:
    ack = Attribute.META_DTLS_IN_STUN_ACKNOWLEDGEMENT
    for value, finding in ((b"abc", "sped-malformed"), (b"\1\2\3\4", "sped-unmatched")):

        def change(number: int, packet: UdpPacket, value: bytes = value) -> UdpPacket:
            return (
                packet._replace(payload=_with(packet.payload, ack, value))
                if number == 2
                else packet
            )

        told = of_packets(changed("stun/chromium156_warp_nopqc", change))
        assert told[finding].datagrams == (2,)


# -- checks ---------------------------------------------------------------------------------------


def answered_with(code: int) -> list[UdpPacket]:
    def change(number: int, packet: UdpPacket) -> UdpPacket:
        if number != 2:
            return packet
        transaction = packet.payload[8:20]
        error = [(Attribute.ERROR_CODE, encode_error_code(code, "no"))]
        refusal = build_message(1, MessageClass.ERROR, transaction, error, integrity_key=None)
        return packet._replace(payload=refusal)

    return changed(DEFAULT, change)


def test_refusals() -> None:
    assert "401" in of_packets(answered_with(401))["check-refused"].text
    assert "role-conflict" in of_packets(answered_with(487))
    only = answered_with(401)[:2]
    told = of_packets(only)
    assert "no answer of success was captured" in told["no-answer"].text


def _long_call(consent: bool) -> list[UdpPacket]:
    """The start of a call, then a minute of media; with checks every five seconds, or without."""
    packets = read_pcap(f"{DEFAULT}.pcap")[:26]
    media = packets[-2:]
    began, out = packets[-1].time, list(packets)
    for n in range(1, 120):
        for packet in media:
            payload = packet.payload[:2] + (n + 40000).to_bytes(2, "big") + packet.payload[4:]
            out.append(packet._replace(time=began + n / 2, payload=payload))
        if consent and n % 10 == 0:
            for at, number in enumerate((0, 1, 2, 3)):
                transaction = bytes([n, number // 2]) * 6
                payload = packets[number].payload
                payload = payload[:8] + transaction + payload[20:-8]
                payload = payload[:2] + (len(payload) - 20).to_bytes(2, "big") + payload[4:]
                moved = packets[number]._replace(time=began + n / 2 + at / 1000, payload=payload)
                out.append(moved)
    return out


def test_consent_that_is_missing() -> None:
    told = of_packets(_long_call(consent=False))
    assert told["consent-missing"].weight is Weight.FAULT
    assert "30 s" in told["consent-missing"].text
    assert "consent-missing" not in of_packets(_long_call(consent=True))


@pytest.mark.slow
def test_lite_servers_need_no_consent() -> None:
    call = begin(WARP)
    assert call.until_up()
    call.pair.run_for(40.0)
    assert "consent-missing" not in found(facts_of(captured(call.pair, 0.0)))


# -- media ----------------------------------------------------------------------------------------


def test_media_that_overtakes_the_handshake_is_lost() -> None:
    """The server's first RTP packet is moved in front of its flight."""
    packets = read_pcap(f"{DEFAULT}.pcap")
    early = packets[22]._replace(time=packets[5].time + 1e-5)
    moved = sorted([*packets[:22], *packets[23:], early], key=lambda packet: packet.time)
    lost = of_packets(moved)["early-srtp-lost"]
    assert lost.weight is Weight.FAULT and lost.datagrams == (7,)


def test_media_that_comes_late() -> None:
    def change(number: int, packet: UdpPacket) -> UdpPacket:
        late = packet.payload[1] & 127 == 111 or number > 26
        return packet._replace(time=packet.time + 0.5) if late else packet

    told = [f for f in findings(facts_of(pcap(frames(changed(DEFAULT, change)))))]
    assert [finding.id for finding in told].count("media-late") == 2


def test_media_that_is_missing_and_media_of_one_side() -> None:
    packets = _long_call(consent=True)
    kept = [p for n, p in enumerate(packets) if n < 26 or n % 7 or p.payload[0] < 64]
    assert "media-lost" in of_packets(kept)
    first = packets[22].source
    one = [p for p in packets if p.payload[1] & 127 != 111 or p.source == first]
    assert "one-way-media" in of_packets(one)


# -- DTLS -----------------------------------------------------------------------------------------


def test_a_cookie_under_ice() -> None:
    """A HelloRetryRequest with a cookie, behind an answered check."""
    checks = read_pcap(f"{DEFAULT}.pcap")[:4]
    first, second = checks[0].source, checks[0].destination
    dtls = read_pcap("dtls/nssff153_hrr.pcap")
    hosts = {dtls[0].source: first, dtls[0].destination: second}
    later = [
        UdpPacket(p.time - dtls[0].time + checks[-1].time + 0.001, hosts[p.source],
                  hosts[p.destination], p.payload)
        for p in dtls
    ]  # fmt: skip
    told = of_packets([*checks, *later])
    assert told["cookie-under-ice"].trips == 1.0 and "cookie-exchange" not in told


def test_an_alert_in_the_clear() -> None:
    def change(number: int, packet: UdpPacket) -> UdpPacket | None:
        if number == 7:
            head = PLAIN_HEADER.pack(21, 0xFEFD, 0, 0, 9, 2)
            return packet._replace(payload=head + bytes((2, 40)))
        return packet if number < 7 else None

    told = of_packets(changed(DEFAULT, change))
    assert "handshake_failure" in told["dtls-alert"].text
    assert "dtls-unanswered" not in told


def checks_alone(name: str, last_s: float) -> list[UdpPacket]:
    """A capture's checks without anything else, the last of them so much later."""
    checks = [p for p in read_pcap(f"{name}.pcap") if p.payload[0] < 4][:6]
    return [*checks[:-1], checks[-1]._replace(time=checks[0].time + last_s)]


def test_dtls_that_never_begins() -> None:
    missing = of_packets(checks_alone(DEFAULT, 3.0))["dtls-missing"]
    assert missing.weight is Weight.FAULT and "nobody sent a ClientHello" in missing.text
    ends = of_packets(checks_alone(DEFAULT, 0.1))["dtls-missing"]
    assert ends.weight is Weight.NOTE and "the capture ends there" in ends.text
    told = of(replace(WARP, loss=1.0, connect_timeout_s=3.0))
    assert "dtls-missing" not in told  # no check was answered, which is said
    whole = of_packets(read_pcap(f"{DEFAULT}.pcap"))
    assert "dtls-missing" not in whole


def test_a_hello_of_which_only_a_part_comes() -> None:
    packets = [p for p in read_pcap(f"{DEFAULT}.pcap")[:5]]
    later = packets[3]._replace(time=packets[0].time + 2)
    told = of_packets([*packets, later])["dtls-unanswered"]
    assert told.text.startswith("Only a part of the ClientHello")
    assert "though checks were answered" in told.text and told.weight is Weight.FAULT


def test_a_clock_that_contradicts_the_messages_gives_no_costs() -> None:
    """Shuffled time stamps: the second ClientHello is before the first one."""
    packets = read_pcap("dtls/bssl_hrr.pcap")
    first, again = packets[0].time, packets[2].time
    packets[0], packets[2] = packets[0]._replace(time=again), packets[2]._replace(time=first)
    mixed = sorted(packets, key=lambda packet: packet.time)
    retry = of_packets(mixed)["hello-retry"]
    assert retry.trips == 1.0 and retry.ms is None


@pytest.mark.parametrize("name", [DEFAULT, "calls/aiortc116_dtls12"])
def test_a_client_that_is_slow_to_go_on(name: str) -> None:
    """Everything from the client's flight on is held back by 200 ms."""
    number = {DEFAULT: 9}.get(name, 7)

    def change(n: int, packet: UdpPacket) -> UdpPacket:
        return packet._replace(time=packet.time + 0.2) if n >= number else packet

    usual, told = of_packets(read_pcap(f"{name}.pcap")), of_packets(changed(name, change))
    assert set(told) - set(usual) == {"client-flight-late"}
    assert told["client-flight-late"].ms == pytest.approx(202, abs=2)


@pytest.mark.parametrize("seed", [6, 20])
def test_a_client_that_waits_for_the_rest_of_a_flight_is_not_told_to_be_slow(seed: int) -> None:
    """A part of it was lost behind the capture; the client acknowledged the other part."""
    outcome = run(replace(FULL13, hybrid=True, loss=0.2, seed=seed))
    for place in (0.0, 0.5, 1.0):
        told = found(seen(outcome, place))
        assert "client-flight-late" not in told
        assert "it had not arrived whole before, or A was slow" in told["dtls-timer-wait"].text


@pytest.mark.parametrize("name", [DEFAULT, "stun/chromium156_warp", "peers/pion_v4"])
@pytest.mark.parametrize("first", [True, False])
def test_a_capture_of_one_direction_claims_nothing_of_the_other(name: str, first: bool) -> None:
    """Nobody was left without an answer: it was not captured."""
    packets = read_pcap(f"{name}.pcap")
    kept = [p for p in packets if (p.source == packets[0].source) is first]
    facts = facts_of(pcap(frames(kept)))
    told = found(facts)
    assert "what" in told["one-direction"].text and "was not captured" in told["one-direction"].text
    assert set(told) <= {"one-direction", "dtls12", "clienthello-split-pq", "answer-active"}
    assert not any(one.trips for one in told.values() if one.id != "dtls12")
    answer = explanation(facts)
    assert answer["with_warp"] == [] and answer["rtt"]["ms"] is None
    assert answer["sped"]["used"] is None
    silent = 1 - facts.session.sent.index(max(facts.session.sent))
    assert answer["unknown"][f"lite.{facts.letter(silent)}"] == "nothing that it sent was captured"


def test_one_side_of_a_call_under_way_may_be_all_there_is() -> None:
    packets = _long_call(consent=False)[26:]
    told = of_packets([p for p in packets if p.source == packets[0].source])
    assert "they do not tell" in told["one-direction"].text
    assert set(told) == {"one-direction", "start-missing"}


def test_who_is_never_answered_is_no_capture_of_one_direction() -> None:
    told = of_packets(read_pcap("stun/chromium156_first_flight.pcap"))
    assert "one-direction" not in told and "no-answer" in told


def test_a_second_hello_without_an_answer() -> None:
    packets = read_pcap("dtls/bssl_hrr.pcap")
    again = [n for n, p in enumerate(packets) if p.payload[13] == 1 and p.payload[17:19] == b"\0\1"]
    told = of_packets(packets[: again[0] + 1])["dtls-unanswered"]
    assert "asked for once more" in told.text


def test_a_handshake_that_stops_in_the_middle() -> None:
    for end, finding in ((6, "dtls-unanswered"), (8, "handshake-unfinished")):
        told = of_packets(read_pcap(f"{DEFAULT}.pcap")[:end])
        assert finding in told
    told = of_packets(read_pcap(f"{DEFAULT}.pcap")[:9])
    assert "handshake-unfinished" not in told


def test_the_version_says_who_held_it_back() -> None:
    told = of_packets(read_pcap("dtls/chromium156_aiortc116.pcap"))
    assert "A can do 1.3" in told["dtls12"].text and "B did not offer it" in told["dtls12"].text
    told = of_packets(read_pcap("dtls/aiortc116_chromium156.pcap"))
    assert "B offered 1.3; A chose 1.2" in told["dtls12"].text


def test_every_finding_is_in_the_note_with_its_meaning() -> None:
    note = (ROOT / "drafts/notes/captures.md").read_text()
    for name, meaning in IDS.items():
        assert f"| `{name}` | {meaning} |" in note


def test_every_finding_has_a_sentence_and_numbers_that_exist() -> None:
    facts = facts_of(pcap(frames(read_pcap("dtls/loss_bb_s1.pcap"))))
    numbers = {event.number for event in facts.session.events}
    for finding in findings(facts):
        assert not finding.text[0].islower() and finding.text.endswith(".")
        assert set(finding.datagrams) <= numbers
        assert finding.to_json()["id"] == finding.id


def test_a_retransmission_that_crosses_the_answer_is_no_loss() -> None:
    """A timer shorter than the round trip: seen at the server, the repeat follows the flight."""

    def change(number: int, packet: UdpPacket) -> UdpPacket:
        # the client is 100 ms away: its answer (4) and its flight (9) take as long
        later = 0.1 * ((number >= 4) + (number >= 9))
        return packet._replace(time=packet.time + later)

    packets = changed(DEFAULT, change)[:12]
    hello = packets[4].payload
    again = hello[:5] + (77).to_bytes(6, "big") + hello[11:]
    repeat = packets[4]._replace(payload=again, time=packets[4].time + 0.05)
    told = of_packets(sorted([*packets, repeat], key=lambda packet: packet.time))
    assert "dtls-retransmission" in told and "dtls-timer-wait" not in told


def alert_behind(name: str, count: int, source: int, epoch: int) -> dict[str, Finding]:
    """The first packets of a call, and then an alert under protection."""
    packets = read_pcap(f"{name}.pcap")[:count]
    sealed = bytes((0x2C | epoch,)) + b"\x12\x34" + (19).to_bytes(2, "big") + bytes(19)
    last = packets[source - 1]._replace(time=packets[-1].time + 0.01, payload=sealed)
    return of_packets([*packets, last])


def test_a_client_that_refuses_the_flight_is_not_done() -> None:
    """A certificate that is not that of the description: an alert instead of a flight."""
    told = alert_behind(DEFAULT, 8, source=5, epoch=2)
    refused = told["handshake-unfinished"]
    assert refused.weight is Weight.FAULT and "B sent a record with the size" in refused.text
    facts = facts_of(pcap(frames(read_pcap(f"{DEFAULT}.pcap")[:8])))
    assert facts.stage("dtls_client") is None


def test_a_start_with_a_retry_is_no_warp() -> None:
    """The second ClientHello rides in a check as well: there were two."""
    call = begin(replace(WARP, seed=3))
    assert call.until_up() and call.works(1.0)
    facts = facts_of(captured(call.pair, 0.0))
    assert "warp" in found(facts)
    facts.session.handshake.retries.append((facts.session.events[1], "group"))
    assert "warp" not in found(measure(facts.session))


def test_a_server_that_refuses_the_client() -> None:
    told = alert_behind(DEFAULT, 9, source=7, epoch=3)
    assert "A sent a record with the size of an alert" in told["handshake-unfinished"].text


# -- what a capture lacks -------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "flight"), [(DEFAULT, 9), ("dtls/bssl_basic", 3), ("dtls/nssff153_nopq", 3)]
)
def test_a_flight_that_was_not_captured_is_no_handshake_that_failed(name: str, flight: int) -> None:
    """Data of the client shows that it was done; a goodbye has the size of an alert."""
    told = of_packets(changed(name, without(flight)))
    assert "handshake-unfinished" not in told


def test_a_server_flight_lost_before_the_capture_was_not_late() -> None:
    """Its records are numbered: what comes 200 ms later is not the first that was sent."""
    pair = run(replace(FULL13, down_rules=(drop(3),))).pair
    late = facts_of(captured(_without_lost(pair, "server"), 0.0))
    told = found(late)
    assert "server-flight-late" not in told
    wait = told["dtls-timer-wait"]
    assert "its first record here is number" in wait.text and wait.ms > 90


def test_a_client_that_counts_from_one_may_have_lost_nothing() -> None:
    """Of DTLS 1.2 there are such: its only ClientHello is number 1, and late all the same."""

    def change(number: int, packet: UdpPacket) -> UdpPacket:
        data = bytearray(packet.payload)
        if data[:1] == b"\x16" and data[13:14] == b"\x01":
            data[10] = 1
            return packet._replace(payload=bytes(data), time=packet.time + 0.15)
        return packet if data[0] < 4 else packet._replace(time=packet.time + 0.15)

    told = of_packets(changed("calls/aiortc116_dtls12", change))
    assert "dtls-timer-wait" not in told
    assert "or its sender counts from 1" in told["clienthello-late"].text


def _without_lost(pair: Any, sender: str) -> Any:
    """Lose what one end sends before it comes to the capture."""
    pair.ladder[:] = [step for step in pair.ladder if step.arrivals or step.sender != sender]
    return pair


def test_a_sped_answer_that_was_not_captured_is_none_that_ignored_it() -> None:
    """The server speaks no more of SPED once it is done: silence later proves nothing."""
    name = "calls/libwebrtc152_warp"
    facts = facts_of(pcap(frames(changed(name, without(2)))))
    assert "sped-ignored" not in found(facts)
    assert facts.sped_used is None
    assert facts_of(pcap(frames(read_pcap(f"{name}.pcap")))).sped_used is True


def test_an_answer_to_a_part_of_the_hello_cannot_carry_the_flight() -> None:
    """The first check, with the first part, is lost behind the capture."""
    start = replace(WARP, hybrid=True, up_rules=(drop(0),))
    told = of(start, 0.5)
    assert "flight-not-in-answer" not in told
    assert "clienthello-split-pq" in told


def test_answers_lost_behind_the_capture_may_be_why_a_hello_came_late() -> None:
    """The hello leaves with the first answer that arrives; those before it did not."""
    start = replace(FULL13, lite=False, hybrid=True, seed=2, down_rules=(drop(1), drop(4)))
    outcome = run(start)
    for place in (0.5, 1.0):
        facts = seen(outcome, place)
        text = found(facts)["clienthello-late"].text
        assert text.endswith("unless the answer before was lost behind the capture.")
        waited = facts.stage("client_hello").own_ms - facts.stage("check_answered_A").own_ms
        assert waited == pytest.approx(60, abs=1)


def test_media_that_waits_for_a_flight_sent_again_is_not_late() -> None:
    """DTLS 1.2: the server's Finished is lost, so the client has its keys after a timer."""
    outcome = run(replace(PLAIN, down_rules=(drop(5),)))
    facts = seen(outcome, 0.5)
    assert "dtls-retransmission" in found(facts) and "media-late" not in found(facts)
    assert facts.stage("dtls_client").rtt == pytest.approx(outcome.client_media, abs=0.01)
    assert facts.stage("dtls_server").rtt == pytest.approx(outcome.server_media, abs=0.01)


@pytest.mark.parametrize("count", [1, 3, 4, 9])
def test_an_unprotected_ack_of_protected_records(count: int) -> None:
    numbers = b"".join(PAIR.pack(2, number) for number in range(count))
    body = len(numbers).to_bytes(2, "big") + numbers

    def change(number: int, packet: UdpPacket) -> UdpPacket:
        if number != 10:
            return packet
        head = PLAIN_HEADER.pack(26, 0xFEFD, 0, 0, 9, len(body))
        return packet._replace(payload=head + body)

    told = of_packets(changed(DEFAULT, change))
    assert told["plaintext-ack"].datagrams == (10,)
