"""The tap: what is noted, what is lost, what is kept back, and where it ends."""

from __future__ import annotations

import asyncio
import socket

import pytest

from tests.interop.loops import run
from tests.unit.tools.probe.support import simulated
from warp.contract import Flow
from warp.errors import UsageError
from warp_tools.probe import wire as module
from warp_tools.probe.plan import EVERYTHING, LOST_OURS, LOST_THEIRS, Trial
from warp_tools.probe.wire import Wire, dtls_in, hello_in

HOST = "127.0.0.1"


class StubPeer:
    """Sends what it is told to, keeps what it gets."""

    def __init__(self) -> None:
        self.outgoing: list[tuple[bytes, Flow]] = []
        self.received: list[tuple[bytes, float]] = []
        self.addresses: list[tuple[str, int]] = []
        self.timer: float | None = None
        self.woken = 0

    def add_local_address(self, address: tuple[str, int], now: float) -> None:
        self.addresses.append(address)

    def receive_datagram(self, data: bytes, flow: Flow, now: float) -> None:
        self.received.append((data, now))

    def datagrams_to_send(self, now: float) -> list[tuple[bytes, Flow]]:
        out, self.outgoing = self.outgoing, []
        return out

    def get_timer(self) -> float | None:
        return self.timer

    def handle_timer(self, now: float) -> None:
        self.woken += 1
        self.timer = None


class Server:
    """A socket that answers every datagram with another."""

    def __init__(self) -> None:
        self.socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.socket.bind((HOST, 0))
        self.socket.setblocking(False)
        self.received: list[bytes] = []
        asyncio.get_running_loop().add_reader(self.socket, self._read)

    def _read(self) -> None:
        data, remote = self.socket.recvfrom(2048)
        self.received.append(data)
        self.socket.sendto(b"re: " + data, remote)

    def close(self) -> None:
        asyncio.get_running_loop().remove_reader(self.socket)
        self.socket.close()


async def exchange(trial: Trial, delay_s: float, *messages: bytes) -> tuple[Wire, StubPeer, Server]:
    """Send messages to a server that answers each; returns when the answers have come."""
    peer, server = StubPeer(), Server()
    wire = Wire(peer, trial, delay_s)
    try:
        wire.open(HOST, loopback=True)
        flow = Flow(peer.addresses[0], server.socket.getsockname())
        for message in messages:
            peer.outgoing.append((message, flow))
            wire.flush()
        expected = len(messages) - sum(note.lost for note in wire.notes)
        async with asyncio.timeout(5):
            while len([n for n in wire.notes if not n.sent]) < expected:
                await asyncio.sleep(0.001)
    finally:
        await wire.close()
        server.close()
    return wire, peer, server


def test_everything_is_noted() -> None:
    async def test() -> None:
        wire, peer, server = await exchange(EVERYTHING, 0.0, b"one", b"two")
        assert server.received == [b"one", b"two"]
        assert [data for data, _ in peer.received] == [b"re: one", b"re: two"]
        assert [(n.data, n.sent, n.lost) for n in sorted(wire.notes, key=lambda n: not n.sent)] == [
            (b"one", True, False),
            (b"two", True, False),
            (b"re: one", False, False),
            (b"re: two", False, False),
        ]

    run(test())


def test_a_delay_holds_for_each_way() -> None:
    async def test() -> None:
        wire, peer, _ = await exchange(EVERYTHING, 0.03, b"one")
        sent, received = wire.notes
        assert received.time - sent.time >= 0.06
        assert peer.received[0][1] == pytest.approx(received.time, abs=0.01)

    run(test())


def test_the_first_datagram_is_lost_once() -> None:
    async def test() -> None:
        wire, _, server = await exchange(LOST_OURS, 0.0, b"one", b"two", b"three")
        assert server.received == [b"two", b"three"]
        assert [note.data for note in wire.notes if note.lost] == [b"one"]

    run(test())


def test_the_servers_first_hello_is_lost_and_nothing_before_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(module, "hello_in", lambda data: b"two" in data)

    async def test() -> None:
        wire, peer, _ = await exchange(LOST_THEIRS, 0.0, b"one", b"two", b"two again")
        assert [data for data, _ in peer.received] == [b"re: one", b"re: two again"]
        assert [note.data for note in wire.notes if note.lost] == [b"re: two"]

    run(test())


def test_a_call_cannot_send_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_DATAGRAMS", 3)

    async def test() -> None:
        wire, _, server = await exchange(EVERYTHING, 0.0, b"1", b"2", b"3")
        assert wire.spent
        peer = wire._peer
        peer.outgoing.append((b"4", Flow(peer.addresses[0], (HOST, 9))))
        wire.flush()
        assert [note.data for note in wire.notes if note.sent] == [b"1", b"2", b"3"]
        assert server.received == [b"1", b"2", b"3"]

    run(test())


def test_timers_wake_the_connection() -> None:
    async def test() -> None:
        peer = StubPeer()
        wire = Wire(peer, EVERYTHING, 0.0)
        peer.timer = asyncio.get_running_loop().time() + 0.01
        wire.flush()
        async with asyncio.timeout(2):
            while not peer.woken:
                await asyncio.sleep(0.001)
        peer.timer = asyncio.get_running_loop().time() + 10
        wire.flush()
        await wire.close()
        await wire.close()
        assert peer.woken == 1

    run(test())


def test_a_host_that_is_not_ours() -> None:
    async def test() -> None:
        wire = Wire(StubPeer(), EVERYTHING, 0.0)
        with pytest.raises(UsageError, match="cannot bind"):
            wire.open("192.0.2.1", loopback=False)
        await wire.close()

    run(test())


def test_hellos_are_found_wherever_they_ride() -> None:
    notes = simulated(EVERYTHING, hold_s=0.3).notes
    theirs = [note.data for note in notes if not note.sent]
    riding = [data for data in theirs if data[0] < 4 and hello_in(data)]
    assert riding
    assert dtls_in(riding[0])[13] == 2
    assert not hello_in(b"")
    assert dtls_in(b"\x00\x01" + bytes(30)) == b""
