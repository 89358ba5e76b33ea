"""Which datagrams are one session: ufrags, hellos, flows, and what is none of it."""

from __future__ import annotations

import random
import tracemalloc
from io import BytesIO
from pathlib import Path

import pytest

from tests.captures.pcap import UdpPacket, read_pcap
from tests.unit.tools.capture.builder import CLIENT, SERVER, call, frames, pcap
from warp.stun import Attribute, MessageClass, build_message, parse_message
from warp_tools.capture.explain import explanation
from warp_tools.capture.facts import measure
from warp_tools.capture.finder import Finder
from warp_tools.capture.finding import IDS
from warp_tools.capture.reader import Reader

ROOT = Path(__file__).parents[4]
DEFAULT, WARP = "stun/chromium156_default", "stun/chromium156_warp"


def find(packets: list[UdpPacket], snap: int = 65535) -> Finder:
    finder = Finder()
    for datagram in Reader(BytesIO(pcap(frames(packets), snap=snap))):
        finder.receive(datagram)
    finder.finish()
    return finder


def tell(packets: list[UdpPacket], snap: int = 65535) -> dict:
    (session,) = find(packets, snap).sessions
    return explanation(measure(session))


def ids(told: dict) -> list[str]:
    return [finding["id"] for finding in told["findings"]]


def client(told: dict) -> str:
    """The address of the DTLS client."""
    return told["parties"][told["roles"]["dtls_client"]]["addresses"][0]


def by_address(told: dict) -> dict:
    """The stages, their letters replaced by addresses: who is A depends on what is known."""
    names = {letter: party["addresses"][0] for letter, party in told["parties"].items()}
    return {
        "_".join(names.get(part, part) for part in name.split("_")): stage
        for name, stage in told["stages"].items()
    }


def udp_packet(at: float, payload: bytes, source=CLIENT, destination=SERVER) -> UdpPacket:
    return UdpPacket(1_795_978_000.0 + at, source, destination, payload)


def request(ufrags: str, transaction: bytes = b"x" * 12) -> bytes:
    attributes = [(Attribute.USERNAME, ufrags.encode()), (Attribute.PRIORITY, bytes(4))]
    return build_message(1, MessageClass.REQUEST, transaction, attributes, integrity_key=None)


# -- sessions apart -------------------------------------------------------------------------------


@pytest.mark.slow
def test_many_calls_on_one_server_port_are_told_apart() -> None:
    """They share an address and overlap in time; ufrags, then flows, keep them apart."""
    packets = []
    for number in range(40):
        for packet in call(WARP, number, server=SERVER):
            packets.append(packet._replace(time=packet.time + number * 0.01))
    packets.sort(key=lambda packet: packet.time)
    finder = find(packets)
    assert len(finder.sessions) == 40
    told = [explanation(measure(session)) for session in finder.sessions]
    assert {one["datagrams"] for one in told} == {104}
    assert {one["dtls_version"] for one in told} == {"1.3"}
    assert len({one["parties"]["A"]["ufrag"] for one in told}) == 40
    assert {tuple(ids(one)) for one in told} == {("clienthello-split-pq", "answer-active")}
    assert finder.counts == {}


@pytest.mark.slow
def test_a_thousand_sessions_in_one_file() -> None:
    packets = []
    for number in range(1000):
        packets += [p._replace(time=p.time + number * 0.002) for p in call(DEFAULT, number)[:9]]
    packets.sort(key=lambda packet: packet.time)
    finder = find(packets)
    assert len(finder.sessions) == 1000
    told = [explanation(measure(session)) for session in finder.sessions]
    assert {one["datagrams"] for one in told} == {9}
    assert {one["group"] for one in told} == {"X25519MLKEM768"}


@pytest.mark.slow
def test_a_session_takes_little_memory() -> None:
    packets = []
    for number in range(60):
        packets += [p._replace(time=p.time + number * 0.002) for p in call(DEFAULT, number)]
    capture = pcap(frames(packets))
    tracemalloc.start()
    finder = Finder()
    for datagram in Reader(BytesIO(capture)):
        finder.receive(datagram)
    finder.finish()
    kept = tracemalloc.get_traced_memory()[0]
    tracemalloc.stop()
    assert len(finder.sessions) == 60
    assert kept < 150_000 * 60


@pytest.mark.slow
def test_an_hour_of_one_call_costs_what_its_beginning_does() -> None:
    packets = read_pcap(f"{DEFAULT}.pcap")[:26]
    media = [p for p in packets if p.payload[1] & 127 == 111][-2:]
    went_on = list(packets)
    for number in range(5_000):
        for packet in media:
            sequence = (number + 40_000 & 0xFFFF).to_bytes(2, "big")
            payload = packet.payload[:2] + sequence + packet.payload[4:]
            at = packets[-1].time + number * 0.02
            went_on.append(packet._replace(time=at, payload=payload))
    (session,) = find(went_on).sessions
    assert session.datagrams == 10_026
    assert len(session.events) < 40
    # the jump in the numbers is the test's own
    assert sum(source.packets for source in session.sources.sources.values()) == 10_004


def test_ice_pairs_of_one_session_are_one_session() -> None:
    """Checks over three pairs of addresses; DTLS over one of them."""
    packets = read_pcap(f"{DEFAULT}.pcap")[:30]
    first, second = packets[0].source, packets[0].destination
    moved = []
    for n in range(1, 4):
        ends = (f"192.0.2.{n}", 1000 + n), second
        moved.append(
            UdpPacket(packets[0].time - n / 1e4, *ends, request("Aeb1:cgr3", bytes([n]) * 12))
        )
    told = tell(sorted(moved + packets, key=lambda packet: packet.time))
    assert len(told["parties"]["B"]["addresses"]) == 4
    assert told["dtls_version"] == "1.3"
    assert f"{first[0]}:{first[1]}" in told["parties"]["B"]["addresses"]


def test_an_ice_restart_is_told_as_one() -> None:
    packets = read_pcap(f"{DEFAULT}.pcap")
    first, second = packets[0].source, packets[0].destination
    at = packets[-1].time + 1
    ask = request("Bnew:cnew")
    answer = build_message(1, MessageClass.SUCCESS, b"x" * 12, [], integrity_key=None)
    packets += [
        UdpPacket(at, first, second, ask),
        UdpPacket(at + 0.001, second, first, answer),
        UdpPacket(at + 0.002, first, second, packets[30].payload),
    ]
    finder = find(packets)
    assert len(finder.sessions) == 2
    again = finder.sessions[1]
    assert again.previous is finder.sessions[0]
    assert "ice-restart" in ids(explanation(measure(again)))


def test_after_an_ice_restart_the_old_pair_is_kept_alive_and_takes_nothing_back() -> None:
    """Checks with old and new credentials in turn, on the same flow; media goes on there."""
    packets = read_pcap(f"{DEFAULT}.pcap")
    first, second = packets[0].source, packets[0].destination
    old = parse_message(packets[0].payload).get(Attribute.USERNAME)
    began, (voice,) = packets[-1].time + 1, [p for p in packets[20:24] if p.source == first][-1:]
    again = [(b"Bnew:cnew", 1), (old, 2), (b"Bnew:cnew", 3), (old, 4)]
    number = 500
    for at, (ufrags, turn) in enumerate(again):
        ask = request(ufrags.decode(), bytes([turn]) * 12)
        answer = build_message(1, MessageClass.SUCCESS, bytes([turn]) * 12, [], integrity_key=None)
        packets.append(UdpPacket(began + at, first, second, ask))
        for n in range(20):
            head = voice.payload[:2] + number.to_bytes(2, "big") + voice.payload[4:]
            packets.append(UdpPacket(began + at + 0.02 * n + 0.001, first, second, head))
            number += 1
        packets.append(UdpPacket(began + at + 0.5, second, first, answer))
    before, after = find(packets).sessions
    assert [side.answered for side in after.checks.askers] == [2, 0]
    assert sum(after.sources.packets) == 80 and after.sources.lost(0) == 0
    told = explanation(measure(after))
    assert ids(told)[0] == "ice-restart" and "media-lost" not in ids(told)
    assert sum(asker.requests for asker in before.checks.askers) > 2


def test_another_handshake_on_the_same_flow_is_another_session() -> None:
    first = read_pcap("dtls/bssl_basic.pcap")
    source, destination = first[0].source, first[0].destination
    other = read_pcap("dtls/bssl_pq.pcap")
    hosts = {other[0].source: source, other[0].destination: destination}
    later = [
        UdpPacket(p.time - other[0].time + first[-1].time + 1, hosts[p.source],
                  hosts[p.destination], p.payload)
        for p in other
    ]  # fmt: skip
    finder = find(first + later)
    told = [explanation(measure(session)) for session in finder.sessions]
    assert [one["group"] for one in told] == ["x25519", "X25519MLKEM768"]


# -- a start that is missing, or cut ---------------------------------------------------------------


@pytest.mark.parametrize("skipped", [9, 14, 30, 60, 100])
def test_a_capture_that_begins_too_late_says_so(skipped: int) -> None:
    told = tell(read_pcap(f"{DEFAULT}.pcap")[skipped:])
    assert "start-missing" in ids(told)
    assert told["group"] is None and told["stages"] == {} and told["with_warp"] == []
    assert told["unknown"]["group"] == "the start is not in the capture"
    for cost in ("no-sped", "no-snap", "clienthello-split-pq", "sped-ignored", "media-late"):
        assert cost not in ids(told)
    if skipped < 100:
        assert told["sped"]["used"] is None


def test_media_alone_is_a_session_when_it_goes_on() -> None:
    packets = [p for p in read_pcap(f"{DEFAULT}.pcap") if p.payload[1] & 127 == 111]
    told = tell(packets)
    assert told["dtls_version"] is None and ids(told) == ["start-missing"]
    assert sum(party["rtp_packets"] for party in told["parties"].values()) == len(packets)
    assert find(packets[:3]).sessions == []


@pytest.mark.parametrize(
    "name",
    [
        DEFAULT,
        WARP,
        "dtls/aiortc116_chromium156",
        "dtls/bssl_pq",
        "delay/chromium156_default",
        "delay/chromium156_warp",
    ],
)
def test_a_snap_length_of_96_is_said_and_nothing_is_made_up(name: str) -> None:
    """54 bytes of UDP payload: headers, ufrags, kinds of messages, epochs."""
    told, whole = tell(read_pcap(f"{name}.pcap"), snap=96), tell(read_pcap(f"{name}.pcap"))
    assert "cut-packets" in ids(told)
    for key in ("group", "pq", "snap", "dcep"):
        assert told[key] in (None, whole[key])
    assert told["dtls_version"] == whole["dtls_version"]
    assert client(told) == client(whole)
    assert told["sped"]["used"] in (None, whole["sped"]["used"])
    # that a hello is split can be seen, why cannot
    known = {*ids(whole), *(i.removesuffix("-pq") for i in ids(whole))}
    assert set(ids(told)) - {"cut-packets"} <= known
    assert told["rtt"] == whole["rtt"]
    assert {p["ufrag"] for p in told["parties"].values()} == {
        p["ufrag"] for p in whole["parties"].values()
    }
    stages, wanted = by_address(told), by_address(whole)
    for stage in set(stages) & set(wanted):
        assert stages[stage]["ms"] == wanted[stage]["ms"], stage


@pytest.mark.parametrize("snap", [42, 45, 54, 60, 70, 80, 120, 200, 400])
def test_any_snap_length(snap: int) -> None:
    for name in (DEFAULT, WARP, "dtls/aiortc116_chromium156", "dtls/loss_bb_s1"):
        for session in find(read_pcap(f"{name}.pcap"), snap=snap).sessions:
            assert set(ids(explanation(measure(session)))) <= set(IDS)


@pytest.mark.parametrize("name", [DEFAULT, WARP, "stun/chromium156_snap_only"])
def test_an_answer_whose_check_is_missing_says_that_the_beginning_is(name: str) -> None:
    told, whole = tell(read_pcap(f"{name}.pcap")[1:]), tell(read_pcap(f"{name}.pcap"))
    assert "checks-missing" in ids(told)
    assert {stage["round_trips"] for stage in told["stages"].values()} == {None}
    assert told["with_warp"] == []
    assert told["sped"]["used"] in (whole["sped"]["used"], None)
    assert "no-sped" not in ids(told) and "sped-ignored" not in ids(told)


def test_a_second_client_hello_without_the_first_counts_no_round_trips() -> None:
    told = tell(read_pcap("dtls/nssff153_hrr.pcap")[2:])
    assert told["group"] is not None
    assert {stage["round_trips"] for stage in told["stages"].values()} == {None}


# -- order and company ----------------------------------------------------------------------------


def test_times_that_go_backwards() -> None:
    packets = read_pcap(f"{WARP}.pcap")
    luck = random.Random(7)
    for at in range(0, len(packets) - 4, 4):
        block = packets[at : at + 4]
        luck.shuffle(block)
        packets[at : at + 4] = block
    reader = Reader(BytesIO(pcap(frames(packets))))
    finder = Finder()
    for datagram in reader:
        finder.receive(datagram)
    finder.finish()
    told = explanation(measure(finder.sessions[0]))
    assert told["dtls_version"] == "1.3" and told["snap"] in (True, None)
    assert any("older than the packet before" in note for note in reader.notes())


def test_unrelated_traffic_is_no_session() -> None:
    luck = random.Random(3)
    dns = b"\x16\x03\x81\x80\0\1\0\1\0\0\0\0" + b"\7example\3com\0\0\1\0\1"
    quic = b"\x4f" + luck.randbytes(60)
    packets = [udp_packet(n / 100, luck.randbytes(luck.randrange(1, 200))) for n in range(500)]
    packets += [udp_packet(6 + n / 100, dns, ("192.0.2.1", 5353)) for n in range(50)]
    packets += [udp_packet(7 + n / 100, quic, ("192.0.2.1", 443)) for n in range(50)]
    ask = build_message(1, MessageClass.REQUEST, b"s" * 12, [], integrity_key=None)
    packets += [udp_packet(8, ask, ("192.0.2.5", 9)), udp_packet(8.1, ask, ("192.0.2.6", 9))]
    finder = find(packets)
    assert finder.sessions == []
    assert sum(finder.counts.values()) == len(packets)


def test_a_session_among_unrelated_traffic_is_found_whole() -> None:
    luck = random.Random(4)
    packets = read_pcap(f"{WARP}.pcap")
    began = packets[0].time
    noise = [
        UdpPacket(
            began + n / 500, ("198.51.100.9", n % 9), ("198.51.100.8", 53), luck.randbytes(40)
        )
        for n in range(300)
    ]
    told = tell(sorted(packets + noise, key=lambda packet: packet.time))
    alone = tell(packets)
    assert told["datagrams"] == 104 and ids(told) == ids(alone)
    assert told["findings"] != [] and told["stages"].keys() == alone["stages"].keys()


def test_what_is_sent_twice_and_arrives_twice_was_not_lost() -> None:
    """The same bytes again, before the first ones have come to the second place."""
    packets = read_pcap("delay/chromium156_default.pcap")
    again = []
    for packet in packets:
        if packet.payload[:1] == b"\x16":
            again.append(packet._replace(time=packet.time + 0.02))
    told = tell(sorted([*packets, *again], key=lambda packet: packet.time))
    assert "two-places" in ids(told) and "datagram-lost" not in ids(told)


@pytest.mark.parametrize(("count", "size"), [(6, 0x499), (4, 45), (2, 45)])
def test_what_is_taken_apart_under_way_was_not_lost(count: int, size: int) -> None:
    """A sender hands several datagrams over as one (UDP_SEGMENT): so the first place shows them."""
    packets = read_pcap("delay/chromium156_default.pcap")
    number = next(n for n, p in enumerate(packets) if n > 70 and p.payload[0] >= 128)
    ends, at = packets[number], packets[number].time
    head = size.to_bytes(2, "big") + bytes(size)
    segments = [b"\x2f" + n.to_bytes(2, "big") + head for n in range(count)]
    there = next(p for p in packets[number + 1 :] if p.payload == ends.payload)
    made = [ends._replace(payload=b"".join(segments), time=at + 1e-5)]
    made += [there._replace(payload=part, time=there.time + 1e-5) for part in segments]
    told = tell(sorted([*packets, *made], key=lambda packet: packet.time))
    assert "two-places" in ids(told) and "datagram-lost" not in ids(told)


@pytest.mark.parametrize("name", [DEFAULT, WARP, "delay/chromium156_default"])
def test_what_was_captured_twice_was_sent_once(name: str) -> None:
    """A mirrored port shows each packet twice, some microseconds apart."""
    packets = read_pcap(f"{name}.pcap")
    told, whole = tell([p for packet in packets for p in (packet, packet)]), tell(packets)
    for key in ("dtls_version", "group", "snap", "dcep", "sped", "rtt", "with_warp"):
        assert told[key] == whole[key], key
    assert ids(told) == ids(whole)
    for side in "AB":
        for count in ("checks", "rtp_packets"):
            assert told["parties"][side][count] == whole["parties"][side][count]


def test_duplicates_of_the_network_are_marked() -> None:
    packets = read_pcap(f"{WARP}.pcap")[:13]
    twice = [p._replace(time=p.time + n * 1e-5) for p in packets for n in range(2)]
    (session,) = find(twice).sessions
    marks = [mark.mark.value for event in session.events for mark in event.marks]
    assert marks.count("duplicate of") == 13
    told = explanation(measure(session))
    assert told["dtls_version"] == "1.3" and "dtls-retransmission" not in ids(told)


def test_a_check_without_a_username_and_other_stun_is_no_session() -> None:
    allocate = build_message(3, MessageClass.REQUEST, bytes(12), [], integrity_key=None)
    stray = build_message(1, MessageClass.SUCCESS, bytes(12), [], integrity_key=None)
    finder = find([udp_packet(0, allocate), udp_packet(1, stray), udp_packet(2, request("a"))])
    assert finder.sessions == [] and finder.counts["stun"] == 3


def test_what_came_before_its_checks_joins_their_session() -> None:
    """Data on the second leg of a relay, before the checks tell that it is one."""
    packets = read_pcap("delay/chromium156_default.pcap")
    leg = {packets[1].source, packets[1].destination}
    orphans = [p for p in packets if p.payload[0] == 0x2F and p.source in leg][:3]
    began = packets[0].time
    orphans = [p._replace(time=began - 0.1 + n / 1000) for n, p in enumerate(orphans)]
    (session,) = find(orphans + packets[:16]).sessions
    assert session.datagrams == 19 and session.previous is None
    assert [event.number for event in session.events[:4]] == [1, 2, 3, 4]
    sides = {event.source: event.side for event in session.events}
    assert len(set(sides.values())) == 2
    for event in session.events:
        assert sides.get(event.destination, 1 - event.side) == 1 - event.side
    assert set(session.ufrags) == {"/2Ll", "Ues1"}


def test_a_start_whose_checks_were_not_captured_counts_no_round_trips() -> None:
    """The first answered check is missing; a later check, answered, is there."""
    packets = read_pcap(f"{DEFAULT}.pcap")[4:]
    told = tell(packets)
    assert "checks-missing" in ids(told) and "no-sped" not in ids(told)
    assert told["dtls_version"] == "1.3" and told["with_warp"] == []
    assert told["stages"]["dtls_client"]["round_trips"] is None


def both_clients(change: int) -> dict:
    """A capture in which the server says ClientHello as well, and nobody ServerHello."""
    packets = []
    for packet in read_pcap(f"{DEFAULT}.pcap"):
        if packet.payload[0] == 22 and packet.payload[13] == 2:
            break
        packets.append(packet)
        if packet.payload[0] == 22 and packet.payload[13] == 1:
            back = bytearray(packet.payload)
            back[27] ^= change  # in the first piece, its random
            packets.append(
                UdpPacket(packet.time + 0.001, packet.destination, packet.source, bytes(back))
            )
    return tell(packets)


def test_two_clients_are_one_session_without_a_server() -> None:
    told = both_clients(1)
    assert "both-clients" in ids(told) and "dtls-unanswered" not in ids(told)
    assert told["roles"]["dtls_client"] is None is told["roles"]["dtls_server"]
    assert told["unknown"]["roles.dtls_client"] == "both sides sent a ClientHello"


def test_an_echo_of_the_client_hello_is_no_client() -> None:
    told = both_clients(0)
    assert "both-clients" not in ids(told)
    assert told["roles"]["dtls_client"] is not None


def moved(at: int) -> list[UdpPacket]:
    """A call whose client has another address from its packet `at` on, and is not checked there."""
    packets = read_pcap("calls/libwebrtc152_plain.pcap")
    media = [packet for packet in packets if 127 < packet.payload[0] < 192]
    mine = media[0].source
    since = media[at].time
    found = []
    for packet in packets:
        if packet.time < since:
            found.append(packet)
        elif 127 < packet.payload[0] < 192:
            ends = [
                ("198.51.100.9", 61000) if end == mine else end
                for end in (packet.source, packet.destination)
            ]
            found.append(UdpPacket(packet.time, *ends, packet.payload))
    return found


def test_media_that_goes_on_from_another_address_is_of_the_same_call() -> None:
    told = tell(moved(60))
    assert "start-missing" not in ids(told)
    addresses = [party["addresses"] for party in told["parties"].values()]
    assert sorted(map(len, addresses)) == [1, 2]
    before = tell(read_pcap("calls/libwebrtc152_plain.pcap"))
    for letter, party in told["parties"].items():
        assert party["rtp_packets"] == before["parties"][letter]["rtp_packets"]


def test_another_caller_with_the_same_source_is_another_call() -> None:
    """Its numbers do not go on, or the first one has not fallen silent."""
    packets = moved(60)
    first = next(packet for packet in packets if packet.payload[0] > 127)
    later = packets[-1].time - first.time + 1
    again = [
        packet._replace(time=packet.time + later, source=("192.0.2.77", 7))
        for packet in packets
        if packet.payload[0] > 127 and packet.source == first.source
    ]
    assert len(again) > 20
    assert len(find([*packets, *again]).sessions) == 2


@pytest.mark.parametrize("count", [2, 9, 1000])
def test_the_keys_for_machines_are_in_the_note_and_every_null_has_a_reason(count: int) -> None:
    told = tell(read_pcap(f"{DEFAULT}.pcap")[:count])
    note = (ROOT / "drafts/notes/captures.md").read_text()
    table = note.split("## The JSON", 1)[1].split("## Findings", 1)[0]
    assert [key for key in told if f"`{key}`" not in table] == []
    for key in ("sped", "roles", "rtt"):
        assert [name for name in told[key] if f"`{name}`" not in table] == []
    for finding in told["findings"]:
        assert [name for name in finding if f"`{name}`" not in table] == []
    for stage in told["stages"].values():
        assert [name for name in stage if f"`{name}`" not in table] == []
    nulls = [key for key, value in told.items() if value is None]
    assert [key for key in nulls if key not in told["unknown"]] == []
