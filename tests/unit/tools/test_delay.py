from __future__ import annotations

import socket
import time
from collections.abc import Iterator

import pytest

from warp_tools.delay import DelayPath, PathConfig, lead_through


@pytest.fixture
def server() -> Iterator[socket.socket]:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        sock.bind(("127.0.0.1", 0))
        sock.settimeout(5)
        yield sock


@pytest.fixture
def client() -> Iterator[socket.socket]:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        sock.bind(("127.0.0.1", 0))
        sock.settimeout(5)
        yield sock


def test_a_round_trip_lasts_twice_the_delay(server: socket.socket, client: socket.socket) -> None:
    with DelayPath(server.getsockname(), PathConfig(delay_s=0.03)) as path:
        began = time.monotonic()
        client.sendto(b"\x80\x6f" + bytes(18), path.server_side)
        data, seen = server.recvfrom(100)
        assert seen == path.client_side
        server.sendto(data, seen)
        assert client.recvfrom(100) == (data, path.server_side)
        lasted = time.monotonic() - began
    # never shorter; how much longer is the machine's affair
    assert lasted >= 0.06
    assert [(r.from_client, r.size, r.description.kind, r.lost) for r in path.ladder] == [
        (True, 20, "rtp", False),
        (False, 20, "rtp", False),
    ]
    assert path.ladder[1].time - path.ladder[0].time >= 0.03


def test_order_is_kept(server: socket.socket, client: socket.socket) -> None:
    with DelayPath(server.getsockname(), PathConfig(delay_s=0.01)) as path:
        for i in range(100):
            client.sendto(bytes([i]), path.server_side)
        assert [server.recv(10)[0] for _ in range(100)] == list(range(100))


def test_what_is_lost_is_counted_and_repeatable(
    server: socket.socket, client: socket.socket
) -> None:
    patterns = []
    for _ in range(2):
        with DelayPath(server.getsockname(), PathConfig(delay_s=0.0, loss=0.3, seed=5)) as path:
            for i in range(1, 101):
                client.sendto(bytes([i]), path.server_side)
            client.sendto(b"\xff", path.server_side)
            arrived = []
            server.settimeout(0.2)
            while len(path.ladder) < 101 or len(arrived) < sum(not r.lost for r in path.ladder):
                arrived.append(server.recv(10)[0])
            patterns.append([r.lost for r in path.ladder])
    assert patterns[0] == patterns[1]
    assert 15 < sum(patterns[0]) < 45


def test_a_server_may_speak_first(server: socket.socket, client: socket.socket) -> None:
    with DelayPath(server.getsockname(), PathConfig(delay_s=0.0)) as path:
        server.sendto(b"early", path.client_side)
        while not path.ladder:
            pass
        assert path.ladder[0].lost
        client.sendto(b"hello", path.server_side)
        assert server.recv(10) == b"hello"
        server.sendto(b"again", path.client_side)
        assert client.recv(10) == b"again"


def test_closing_twice_is_harmless(server: socket.socket) -> None:
    path = DelayPath(server.getsockname())
    path.close()
    path.close()


def test_candidates_are_led_through_the_path() -> None:
    sdp = "\r\n".join(
        [
            "v=0",
            "a=candidate:1 1 udp 2130706431 10.0.0.1 4000 typ host generation 0",
            "a=candidate:2 1 tcp 1518280447 10.0.0.1 9 typ host tcptype active",
            "a=candidate:3 1 UDP 1694498815 1.2.3.4 4000 typ srflx raddr 10.0.0.1 rport 4000",
            "a=mid:0",
            "",
        ]
    )
    assert lead_through(sdp, ("127.0.0.1", 5555)).split("\r\n") == [
        "v=0",
        "a=candidate:1 1 udp 2130706431 127.0.0.1 5555 typ host",
        "a=mid:0",
        "",
    ]
