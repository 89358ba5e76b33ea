"""Six calls with SPED, packet by packet: what was noted beside each one holds.

The notes (lengths, attributes, CRCs, passwords) were made by another decoder than ours.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.captures.pcap import UdpPacket
from tests.captures.walk import Walk
from warp.crypto import HmacSha1
from warp.peer import Kind, classify
from warp.sped import datagram_hash, decode_acknowledgement
from warp.stun import BINDING, Attribute, MessageClass, parse_message

CALLS: list[dict[str, Any]] = json.loads(Path(__file__).with_name("sped_vectors.json").read_text())
PACKETS = [(call["capture"], packet) for call in CALLS for packet in call["packets"]]
CLASSES = {"REQ": MessageClass.REQUEST, "RSP": MessageClass.SUCCESS}


def named(value: Any) -> str:
    return str(value["n"]) if isinstance(value, dict) else str(value)


def test_all_of_them_are_here() -> None:
    assert (len(CALLS), len(PACKETS)) == (6, 52)


@pytest.mark.parametrize(("call", "packet"), PACKETS, ids=named)
def test_every_note_holds(call: str, packet: dict[str, Any]) -> None:
    data = bytes.fromhex(packet["hex"])
    assert len(data) == packet["len"]
    if packet["kind"] == "DTLS":
        assert classify(data) is Kind.DTLS
        assert f"{datagram_hash(data):08x}" == packet["crc"]
        return
    assert classify(data) is Kind.STUN
    message = parse_message(data)
    assert (message.method, message.message_class) == (BINDING, CLASSES[packet["kind"]])
    tail = ["0008/20", "8028/4"]  # MESSAGE-INTEGRITY and FINGERPRINT, which parsing checks
    assert [f"{k:04x}/{len(v)}" for k, v in message.attributes] + tail == packet["attrs"]
    assert message.verify_integrity(HmacSha1(packet["key"].encode())) is packet["mi_ok"] is True
    acknowledged = decode_acknowledgement(
        message.get(Attribute.META_DTLS_IN_STUN_ACKNOWLEDGEMENT) or b""
    )
    assert [f"{value:08x}" for value in acknowledged] == packet["ack"]
    carried = message.get(Attribute.META_DTLS_IN_STUN)
    assert (carried is not None) == ("data_crc" in packet)
    if carried is not None:
        assert len(carried) == packet["data_len"]
        assert f"{datagram_hash(carried):08x}" == packet["data_crc"]


@pytest.mark.parametrize("call", CALLS, ids=lambda call: call["capture"])
def test_every_call_fits_together(call: dict[str, Any]) -> None:
    """Passwords by ufrag, responses to their requests, CRCs of what was sent, whole hellos."""
    passwords = {call[f"{side}_ufrag"]: call[f"{side}_pwd"] for side in ("offer", "answer")}
    packets = [
        UdpPacket(
            packet["t_ms"] / 1000,
            ("127.0.0.1", packet["src"]),
            ("127.0.0.1", packet["dst"]),
            bytes.fromhex(packet["hex"]),
        )
        for packet in call["packets"]
    ]
    walk = Walk(packets, passwords)
    assert walk.faults == []
    assert walk.verified == walk.checks == sum("mi_ok" in packet for packet in call["packets"])
    assert walk.hashes == sum(len(packet.get("ack", ())) for packet in call["packets"])
    (leg,) = walk.legs.values()
    assert leg.version == 0xFEFC
    client, server = leg.client, leg.server
    assert (client.messages, server.messages) == ([1], [2])
    group, _ = server.server_hello.key_share()
    assert group in client.client_hello.key_shares()
    assert group == (0x11EC if "pqc" in call["capture"] else 0x001D)
