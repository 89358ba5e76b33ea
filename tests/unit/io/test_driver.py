from __future__ import annotations

from typing import Any

import pytest

from tests.unit.io.support import FakeLoop, FakeSocket, StubSession
from warp.contract import Flow
from warp.io.driver import Driver

LOCAL = ("192.0.2.1", 4000)
SECOND = ("192.0.2.2", 4000)
PEER = ("198.51.100.7", 5000)
OTHER = ("198.51.100.8", 5000)


class Bench:
    def __init__(self) -> None:
        self.loop: Any = FakeLoop()
        self.driver = Driver(self.loop)
        self.raw: Any = FakeSocket(LOCAL)
        self.port = self.driver.add_port(self.raw)

    def session(self, timer: float | None = None) -> StubSession:
        made = StubSession()
        made.peer.timer = timer
        return made

    @property
    def heap(self) -> int:
        return len(self.driver._heap)


# -- sending -------------------------------------------------------------------------------------


def test_datagrams_leave_by_the_port_of_their_flow() -> None:
    bench = Bench()
    second: Any = FakeSocket(SECOND)
    second.number = 8
    bench.driver.add_port(second)
    session = bench.session()
    session.peer.out = [(b"a", Flow(LOCAL, PEER)), (b"b", Flow(SECOND, OTHER))]
    bench.driver.flush(session)
    assert bench.raw.sent == [(b"a", PEER)]
    assert second.sent == [(b"b", OTHER)]


def test_a_run_to_one_peer_is_one_call() -> None:
    bench = Bench()
    session = bench.session()
    session.peer.out = [(bytes(100), Flow(LOCAL, PEER)) for _ in range(6)]
    bench.driver.flush(session)
    assert bench.raw.runs == [([bytes(100)] * 6, 100)]


def test_a_mixed_run_goes_to_each_its_own() -> None:
    bench = Bench()
    session = bench.session()
    flows = [Flow(LOCAL, PEER), Flow(LOCAL, OTHER)] * 3
    session.peer.out = [(bytes([n]), flow) for n, flow in enumerate(flows)]
    bench.driver.flush(session)
    assert bench.raw.sent == [(bytes([n]), flow.remote) for n, flow in enumerate(flows)]


def test_what_has_no_port_any_more_is_dropped() -> None:
    bench = Bench()
    session = bench.session()
    bench.driver.remove_port(bench.port)
    session.peer.out = [(b"a", Flow(LOCAL, PEER))]
    bench.driver.send_datagram((b"m", Flow(LOCAL, PEER)))
    bench.driver.flush(session)
    session.peer.out = [(b"a", Flow(LOCAL, PEER))] * 5
    bench.driver.flush(session)
    assert bench.raw.sent == [] and bench.raw.runs == []
    assert bench.driver.ports == {}


def test_flushing_soon_happens_once_a_turn() -> None:
    bench = Bench()
    one, two = bench.session(), bench.session()
    for _ in range(3):
        bench.driver.flush_soon(one)
    bench.driver.flush_soon(two)
    assert bench.loop.scheduled == 1
    bench.loop.advance(0)
    assert (one.flushed, two.flushed) == (1, 1)
    bench.driver.flush_soon(one)
    bench.loop.advance(0)
    assert one.flushed == 2


# -- timers --------------------------------------------------------------------------------------


def test_a_session_is_woken_at_its_deadline() -> None:
    bench = Bench()
    session = bench.session(timer=1000.5)
    bench.driver.flush(session)
    bench.loop.advance(0.4)
    assert session.peer.timers_handled == []
    bench.loop.advance(0.2)
    assert session.peer.timers_handled == pytest.approx([1000.5])


def test_an_earlier_deadline_counts_and_the_stale_one_does_not() -> None:
    bench = Bench()
    session = bench.session(timer=1000.5)
    bench.driver.flush(session)
    session.peer.timer = 1000.2
    bench.driver.flush(session)
    bench.loop.advance(1.0)
    assert session.peer.timers_handled == pytest.approx([1000.2])
    assert bench.heap == 0


def test_a_later_deadline_costs_one_needless_call() -> None:
    bench = Bench()
    session = bench.session(timer=1000.2)
    bench.driver.flush(session)
    session.peer.timer = 1000.5
    bench.driver.flush(session)
    assert bench.heap == 1
    bench.loop.advance(0.3)
    assert session.peer.timers_handled == pytest.approx([1000.2])


def test_many_sessions_wake_in_order_on_one_handle() -> None:
    bench = Bench()
    sessions = [bench.session(timer=1000 + 0.01 * ((7 * n) % 50 + 1)) for n in range(50)]
    order: list[float] = []
    for session in sessions:
        session.peer.timers_handled = order
        bench.driver.flush(session)
    assert bench.loop.scheduled <= 2
    bench.loop.advance(1.0)
    assert order == pytest.approx([1000 + 0.01 * (n + 1) for n in range(50)])
    assert bench.heap == 0


def test_a_stalled_loop_wakes_everybody_late() -> None:
    bench = Bench()
    sessions = [bench.session(timer=1000.1 + 0.1 * n) for n in range(5)]
    for session in sessions:
        bench.driver.flush(session)
    bench.loop.stall(2.0)
    bench.loop.advance(0)
    assert all(session.peer.timers_handled == [1002.0] for session in sessions)


def test_nothing_is_kept_of_a_forgotten_session() -> None:
    bench = Bench()
    session = bench.session(timer=1000.5)
    bench.driver.flush(session)
    bench.port.add_route(session, Flow(LOCAL, PEER))
    bench.driver.forget(session)
    assert bench.heap == 0
    assert bench.port.routes == 0
    assert session.routes == []
    bench.loop.advance(1.0)
    assert session.peer.timers_handled == []


def test_what_stays_of_forgotten_sessions_is_at_most_half_of_the_heap() -> None:
    bench = Bench()
    sessions = [bench.session(timer=1030.0) for _ in range(1000)]
    for session in sessions:
        bench.driver.flush(session)
    for count, session in enumerate(sessions, 1):
        bench.driver.forget(session)
        assert bench.heap <= max(2 * (len(sessions) - count), 0) + 1
    assert bench.heap == 0


def test_a_fault_in_a_timer_ends_one_session_and_the_others_are_woken() -> None:
    bench = Bench()
    broken, other = bench.session(timer=1000.1), bench.session(timer=1000.2)
    broken.peer.fault = ZeroDivisionError("a bug")
    bench.driver.flush(broken)
    bench.driver.flush(other)
    bench.loop.advance(1.0)
    assert [type(error) for error in broken.failed] == [ZeroDivisionError]
    assert other.peer.timers_handled == pytest.approx([1000.2])
    assert [type(context["exception"]) for context in bench.loop.reported] == [ZeroDivisionError]


def test_a_fault_in_a_flush_ends_one_session_and_the_others_are_flushed() -> None:
    bench = Bench()

    class Broken(StubSession):
        def receive_events(self, now: float) -> None:
            raise ZeroDivisionError("a bug")

    broken, other = Broken(), bench.session()
    bench.driver.flush_soon(broken)
    bench.driver.flush_soon(other)
    bench.loop.advance(0)
    assert len(broken.failed) == 1
    assert other.flushed == 1
    bench.driver.flush_soon(other)
    bench.loop.advance(0)
    assert other.flushed == 2


def test_closing_stops_everything() -> None:
    bench = Bench()
    session = bench.session(timer=1000.5)
    bench.driver.flush(session)
    bench.driver.clock.add_tick(lambda now: None)
    bench.driver.close()
    bench.driver.close()
    assert bench.loop.scheduled == 0
    assert bench.loop.readers == {}
    assert bench.driver.ports == {}
