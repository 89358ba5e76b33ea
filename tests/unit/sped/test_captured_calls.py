"""The machine in the place of each Chromium of a captured call must write the very same packets."""

from __future__ import annotations

import hmac

import pytest

from tests.vectors.sped import CapturedPacket, captured_packets
from warp.sped import Evidence, Piggyback, PiggybackState, SpedConfig
from warp.stun import Attribute, MessageClass, build_message, parse_message

DATA = int(Attribute.META_DTLS_IN_STUN)
ACK = int(Attribute.META_DTLS_IN_STUN_ACKNOWLEDGEMENT)


class Key:
    def __init__(self, key: bytes) -> None:
        self._key = key

    def digest(self, *parts: bytes) -> bytes:
        return hmac.digest(self._key, b"".join(parts), "sha1")


def call(name: str) -> list[CapturedPacket]:
    return [packet for packet in captured_packets() if packet.capture == name]


def rebuild(sped: Piggyback, packet: CapturedPacket) -> bytes:
    """What we would have sent, with the packet's own ICE attributes."""
    seen = parse_message(packet.raw)
    own = [(kind, value) for kind, value in seen.attributes if kind not in (ACK, DATA)]
    riders = sped.attributes_to_send(seen.message_class, seen.transaction_id, 1060)
    return build_message(
        seen.method, seen.message_class, seen.transaction_id, own + riders,
        integrity_key=Key(packet.key),
    )  # fmt: skip


def test_server_answers_the_first_check_with_its_flight() -> None:
    """Call c, lite-like order: ClientHello in #2, acknowledgement and flight in #4."""
    packets = {packet.number: packet for packet in call("c_on_passive_lite_cls_snap")}
    server = Piggyback(SpedConfig())
    assert rebuild(server, packets[1]) == packets[1].raw
    hello = server.receive_message(parse_message(packets[2].raw), 0.0)
    assert [len(datagram) for datagram in hello] == [216]
    server.capture_flight([packets[5].raw], new_flight=True)
    assert rebuild(server, packets[4]) == packets[4].raw
    server.receive_direct(packets[6].raw)
    server.handle_handshake_complete(False, 0xFEFC, 0.0)
    assert server.pending == ()


def test_client_sends_its_hello_in_check_and_response() -> None:
    packets = {packet.number: packet for packet in call("c_on_passive_lite_cls_snap")}
    client = Piggyback(SpedConfig())
    hello = parse_message(packets[2].raw).get(DATA)
    assert hello is not None
    client.capture_flight([hello], new_flight=True)
    client.receive_message(parse_message(packets[1].raw), 0.0)
    assert client.state is PiggybackState.CONFIRMED
    assert rebuild(client, packets[2]) == packets[2].raw
    assert rebuild(client, packets[3]) == packets[3].raw
    flight = client.receive_message(parse_message(packets[4].raw), 0.0)
    assert flight == [packets[5].raw]
    assert client.pending == ()
    client.capture_flight([packets[6].raw], new_flight=True)
    client.handle_handshake_complete(True, 0xFEFC, 0.0)
    client.handle_peer_data(Evidence.DTLS_ACKNOWLEDGEMENT, 0.0)
    assert client.state is PiggybackState.COMPLETE


def test_hello_of_two_datagrams_rides_in_response_and_request() -> None:
    """Call b, post-quantum: part 1 in the response #2, part 2 in the client's own request #3."""
    packets = {packet.number: packet for packet in call("b_on_passive_pqc")}
    parts = [parse_message(packets[n].raw).get(DATA) for n in (2, 3)]
    assert parts[0] is not None and parts[1] is not None
    client = Piggyback(SpedConfig())
    client.capture_flight([parts[0], parts[1]], new_flight=True)
    client.receive_message(parse_message(packets[1].raw), 0.0)
    assert rebuild(client, packets[2]) == packets[2].raw
    assert rebuild(client, packets[3]) == packets[3].raw

    server = Piggyback(SpedConfig())
    assert rebuild(server, packets[1]) == packets[1].raw
    assert server.receive_message(parse_message(packets[2].raw), 0.0) == [parts[0]]
    assert server.receive_message(parse_message(packets[3].raw), 0.0) == [parts[1]]
    server.capture_flight([packets[5].raw, packets[6].raw], new_flight=True)
    assert rebuild(server, packets[4]) == packets[4].raw


def test_server_that_is_dtls_client() -> None:
    """Call c with setup active: both directions in four STUN messages."""
    packets = {packet.number: packet for packet in call("c_on_active_cls_snap")}
    server = Piggyback(SpedConfig())
    hello = parse_message(packets[1].raw).get(DATA)
    assert hello is not None
    server.capture_flight([hello], new_flight=True)
    assert rebuild(server, packets[1]) == packets[1].raw
    browser = Piggyback(SpedConfig())
    assert browser.receive_message(parse_message(packets[1].raw), 0.0) == [hello]
    flight = parse_message(packets[2].raw).get(DATA)
    assert flight is not None
    browser.capture_flight([flight], new_flight=True)
    assert rebuild(browser, packets[2]) == packets[2].raw
    assert rebuild(browser, packets[3]) == packets[3].raw
    assert server.receive_message(parse_message(packets[2].raw), 0.0) == [flight]
    assert server.receive_message(parse_message(packets[3].raw), 0.0) == [flight]
    server.capture_flight([packets[5].raw], new_flight=True)
    server.handle_handshake_complete(True, 0xFEFC, 0.0)
    assert rebuild(server, packets[4]) == packets[4].raw


@pytest.mark.parametrize("name", sorted({packet.capture for packet in captured_packets()}))
def test_every_captured_message_is_taken_without_a_discard(name: str) -> None:
    sources = {packet.source for packet in call(name)}
    sides = {source: Piggyback(SpedConfig()) for source in sources}
    for packet in call(name):
        for source, side in sides.items():
            if source == packet.source:
                continue
            if packet.kind == "DTLS":
                side.receive_direct(packet.raw)
                continue
            message = parse_message(packet.raw)
            data = message.get(DATA)
            assert side.receive_message(message, packet.time_s) == ([data] if data else [])
            assert side.state is PiggybackState.CONFIRMED
    assert all(side.discards == {} for side in sides.values())


def test_an_offerer_without_an_answer_acknowledges_only() -> None:
    """Call e, late answer: requests and responses with an empty acknowledgement, then the rest."""
    for packet in call("e_late_passive_cls")[:6]:
        message = parse_message(packet.raw)
        assert message.get(ACK) == b"" and message.get(DATA) is None
        assert message.message_class in (MessageClass.REQUEST, MessageClass.SUCCESS)
