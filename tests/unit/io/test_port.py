from __future__ import annotations

from typing import Any

import pytest

from tests.unit.io.support import FakeLoop, FakeSocket, StubSession
from warp.contract import Flow
from warp.io.driver import Driver
from warp.io.port import ALL, MAX_ROUTES, MAX_SHARERS, MEDIA, Port
from warp.stun import Attribute, MessageClass, build_message

LOCAL = ("192.0.2.1", 4000)
PEER = ("198.51.100.7", 5000)
OTHER = ("198.51.100.8", 5000)
PEER6 = ("2001:db8::7", 5000)
DTLS = bytes([22, 254, 253]) + bytes(10)
RTP = bytes([0x80, 111]) + bytes(10)
RTCP = bytes([0x80, 200]) + bytes(10)


def request(ufrag: str, transaction: bytes = bytes(12)) -> bytes:
    username = (int(Attribute.USERNAME), f"{ufrag}:theirs".encode())
    return build_message(1, MessageClass.REQUEST, transaction, [username], integrity_key=None)


def answer(transaction: bytes = bytes(12)) -> bytes:
    return build_message(1, MessageClass.SUCCESS, transaction, [], integrity_key=None)


class Bench:
    def __init__(self, local: tuple[str, int] = LOCAL) -> None:
        self.loop: Any = FakeLoop()
        self.driver = Driver(self.loop)
        self.raw: Any = FakeSocket(local)
        self.port = self.driver.add_port(self.raw)
        self.one, self.two = StubSession(), StubSession()

    def serve(self) -> None:
        """Be a server of two sessions."""
        self.port.by_ufrag = {"one": self.one, "two": self.two}

    def arrive(self, data: bytes, address: Any = PEER) -> None:
        self.raw.arrived.append((data, address))
        self.loop.readers[self.raw.number]()


# -- a server's port -----------------------------------------------------------------------------


def test_a_request_is_led_by_the_ufrag_it_names() -> None:
    bench = Bench()
    bench.serve()
    bench.arrive(request("two"))
    assert bench.one.peer.received == []
    assert bench.two.peer.received == [(request("two"), Flow(LOCAL, PEER))]
    assert bench.two.flushed == 1


@pytest.mark.parametrize("data", [b"", b"\x00", DTLS, RTP, RTCP, answer(), request("three")])
def test_unknown_addresses_are_not_listened_to(data: bytes) -> None:
    bench = Bench()
    bench.serve()
    bench.arrive(data)
    assert bench.one.peer.received == bench.two.peer.received == []
    assert bench.port.unroutable == 1
    assert bench.port.routes == 0


def test_a_request_alone_makes_no_route() -> None:
    """Only the session knows whether the request was authentic."""
    bench = Bench()
    bench.serve()
    bench.arrive(request("one"))
    bench.arrive(DTLS)
    assert len(bench.one.peer.received) == 1
    assert bench.port.unroutable == 1


def test_an_authenticated_address_leads_straight_to_its_session() -> None:
    bench = Bench()
    bench.serve()
    flow = Flow(LOCAL, PEER)
    bench.port.add_route(bench.one, flow)
    for data in (DTLS, RTP, RTCP, answer()):
        bench.arrive(data)
    assert [data for data, _ in bench.one.peer.received] == [DTLS, RTP, RTCP, answer()]
    assert all(seen is flow for _, seen in bench.one.peer.received)


def test_an_ipv6_address_leads_straight_to_its_session() -> None:
    """The kernel's IPv6 addresses have four members, those of flows two."""
    bench = Bench(("2001:db8::1", 4000))
    bench.serve()
    bench.port.add_route(bench.one, Flow(bench.port.local, PEER6))
    bench.arrive(DTLS, (*PEER6, 0, 0))
    assert bench.one.peer.received == [(DTLS, Flow(("2001:db8::1", 4000), PEER6))]
    assert bench.port.unroutable == 0


def test_an_address_of_two_sessions_is_heard_by_both_until_one_has_ended() -> None:
    """A check can be recorded and sent again from there: it takes nothing from who speaks there."""
    bench = Bench()
    bench.serve()
    for _ in range(2):
        bench.port.add_route(bench.one, Flow(LOCAL, PEER))
        bench.port.add_route(bench.two, Flow(LOCAL, PEER))
    for data in (RTP, RTCP, DTLS):
        bench.arrive(data)
    for peer in (bench.one.peer, bench.two.peer):
        assert [data for data, _ in peer.received] == [RTP, RTCP, DTLS]
    # whoever is named is the only one who is asked
    bench.arrive(request("one"))
    assert (len(bench.one.peer.received), len(bench.two.peer.received)) == (4, 3)
    bench.driver.forget(bench.two)
    bench.arrive(RTP)
    assert (len(bench.one.peer.received), len(bench.two.peer.received)) == (5, 3)
    assert bench.port._shared == {}
    bench.driver.forget(bench.one)
    assert bench.port.routes == 0


def test_an_address_is_shared_by_few() -> None:
    bench = Bench()
    bench.serve()
    sessions = [StubSession() for _ in range(MAX_SHARERS + 3)]
    for session in sessions:
        bench.port.add_route(session, Flow(LOCAL, PEER))
    bench.arrive(RTP)
    heard = [len(session.peer.received) for session in sessions]
    assert heard == [1] * (MAX_SHARERS + 1) + [0] * 2
    for session in sessions:
        bench.driver.forget(session)
    assert bench.port.routes == 0
    assert bench.port._shared == {}


def test_a_session_that_fails_takes_nothing_from_who_shares_its_address() -> None:
    bench = Bench()
    bench.serve()
    bench.port.add_route(bench.one, Flow(LOCAL, PEER))
    bench.port.add_route(bench.two, Flow(LOCAL, PEER))
    bench.two.peer.fault = ZeroDivisionError("ours")
    bench.two.fail = lambda _: bench.driver.forget(bench.two)
    bench.arrive(DTLS)
    bench.arrive(RTP)
    assert [data for data, _ in bench.one.peer.received] == [DTLS, RTP]
    assert bench.port._shared == {}


def test_a_reused_address_goes_to_the_session_that_authenticated_it_last() -> None:
    bench = Bench()
    bench.serve()
    bench.port.add_route(bench.one, Flow(LOCAL, PEER))
    bench.arrive(request("two"))
    assert len(bench.two.peer.received) == 1
    bench.arrive(DTLS)
    assert len(bench.one.peer.received) == 1  # not authenticated yet: the route stands
    bench.port.add_route(bench.two, Flow(LOCAL, PEER))
    bench.arrive(DTLS)
    assert len(bench.two.peer.received) == 2
    # the end of the first does not take the address away from the second
    bench.driver.forget(bench.one)
    bench.arrive(RTP)
    assert len(bench.two.peer.received) == 3


def test_the_first_of_many_addresses_is_forgotten() -> None:
    bench = Bench()
    bench.serve()
    flows = [Flow(LOCAL, ("198.51.100.7", 5000 + n)) for n in range(MAX_ROUTES + 2)]
    for flow in flows[:MAX_ROUTES]:
        bench.port.add_route(bench.one, flow)
    bench.port.add_route(bench.one, flows[0])  # in use again
    for flow in flows[MAX_ROUTES:]:
        bench.port.add_route(bench.one, flow)
    assert bench.port.routes == MAX_ROUTES
    bench.arrive(RTP, flows[0].remote)
    assert len(bench.one.peer.received) == 1
    bench.arrive(RTP, flows[1].remote)
    assert bench.port.unroutable == 1


def test_an_answer_is_led_by_what_was_asked() -> None:
    """A full agent's first answer comes from an address that has authenticated nothing yet."""
    bench = Bench()
    bench.serve()
    bench.driver.expect_answers()
    bench.two.peer.local_ufrag = "two"
    check = b"\x07" * 12
    bench.two.peer.out = [(request("theirs", check), Flow(LOCAL, PEER))]
    bench.driver.flush(bench.two)
    bench.arrive(answer(b"\x08" * 12))
    assert bench.port.unroutable == 1
    bench.arrive(answer(check))
    assert bench.two.peer.received == [(answer(check), Flow(LOCAL, PEER))]
    bench.arrive(answer(check))
    assert bench.port.unroutable == 2  # each is expected once


def test_what_was_asked_is_remembered_within_bounds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("warp.io.driver._MAX_CHECKS", 2)
    bench = Bench()
    bench.serve()
    bench.driver.expect_answers()
    checks = [bytes([n]) * 12 for n in range(3)]
    bench.one.peer.out = [(request("theirs", check), Flow(LOCAL, PEER)) for check in checks]
    bench.driver.flush(bench.one)
    assert [bench.driver.take_check(check) for check in checks] == [None, "ours", "ours"]


# -- a client's port -----------------------------------------------------------------------------


def test_a_client_has_one_session_for_everything() -> None:
    bench = Bench()
    bench.port.set_default(bench.one)
    for data in (request("any"), answer(), DTLS, RTP, b"\xff"):
        bench.arrive(data, OTHER)
    assert len(bench.one.peer.received) == 5
    assert {flow for _, flow in bench.one.peer.received} == {Flow(LOCAL, OTHER)}


def test_answers_to_probes_do_not_reach_the_session() -> None:
    bench = Bench()
    bench.port.set_default(bench.one)
    seen: list[bytes] = []
    probe = b"\x05" * 12
    bench.port.probes.add(probe, lambda data, remote: seen.append(data))
    bench.arrive(answer(probe), OTHER)
    bench.arrive(answer(), OTHER)
    assert seen == [answer(probe)]
    assert [data for data, _ in bench.one.peer.received] == [answer()]
    # also where the address is the peer's by now
    bench.port.add_route(bench.one, Flow(LOCAL, OTHER))
    bench.arrive(answer(probe), OTHER)
    assert len(seen) == 2


# -- how much is flushed -------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("data", "level"), [(RTP, MEDIA), (RTCP, ALL), (DTLS, ALL), (answer(), ALL), (b"\x80", ALL)]
)
def test_media_asks_for_the_short_flush_only(data: bytes, level: int) -> None:
    bench = Bench()
    bench.port.set_default(bench.one)
    bench.port.receive(data, PEER)
    assert bench.one.touched == level


class Lane:
    """The short way of media, which never asks for more."""

    def __init__(self) -> None:
        self.received: list[tuple[bytes, Flow]] = []

    def receive(self, data: bytes, flow: Flow, now: float) -> bool:
        self.received.append((data, flow))
        return False


def test_media_goes_the_short_way_from_wherever_it_comes_once_that_is_open() -> None:
    bench = Bench()
    bench.port.set_default(bench.one)
    bench.port.add_route(bench.one, Flow(LOCAL, PEER))
    bench.port.receive(RTP, PEER)
    lane = bench.one.peer.lane = Lane()
    bench.port.open_lane(bench.one, PEER)
    bench.driver.flush_touched()
    moved = ("198.51.100.9", 5000)
    bench.port.add_route(bench.one, Flow(LOCAL, moved))
    for address in (PEER, moved, OTHER):
        bench.port.receive(RTP, address)
    assert [flow.remote for _, flow in lane.received] == [PEER, moved, OTHER]
    assert len(bench.one.peer.received) == 1
    assert (bench.one.touched, bench.driver.touched) == (0, [])


def test_each_sharer_of_an_address_has_a_short_way_of_its_own() -> None:
    bench = Bench()
    bench.serve()
    sessions = [bench.one, bench.two]
    for session in sessions:
        bench.port.add_route(session, Flow(LOCAL, PEER))
    lanes = [Lane(), Lane()]
    for session, lane in zip(sessions, lanes, strict=True):
        session.peer.lane = lane
        bench.port.open_lane(session, PEER)
        bench.port.receive(RTP, PEER)
    bench.driver.forget(bench.one)
    bench.port.receive(RTP, PEER)
    assert [len(lane.received) for lane in lanes] == [2, 2]
    assert [len(session.peer.received) for session in sessions] == [0, 1]


def test_a_batch_touches_a_session_once_and_with_the_most_it_needs() -> None:
    bench = Bench()
    bench.port.set_default(bench.one)
    for data in (RTP, DTLS, RTP):
        bench.port.receive(data, PEER)
    assert bench.driver.touched == [bench.one]
    assert bench.one.touched == ALL


def test_a_fault_of_ours_ends_one_session_and_no_other() -> None:
    bench = Bench()
    bench.serve()
    bench.one.peer.fault = ZeroDivisionError("a bug")
    bench.arrive(request("one"))
    bench.arrive(request("two"), OTHER)
    assert [type(error) for error in bench.one.failed] == [ZeroDivisionError]
    assert len(bench.two.peer.received) == 1
    assert len(bench.loop.reported) == 1


def test_a_port_is_what_gathering_asks_for() -> None:
    bench = Bench()
    port: Port = bench.port
    port.send(b"to a STUN server", OTHER)
    assert bench.raw.sent == [(b"to a STUN server", OTHER)]
    assert port.local == LOCAL


# -- datagrams that name no session ----------------------------------------------------------------


class Asked:
    """Somebody who is asked about strangers."""

    def __init__(self, bench: Bench, answer: Any = None) -> None:
        self.bench = bench
        self.answer = answer
        self.asked: list[tuple[bytes, Flow]] = []
        bench.port.unknown = self

    def __call__(self, port: Port, data: bytes, flow: Flow) -> Any:
        assert port is self.bench.port
        self.asked.append((data, flow))
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer


@pytest.mark.parametrize("serving", [False, True])
@pytest.mark.parametrize("data", [request("three"), DTLS, RTP, b"", answer()])
def test_whoever_is_asked_about_strangers_may_name_a_session(data: bytes, serving: bool) -> None:
    bench = Bench()
    if serving:
        bench.serve()
    somebody = Asked(bench, bench.two)
    bench.arrive(data)
    assert somebody.asked == [(data, Flow(LOCAL, PEER))]
    assert bench.two.peer.received == [(data, Flow(LOCAL, PEER))]
    assert bench.two.flushed == 1
    assert bench.port.unroutable == 0


def test_or_none() -> None:
    bench = Bench()
    bench.serve()
    Asked(bench)
    bench.arrive(request("three"))
    assert bench.one.peer.received == bench.two.peer.received == []
    assert bench.port.unroutable == 1


def test_nobody_is_asked_about_those_that_are_known() -> None:
    bench = Bench()
    bench.serve()
    somebody = Asked(bench)
    bench.port.add_route(bench.one, Flow(LOCAL, PEER))
    for data in (request("one"), request("two"), DTLS, RTP, answer()):
        bench.arrive(data)
    bench.arrive(request("two"), OTHER)
    assert somebody.asked == []


def test_an_address_that_a_nat_has_given_to_another_client_is_asked_about() -> None:
    bench = Bench()
    bench.serve()
    somebody = Asked(bench, bench.two)
    bench.port.add_route(bench.one, Flow(LOCAL, PEER))
    bench.arrive(request("three"))
    assert somebody.asked == [(request("three"), Flow(LOCAL, PEER))]
    assert bench.one.peer.received == []
    assert len(bench.two.peer.received) == 1


def test_a_fault_of_whoever_is_asked_stops_nothing() -> None:
    bench = Bench()
    bench.serve()
    Asked(bench, ZeroDivisionError("a bug"))
    bench.arrive(request("three"))
    bench.arrive(request("one"))
    assert len(bench.loop.reported) == 1
    assert len(bench.one.peer.received) == 1
