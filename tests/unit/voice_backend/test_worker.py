"""Engines elsewhere: in a thread, in a process; what hangs or dies is told, and leaves nothing."""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from functools import partial
from pathlib import Path

import numpy as np
import pytest

from voice_backend.model import (
    Context,
    Inject,
    Message,
    ModelInfo,
    NoCapacity,
    OutText,
    PlainVoice,
    SessionConfig,
    Slot,
    StepIn,
)
from voice_backend.models.scripted import Ask, Reflect, Say, ScriptedModel, Wait
from voice_backend.worker import MAX_WAITING, ProcessHost, ThreadHost, WorkerConfig
from warp.errors import InvalidState

SCRIPTS = {
    "mirror": {0: [Reflect()], 3: [Ask(delegation_id="d1")]},
    "stuck": {2: [Wait(seconds=60)]},
    "": {0: [Say(frames=3, text="hello")]},
}
INFO = ModelInfo(name="scripted", in_rate=16_000, out_rate=16_000, max_slots=3)
MODEL = partial(ScriptedModel, SCRIPTS, info=INFO, pause=time.sleep)


class Broken(PlainVoice):
    """A model that cannot be loaded."""

    info = INFO

    def load(self) -> None:
        raise ValueError("no weights")


def until(condition, seconds: float = 20.0):
    end = time.monotonic() + seconds
    while not (found := condition()):
        assert time.monotonic() < end, "it never came"
        time.sleep(0.002)
    return found


def opened(host, config: SessionConfig | None = None):
    got: list = []
    host.open(config or SessionConfig(), got.append)
    until(lambda: host.collect() or got)
    return got[0]


def answers(host, count: int = 1) -> list:
    outs: list = []

    def enough() -> bool:
        outs.extend(host.collect())
        return len(outs) >= count

    until(enough)
    return outs


def frame(value: int) -> np.ndarray:
    return np.full(320, value, np.int16)


@pytest.fixture(params=["thread", pytest.param("process", marks=pytest.mark.slow)])
def host(request):
    made = (ThreadHost if request.param == "thread" else ProcessHost)(MODEL)
    made.start()
    yield made
    made.stop()
    made.stop()


def shared_memory() -> set[Path]:
    """The segments that this process maps now; other processes make some of their own meanwhile."""
    maps = Path("/proc/self/maps")
    lines = maps.read_text().splitlines() if maps.exists() else []
    return {Path(line.split()[5]) for line in lines if "/dev/shm/" in line}


def test_sound_goes_there_and_back(host) -> None:
    assert host.info == INFO
    slot = opened(host, SessionConfig(voice="mirror"))
    for n in range(5):
        host.submit([StepIn(slot, n, frame(n + 1) if n != 2 else None, 7, 0.5)])
        [out] = answers(host)
        assert (out.slot, out.seq, out.epoch) == (slot, n, 7)
        assert int(out.pcm[0]) == (n + 1 if n != 2 else 0)
        assert [type(event).__name__ for event in out.events] == ["Delegate"] * (n == 3)
    assert host.begun == 5
    assert host.failure is None


def test_orders_keep_their_place_among_batches(host) -> None:
    context = Context(messages=(Message(role="user", text="before"),))
    slot = opened(host, SessionConfig(context=context))
    host.submit([StepIn(slot, 0, frame(0))])
    host.inject(slot, Inject.COMMENTARY, "and more", None)
    host.cancel(slot, 1)
    host.submit([StepIn(slot, 1, frame(0), 1)])
    first, second = answers(host, 2)
    assert [e.delta for e in first.events if isinstance(e, OutText)] == ["hello"]
    # the cancel came after the first frame and before the second, and so did what is said now
    assert [e.delta for e in second.events if isinstance(e, OutText)] == ["and more"]


def test_no_slot_is_left_over_and_none_is_taken_twice(host) -> None:
    slots = [opened(host) for _ in range(3)]
    assert isinstance(opened(host), NoCapacity)
    host.close(slots[1])
    assert isinstance(opened(host), Slot)


def test_a_thread_that_hangs_is_told_and_left_behind() -> None:
    host = ThreadHost(MODEL, WorkerConfig(hang_s=0.05))
    host.start()
    slot = opened(host, SessionConfig(voice="stuck"))
    for n in range(40):
        host.submit([StepIn(slot, n, frame(0))])
    until(lambda: host.collect() is not None and host.failure)
    assert "nothing for 0.05 s" in str(host.failure)
    assert len(host._todo) <= 40


@pytest.mark.slow
def test_a_process_that_is_killed_is_told_and_leaves_nothing() -> None:
    before = shared_memory()
    host = ProcessHost(MODEL)
    host.start()
    slot = opened(host)
    ours = shared_memory() - before
    assert ours or sys.platform != "linux"
    asked: list = []
    os.kill(host.pid or 0, signal.SIGKILL)
    host.open(SessionConfig(), asked.append)
    until(lambda: host.collect() is not None and host.failure)
    host.submit([StepIn(slot, 0, frame(0))])
    host.close(slot)
    assert host.collect() == []
    assert "has ended" in str(host.failure)
    assert isinstance(asked[0], InvalidState)
    host.stop()
    assert not [segment for segment in ours if segment.exists()]
    assert not ours & shared_memory()


@pytest.mark.slow
def test_a_process_that_hangs_before_any_session_is_told_to_who_asks() -> None:
    host = ProcessHost(MODEL, WorkerConfig(open_timeout_s=0.2))
    host.start()
    asked: list = []
    os.kill(host.pid or 0, signal.SIGSTOP)
    host.open(SessionConfig(), asked.append)
    until(lambda: host.collect() is not None and host.failure)
    assert host.failure == "the engine has opened no session for 0.2 s"
    assert isinstance(asked[0], InvalidState)
    host.stop()


@pytest.mark.slow
@pytest.mark.parametrize("junk", [b"", b"\xff" * 12, b"\0" * 11 + b"\1" + b"\xff" * 60])
def test_a_process_that_has_spoilt_its_memory_is_of_no_use(junk: bytes) -> None:
    host = ProcessHost(MODEL)
    host.start()
    opened(host)
    host._rings[1].write([junk])
    assert host.collect() == []
    assert host.failure == "the engine's process cannot be understood"
    host.stop()


@pytest.mark.slow
def test_a_process_that_does_not_read_holds_nobody_up() -> None:
    """What its pipe has no room for waits, in order, and is bounded; nothing but words is lost."""
    host = ProcessHost(MODEL)
    host.start()
    slots = [opened(host) for _ in range(3)]
    os.kill(host.pid or 0, signal.SIGSTOP)
    for n in range(20 * MAX_WAITING):
        host.inject(slots[0], Inject.THINKING, "so many words", None)
        if n % MAX_WAITING == 0:
            host.cancel(slots[1], n)
    for slot in slots:
        host.close(slot)
    assert MAX_WAITING <= len(host._waiting) < MAX_WAITING + 30
    asked: list = []
    host.open(SessionConfig(), asked.append)
    os.kill(host.pid or 0, signal.SIGCONT)
    until(lambda: host.collect() or asked)
    assert isinstance(asked[0], Slot)
    assert not host._waiting
    assert host.failure is None
    host.stop()


@pytest.mark.slow
def test_a_process_that_hangs_is_killed() -> None:
    host = ProcessHost(MODEL, WorkerConfig(hang_s=0.2))
    host.start()
    pid = host.pid or 0
    slot = opened(host, SessionConfig(voice="stuck"))
    for n in range(300):
        host.submit([StepIn(slot, n, frame(0))])
        host.inject(slot, Inject.THINKING, "x" * 5000, None)
    until(lambda: host.collect() is not None and host.failure)
    host.stop()
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)


@pytest.mark.slow
def test_a_model_that_cannot_be_loaded_says_why() -> None:
    host = ProcessHost(Broken)
    with pytest.raises(InvalidState, match="no weights"):
        host.start()
    assert host.pid is None


class Endless(PlainVoice):
    """A model whose loading never ends."""

    info = INFO

    def load(self) -> None:
        threading.Event().wait()


def starting(host: ProcessHost) -> tuple[threading.Thread, list[BaseException]]:
    """Start a host in a thread; returns it, and what it raises."""
    raised: list[BaseException] = []

    def start() -> None:
        try:
            host.start()
        except BaseException as error:
            raised.append(error)

    thread = threading.Thread(target=start)
    thread.start()
    return thread, raised


@pytest.mark.slow
def test_one_that_is_stopped_while_it_loads_says_so_once_and_is_gone() -> None:
    host = ProcessHost(Endless)
    thread, raised = starting(host)
    pid = until(lambda: host.pid)
    host.stop()
    thread.join(20)
    assert [type(error) for error in raised] == [InvalidState]
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)
    with pytest.raises(InvalidState, match="stopped before"):
        host.start()


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(signal, "pthread_sigmask"), reason="signals have no masks here")
def test_ctrl_c_in_its_first_moments_is_for_whoever_started_it() -> None:
    host = ProcessHost(MODEL)
    thread, raised = starting(host)
    os.kill(until(lambda: host.pid), signal.SIGINT)
    thread.join(20)
    assert raised == []
    assert opened(host) == Slot(0, 1)
    host.stop()
