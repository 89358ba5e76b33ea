"""What goes out bare beside what rides, and in which order."""

from __future__ import annotations

import pytest

from tests.unit.dtls.ends import client, server
from tests.unit.sped.test_piggyback import F2, F2B, message
from warp.contract import Flow
from warp.dtls import DtlsRole
from warp.peer.rider import LIBWEBRTC_PAUSE_S, RESPONSE_OVERHEAD, DtlsRider
from warp.sped import Piggyback, SpedConfig
from warp.stun import Attribute, MessageClass

FLOW = Flow(("192.0.2.1", 443), ("198.51.100.7", 50_000))
NOW = 1.0
ROOM = 1068
DATA = Attribute.META_DTLS_IN_STUN
FLIGHT = [F2, F2B]


def rider_with(flight: list[bytes], *, credit: int) -> DtlsRider:
    """A rider with a flight to send to an address that may be sent `credit` bytes."""
    rider = DtlsRider(Piggyback(SpedConfig()))
    rider.receive_attributes(message(ack=b""), FLOW, NOW)
    rider.budget.spend(FLOW.remote, rider.budget.left(FLOW.remote))
    rider.budget.receive(FLOW.remote, -(-credit // 3))
    rider.piggyback.capture_flight(flight, new_flight=True)
    rider.direct = list(flight)
    return rider


def respond(rider: DtlsRider) -> bytes | None:
    """Build a response, pay for it, and return what rode in it."""
    attributes = dict(rider.attributes_to_send(MessageClass.SUCCESS, bytes(12), FLOW, ROOM, NOW))
    ridden = attributes.get(DATA)
    rider.budget.spend(FLOW.remote, RESPONSE_OVERHEAD + 8 + len(ridden or b""))
    return ridden


def test_the_part_that_did_not_ride_is_the_first_to_go_directly() -> None:
    rider = rider_with(FLIGHT, credit=10_000)
    assert respond(rider) == F2
    assert rider.take_direct(DtlsRole.SERVER, FLOW) == [F2B, F2]


def test_an_address_with_little_credit_gets_each_part_once() -> None:
    """A client with two paths that sends half a hello on each has paid for 3 x 672 bytes."""
    rider = rider_with(FLIGHT, credit=RESPONSE_OVERHEAD + 16 + len(F2) + len(F2B))
    assert respond(rider) == F2
    assert rider.take_direct(DtlsRole.SERVER, FLOW) == [F2B]


def test_a_flight_that_rode_whole_is_not_sent_twice() -> None:
    rider = rider_with([F2], credit=10_000)
    assert respond(rider) == F2
    assert rider.take_direct(DtlsRole.SERVER, FLOW) == []
    assert rider.direct == []


def test_what_waits_for_credit_stays_when_something_else_rides() -> None:
    rider = rider_with(FLIGHT, credit=10_000)
    rider.direct = [F2B]
    assert respond(rider) == F2
    assert rider.take_direct(DtlsRole.SERVER, FLOW) == [F2B]


@pytest.mark.parametrize("ridden", [True, False])
def test_a_client_sends_all_of_it_directly(ridden: bool) -> None:
    rider = rider_with(FLIGHT, credit=10_000)
    if ridden:
        respond(rider)
    assert rider.take_direct(DtlsRole.CLIENT, FLOW) == FLIGHT


@pytest.mark.parametrize("rides", [True, False])
def test_early_data_leaves_a_flight_that_has_not_left_what_it_needs(rides: bool) -> None:
    rider = rider_with([F2], credit=RESPONSE_OVERHEAD + 16 + len(F2))
    if rides:
        assert DATA in dict(
            rider.attributes_to_send(MessageClass.SUCCESS, bytes(12), FLOW, ROOM, NOW)
        )
    assert rider.reserve() >= RESPONSE_OVERHEAD + 8 + len(F2)
    rider.take_direct(DtlsRole.SERVER, FLOW)
    assert rider.reserve() == 0


LIBWEBRTC = message(ack=b"", others=[(Attribute.GOOG_NETWORK_INFO, bytes.fromhex("00030000"))])


def test_early_data_leaves_with_the_flight() -> None:
    rider = rider_with([F2], credit=10_000)
    rider.allow_early_data(NOW)
    assert rider.take_early_data(NOW)
    assert not rider.take_early_data(NOW)


def test_early_data_leaves_a_moment_after_the_flight_when_libwebrtc_asks() -> None:
    rider = rider_with([F2], credit=10_000)
    rider.receive_attributes(LIBWEBRTC, FLOW, NOW)
    rider.allow_early_data(NOW)
    at = rider.get_timer()
    assert at == NOW + LIBWEBRTC_PAUSE_S
    assert not rider.take_early_data(NOW)
    assert rider.take_early_data(at)
    assert not rider.take_early_data(at)
    assert rider.get_timer() is None


def test_early_data_waits_for_whoever_has_answered_and_not_asked_yet() -> None:
    """libwebrtc's hello can come in the answer to our check before it has sent one of its own."""
    rider = DtlsRider(Piggyback(SpedConfig()))
    rider.receive_attributes(message(MessageClass.SUCCESS, ack=b""), FLOW, NOW)
    rider.allow_early_data(NOW)
    assert rider.get_timer() == NOW + LIBWEBRTC_PAUSE_S


def test_early_data_follows_a_bare_flight_at_once() -> None:
    rider = DtlsRider(Piggyback(SpedConfig()), enabled=False)
    rider.receive_attributes(LIBWEBRTC, FLOW, NOW)
    rider.allow_early_data(NOW)
    assert rider.take_early_data(NOW)


def test_the_copy_of_a_last_flight_is_not_decrypted_again() -> None:
    """It comes bare and in a check; what else comes twice is for DTLS to judge."""
    one, two = client(), server()
    rider = DtlsRider(Piggyback(SpedConfig()))
    rider.attach(two, NOW)
    one.start(NOW)
    (hello,) = one.datagrams_to_send(NOW)
    for _ in range(2):
        rider.receive_direct(hello, NOW)
    assert sum(two.discards.values()) == 1
    for datagram in rider.direct:
        one.receive_datagram(datagram, NOW)
    (flight,) = one.datagrams_to_send(NOW)
    for _ in range(3):
        rider.receive_direct(flight, NOW)
    assert two.outcome.completed
    assert sum(two.discards.values()) == 1
