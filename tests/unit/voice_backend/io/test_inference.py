"""Work in a process of its own: unit by unit, as if it were here; what ends or raises is told."""

from __future__ import annotations

import multiprocessing
import os
import signal
import sys
import threading
from collections.abc import Callable, Generator, Iterator

import numpy as np
import pytest

from voice_backend.io import inference as inference_module
from voice_backend.io.inference import (
    POOLS,
    Inference,
    InferenceFailed,
    RemoteEars,
    RemoteMouth,
)
from voice_backend.io.job_thread import JobThread
from voice_backend.model import Slot
from voice_backend.models.jobs import Job, JobClass

pytestmark = pytest.mark.slow
closed: list[str] = []
BEFORE = dict(os.environ)


def hear(sound: np.ndarray) -> Generator[None, None, str]:
    for _ in range(3):
        yield
    return f"{len(sound)} samples, {float(sound.sum()):g}"


def say(text: str, last: bool) -> Generator[None, None, str]:
    try:
        yield
        if text == "no":
            raise ValueError("not a word")
        yield
        return f"{text}{'.' if last else ','}"
    finally:
        closed.append(text)


def said() -> Generator[None, None, list[str]]:
    yield
    return closed


def threads() -> Generator[None, None, int]:
    one = np.ones((512, 512), np.float32)
    yield
    (one @ one).sum()
    return len(os.listdir("/proc/self/task"))


def make() -> dict[str, Callable[..., Generator[None, None, object]]]:
    return {"hear": hear, "say": say, "said": said, "threads": threads}


def broken() -> dict[str, Callable[..., Generator[None, None, object]]]:
    raise RuntimeError("no weights: run `warp models fetch`")


@pytest.fixture(scope="module")
def inference() -> Iterator[Inference]:
    made = Inference(make)
    yield made
    made.close()
    made.close()


def drive(work: Generator[None, None, object]) -> tuple[int, object]:
    units = 0
    while True:
        units += 1
        try:
            next(work)
        except StopIteration as done:
            return units, done.value


def test_units_are_those_of_the_work(inference: Inference) -> None:
    assert drive(RemoteEars(inference).hear(np.ones(5, np.float32))) == (4, "5 samples, 5")
    mouth = RemoteMouth(inference)
    one, other = mouth.say("one"), mouth.say("other", last=False)
    # they take turns, as the urgency of whoever waits has it
    next(one)
    next(other)
    next(one)
    next(other)
    assert drive(other) == (1, "other,")
    assert drive(one) == (1, "one.")


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="threads are counted in /proc")
def test_its_arithmetic_takes_one_core(inference: Inference) -> None:
    assert drive(inference.work("threads")) == (2, 1)
    assert not any(name in os.environ for name in POOLS if name not in BEFORE)


def test_what_raises_is_told_and_costs_nobody_else(inference: Inference) -> None:
    mouth = RemoteMouth(inference)
    with pytest.raises(InferenceFailed, match="ValueError: not a word"):
        drive(mouth.say("no"))
    assert drive(mouth.say("yes")) == (3, "yes.")


def test_what_is_not_wanted_any_more_is_ended(inference: Inference) -> None:
    work = RemoteMouth(inference).say("never mind")
    next(work)
    work.close()
    units, ended = drive(inference.work("said"))
    assert units == 2
    assert isinstance(ended, list)
    assert ended[-1] == "never mind"


def test_the_jobs_thread_drives_it(inference: Inference) -> None:
    runner = JobThread()
    work = RemoteMouth(inference).say("well")
    runner.submit(Job(JobClass.FIRST_SOUND, Slot(0, 1), work))
    done: list[Job] = []
    while not done:
        done = runner.finished()
    runner.close()
    assert (done[0].result, done[0].error) == ("well.", None)


def test_a_process_that_is_killed_is_lost() -> None:
    lost: list[bool] = []
    inference = Inference(make, lost=lambda: lost.append(True))
    work = RemoteEars(inference).hear(np.ones(5, np.float32))
    next(work)
    os.kill(inference.pid or 0, signal.SIGKILL)
    with pytest.raises(InferenceFailed, match="has ended"):
        drive(work)
    assert lost == [True]
    inference.close()


def test_one_that_ends_while_nobody_asks_is_lost_as_well_and_one_that_is_closed_is_not() -> None:
    lost = threading.Event()
    inference = Inference(make, lost=lost.set)
    os.kill(inference.pid or 0, signal.SIGKILL)
    assert lost.wait(10)
    inference.close()

    kept = threading.Event()
    inference = Inference(make, lost=kept.set)
    inference.close()
    for thread in threading.enumerate():
        if thread.name == "inference-watch":
            thread.join(10)
    assert not kept.is_set()


def test_what_cannot_be_loaded_says_why() -> None:
    with pytest.raises(InferenceFailed, match="warp models fetch"):
        Inference(broken)


def test_one_that_does_not_get_ready_is_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    others = multiprocessing.active_children()
    monkeypatch.setattr(inference_module, "LOAD_TIMEOUT_S", 0.0)
    with pytest.raises(InferenceFailed, match="says nothing"):
        Inference(make)
    assert [child for child in multiprocessing.active_children() if child not in others] == []


def test_two_that_start_at_once_leave_the_environment_as_it_was() -> None:
    before = dict(os.environ)
    inside, on = threading.Event(), threading.Event()

    def other() -> None:
        with inference_module._one_thread_each():
            inside.set()
            on.wait(5)

    thread = threading.Thread(target=other)
    with inference_module._one_thread_each():
        thread.start()
        inside.wait(0.05)
    on.set()
    thread.join()
    assert dict(os.environ) == before
