"""The media loop: what is owed at a time, who is heard first, and its thread."""

from __future__ import annotations

import threading

from tests.unit.voice_backend.desks import Clock, Room
from voice_backend.desk import Desk
from voice_backend.loop import LoopConfig, MediaLoop


class Broken(Desk):
    """A desk with a bug."""

    def run(self, due: float, *, given: bool = True) -> None:
        raise RuntimeError("a bug")


def made(room: Room) -> tuple[MediaLoop, Clock]:
    loop = MediaLoop(clock=room.clock)
    loop.add(room.desk)
    return loop, room.clock


def test_posts_are_done_before_the_next_tick() -> None:
    room = Room({})
    loop, _ = made(room)
    order: list[str] = []
    slot, line = room.join("")
    loop.post(lambda: order.append("post"))
    loop.after_tick.append(lambda: order.append("tick"))
    loop.run_due(0.0)
    assert order == ["post", "tick"]
    assert len(line.given) == 1
    assert slot in room.desk.seats


def test_a_stall_is_made_up_for_and_only_the_newest_is_given_out() -> None:
    room = Room({})
    loop, clock = made(room)
    slot, line = room.join("")
    loop.run_due(0.0)
    clock.now = 0.2
    loop.run_due(0.2)
    seat = room.desk.seats[slot]
    assert seat.seq == 11
    assert len(line.given) == 3
    assert loop.counts.ticks == 11
    assert loop.counts.woken_late == 9
    clock.now = 60.0
    loop.run_due(60.0)
    assert seat.seq == 11 + 25
    assert loop.counts.passed_over > 2900


def test_one_that_fails_does_not_silence_the_others() -> None:
    other = Room({})
    loop = MediaLoop(clock=other.clock)
    _, line = other.join("")
    loop.add(Broken("broken", other.host, clock=other.clock))
    loop.add(other.desk)
    loop.post(lambda: 1 / 0)
    loop.run_due(0.0)
    assert loop.counts.errors == 2
    assert len(line.given) == 1
    loop.remove(other.desk)
    loop.remove(other.desk)
    loop.run_due(0.02)
    assert len(line.given) == 1


def test_the_thread_ticks_until_it_is_stopped() -> None:
    room = Room({})
    loop = MediaLoop(LoopConfig(realtime_priority=None, core=0))
    loop.add(room.desk)
    ticked = threading.Event()
    loop.after_tick.append(lambda: loop.counts.ticks >= 3 and ticked.set())
    loop.start()
    assert ticked.wait(20)
    loop.stop()
    loop.stop()
    assert not loop.is_running
