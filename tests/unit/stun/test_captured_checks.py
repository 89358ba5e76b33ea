"""Checks between two Chromium: every one verifies with its description's password."""

from __future__ import annotations

import hmac
import re

import pytest

from tests.captures.pcap import CAPTURES, read_pcap
from warp.stun import (
    Attribute,
    MessageClass,
    build_message,
    decode_xor_address,
    is_stun,
    parse_message,
    split_username,
)


class Key:
    def __init__(self, password: str) -> None:
        self._key = password.encode()

    def digest(self, *parts: bytes) -> bytes:
        return hmac.digest(self._key, b"".join(parts), "sha1")


def passwords(name: str) -> dict[str, str]:
    """Each description's ufrag with its password."""
    found = {}
    for side in ("offer", "answer"):
        text = (CAPTURES / "sdp" / f"chromium156_{name}_{side}.sdp").read_text()
        ufrag = re.search(r"a=ice-ufrag:(\S+)", text)
        password = re.search(r"a=ice-pwd:(\S+)", text)
        if ufrag and password:
            found[ufrag[1]] = password[1]
    return found


@pytest.mark.parametrize(("name", "riders"), [("default", 0), ("warp", 2), ("warp_nopqc", 4)])
def test_every_check_verifies_and_rebuilds(name: str, riders: int) -> None:
    by_ufrag = passwords(name)
    requests: dict[bytes, tuple[Key, tuple[str, int]]] = {}
    seen = carried = 0
    for packet in read_pcap(f"stun/chromium156_{name}.pcap"):
        if not is_stun(packet.payload):
            continue
        message = parse_message(packet.payload)
        if message.message_class is MessageClass.REQUEST:
            names = split_username(message.get(Attribute.USERNAME) or b"")
            assert names is not None
            requests[message.transaction_id] = (Key(by_ufrag[names[0]]), packet.source)
        key, source = requests[message.transaction_id]
        assert message.verify_integrity(key)
        mapped = message.get(Attribute.XOR_MAPPED_ADDRESS)
        if mapped is not None:
            assert decode_xor_address(mapped, message.transaction_id) == source
        rebuilt = build_message(
            message.method,
            message.message_class,
            message.transaction_id,
            message.attributes,
            integrity_key=key,
        )
        assert rebuilt == packet.payload
        carried += message.get(Attribute.META_DTLS_IN_STUN) is not None
        seen += 1
    assert (seen, carried) == (12, riders)
