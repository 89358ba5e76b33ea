"""DTLS inside connectivity checks, from the first datagram to the last flight.

draft-hancke-webrtc-sped-00 sections 4 and 5, on real ends. How one datagram becomes the whole of
a flight is in `test_start_table`; here is what happens when parts go other ways, or missing.
"""

from __future__ import annotations

import itertools
from dataclasses import replace

import pytest

from tests.scenarios import forge
from tests.scenarios.start import (
    OPUS,
    WARP,
    Call,
    Start,
    begin,
    established,
    heard,
    meet,
    opened,
    peer,
    show,
    sieve,
    signal,
)
from tests.scenarios.test_start_table import DTLS12, DTLS13, STARTS, name
from tests.sim.network import drop
from tests.sim.pair import CLIENT, SERVER, Pair, Step
from warp.contract import Address, Flow
from warp.dtls.hello import RETRY_REQUEST_RANDOM
from warp.peer import ConnectionState, PeerConnection, SendPermission
from warp.stun import MessageClass, parse_message

HYBRID = replace(WARP, hybrid=True)
AT_SERVER = Flow(SERVER, CLIENT)
PACE_S = 0.05
ROAMING: Address = ("198.51.100.9", 41000)


def requests(pair: Pair, side: str = "client") -> list[Step]:
    return [
        step
        for step in pair.sent(side, "stun")
        if parse_message(step.data).message_class is MessageClass.REQUEST
    ]


def responses(pair: Pair, side: str = "server") -> list[Step]:
    return [
        step
        for step in pair.sent(side, "stun")
        if parse_message(step.data).message_class is MessageClass.SUCCESS
    ]


# flights ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("start", [s for s in STARTS if s.sped], ids=name)
def test_the_whole_of_a_flight_is_answered_at_once(start: Start) -> None:
    """Whoever gets the rest of a flight in a check answers it in that very response."""
    call = begin(replace(start, rtt_s=0.3))
    assert call.until_up()
    pair = call.pair
    server, client = (pair.server, pair.client) if start.passive else (pair.client, pair.server)
    if start.lite and not start.passive:
        return  # the hello comes in a response or bare, which nothing answers
    hello = {forge.embedded(step.data) for step in requests(pair, client.name)[:2]} - {None}
    carriers = [s for s in requests(pair, client.name) if forge.embedded(s.data) in hello]
    whole = carriers[len(hello) - 1]
    answers = [
        step
        for step in responses(pair, server.name)
        if parse_message(step.data).transaction_id == parse_message(whole.data).transaction_id
    ]
    assert answers and forge.embedded(answers[0].data) is not None
    assert answers[0].time == pytest.approx(whole.arrivals[0])


@pytest.mark.parametrize("start", [WARP, HYBRID, replace(WARP, sped=False)], ids=name)
def test_a_flight_leaves_directly_the_moment_it_exists(start: Start) -> None:
    call = begin(start)
    assert call.until_up()
    flights = [s for s in call.pair.sent("client", "dtls") if s.data[0] & 0x23 == 0x22]
    assert flights[0].time == call.client.stats()["milestones"]["dtls_connected"]


@pytest.mark.parametrize("start", STARTS, ids=name)
def test_no_cookie_is_asked_for(start: Start) -> None:
    """ICE has shown where the client is: neither HelloVerifyRequest nor a cookie's round trip."""
    call = begin(start)
    assert call.until_up()
    sender = "server" if start.passive else "client"
    flights = [forge.embedded(s.data) for s in call.pair.sent(sender, "stun")]
    flights += [s.data for s in call.pair.sent(sender, "dtls")]
    kinds = [message for data in flights if data for message in forge.first_messages(data)]
    assert kinds[0][0] == 2
    assert all(kind != 3 for kind, _ in kinds)
    assert all(body[2:34] != RETRY_REQUEST_RANDOM for kind, body in kinds if kind == 2)


def test_dtls_is_answered_before_any_nomination() -> None:
    call = begin(WARP)
    assert call.until_up()
    seen = requests(call.pair)
    marked = [step for step in seen if parse_message(step.data).get(0x0025) is not None]
    assert marked[0].time == pytest.approx(call.began + call.start.rtt_s)
    assert call.client.stats()["milestones"]["dtls_connected"] <= marked[0].time


# losses ---------------------------------------------------------------------------------------


def test_a_lost_hello_comes_with_the_next_check() -> None:
    call = begin(replace(WARP, up_rules=(drop(0),)))
    assert call.until_up()
    [lost, again, *_] = requests(call.pair)
    assert forge.embedded(again.data) == forge.embedded(lost.data)
    assert again.time - lost.time <= 0.062
    started = call.server.stats()["milestones"]["dtls_negotiated"]
    assert started - call.began <= call.start.rtt_s / 2 + 0.062


def test_a_lost_flight_is_in_the_next_response() -> None:
    call = begin(replace(WARP, down_rules=(drop(0),)))
    assert call.until_up()
    [lost, again, *_] = responses(call.pair)
    assert forge.embedded(lost.data) == forge.embedded(again.data) is not None
    assert call.elapsed() <= 1.5 * call.start.rtt_s + PACE_S + 0.06


@pytest.mark.parametrize("start", [WARP, HYBRID], ids=name)
def test_a_server_that_acknowledges_a_hello_delivers_its_flight(start: Start) -> None:
    """At once, and so well before the 50 ms after which Chromium repeats its hello."""
    call = begin(replace(start, loss=0.2, seed=5))
    assert call.until_up()
    whole = call.server.stats()["milestones"]["dtls_negotiated"]
    flights = [s for s in call.pair.sent("server") if s.kind == "dtls" or embeds(s)]
    assert flights[0].time == whole


def embeds(step: Step) -> bool:
    return step.kind == "stun" and forge.embedded(step.data) is not None


def final_flight(sender: str, data: bytes) -> bool:
    """The client's last flight, bare."""
    return sender == "client" and 20 <= data[0] <= 63 and data[0] & 0x23 == 0x22


@pytest.mark.parametrize("start", [WARP, HYBRID], ids=name)
def test_a_last_flight_lost_on_the_direct_way_comes_with_a_check(start: Start) -> None:
    call = begin(start)
    sieve(call.pair, final_flight)
    assert call.until_up()
    usual = 1.5 * start.rtt_s
    assert call.elapsed() <= usual + PACE_S + start.rtt_s, show(call.pair)


@pytest.mark.parametrize("start", [WARP, HYBRID], ids=name)
def test_a_last_flight_lost_twice_waits_for_no_timeout_of_dtls(start: Start) -> None:
    """Checks go on for as long as it is missing, though the pair is selected long since."""
    call = begin(start)
    until = call.began + 2.2 * start.rtt_s

    def loses(sender: str, data: bytes) -> bool:
        if sender != "client" or call.pair.now > until:
            return False
        carried = forge.embedded(data) if data[0] < 4 else data
        return carried is not None and carried[0] & 0x23 == 0x22

    sieve(call.pair, loses)
    assert call.until_up()
    assert call.pair.now <= until + PACE_S + 1.6 * start.rtt_s, show(call.pair)


@pytest.mark.slow
def test_six_minutes_after_a_lost_last_flight() -> None:
    """No timer that was put to sleep for the start may kill the call later."""
    call = begin(replace(WARP, snap=False))
    sieve(call.pair, final_flight)
    assert call.until_up()
    call.talking.clear()
    call.pair.run_for(360.0)
    call.talking.update(("client", "server"))
    assert call.works()


@pytest.mark.parametrize("start", [WARP, HYBRID, replace(WARP, lite=False)], ids=name)
def test_no_dtls_timer_before_the_first_answer(start: Start) -> None:
    """While checks repeat the hello it is not sealed again, nor sent bare."""
    call = begin(start)
    call.pair.down.down = True
    call.pair.run_for(2.5)
    carried = {forge.embedded(step.data) for step in requests(call.pair)}
    assert len(requests(call.pair)) > 20
    assert len(carried - {None}) == (2 if start.hybrid else 1)
    assert call.pair.sent("client", "dtls") == []
    call.pair.down.down = False
    assert call.until_up()


@pytest.mark.parametrize("rtt_s", [0.01, 0.1, 0.4])
def test_the_dtls_timer_once_a_pair_is_valid(rtt_s: float) -> None:
    """Twice the round trip, at least 50 ms, doubled each time, never more than 3 s."""
    call = begin(replace(WARP, sped=False, rtt_s=rtt_s, early_data=False))
    sieve(call.pair, lambda sender, data: sender == "server" and 20 <= data[0] <= 63)
    call.pair.run_for(12.0)
    hellos = [step.time for step in call.pair.sent("client", "dtls") if step.data[13] == 1]
    first = hellos[0]
    assert first - call.began == pytest.approx(rtt_s)
    gaps = [later - earlier for earlier, later in itertools.pairwise(hellos)]
    # a long hello may be cut in two after some repetitions
    gaps = [gap for gap in gaps if gap > 0.001]
    rto = max(0.05, 2 * rtt_s)
    expected = [min(rto * 2**n, 3.0) for n in range(len(gaps))]
    assert len(gaps) >= 4
    assert gaps == pytest.approx(expected, abs=0.001)


# several datagrams, several ways ----------------------------------------------------------------


class HandMade:
    """A client whose DTLS is real and whose checks are made by hand, before a real server."""

    def __init__(self, start: Start = HYBRID) -> None:
        self.now = 1000.0
        client, self.server = peer(start, "client"), peer(start, "server")
        client.add_local_address(CLIENT, self.now)
        self.server.add_local_address(SERVER, self.now)
        signal(client, self.server, self.now)
        self.hello = [
            part for data, _ in client.datagrams_to_send(self.now) if (part := forge.embedded(data))
        ]

    def check(self, data: bytes | None, remote: Address = CLIENT) -> list[tuple[bytes, Flow]]:
        """Send a check, with a datagram inside or without, and return what comes back."""
        attributes = [(forge.ACK, b"")] + ([] if data is None else [(forge.DATA, data)])
        return self.deliver(forge.request(attributes), remote)

    def deliver(self, datagram: bytes, remote: Address = CLIENT) -> list[tuple[bytes, Flow]]:
        """Let a datagram of the client arrive."""
        self.server.receive_datagram(datagram, Flow(SERVER, remote), self.now)
        return self.server.datagrams_to_send(self.now)

    @property
    def version(self) -> object:
        """What the server has chosen."""
        return self.server.stats()["dtls_version"]


def flights_in(answers: list[tuple[bytes, Flow]]) -> list[bytes]:
    found = [forge.embedded(data) if data[0] < 4 else data for data, _ in answers]
    return [data for data in found if data is not None]


CARRIERS = ["request", "direct", "elsewhere"]


@pytest.mark.parametrize("order", [(0, 1), (1, 0)], ids=["in-order", "swapped"])
@pytest.mark.parametrize("first", CARRIERS)
@pytest.mark.parametrize("second", CARRIERS)
def test_a_hello_in_two_parts_by_any_carriers(
    order: tuple[int, int], first: str, second: str
) -> None:
    """The version is chosen when all of it is there: 1.3, though the first part does not say so."""
    client = HandMade()
    assert len(client.hello) == 2
    client.check(None)
    client.check(None, ROAMING)
    client.check(None)
    answers: list[tuple[bytes, Flow]] = []
    for index, carrier in zip(order, (first, second), strict=True):
        assert client.version is None
        part = client.hello[index]
        if carrier == "direct":
            answers = client.deliver(part)
        else:
            answers = client.check(part, ROAMING if carrier == "elsewhere" else CLIENT)
    assert client.version is DTLS13
    flight = flights_in(answers)
    assert forge.first_messages(flight[0])[0][0] == 2
    # it goes where the hello was completed, by a check or on a way that a check has opened
    where = {flow.remote for data, flow in answers if data[0] >= 20}
    assert where == {ROAMING if second == "elsewhere" else CLIENT}


def test_a_part_in_the_response_to_the_servers_own_check() -> None:
    client = HandMade(replace(HYBRID, lite=False))
    [(check, flow)] = client.server.datagrams_to_send(client.now)
    assert flow == AT_SERVER
    client.deliver(forge.response(check, SERVER, [(forge.ACK, b""), (forge.DATA, client.hello[0])]))
    assert client.version is None
    answers = client.check(client.hello[1])
    assert client.version is DTLS13
    assert flights_in(answers)


def test_halves_on_two_pairs() -> None:
    client = HandMade()
    client.check(client.hello[0])
    answers = client.check(client.hello[1], ROAMING)
    assert client.version is DTLS13
    assert {flow.remote for _, flow in answers} == {ROAMING}


@pytest.mark.parametrize("lost", ["stun", "dtls"])
def test_a_flight_in_two_datagrams_arrives_either_way(lost: str) -> None:
    """In responses when the direct way is closed, directly when responses carry nothing."""
    call = begin(HYBRID)

    def loses(sender: str, data: bytes) -> bool:
        if sender != "server":
            return False
        if lost == "dtls":
            return 20 <= data[0] <= 63
        return data[0] < 4 and forge.embedded(data) is not None

    sieve(call.pair, loses)
    assert call.pair.run(until=lambda: opened(call.pair.client), timeout_s=3.0), show(call.pair)
    assert call.client.stats()["dtls_version"] is DTLS13


@pytest.mark.parametrize("start", [s for s in STARTS if s.sped], ids=name)
def test_everything_twice(start: Start) -> None:
    """Embedded and direct, delivered two times each: one handshake, no alert."""
    call = begin(start)
    for link in (call.pair.up, call.pair.down):
        link.config = replace(link.config, duplicate=1.0)
    assert call.until_up()
    assert not any(step.data[0] == 21 for step in call.pair.ladder)
    hellos = {
        data
        for step in call.pair.ladder
        for data in [forge.embedded(step.data) if step.kind == "stun" else step.data]
        if data and [kind for kind, _ in forge.first_messages(data)][:1] == [2]
    }
    assert len(hellos) == 1
    assert call.works()


@pytest.mark.parametrize("version", [DTLS12, DTLS13], ids=["1.2", "1.3"])
def test_a_repeated_hello_with_another_record_number(version: object) -> None:
    """Another CRC, so nothing acknowledges it; the flight comes again, and it is no error."""
    client = HandMade(replace(WARP, version=version))
    [hello] = client.hello
    [flight] = flights_in(client.check(hello))
    again = hello[:5] + (7).to_bytes(6, "big") + hello[11:]
    assert flights_in(client.check(again)) == [flight]
    client.now += 1.0
    later = hello[:5] + (8).to_bytes(6, "big") + hello[11:]
    [repeated] = {data for data in flights_in(client.check(later))}
    assert forge.first_messages(repeated)[0] == forge.first_messages(flight)[0]
    assert client.server.state is ConnectionState.CONNECTING


# before the answer ----------------------------------------------------------------------------


def server_offers(start: Start) -> tuple[Pair, PeerConnection, PeerConnection, str]:
    """The server offers, and its client's answer is under way: returned, not yet set."""
    pair = meet(start)
    client, server = pair.client.endpoint, pair.server.endpoint
    offer = server.create_offer(pair.now)
    server.set_local_description("offer", offer, pair.now)
    client.set_remote_description("offer", offer, pair.now)
    answer = client.create_answer(pair.now)
    client.set_local_description("answer", answer, pair.now)
    return pair, client, server, answer


@pytest.mark.parametrize("lite", [True, False], ids=["lite", "full"])
@pytest.mark.parametrize("hybrid", [False, True], ids=["x25519", "hybrid"])
def test_a_handshake_before_the_answer(lite: bool, hybrid: bool) -> None:
    """The client's checks overtake its answer: DTLS is done when that comes, and then verified."""
    # the answerer takes the active role
    start = replace(WARP, lite=lite, hybrid=hybrid, passive=False)
    pair, client, server, answer = server_offers(start)
    pair.run_for(1.0)
    assert client.state is ConnectionState.CONNECTED
    assert server.media_permission is not SendPermission.ALL
    assert server.stats()["dtls_version"] is DTLS13
    assert client.send_audio(OPUS, 0, pair.now, marker=True)
    pair.run_for(0.2)
    assert not heard(pair.server)
    server.set_remote_description("answer", answer, pair.now)
    assert server.state is ConnectionState.CONNECTED
    pair.run_for(0.1)
    assert heard(pair.server)
    call = Call(start, pair)
    assert call.pair.run(until=lambda: heard(pair.client), timeout_s=1.0)


def test_an_answer_with_another_fingerprint() -> None:
    pair, _, server, answer = server_offers(replace(WARP, passive=False))
    pair.run_for(1.0)
    wrong = "\r\n".join(
        line[:-2] + ("00" if line[-2:] != "00" else "11") if "fingerprint" in line else line
        for line in answer.split("\r\n")
    )
    server.set_remote_description("answer", wrong, pair.now)
    assert server.state is ConnectionState.FAILED
    assert not heard(pair.server)


# after the start --------------------------------------------------------------------------------


def test_an_ice_restart_brings_no_attributes_back() -> None:
    call = established()
    restarted = call.pair.now
    now = restarted
    offer = call.client.create_offer(now, ice_restart=True)
    call.client.set_local_description("offer", offer, now)
    call.server.set_remote_description("offer", offer, now)
    answer = call.server.create_answer(now)
    call.server.set_local_description("answer", answer, now)
    call.client.set_remote_description("answer", answer, now)
    call.pair.run_for(1.0)
    later = [s for s in call.pair.ladder if s.kind == "stun" and s.time >= restarted]
    assert later
    for step in later:
        message = parse_message(step.data)
        assert message.get(forge.ACK) is None and message.get(forge.DATA) is None
    assert call.works()
