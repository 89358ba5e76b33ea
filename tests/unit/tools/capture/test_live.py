"""Live capture: a real loopback where that is allowed, and the clear word where it is not."""

from __future__ import annotations

import errno
import re
import socket
import threading
import time
from pathlib import Path

import pytest

from tests.captures.pcap import read_pcap
from warp_tools.capture import live
from warp_tools.capture.finder import Finder
from warp_tools.capture.live import LiveFrames, open_interface
from warp_tools.capture.live_view import live_lines
from warp_tools.capture.reader import Reader, open_capture
from warp_tools.capture.writer import writing
from warp_tools.failure import CommandRefused, ToolFailure


class Played:
    """Stands in for a packet socket: replays captured datagrams as IP packets."""

    def __init__(self, name: str) -> None:
        from tests.unit.tools.capture.builder import frames

        self._ready, self._told = socket.socketpair()
        self._frames = list(frames(read_pcap(name)))
        self._told.send(b"x" * len(self._frames))
        self.closed = False

    def fileno(self) -> int:
        return self._ready.fileno()

    def recv_raw(self) -> tuple[None, bytes, float]:
        self._ready.recv(1)
        packet = self._frames.pop(0)
        return None, packet.data, 1000.0 + packet.at_ns / 1e9

    def close(self) -> None:
        self._ready.close()
        self._told.close()
        self.closed = True


@pytest.fixture
def played(monkeypatch: pytest.MonkeyPatch) -> Played:
    stand_in = Played("stun/chromium156_warp_nopqc.pcap")
    monkeypatch.setattr(live, "open_interface", lambda name: stand_in)
    return stand_in


def test_lines_come_as_datagrams_do(played: Played, tmp_path: Path) -> None:
    out = tmp_path / "live.pcapng"
    with writing(out) as writer:
        frames = LiveFrames("lo", packets=101, writer=writer)
        finder = Finder()
        lines = list(live_lines(Reader(frames), finder))
        frames.close()
    assert played.closed
    assert lines[0] == "session 1: 127.0.0.1:58953 and 127.0.0.1:44849"
    assert "carries 216 bytes of DTLS: ClientHello" in lines[1]
    assert lines[1].split()[3] == ">" and lines[2].split()[3] == "<"
    named = {line.split()[1] for line in lines[1:]}
    referred = set(re.findall(r"(?:answers|acks) (#\d+)", "\n".join(lines)))
    assert referred and referred <= named
    finder.finish()
    assert finder.sessions[0].datagrams == 101
    with open_capture(out) as reader:
        assert sum(1 for _ in reader) == 101


def test_it_ends_in_time(played: Played) -> None:
    frames = LiveFrames("lo", seconds=0.2)
    began = time.monotonic()
    assert len(list(frames)) == 101
    assert time.monotonic() - began >= 0.2
    frames.close()


def test_a_loopback_is_captured_or_the_right_to_it_is_asked_for() -> None:
    try:
        frames = LiveFrames("lo", seconds=5.0)
    except ToolFailure as failure:
        assert "root" in str(failure) or "cap_net_raw" in str(failure)
        return
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender:
        sender.bind(("127.0.0.1", 0))
        port = sender.getsockname()[1]
        marked = [b"live capture %d" % n for n in range(5)]
        timer = threading.Timer(0.05, lambda: [sender.sendto(m, ("127.0.0.1", 9)) for m in marked])
        timer.start()
        seen = []
        for datagram in Reader(frames):
            if datagram.source == ("127.0.0.1", port):
                seen.append(datagram)
                if len(seen) == 5:
                    break
        timer.join()
    frames.close()
    assert [datagram.payload for datagram in seen] == marked  # each once
    assert abs(seen[0].time_ns / 1e9 - time.time()) < 10


def test_an_interface_that_is_not_there() -> None:
    with pytest.raises(ToolFailure, match=r"no-such-if|root"):
        open_interface("no-such-if")


def test_permission_is_explained(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(name: str) -> socket.socket:
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr(live, "_open_packet_socket", refuse)
    monkeypatch.setattr(live, "_open_scapy", refuse)
    with pytest.raises(ToolFailure, match="run it as root"):
        open_interface("lo")


def test_an_interface_that_is_down_is_named(played: Played) -> None:
    def down() -> None:
        raise OSError(errno.ENETDOWN, "Network is down")

    frames = LiveFrames("lo")
    whole, played.recv_raw = played.recv_raw, down
    with pytest.raises(CommandRefused, match="cannot capture on lo: Network is down"):
        next(iter(frames))
    played.recv_raw = whole
    seen = iter(frames)
    next(seen)
    played.recv_raw = down
    with pytest.raises(ToolFailure, match="cannot capture on lo") as caught:
        next(seen)
    assert not isinstance(caught.value, CommandRefused)
    frames.close()
