"""TURN is looked through: indications, channels, and sessions that go through a relay."""

from __future__ import annotations

from io import BytesIO

import pytest

from tests.captures.pcap import read_pcap
from tests.unit.tools.capture.builder import Packet, ethernet, ip_udp, pcap
from warp.stun import Attribute, MessageClass, build_message, encode_xor_address
from warp_tools.capture.explain import explanation
from warp_tools.capture.facts import measure
from warp_tools.capture.finder import Finder
from warp_tools.capture.reader import Datagram, Reader
from warp_tools.capture.relayed import CHANNEL_BIND, DATA, SEND, Relays

CLIENT, TURN, PEER = ("192.0.2.1", 4000), ("198.51.100.1", 3478), ("203.0.113.9", 5000)


def datagram(source, destination, payload: bytes) -> Datagram:
    return Datagram(1, 0, source, destination, payload, len(payload), "udp", 0, 64)


def message(method: int, kind: MessageClass, *attributes: tuple[int, bytes]) -> bytes:
    return build_message(method, kind, b"t" * 12, attributes, integrity_key=None)


PEER_ADDRESS = (Attribute.XOR_PEER_ADDRESS, encode_xor_address(PEER, b"t" * 12))
BIND = message(
    CHANNEL_BIND, MessageClass.REQUEST, PEER_ADDRESS, (Attribute.CHANNEL_NUMBER, b"\x40\x01\0\0")
)


def channel_data(payload: bytes, number: int = 0x4001) -> bytes:
    return number.to_bytes(2, "big") + len(payload).to_bytes(2, "big") + payload


def test_indications() -> None:
    relays = Relays()
    sent = message(SEND, MessageClass.INDICATION, PEER_ADDRESS, (Attribute.DATA, b"hello"))
    inner = relays.unwrap(datagram(CLIENT, TURN, sent))
    assert (inner.source, inner.destination, inner.payload) == (CLIENT, PEER, b"hello")
    assert (inner.length, inner.transport) == (5, "turn")
    came = message(DATA, MessageClass.INDICATION, PEER_ADDRESS, (Attribute.DATA, b"back"))
    inner = relays.unwrap(datagram(TURN, CLIENT, came))
    assert (inner.source, inner.destination, inner.payload) == (PEER, CLIENT, b"back")


def test_channels_once_they_are_bound() -> None:
    relays = Relays()
    assert relays.unwrap(datagram(CLIENT, TURN, channel_data(b"hello"))) is None
    assert relays.unwrap(datagram(CLIENT, TURN, BIND)) is None
    inner = relays.unwrap(datagram(CLIENT, TURN, channel_data(b"hello") + b"\0"))
    assert (inner.source, inner.destination, inner.payload) == (CLIENT, PEER, b"hello")
    inner = relays.unwrap(datagram(TURN, CLIENT, channel_data(b"back")))
    assert (inner.source, inner.destination) == (PEER, CLIENT)
    assert relays.unwrap(datagram(CLIENT, TURN, channel_data(b"x", 0x4002))) is None
    assert relays.carriers == {(CLIENT, TURN), (TURN, CLIENT)}


@pytest.mark.parametrize(
    "payload",
    [
        b"",
        b"\x40",
        channel_data(b""),
        message(SEND, MessageClass.INDICATION, PEER_ADDRESS),
        message(SEND, MessageClass.INDICATION, (Attribute.XOR_PEER_ADDRESS, b"bad")),
        message(SEND, MessageClass.REQUEST, PEER_ADDRESS, (Attribute.DATA, b"x")),
        message(CHANNEL_BIND, MessageClass.REQUEST, PEER_ADDRESS),
        message(4, MessageClass.INDICATION, PEER_ADDRESS, (Attribute.DATA, b"x")),
        BIND[:-4],
    ],
)
def test_nothing_to_unwrap(payload: bytes) -> None:
    assert Relays().unwrap(datagram(CLIENT, TURN, payload)) is None


def test_a_call_through_a_relay_is_explained_like_a_direct_one() -> None:
    """Every datagram of one side goes in a channel: the same session, seen at the client."""
    packets = read_pcap("stun/chromium156_warp.pcap")
    first = packets[0].source
    wrapped = [Packet(0, ethernet(ip_udp(CLIENT, TURN, BIND)))]
    for packet in packets:
        ends = (CLIENT, TURN) if packet.source == first else (TURN, CLIENT)
        at = round((packet.time - packets[0].time) * 1e9) + 1
        wrapped.append(Packet(at, ethernet(ip_udp(*ends, channel_data(packet.payload)))))
    finder = Finder()
    for found in Reader(BytesIO(pcap(wrapped, ns=True))):
        finder.receive(found)
    finder.finish()
    (session,) = finder.sessions
    told = explanation(measure(session))
    assert told["parties"]["B"]["addresses"] == ["192.0.2.1:4000"]
    assert told["parties"]["A"]["addresses"] == ["203.0.113.9:5000"]
    assert (told["dtls_version"], told["snap"], told["sped"]["used"]) == ("1.3", True, True)
    assert [finding["id"] for finding in told["findings"]] == [
        "clienthello-split-pq",
        "answer-active",
    ]
