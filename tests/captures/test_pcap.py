from __future__ import annotations

import struct

from tests.captures.pcap import iter_pcap, read_keylog, read_pcap


def test_reads_raw_ip() -> None:
    packets = read_pcap("dtls/illustrated/capture.pcap")
    assert packets[0].payload[0] == 22
    assert packets[0].destination == ("127.0.0.1", 8400)
    assert packets[0].source == packets[1].destination


def test_reads_cooked_loopback_once() -> None:
    packets = read_pcap("dtls/bssl_basic.pcap")
    hellos = [p for p in packets if p.payload[:1] == b"\x16" and p.payload[13] == 1]
    assert len(hellos) == 1


def test_reads_key_log() -> None:
    (secrets,) = read_keylog("dtls/bssl_basic.keylog").values()
    assert "CLIENT_HANDSHAKE_TRAFFIC_SECRET" in secrets


def test_ethernet_ipv6_big_endian() -> None:
    udp = struct.pack("!HHHH", 5000, 6000, 8 + 3, 0) + b"abc"
    ip = b"\x60" + bytes(5) + b"\x11\x40" + bytes(15) + b"\x01" + bytes(15) + b"\x02" + udp
    frame = bytes(12) + b"\x86\xdd" + ip
    head = struct.pack(">IHHIIII", 0xA1B2C3D4, 2, 4, 0, 0, 65535, 1)
    record = struct.pack(">IIII", 10, 500000, len(frame), len(frame)) + frame
    (packet,) = iter_pcap(head + record)
    assert packet == (10.5, ("::1", 5000), ("::2", 6000), b"abc")
