"""When a connection that is told to be like BoringSSL acknowledges and resends: by timers alone."""

from __future__ import annotations

import pytest

from tests.unit.dtls.ends import (
    RETRY,
    THIRTEEN,
    carry,
    client,
    message,
    plain,
    seal,
    server,
)
from warp.dtls import DtlsConnection, DtlsState
from warp.dtls.acks import decode_ack, encode_ack
from warp.dtls.messages import HandshakeType as Kind
from warp.dtls.records import ACK, HANDSHAKE

LIKE = {**THIRTEEN, "boringssl_timing": True}
HALF = 20  # of a message that is longer


def opened(datagrams: list[bytes], reader: DtlsConnection) -> list[tuple[int, bytes]]:
    """Type and content of each record, plaintext ones too."""
    return [
        (record.content_type, record.content)
        for datagram in datagrams
        for record in reader._handshake.intake.receive(datagram, 0.0)
    ]


def pair(**config) -> tuple[DtlsConnection, DtlsConnection]:
    one, two = client(**LIKE, **config), server(**LIKE, **config)
    one.start(0.0)
    carry(one, two)
    return one, two


def test_what_an_ack_shows_missing_waits_for_the_timer_and_the_timer_goes_on():
    one, two = pair(mtu=300)
    carry(two, one)
    two.handle_timer(two.get_timer())
    assert two.get_timer() == pytest.approx(0.4 + 0.8)
    two.datagrams_to_send(0.4)
    two.receive_datagram(seal(one, ACK, encode_ack([(2, 0)]), 2), 0.5)
    assert two.datagrams_to_send(0.5) == []
    assert two.get_timer() == pytest.approx(1.2)
    two.handle_timer(two.get_timer())
    assert two.datagrams_to_send(1.2)


def test_a_long_flight_leaves_at_once():
    _, two = pair(mtu=256, dense_flights=True)
    assert two._handshake.flight._backlog == []


def test_a_repeated_hello_is_not_answered_before_the_timer():
    one, two = pair()
    two.datagrams_to_send(0.0)
    one.handle_timer(0.4)
    two.receive_datagram(one.datagrams_to_send(0.4)[0], 0.39)
    assert two.datagrams_to_send(0.39) == []
    two.handle_timer(two.get_timer())
    assert two.datagrams_to_send(0.4)


def test_a_retry_request_is_repeated_by_timer():
    one, two = client(**LIKE | RETRY["client"]), server(**LIKE | RETRY["server"])
    one.start(0.0)
    carry(one, two)
    (request,) = two.datagrams_to_send(0.0)
    two.handle_timer(two.get_timer())
    (again,) = two.datagrams_to_send(0.4)
    assert request[13:] == again[13:]


def test_a_part_of_a_second_hello_is_acknowledged_in_plaintext_and_stops_the_timer():
    one, two = client(**LIKE | RETRY["client"]), server(**LIKE | RETRY["server"])
    one.start(0.0)
    carry(one, two)
    carry(two, one)
    (hello,) = one.datagrams_to_send(0.0)
    body = hello[25:]
    parts = [body[:HALF], body[HALF:]]
    crumbs = [
        plain(HANDSHAKE, message(Kind.CLIENT_HELLO, 1, part, at, len(body)), 7 + at)
        for part, at in zip(parts, (0, HALF), strict=True)
    ]
    two.receive_datagram(crumbs[0], 0.0)
    assert two.get_timer() == pytest.approx(0.1)  # a quarter of the timeout
    two.handle_timer(0.1)
    ((kind, content),) = opened(two.datagrams_to_send(0.1), one)
    assert (kind, decode_ack(content)) == (ACK, [(0, 7)])
    two.receive_datagram(crumbs[1], 0.2)
    assert two.version is not None
    assert two.datagrams_to_send(0.2)


def test_the_last_flight_is_acknowledged_at_once_but_later_messages_are_not():
    one, two = pair()
    carry(two, one)
    carry(one, two)
    assert two.state is DtlsState.CONNECTED
    ((kind, content),) = opened(two.datagrams_to_send(0.0), one)
    assert (kind, decode_ack(content)) == (ACK, [(2, 0)])
    two.receive_datagram(seal(one, HANDSHAKE, message(Kind.KEY_UPDATE, 4, b"\0")), 1.0)
    assert two.datagrams_to_send(1.0) == []
    assert two.get_timer() == pytest.approx(1.1)
    two.handle_timer(1.1)
    ((_, content),) = opened(two.datagrams_to_send(1.1), one)
    assert decode_ack(content) == [(2, 0), (3, 0)]
