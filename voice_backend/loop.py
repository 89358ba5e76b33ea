"""The media loop: one thread, one absolute grid, every session's 20 ms in and 20 ms out.

    asyncio thread                     media thread                        engine
    payloads of all sessions ──▶ inboxes ─┐
                                          ├ tick: decode ─▶ desk ─▶ batch ─▶ called here, or in a
    audio_out.send ◀── outbox ◀───────────┴ encode ◀─ seats ◀────── outs ◀─ thread or process of its
                                                                            own (`worker`)

Neither inference nor a codec ever runs on the asyncio thread, and nothing here waits for anybody
but the clock. Other threads `post` what they want done; it is done before the next tick.
Opened by `voice_backend.io`.
"""

from __future__ import annotations

import atexit
import contextlib
import logging
import os
import sys
import threading
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Final

from voice_backend.admission import Load
from voice_backend.desk import LATE_GIVEN, Desk
from voice_backend.grid import PERIOD_S, Grid
from voice_backend.metrics import Histogram
from voice_backend.priority import take_priority

_log = logging.getLogger(__name__)
SWITCH_INTERVAL_S: Final = 0.0005
"""How long another thread of the process may keep the interpreter from us; CPython's own 5 ms are
a quarter of a frame."""
MAX_POSTS: Final = 100_000
_JOIN_S: Final = 5.0


@dataclass(frozen=True, slots=True, kw_only=True)
class LoopConfig:
    """How the media thread is run."""

    realtime_priority: int | None = None
    """SCHED_FIFO priority, where the system lets us; None: as everybody."""
    core: int | None = None
    """The core that it keeps to; None: any."""


@dataclass(slots=True)
class LoopCounts:
    """What the loop has seen of time."""

    ticks: int = 0
    woken_late: int = 0
    """Ticks begun more than a period after they were due."""
    passed_over: int = 0
    """Ticks that a stall was too long to make up for."""
    errors: int = 0
    busy: Histogram = field(default_factory=Histogram)
    """Seconds of work a tick."""


class MediaLoop:
    """Runs the desks. Start it once; `stop` ends its thread."""

    __slots__ = (
        "_clock",
        "_config",
        "_desks",
        "_grid",
        "_posts",
        "_stopping",
        "_thread",
        "after_tick",
        "counts",
        "load",
    )

    def __init__(
        self,
        config: LoopConfig | None = None,
        *,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._config = config or LoopConfig()
        self._clock = clock
        self._grid = Grid(clock())
        self._desks: list[Desk] = []
        self._posts: deque[Callable[[], object]] = deque()
        self._stopping = False
        self._thread: threading.Thread | None = None
        self.after_tick: list[Callable[[], object]] = []
        """Called in the media thread when a tick is done: what carries outboxes away."""
        self.counts = LoopCounts()
        self.load = Load()

    @property
    def is_running(self) -> bool:
        """Whether the thread runs."""
        return self._thread is not None and self._thread.is_alive()

    def start(self, origin: float | None = None) -> None:
        """Start the thread; `origin` is a time of the clock from which ticks are counted."""
        if origin is not None:
            self._grid = Grid(origin)
        if sys.getswitchinterval() > SWITCH_INTERVAL_S:
            sys.setswitchinterval(SWITCH_INTERVAL_S)
        self._thread = threading.Thread(target=self._run, name="media", daemon=True)
        atexit.register(self.stop)
        self._thread.start()

    def stop(self) -> None:
        """End the thread and wait for it. Harmless when repeated; not for the thread itself."""
        self._stopping = True
        atexit.unregister(self.stop)
        if self._thread is not None:
            self._thread.join(_JOIN_S)

    def post(self, work: Callable[[], object]) -> None:
        """Have `work` done in the media thread before the next tick. Callable from any thread."""
        if len(self._posts) < MAX_POSTS:
            self._posts.append(work)

    def add(self, desk: Desk) -> None:
        """Run a desk from the next tick on. In the media thread, or before it starts."""
        self._desks.append(desk)

    def remove(self, desk: Desk) -> None:
        """Run a desk no more. In the media thread."""
        if desk in self._desks:
            self._desks.remove(desk)

    def run_due(self, now: float) -> None:
        """Do what is due at `now`: the posts, then the ticks that are owed."""
        posts, used = self._posts, time.thread_time()
        for _ in range(len(posts)):
            self._guarded(posts.popleft())
        ticks = self._grid.owed(now)
        self.counts.passed_over = self._grid.passed_over
        for tick in ticks:
            due = self._grid.due(tick)
            self.counts.ticks += 1
            self.counts.woken_late += now - due > PERIOD_S
            given = tick > ticks[-1] - LATE_GIVEN
            for desk in list(self._desks):
                self._guarded(partial(desk.run, due, given=given))
        if ticks:
            for carry in self.after_tick:
                self._guarded(carry)
            self.counts.busy.note(self._clock() - now)
            # its own time: what others take of the core is no reason to refuse a session
            self.load.note(time.thread_time() - used)

    def _guarded(self, work: Callable[[], object]) -> None:
        try:
            work()
        except Exception:
            # one desk's bug must not silence the others
            self.counts.errors += 1
            _log.exception("the media loop goes on after")

    def _run(self) -> None:
        self._settle_in()
        clock, grid = self._clock, self._grid
        # what is past when the thread begins is owed to nobody
        grid.owed(clock())
        grid.passed_over = 0
        while not self._stopping:
            # against the grid, never against the last wake-up; clock_nanosleep(TIMER_ABSTIME) below
            wait = grid.next_due - clock()
            if wait > 0:
                time.sleep(wait)
            self.run_due(clock())
        for _ in range(len(self._posts)):
            self._guarded(self._posts.popleft())

    def _settle_in(self) -> None:
        config = self._config
        if config.core is not None and hasattr(os, "sched_setaffinity"):
            with contextlib.suppress(OSError):
                os.sched_setaffinity(0, {config.core})
        if config.realtime_priority is not None:
            take_priority(config.realtime_priority)
