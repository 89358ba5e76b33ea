"""A client with two addresses checks from both in turn and speaks from one, as libwebrtc does."""

from __future__ import annotations

import pytest

from tests.scenarios.start import Start, peer, signal
from tests.sim.pair import CLIENT, SERVER
from warp.contract import Datagram, Flow
from warp.peer import PeerConnection

OTHER = ("198.51.100.99", 40_000)
HERE, THERE = Flow(SERVER, CLIENT), Flow(SERVER, OTHER)
NOW = 100.0


def handed_over(server: PeerConnection, data: bytes, flow: Flow, now: float) -> list[Datagram]:
    """Give the server a datagram and return what it sends."""
    server.receive_datagram(data, flow, now)
    server.events()
    return server.datagrams_to_send(now)


def kinds(sent: list[Datagram]) -> list[tuple[bool, Flow]]:
    """Tell of each datagram whether it is DTLS, and where it goes."""
    return [(20 <= data[0] <= 63, flow) for data, flow in sent]


@pytest.mark.parametrize("checks_between", [1, 3])
def test_a_lite_server_answers_where_it_was_spoken_to(checks_between: int) -> None:
    start = Start(sped=False, lite=True)
    client, server = peer(start, "client"), peer(start, "server")
    client.add_local_address(CLIENT, NOW)
    server.add_local_address(SERVER, NOW)
    signal(client, server, NOW)
    [(check, _)] = client.datagrams_to_send(NOW)
    [(answer, _)] = handed_over(server, check, HERE, NOW + 0.05)
    client.receive_datagram(answer, Flow(CLIENT, SERVER), NOW + 0.1)
    spoken = [data for data, _ in client.datagrams_to_send(NOW + 0.1) if data[0] >= 20]
    assert spoken
    # checks from the other address come in between
    for _ in range(checks_between):
        assert kinds(handed_over(server, check, THERE, NOW + 0.12)) == [(False, THERE)]
    out = [item for data in spoken for item in handed_over(server, data, HERE, NOW + 0.15)]
    assert kinds(out)
    assert set(kinds(out)) == {(True, HERE)}
