"""Work of a model beside its frames: cut into units, and always the most urgent unit next.

    submit(job) ──▶ waiting ── lowest class, then earliest due ──▶ one unit ──▶ waiting | finished
                                                                                  │
    step ◀── finished() ◀─────────────────────────────────────────────────────────┘

A job is a generator: what it yields between is where others may go first. Class comes before
deadline: by deadline alone, guesses (due early, and worthless a moment later) starve the answers.
Clockless; whoever has a thread drives `run_unit` (`voice_backend.io.job_thread`).
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Generator
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Any, Final, Protocol

from voice_backend.model import Slot


class JobClass(IntEnum):
    """What is done first."""

    FIRST_SOUND = 1
    """The first clause of a reply: somebody waits in silence."""
    FINAL_TEXT = 2
    """What the user said, once it is over."""
    TURN = 3
    """Whether it is over."""
    REFILL = 4
    """The next clause, while one is played."""
    AHEAD = 5
    """The first clause of an answer to a turn that may be over: of a slot's, only the latest."""
    HALTED = 6
    """A guess at what the user said, who has halted: if that was the end, it is the final text."""
    PARTIAL = 7
    """A guess at what the user is saying: of a slot's, only the latest is worth anything."""
    BACKGROUND = 8
    """What a conversation does not wait for."""


_GUESSES: Final = frozenset({JobClass.HALTED, JobClass.PARTIAL})
_BEGINNINGS: Final = frozenset({JobClass.AHEAD})
_OUTDATES: Final = {
    JobClass.PARTIAL: _GUESSES,
    JobClass.HALTED: _GUESSES,
    JobClass.FINAL_TEXT: _GUESSES,
    JobClass.AHEAD: _BEGINNINGS,
    JobClass.FIRST_SOUND: _BEGINNINGS,
}
MOST_WAITING: Final = 8
"""Jobs of one slot that wait; beyond that its least urgent one is dropped."""
Work = Generator[None, None, Any]


def finish(work: Work) -> Any:
    """Do all units of a piece of work at once; returns its result."""
    while True:
        try:
            next(work)
        except StopIteration as done:
            return done.value


@dataclass(slots=True, eq=False)
class Job:
    """Work for a slot. `result` is the generator's return value, or `error` says what it raised."""

    kind: JobClass
    slot: Slot
    work: Work
    due: float = 0.0
    """Monotonic seconds: an order, never a time to wait for."""
    token: object = None
    """The submitter's own."""
    result: Any = None
    error: str | None = None
    cancelled: bool = False
    """Set by the submitter: no further unit is run and nothing is delivered."""


class Runner(Protocol):
    """Where jobs are done."""

    @property
    def idle(self) -> bool:
        """Whether nothing waits: the time for what is merely nice to have."""

    def submit(self, job: Job) -> None:
        """Take a job, without waiting."""

    def hurry(self, slot: Slot, kind: JobClass) -> None:
        """What was begun ahead is waited for by now, and is of this class: a guess becomes
        `FINAL_TEXT`, the beginning of an answer `FIRST_SOUND`.
        """

    def drop(self, slot: Slot) -> None:
        """Forget all jobs of a slot that has gone."""

    def finished(self) -> list[Job]:
        """Drain what has been done, without waiting."""

    def close(self) -> None:
        """Do no more."""


@dataclass(slots=True)
class JobCounts:
    """What has become of jobs, by class."""

    done: Counter[JobClass] = field(default_factory=Counter)
    dropped: Counter[JobClass] = field(default_factory=Counter)
    """Cancelled, outdated by a newer guess, or too many of one slot."""
    failed: Counter[JobClass] = field(default_factory=Counter)
    units: int = 0


class JobQueue:
    """The jobs that wait. One thread calls it."""

    def __init__(self) -> None:
        self._waiting: list[Job] = []
        self._finished: deque[Job] = deque()
        self.counts = JobCounts()

    @property
    def waiting(self) -> int:
        """Jobs that are not finished."""
        return len(self._waiting)

    def submit(self, job: Job) -> None:
        """Take a job; what it makes worthless of the same slot goes: older guesses and beginnings,
        for newer ones and for what is certain.
        """
        worthless = _OUTDATES.get(job.kind, frozenset())
        for other in self._of(job.slot):
            if other.kind in worthless:
                self._discard(other)
        self._waiting.append(job)
        mine = self._of(job.slot)
        if len(mine) > MOST_WAITING:
            # whoever submitted it learns that nothing will come of it
            least = max(mine, key=_urgency)
            self._discard(least)
            least.cancelled, least.error = False, "too many jobs of one conversation wait"
            self._finished.append(least)

    def hurry(self, slot: Slot, kind: JobClass) -> None:
        """See `Runner`."""
        for job in self._of(slot):
            if job.kind in _OUTDATES[kind]:
                job.kind = kind

    def drop(self, slot: Slot) -> None:
        """Forget all jobs of a slot."""
        for job in self._of(slot):
            self._discard(job)
        self._finished = deque(job for job in self._finished if job.slot != slot)

    def run_unit(self) -> bool:
        """Do the most urgent unit; returns whether there was one."""
        for job in [job for job in self._waiting if job.cancelled]:
            self._discard(job)
        if not self._waiting:
            return False
        # the first of equals, so that what came first is finished first
        job = min(self._waiting, key=_urgency)
        self.counts.units += 1
        try:
            next(job.work)
        except StopIteration as done:
            job.result = done.value
            self._finish(job, self.counts.done)
        except Exception as error:
            # a fault of one job is its slot's; the thread goes on for all others
            job.error = f"{type(error).__name__}: {error}"
            self._finish(job, self.counts.failed)
        return True

    def finished(self) -> list[Job]:
        """Drain what has been done."""
        done, self._finished = self._finished, deque()
        return [job for job in done if not job.cancelled]

    def _of(self, slot: Slot) -> list[Job]:
        return [job for job in self._waiting if job.slot == slot]

    def _discard(self, job: Job) -> None:
        self._waiting.remove(job)
        job.cancelled = True
        job.work.close()
        self.counts.dropped[job.kind] += 1

    def _finish(self, job: Job, tally: Counter[JobClass]) -> None:
        self._waiting.remove(job)
        self._finished.append(job)
        tally[job.kind] += 1


class InlineRunner:
    """Does jobs in the thread that asks for results, so many units each time: for tests and tools.

    `units` None: all that there are, so that a result is there a frame after it was asked for.
    """

    def __init__(self, units: int | None = None) -> None:
        self._units = units
        self.queue = JobQueue()

    @property
    def idle(self) -> bool:
        """See `Runner`."""
        return self.queue.waiting == 0

    def submit(self, job: Job) -> None:
        """See `Runner`."""
        self.queue.submit(job)

    def hurry(self, slot: Slot, kind: JobClass) -> None:
        """See `Runner`."""
        self.queue.hurry(slot, kind)

    def drop(self, slot: Slot) -> None:
        """See `Runner`."""
        self.queue.drop(slot)

    def finished(self) -> list[Job]:
        """See `Runner`."""
        left = self._units
        while (left is None or left > 0) and self.queue.run_unit():
            left = None if left is None else left - 1
        return self.queue.finished()

    def close(self) -> None:
        """See `Runner`."""


def _urgency(job: Job) -> tuple[int, float]:
    return (job.kind, job.due)
