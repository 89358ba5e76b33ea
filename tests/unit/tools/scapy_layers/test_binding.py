"""Ports are bound when asked, and only those; without scapy there is a clear word."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator

import pytest
from scapy.layers.inet import IP, UDP
from scapy.layers.rtp import RTP
from scapy.packet import Raw

import warp_tools.scapy_layers as door
from tests.unit.tools.scapy_layers.support import captured
from warp_tools.scapy_layers import DTLS, STUN, STUNFingerprint, bind, unbind


@pytest.fixture(autouse=True)
def _nothing_stays_bound() -> Iterator[None]:
    yield
    unbind()


def received(data: bytes, *, sport: int = 40_000, dport: int = 50_000) -> IP:
    return IP(bytes(IP(src="10.0.0.1", dst="10.0.0.2") / UDP(sport=sport, dport=dport) / data))


def test_nothing_is_bound_by_itself() -> None:
    data = captured()[0][0]
    for port in (3478, 5000, 50_000):
        assert isinstance(received(data, dport=port)[UDP].payload, Raw)


def test_a_bound_port_is_read_both_ways() -> None:
    stun, dtls = captured()
    bind(50_000)
    for ports in ({}, {"sport": 50_000, "dport": 40_000}):
        assert isinstance(received(stun[0], **ports)[UDP].payload, STUN)
        assert isinstance(received(dtls[0], **ports)[UDP].payload, DTLS)
        assert isinstance(received(b"\x80\x6f" + bytes(20), **ports)[UDP].payload, RTP)
        assert isinstance(received(b"\x80\xc8" + bytes(20), **ports)[UDP].payload, Raw)
        assert isinstance(received(b"anything", **ports)[UDP].payload, Raw)
    assert isinstance(received(stun[0], dport=50_001)[UDP].payload, Raw)


def test_bound_once_and_left_alone_again() -> None:
    data = captured()[0][0]
    bind(50_000, 50_002)
    bind(50_000)
    unbind(50_000)
    unbind(50_000)
    assert isinstance(received(data)[UDP].payload, Raw)
    assert isinstance(received(data, dport=50_002)[UDP].payload, STUN)


def test_a_whole_packet_from_nothing() -> None:
    bind(50_000)
    packet = IP(dst="10.0.0.2") / UDP(sport=1, dport=50_000) / STUN(attributes=[STUNFingerprint()])
    again = IP(bytes(packet))
    assert again[STUN].get_attribute(STUNFingerprint).value


def test_there_is_no_such_port() -> None:
    with pytest.raises(ValueError, match="no UDP port 70000"):
        bind(70_000)


def test_the_front_door_names_what_exists() -> None:
    assert all(hasattr(door, name) for name in door.__all__)
    assert len(set(door.__all__)) == len(door.__all__)


@pytest.mark.slow
def test_without_scapy_it_says_what_to_install() -> None:
    code = (
        "import sys; sys.modules['scapy'] = None\n"
        "try:\n    import warp_tools.scapy_layers\n"
        "except ImportError as error:\n    print(error)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert done.stdout.strip() == (
        "scapy is not installed: pip install 'warp-rtc[tools]' brings it along"
    )
