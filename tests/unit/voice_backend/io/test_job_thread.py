"""Jobs in a thread of their own: results come out, and the thread ends."""

from __future__ import annotations

import threading
from collections.abc import Generator

import pytest

from voice_backend.io.job_thread import JobThread
from voice_backend.model import Slot
from voice_backend.models.jobs import Job, JobClass

SLOT = Slot(0, 1)


@pytest.fixture
def thread() -> Generator[JobThread, None, None]:
    made = JobThread()
    yield made
    made.close()
    assert all(one.name != "voice-jobs" for one in threading.enumerate())


def wait_for(thread: JobThread, gate: threading.Event) -> list[Job]:
    assert gate.wait(20)
    done: list[Job] = []
    ticks = threading.Event()
    for _ in range(2000):
        done += thread.finished()
        if done:
            break
        ticks.wait(0.005)
    return done


def test_work_is_done_beside_the_caller(thread: JobThread) -> None:
    gate = threading.Event()

    def work() -> Generator[None, None, str]:
        yield
        gate.set()
        return threading.current_thread().name

    thread.submit(Job(JobClass.TURN, SLOT, work()))
    (done,) = wait_for(thread, gate)
    assert done.result == "voice-jobs"


def test_what_is_dropped_is_not_delivered(thread: JobThread) -> None:
    begun, gate, over = threading.Event(), threading.Event(), threading.Event()

    def long() -> Generator[None, None, str]:
        begun.set()
        gate.wait(20)
        yield
        return "never"

    def other() -> Generator[None, None, str]:
        over.set()
        return "other"
        yield

    thread.submit(Job(JobClass.TURN, SLOT, long()))
    assert begun.wait(20)
    thread.drop(SLOT)
    thread.submit(Job(JobClass.BACKGROUND, Slot(1, 2), other()))
    gate.set()
    assert [job.result for job in wait_for(thread, over)] == ["other"]


def test_closing_twice_and_submitting_afterwards_are_harmless(thread: JobThread) -> None:
    thread.close()
    thread.close()

    def work() -> Generator[None, None, None]:
        yield

    thread.submit(Job(JobClass.TURN, SLOT, work()))
    assert thread.finished() == []
