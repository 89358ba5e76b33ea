"""A thread that does a model's jobs beside its frames (`models.jobs`).

    engine's thread ── submit, drop ──▶ inbox ──▶ JobQueue.run_unit ... ──▶ outbox ──▶ finished
                                                  this thread

The queue belongs to this thread alone; the two deques between are all that is shared. Inference
lets go of the interpreter, and the engine's thread is short of work and wakes first: no priority
is taken from this one, whose work is what a caller waits for.
"""

from __future__ import annotations

import sys
import threading
from collections import deque
from collections.abc import Callable
from typing import Final

from voice_backend.model import Slot
from voice_backend.models.jobs import Job, JobClass, JobCounts, JobQueue

IDLE_S: Final = 0.5
"""How long it sleeps at most when there is nothing to do."""
SWITCH_INTERVAL_S: Final = 0.0005
"""How long its Python, between two inferences, may keep the interpreter from the engine's thread;
CPython's own 5 ms are a quarter of a frame."""
_JOIN_S: Final = 5.0


class JobThread:
    """Does jobs in one thread of its own, from the first one until `close`."""

    def __init__(self) -> None:
        self._queue = JobQueue()
        self._inbox: deque[Callable[[], None]] = deque()
        self._outbox: deque[Job] = deque()
        self._wake = threading.Event()
        self._closing = False
        self._thread: threading.Thread | None = None

    @property
    def counts(self) -> JobCounts:
        """What has become of jobs."""
        return self._queue.counts

    @property
    def idle(self) -> bool:
        """See `Runner`."""
        return not self._inbox and self._queue.waiting == 0

    def submit(self, job: Job) -> None:
        """See `Runner`."""
        self._post(lambda: self._queue.submit(job))

    def hurry(self, slot: Slot, kind: JobClass) -> None:
        """See `Runner`."""
        self._post(lambda: self._queue.hurry(slot, kind))

    def drop(self, slot: Slot) -> None:
        """See `Runner`."""
        self._post(lambda: self._queue.drop(slot))

    def finished(self) -> list[Job]:
        """See `Runner`."""
        done: list[Job] = []
        while self._outbox:
            done.append(self._outbox.popleft())
        return [job for job in done if not job.cancelled]

    def close(self) -> None:
        """End the thread, after the unit that it is at; harmless when repeated."""
        self._closing = True
        self._wake.set()
        if self._thread is not None:
            self._thread.join(_JOIN_S)

    def _post(self, what: Callable[[], None]) -> None:
        if self._closing:
            return
        if self._thread is None:
            sys.setswitchinterval(min(sys.getswitchinterval(), SWITCH_INTERVAL_S))
            self._thread = threading.Thread(target=self._run, name="voice-jobs", daemon=True)
            self._thread.start()
        self._inbox.append(what)
        self._wake.set()

    def _run(self) -> None:
        while not self._closing:
            self._wake.clear()
            while self._inbox:
                self._inbox.popleft()()
            if self._queue.run_unit():
                self._outbox.extend(self._queue.finished())
            elif not self._inbox:
                self._wake.wait(IDLE_S)
