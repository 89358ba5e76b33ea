"""One absolute clock for all outgoing audio of a process: a grid of 20 ms slots in four phases.

A session gets one phase for life, so that many sessions do not send at the same instant. Slots are
counted from the loop's origin, never from "the last wake-up", so that lateness cannot add up.
"""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Callable
from typing import Protocol

SLOT_S = 0.020
PHASES = 4
_TICK_S = SLOT_S / PHASES


def clock_of(loop: asyncio.AbstractEventLoop) -> Callable[[], float]:
    """Return what tells the loop's time, without the method around it where it is asyncio's own."""
    return time.monotonic if type(loop).time is asyncio.BaseEventLoop.time else loop.time


class Ticked(Protocol):
    """Something that wants to act once a slot while it is registered."""

    def handle_tick(self, now: float) -> bool:
        """Act; return whether another tick is wanted."""


class _Callback:
    """A plain function as a member of the clock."""

    __slots__ = ("_tick",)

    def __init__(self, tick: Callable[[float], None]) -> None:
        self._tick = tick

    def handle_tick(self, now: float) -> bool:
        """Call the function; it stays registered."""
        self._tick(now)
        return True


class MediaClock:
    """Calls its registered members once a slot, each in its phase."""

    __slots__ = ("_handle", "_loop", "_members", "_next_phase", "origin")

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self.origin = loop.time()
        self._members: tuple[dict[Ticked, None], ...] = tuple({} for _ in range(PHASES))
        self._handle: asyncio.TimerHandle | None = None
        self._next_phase = 0

    def assign_phase(self) -> int:
        """Return a phase for a new session, spreading sessions evenly."""
        phase = self._next_phase
        self._next_phase = (phase + 1) % PHASES
        return phase

    def slot(self, phase: int, now: float) -> int:
        """Return the number of the slot that `now` lies in."""
        return math.floor((now - self.origin - phase * _TICK_S) / SLOT_S + 1e-6)

    def slot_start(self, phase: int, slot: int) -> float:
        """Return the time at which a slot begins."""
        return self.origin + phase * _TICK_S + slot * SLOT_S

    def register(self, member: Ticked, phase: int) -> None:
        """Tick `member` in the coming slots of its phase until it declines."""
        self._members[phase][member] = None
        if self._handle is None:
            self._schedule(self._loop.time())

    def add_tick(self, tick: Callable[[float], None]) -> Callable[[], None]:
        """Call `tick(now)` once a slot until the returned function is called."""
        member = _Callback(tick)
        self.register(member, 0)
        return lambda: self.unregister(member, 0)

    def unregister(self, member: Ticked, phase: int) -> None:
        """Stop ticking `member`; harmless when it is not registered."""
        self._members[phase].pop(member, None)

    def _schedule(self, now: float) -> None:
        if not any(self._members):
            self._handle = None
            return
        tick = math.floor((now - self.origin) / _TICK_S + 1e-6) + 1
        while not self._members[tick % PHASES]:
            tick += 1
        due = self.origin + tick * _TICK_S
        self._handle = self._loop.call_at(due, self._fire, tick)

    def _fire(self, tick: int) -> None:
        now = self._loop.time()
        # a stalled loop owes the phases it slept through as well
        last = math.floor((now - self.origin) / _TICK_S + 1e-6)
        for owed in range(max(tick, last - PHASES + 1), max(tick, last) + 1):
            members = self._members[owed % PHASES]
            for member in list(members):
                try:
                    wanted = member.handle_tick(now)
                except Exception as error:
                    # one member's fault must not silence all the others
                    wanted = False
                    text = "a member of the media clock failed and is left out"
                    self._loop.call_exception_handler({"message": text, "exception": error})
                if not wanted:
                    members.pop(member, None)
        self._schedule(now)

    def close(self) -> None:
        """Forget everybody and stop."""
        for members in self._members:
            members.clear()
        if self._handle is not None:
            self._handle.cancel()
            self._handle = None
