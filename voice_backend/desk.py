"""One engine's sessions, tick by tick: the media loop without its clock and its thread.

    tick k   collect what the engine has made ─▶ seats
             each line: 20 ms in ─▶ seat.hear ─▶ one batch ─▶ engine
             each seat: take ─▶ line.give: encoded, handed to the packetiser; in time? whose fault?
             each seat: events ─▶ line.tell

A tick that is made up for after a stall hears, so that nothing is lost to the model, but only the
newest two are given out: what is older would be played late by all that comes behind it.
Called by `loop`, or by a test with a clock of its own.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Final, Protocol

from voice_backend.admission import Load
from voice_backend.counts import FrameCounts, Late
from voice_backend.engine import EngineHost, Opened
from voice_backend.frames import Frame
from voice_backend.grid import PERIOD_S
from voice_backend.metrics import Histogram
from voice_backend.model import Inject, SessionConfig, Slot, StepIn
from voice_backend.seat import Seat, VoiceEvent

_log = logging.getLogger(__name__)
Clock = Callable[[], float]
LATE_GIVEN: Final = 2
"""Of the ticks that are owed at once, so many are given out: 40 ms, what a listener absorbs."""


class Line(Protocol):
    """What a session is to the loop: sound in, sound out, and somebody to tell."""

    def take(self, now: float) -> Frame | None:
        """Return the next 20 ms at the model's in_rate; None if there is nothing at all."""

    def give(self, pcm: Frame, now: float) -> None:
        """Send 20 ms at the model's out_rate on their way. Does not keep the frame."""

    def flush(self) -> None:
        """Drop what was given and has not left."""

    def tell(self, events: list[VoiceEvent]) -> None:
        """Pass on what the voice says of itself."""


class Desk:
    """The seats of one engine. All of it is called by one thread."""

    __slots__ = ("_clock", "_host", "_lines", "_reserve", "load", "name", "past", "seats", "steps")

    def __init__(self, name: str, host: EngineHost, *, clock: Clock, reserve: int = 0) -> None:
        self.name = name
        self._host = host
        self._clock = clock
        self._reserve = reserve
        self.seats: dict[Slot, Seat] = {}
        self._lines: dict[Slot, Line] = {}
        self.past = FrameCounts()
        """Of the sessions that are over."""
        self.steps = Histogram()
        """Seconds of the engine's work a batch."""
        self.load = Load()
        """Of an engine elsewhere; one that is called here is part of the loop's."""

    def open(self, config: SessionConfig, done: Opened) -> None:
        """Take a slot of the engine's; `done` is told, now or in a later tick."""
        self._host.open(config, done)

    def close(self, slot: Slot) -> None:
        """Free a slot that was given no place."""
        self._host.close(slot)

    def seat(self, slot: Slot, line: Line) -> Seat:
        """Give a session its place, from the next tick on."""
        host = self._host
        made = Seat(slot, host.info, hop=host.hop, reserve=self._reserve)
        self.seats[slot] = made
        self._lines[slot] = line
        return made

    def leave(self, slot: Slot) -> None:
        """Free a session's place and its slot. Harmless when that has happened."""
        seat = self.seats.pop(slot, None)
        if seat is not None:
            del self._lines[slot]
            self.past.add(seat.counts)
            self._host.close(slot)

    def cancel(self, slot: Slot) -> None:
        """Stop what a session's voice is saying: nothing more of it is given out."""
        seat = self.seats.get(slot)
        if seat is not None:
            self._host.cancel(slot, seat.cancel())
            self._lines[slot].flush()

    def inject(self, slot: Slot, kind: Inject, text: str, delegation_id: str | None) -> None:
        """Tell a session's voice something."""
        if slot in self.seats:
            self._host.inject(slot, kind, text, delegation_id)

    def run(self, due: float, *, given: bool = True) -> None:
        """Do one tick, which was due at `due`; with `given` False it is only made up for."""
        began = self._clock()
        if self._host.failure is not None:
            for seat in self.seats.values():
                seat.fail(self._host.failure)
        self._collect()
        batch = self._hear(began, due)
        heard = self._clock()
        if batch:
            number = self._host.submit(batch)
            for one in batch:
                self.seats[one.slot].handed(one.seq, number)
        # what an engine elsewhere has finished meanwhile is in time still
        self._collect()
        stepped = self._clock()
        if batch:
            self._weigh(stepped - heard)
        costs = (max(0.0, began - due), heard - began, stepped - heard)
        self._give(due + PERIOD_S, costs, given)
        self._tell()

    def _weigh(self, stepping: float) -> None:
        cost = self._host.cost_s if self._host.hop else stepping
        self.steps.note(cost)
        if self._host.hop:
            self.load.note(cost)

    def _collect(self) -> None:
        for out in self._host.collect():
            seat = self.seats.get(out.slot)
            if seat is not None and seat.receive(out):
                self._lines[out.slot].flush()

    def _hear(self, now: float, due: float) -> list[StepIn]:
        batch = []
        for slot, seat in self.seats.items():
            try:
                pcm = self._lines[slot].take(now)
            except Exception:
                _log.exception("a line of %s failed", self.name)
                seat.fail("its sound could not be read")
                continue
            step = None if seat.failed else seat.hear(pcm, due)
            if step is not None:
                batch.append(step)
        return batch

    def _give(self, deadline: float, costs: tuple[float, float, float], given: bool) -> None:
        clock, begun = self._clock, self._host.begun
        for slot, seat in self.seats.items():
            pcm, cause = seat.take(begun)
            if not given:
                seat.counts.concealed += cause is None
                seat.counts.note(cause or Late.PACER)
                continue
            now = clock()
            try:
                self._lines[slot].give(pcm, now)
            except Exception:
                _log.exception("a line of %s failed", self.name)
                seat.fail("its sound could not be sent")
            now = clock()
            if cause is None and now > deadline:
                cause = _blame(now - deadline + PERIOD_S, costs, self._host.hop)
            seat.counts.note(cause)

    def _tell(self) -> None:
        over = []
        for slot, seat in self.seats.items():
            events = seat.events()
            if events:
                try:
                    self._lines[slot].tell(events)
                except Exception:
                    _log.exception("a line of %s failed", self.name)
            if seat.failed:
                over.append(slot)
        for slot in over:
            self.leave(slot)


def _blame(whole: float, costs: tuple[float, float, float], hop: bool) -> Late:
    """Return what took most of the time between a frame's due time and its hand-over."""
    woken, hearing, stepping = costs
    shares = {
        Late.PACER: woken,
        Late.ENCODE: hearing + max(0.0, whole - woken - hearing - stepping),
        Late.QUEUE if hop else Late.MODEL: stepping,
    }
    return max(shares, key=lambda cause: shares[cause])
