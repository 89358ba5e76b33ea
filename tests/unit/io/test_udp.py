from __future__ import annotations

import errno
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from tests.unit.io.support import HOST, FakeLoop, FakeSocket
from warp.errors import UsageError
from warp.io.udp import (
    BACKLOG_DATAGRAMS,
    READ_BATCH,
    AddressInUse,
    UdpSocket,
    bind_udp,
    connect_udp,
)

PEER = ("192.0.2.9", 5000)
OTHER = ("192.0.2.10", 5000)


class Bench:
    """A socket of ours on a fake one."""

    def __init__(self) -> None:
        self.raw = FakeSocket()
        self.loop = FakeLoop()
        self.received: list[tuple[bytes, Any]] = []
        self.batches = 0
        raw: Any = self.raw
        loop: Any = self.loop
        self.sock = UdpSocket(raw, self.receive, self.done, loop)

    def receive(self, data: bytes, address: Any) -> None:
        self.received.append((data, address))

    def done(self) -> None:
        self.batches += 1

    def readable(self) -> None:
        self.loop.readers[self.raw.number]()

    def writable(self) -> None:
        self.loop.writers[self.raw.number]()

    @property
    def sent(self) -> list[bytes]:
        return [data for data, _ in self.raw.sent]


# -- reading ---------------------------------------------------------------------------------


def test_one_wake_up_drains_the_socket_and_ends_the_batch_once() -> None:
    bench = Bench()
    bench.raw.arrived = [(bytes([n]), PEER) for n in range(5)]
    bench.readable()
    assert [data for data, _ in bench.received] == [bytes([n]) for n in range(5)]
    assert bench.batches == 1


def test_a_flood_does_not_starve_the_loop() -> None:
    bench = Bench()
    bench.raw.arrived = [(b"x", PEER) for _ in range(READ_BATCH + 10)]
    bench.readable()
    assert len(bench.received) == READ_BATCH
    bench.readable()
    assert len(bench.received) == READ_BATCH + 10
    assert bench.batches == 2


def test_what_came_alone_is_not_looked_for_twice_and_a_run_is_read_ever_faster() -> None:
    bench = Bench()
    bench.raw.arrived = [(b"x", PEER)]
    bench.readable()  # finds one, and then nothing
    bench.raw.arrived = [(b"x", PEER) for _ in range(8)]
    for expected in (2, 4, 8, 9):
        bench.readable()
        assert len(bench.received) == expected


@pytest.mark.parametrize("number", [errno.ECONNREFUSED, errno.EHOSTUNREACH, errno.ENETUNREACH])
def test_icmp_errors_of_earlier_sends_are_passed_over(number: int) -> None:
    bench = Bench()
    bench.raw.arrived = [(b"a", PEER), OSError(number, "icmp"), (b"b", PEER)]
    bench.readable()
    bench.readable()
    assert [data for data, _ in bench.received] == [b"a", b"b"]


def test_other_errors_are_not_hidden() -> None:
    bench = Bench()
    bench.raw.arrived = [OSError(errno.ENOMEM, "no memory")]
    with pytest.raises(OSError, match="no memory"):
        bench.readable()
    assert bench.batches == 1


def test_a_datagram_may_close_the_socket() -> None:
    class Hanging(Bench):
        def receive(self, data: bytes, address: Any) -> None:
            self.sock.close()

    bench = Hanging()
    bench.raw.arrived = [(b"bye", PEER), OSError(errno.EBADF, "closed")]
    bench.readable()
    assert bench.loop.readers == {}
    assert bench.batches == 1


# -- writing ---------------------------------------------------------------------------------


def test_a_full_buffer_makes_datagrams_wait_in_order() -> None:
    bench = Bench()
    bench.raw.errors = [None, BlockingIOError()]
    for data in (b"1", b"2", b"3"):
        bench.sock.send(data, PEER)
    assert bench.sent == [b"1"]
    bench.writable()
    assert bench.sent == [b"1", b"2", b"3"]
    assert bench.loop.writers == {}
    bench.sock.send(b"4", PEER)
    assert bench.sent[-1] == b"4"
    assert bench.sock.dropped == 0


def test_a_buffer_that_fills_again_keeps_the_rest_waiting() -> None:
    bench = Bench()
    bench.raw.errors = [BlockingIOError(), None, BlockingIOError()]
    for data in (b"1", b"2", b"3"):
        bench.sock.send(data, PEER)
    bench.writable()
    assert bench.sent == [b"1"]
    assert bench.raw.number in bench.loop.writers
    bench.writable()
    assert bench.sent == [b"1", b"2", b"3"]


def test_what_waits_is_bounded() -> None:
    bench = Bench()
    bench.raw.errors = [BlockingIOError()]
    for _ in range(BACKLOG_DATAGRAMS + 5):
        bench.sock.send(b"x", PEER)
    assert bench.sock.dropped == 5
    bench.writable()
    assert len(bench.sent) == BACKLOG_DATAGRAMS


def test_an_unreachable_address_costs_one_datagram() -> None:
    bench = Bench()
    bench.raw.errors = [OSError(errno.ENETUNREACH, "no route")]
    bench.sock.send(b"1", PEER)
    bench.sock.send(b"2", OTHER)
    assert bench.sent == [b"2"]
    assert bench.sock.dropped == 1


def test_an_error_in_the_backlog_does_not_stop_it() -> None:
    bench = Bench()
    bench.raw.errors = [BlockingIOError(), OSError(errno.EPERM, "filtered")]
    bench.sock.send(b"1", PEER)
    bench.sock.send(b"2", PEER)
    bench.writable()
    assert bench.sent == [b"2"]
    assert bench.sock.dropped == 1


# -- runs (UDP_SEGMENT) ------------------------------------------------------------------------


def test_a_run_of_equal_sizes_is_one_call_with_a_shorter_last_segment() -> None:
    bench = Bench()
    run = [bytes([n]) * 100 for n in range(6)] + [b"tail"]
    bench.sock.send_run(run, PEER)
    assert bench.raw.runs == [(run, 100)]
    assert bench.sent == []


def test_runs_are_cut_where_the_size_grows() -> None:
    bench = Bench()
    small, large = [b"s" * 50] * 4, [b"l" * 90] * 5
    bench.sock.send_run(small + large, PEER)
    assert bench.raw.runs == [(small, 50), (large, 90)]


def test_few_datagrams_are_sent_one_by_one() -> None:
    bench = Bench()
    bench.sock.send_run([b"aa", b"aa", b"b", b"cccc"], PEER)
    assert bench.raw.runs == []
    assert bench.sent == [b"aa", b"aa", b"b", b"cccc"]


def test_a_run_respects_the_limits_of_the_kernel() -> None:
    bench = Bench()
    run = [bytes(1200)] * 130
    bench.sock.send_run(run, PEER)
    assert [data for sent, _ in bench.raw.runs for data in sent] + bench.sent == run
    assert all(len(sent) * size <= 65_000 and len(sent) <= 64 for sent, size in bench.raw.runs)


def test_without_offload_everything_still_leaves_and_it_is_not_tried_again() -> None:
    bench = Bench()
    bench.raw.errors = [OSError(errno.EINVAL, "no offload")]
    run = [bytes([n]) * 100 for n in range(6)]
    bench.sock.send_run(run, PEER)
    bench.sock.send_run(run, PEER)
    assert bench.raw.runs == []
    assert bench.sent == run + run


def test_a_run_waits_as_a_whole_when_the_buffer_is_full() -> None:
    bench = Bench()
    bench.raw.errors = [BlockingIOError()]
    run = [bytes([n]) * 100 for n in range(6)]
    bench.sock.send_run(run, PEER)
    bench.sock.send(b"after", PEER)
    assert bench.sent == []
    bench.writable()
    assert bench.sent == [*run, b"after"]


def test_a_run_behind_a_backlog_keeps_its_place() -> None:
    bench = Bench()
    bench.raw.errors = [BlockingIOError()]
    bench.sock.send(b"first", PEER)
    run = [bytes([n]) * 100 for n in range(6)]
    bench.sock.send_run(run, PEER)
    assert bench.raw.runs == []
    bench.writable()
    assert bench.sent == [b"first", *run]


def test_closing_is_harmless_when_repeated() -> None:
    bench = Bench()
    bench.sock.close()
    bench.sock.close()
    assert bench.loop.readers == {} and bench.loop.writers == {}


# -- the kernel --------------------------------------------------------------------------------


@contextmanager
def bound(host: str = HOST, port: int = 0, **options: bool) -> Iterator[socket.socket]:
    with bind_udp(host, port, **options) as sock:
        yield sock


def test_a_run_arrives_as_single_datagrams() -> None:
    loop: Any = FakeLoop()
    with bound() as ours, bound() as peer:
        sock = UdpSocket(ours, lambda data, address: None, lambda: None, loop)
        run = [bytes([n]) * 200 for n in range(20)] + [b"tail"]
        sock.send_run(run, peer.getsockname())
        peer.settimeout(5)
        got = [peer.recvfrom(2048) for _ in run]
        assert [data for data, _ in got] == run
        assert {address for _, address in got} == {sock.local}


def test_a_taken_port_is_said_plainly() -> None:
    with bound() as sock:
        port = sock.getsockname()[1]
        with pytest.raises(AddressInUse, match=f"{port} on {HOST} is in use"):
            bind_udp(HOST, port)


def test_an_address_that_is_not_ours_is_said_plainly() -> None:
    with pytest.raises(UsageError, match=r"cannot bind UDP 203\.0\.113\.200") as caught:
        bind_udp("203.0.113.200", 0)
    assert not isinstance(caught.value, AddressInUse)


@pytest.mark.parametrize("port", [-1, 65536])
def test_a_port_that_does_not_exist_is_said_plainly(port: int) -> None:
    with pytest.raises(UsageError, match="0 to 65535"):
        bind_udp(HOST, port)


def test_two_workers_may_share_a_port() -> None:
    with bound(reuse_port=True) as one:
        port = one.getsockname()[1]
        with bound(port=port, reuse_port=True) as two:
            assert two.getsockname()[1] == port


def test_sockets_do_not_block() -> None:
    with bound() as sock, pytest.raises(BlockingIOError):
        sock.recvfrom(10)


def test_a_connected_socket_gets_its_peers_datagrams_and_no_others() -> None:
    with bound(reuse_port=True) as shared, bound() as peer, bound() as other:
        own = connect_udp(shared.getsockname(), peer.getsockname())
        try:
            for sender in (peer, other):
                sender.sendto(str(sender.getsockname()[1]).encode(), shared.getsockname())
            assert own.recv(100) == str(peer.getsockname()[1]).encode()
            assert shared.recv(100) == str(other.getsockname()[1]).encode()
        finally:
            own.close()


def test_a_peer_that_cannot_be_is_refused() -> None:
    with bound(reuse_port=True) as shared, pytest.raises(UsageError, match="no way to a peer"):
        connect_udp(shared.getsockname(), ("255.255.255.255", 9))


# -- behind the batch --------------------------------------------------------------------------


def test_what_is_sent_while_a_batch_is_read_leaves_behind_it_in_order() -> None:
    bench = Bench()
    order: list[object] = []

    def receive(data: bytes, address: Any) -> None:
        order.append(data)
        bench.sock.send_behind(b"re " + data, address)
        order.append(len(bench.sent))

    bench.sock._receive = receive
    bench.raw.arrived = [(bytes([n]), PEER) for n in range(3)]
    bench.readable()
    assert order == [b"\0", 0, b"\1", 0, b"\2", 0]
    assert bench.sent == [b"re \0", b"re \1", b"re \2"]


def test_outside_a_batch_nothing_is_held() -> None:
    bench = Bench()
    bench.sock.send_behind(b"at once", PEER)
    assert bench.sent == [b"at once"]


def test_what_is_held_leaves_also_when_the_batch_breaks() -> None:
    bench = Bench()

    def receive(data: bytes, address: Any) -> None:
        bench.sock.send_behind(b"held", address)
        raise RuntimeError("a bug of ours")

    bench.sock._receive = receive
    bench.raw.arrived = [(b"x", PEER)]
    with pytest.raises(RuntimeError):
        bench.readable()
    assert bench.sent == [b"held"]
    bench.sock.send_behind(b"next", PEER)
    assert bench.sent == [b"held", b"next"]
