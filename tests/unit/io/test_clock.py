from __future__ import annotations

from typing import Any

import pytest

from tests.unit.io.support import FakeLoop
from warp.io.clock import PHASES, SLOT_S, MediaClock


class Member:
    def __init__(self, loop: FakeLoop, ticks: int = 1_000_000) -> None:
        self.loop, self.left = loop, ticks
        self.at: list[float] = []

    def handle_tick(self, now: float) -> bool:
        self.at.append(now)
        self.left -= 1
        return self.left > 0


def make() -> tuple[FakeLoop, MediaClock]:
    loop = FakeLoop()
    fake: Any = loop
    return loop, MediaClock(fake)


def test_phases_are_handed_out_in_turn() -> None:
    _, clock = make()
    assert [clock.assign_phase() for _ in range(6)] == [0, 1, 2, 3, 0, 1]


@pytest.mark.parametrize("phase", range(PHASES))
def test_slots_and_their_starts_agree(phase: int) -> None:
    _, clock = make()
    for slot in (0, 1, 7, 1_000_000):
        start = clock.slot_start(phase, slot)
        assert clock.slot(phase, start) == slot
        assert clock.slot(phase, start + SLOT_S / 2) == slot
        assert clock.slot(phase, start - 0.001) == slot - 1


def test_a_member_is_called_once_a_slot_in_its_phase() -> None:
    loop, clock = make()
    member = Member(loop)
    clock.register(member, 2)
    loop.advance(1.0)
    assert len(member.at) == 50
    assert member.at == pytest.approx([clock.slot_start(2, slot) for slot in range(50)])


def test_lateness_does_not_add_up() -> None:
    loop, clock = make()
    member = Member(loop)
    clock.register(member, 0)
    for _ in range(20):
        loop.advance(0.02)
        loop.stall(0.003)
    loop.advance(0.5)
    expected = [clock.slot_start(0, clock.slot(0, at)) for at in member.at]
    assert member.at[-20:] == pytest.approx(expected[-20:])


def test_a_stalled_loop_calls_each_phase_once_and_then_keeps_the_grid() -> None:
    loop, clock = make()
    members = [Member(loop) for _ in range(PHASES)]
    for phase, member in enumerate(members):
        clock.register(member, phase)
    loop.advance(0.1)
    before = [len(member.at) for member in members]
    loop.stall(0.5)
    loop.advance(0.0)
    assert [len(m.at) - n for m, n in zip(members, before, strict=True)] == [1, 1, 1, 1]
    loop.advance(0.2)
    assert [len(m.at) - n for m, n in zip(members, before, strict=True)] == [11, 11, 11, 11]


def test_who_declines_is_not_called_again_and_an_empty_clock_sleeps() -> None:
    loop, clock = make()
    member = Member(loop, ticks=3)
    clock.register(member, 1)
    loop.advance(1.0)
    assert len(member.at) == 3
    assert loop.scheduled == 0


def test_unregistering_is_harmless_when_repeated() -> None:
    loop, clock = make()
    member = Member(loop)
    clock.register(member, 1)
    clock.unregister(member, 1)
    clock.unregister(member, 1)
    loop.advance(1.0)
    assert member.at == []
    assert loop.scheduled == 0


def test_a_plain_function_ticks_until_it_is_stopped() -> None:
    loop, clock = make()
    at: list[float] = []
    stop = clock.add_tick(at.append)
    loop.advance(0.1)
    stop()
    stop()
    loop.advance(0.1)
    assert len(at) == 5


def test_a_member_may_leave_while_it_is_called() -> None:
    loop, clock = make()
    other = Member(loop)

    class Leaving(Member):
        def handle_tick(self, now: float) -> bool:
            clock.unregister(other, 0)
            return super().handle_tick(now)

    leaving = Leaving(loop)
    clock.register(leaving, 0)
    clock.register(other, 0)
    loop.advance(0.1)
    assert len(leaving.at) == 5
    # it was in the list of that tick already
    assert len(other.at) == 1


def test_a_fault_of_one_member_silences_nobody_else() -> None:
    loop, clock = make()

    def broken(now: float) -> None:
        raise ZeroDivisionError

    clock.add_tick(broken)
    member = Member(loop)
    clock.register(member, 0)
    loop.advance(0.1)
    assert len(member.at) == 5
    [context] = loop.reported
    assert isinstance(context["exception"], ZeroDivisionError)


def test_closing_forgets_everybody() -> None:
    loop, clock = make()
    member = Member(loop)
    clock.register(member, 0)
    clock.close()
    clock.close()
    loop.advance(1.0)
    assert member.at == []
    assert loop.scheduled == 0
