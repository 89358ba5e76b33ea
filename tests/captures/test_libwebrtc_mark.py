"""By what libwebrtc is told from others before its handshake is over (warp.peer.rider)."""

from __future__ import annotations

import pytest

from tests.captures.pcap import CAPTURES, read_pcap
from warp.stun import Attribute, MessageClass, is_stun, parse_message

PEERS = sorted(path.stem for path in (CAPTURES / "peers").glob("*.pcap"))


@pytest.mark.parametrize("peer", PEERS)
def test_each_check_of_libwebrtc_has_network_info_and_nobody_elses(peer: str) -> None:
    messages = [
        parse_message(packet.payload)
        for packet in read_pcap(f"peers/{peer}.pcap")
        if is_stun(packet.payload)
    ]
    checks = [m for m in messages if m.message_class is MessageClass.REQUEST]
    marked = {check.get(Attribute.GOOG_NETWORK_INFO) is not None for check in checks}
    assert marked == {peer.startswith(("chromium", "libwebrtc"))}
