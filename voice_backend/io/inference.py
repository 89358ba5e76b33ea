"""Networks in a process of their own, so that no inference shares an interpreter with frames.

    engine's process                                        inference process
    step ─ Vad                                              Ears, TurnModel, Mouth
    JobThread ─ next(job) ── begin, next ── pipe ──────────▶ generator, one unit
                    ▲                                           │
                    └──── yielded | returned | raised ◀─────────┘

A thread that loses its core while it holds the interpreter stops the thread that owes frames, for
as long as others keep that core. So the jobs' thread only waits here, and the units, their order
and their urgency stay where they are (`models.jobs`). Called by one thread; ends with its parent.
"""

from __future__ import annotations

import contextlib
import itertools
import multiprocessing
import os
import pickle
import signal
import threading
from collections.abc import Callable, Generator, Iterator
from multiprocessing.connection import Connection, wait
from multiprocessing.util import is_exiting
from typing import Any, Final

from numpy import float32
from numpy.typing import NDArray

from voice_backend.models.mouth import Utterance
from voice_backend.priority import leave_priority
from voice_backend.spawning import deaf_to_interrupts
from warp.errors import InvalidState

LOAD_TIMEOUT_S: Final = 120.0
UNIT_TIMEOUT_S: Final = 10.0
"""A unit takes milliseconds; whoever takes so long has hung."""
MOST_BEGUN: Final = 1_024
NICENESS: Final = 2
POOLS: Final = (
    "OPENBLAS_NUM_THREADS",
    "OMP_NUM_THREADS",
    "MKL_NUM_THREADS",
    "VECLIB_MAXIMUM_THREADS",
)
"""What tells the libraries under numpy how many threads to have; read as it is imported."""
_STARTING: Final = threading.Lock()
"""The environment is the whole process's: two that change it at once leave it changed."""
Make = Callable[[], dict[str, Callable[..., Generator[None, None, Any]]]]
"""Loads the networks, over there; returns what each can do, by name."""


class InferenceFailed(InvalidState):
    """The inference process has ended or hangs, or a unit of work has raised."""


class Inference:
    """The engine's end: work that is done elsewhere, unit by unit."""

    def __init__(self, make: Make, *, lost: Callable[[], object] | None = None) -> None:
        """Start the process and wait until the networks are loaded; raises InferenceFailed.

        `lost` is called, once and in any thread, when the process ends or hangs later on: without
        it nothing is understood any more, and whoever started this starts it anew.
        """
        context = multiprocessing.get_context("spawn")
        self._pipe, theirs = context.Pipe()
        self._names = itertools.count()
        self._process = context.Process(
            target=_serve, args=(theirs, make), name="inference", daemon=True
        )
        with _one_thread_each(), deaf_to_interrupts():
            self._process.start()
        theirs.close()
        self._losing = threading.RLock()
        self._lost: Callable[[], object] | None = None
        try:
            self._receive(LOAD_TIMEOUT_S)
        except InferenceFailed:
            self.close()
            raise
        if lost is not None:
            self._lost = lost
            threading.Thread(target=self._watch, name="inference-watch", daemon=True).start()

    @property
    def pid(self) -> int | None:
        """The process."""
        return self._process.pid

    def work(self, what: str, *arguments: Any) -> Generator[None, None, Any]:
        """Do a generator's work elsewhere; each `next` is one unit of it."""
        name = next(self._names)
        self._send(("begin", name, what, arguments))
        ended = False
        try:
            while True:
                self._send(("next", name))
                # what raises is forgotten over there as well
                ended = True
                kind, value = self._receive(UNIT_TIMEOUT_S)
                if kind == "returned":
                    return value
                ended = False
                yield
        finally:
            if not ended:
                self._send(("drop", name))

    def close(self) -> None:
        """End the process. Harmless when repeated."""
        with self._losing:
            self._lost = None
        self._pipe.close()
        if self._process.is_alive():
            self._process.kill()
        self._process.join()

    def _watch(self) -> None:
        # one that ends while nobody speaks is replaced before somebody does
        wait([self._process.sentinel])
        # a process that ends takes this one along, by multiprocessing's own hand
        if not is_exiting():
            self._tell_lost()

    def _tell_lost(self) -> None:
        with self._losing:
            lost, self._lost = self._lost, None
            if lost is not None:
                lost()

    def _send(self, order: tuple[Any, ...]) -> None:
        with contextlib.suppress(OSError, ValueError):
            # whoever has gone is noticed by its silence
            self._pipe.send_bytes(pickle.dumps(order, pickle.HIGHEST_PROTOCOL))

    def _receive(self, timeout_s: float) -> tuple[str, Any]:
        try:
            if not self._pipe.poll(timeout_s):
                raise TimeoutError
            kind, value = pickle.loads(self._pipe.recv_bytes())
        except (EOFError, OSError, ValueError) as error:
            self._tell_lost()
            hangs = isinstance(error, TimeoutError)
            what = f"says nothing for {timeout_s:g} s" if hangs else "has ended"
            raise InferenceFailed(f"the inference process {what}") from error
        if kind == "raised":
            raise InferenceFailed(value)
        return kind, value


class RemoteEars:
    """`models.ears.Ears`, elsewhere."""

    def __init__(self, inference: Inference) -> None:
        self._inference = inference

    def hear(self, sound: NDArray[float32]) -> Generator[None, None, str]:
        """See `Ears.hear`."""
        return self._inference.work("hear", sound)


class RemoteTurns:
    """`models.turn_model.TurnModel`, elsewhere."""

    def __init__(self, inference: Inference) -> None:
        self._inference = inference

    def judge(self, sound: NDArray[float32]) -> Generator[None, None, float]:
        """See `TurnModel.judge`."""
        return self._inference.work("judge", sound)


class RemoteMouth:
    """`models.mouth.Mouth`, elsewhere."""

    def __init__(self, inference: Inference) -> None:
        self._inference = inference

    def say(self, text: str, *, last: bool = True) -> Generator[None, None, Utterance]:
        """See `Mouth.say`."""
        return self._inference.work("say", text, last)


@contextlib.contextmanager
def _one_thread_each() -> Iterator[None]:
    """Have numpy's pool of threads be one thread in processes that are started meanwhile.

    A pool's threads go on spinning for tens of milliseconds after each product of matrices, on the
    cores of those that owe frames.
    """
    with _STARTING:
        before = {name: os.environ.get(name) for name in POOLS}
        os.environ.update(dict.fromkeys(POOLS, "1"))
        try:
            yield
        finally:
            for name, value in before.items():
                if value is None:
                    os.environ.pop(name, None)
                else:
                    os.environ[name] = value


# -- the other side --------------------------------------------------------------------------------


def _serve(pipe: Connection, make: Make) -> None:
    """Load, then do units until the parent is gone."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    with contextlib.suppress(OSError, AttributeError):
        leave_priority()
        os.nice(NICENESS)

    def tell(kind: str, value: Any = None) -> None:
        pipe.send_bytes(pickle.dumps((kind, value), pickle.HIGHEST_PROTOCOL))

    with contextlib.suppress(EOFError, OSError):
        try:
            doers = make()
        except Exception as error:
            tell("raised", str(error) or type(error).__name__)
            return
        tell("returned")
        begun: dict[int, Generator[None, None, Any]] = {}
        while True:
            match pickle.loads(pipe.recv_bytes()):
                case ("begin", name, what, arguments):
                    if len(begun) >= MOST_BEGUN:
                        begun.pop(next(iter(begun))).close()
                    begun[name] = doers[what](*arguments)
                case ("next", name):
                    tell(*_unit(begun, name))
                case ("drop", name):
                    unwanted = begun.pop(name, None)
                    if unwanted is not None:
                        unwanted.close()


def _unit(begun: dict[int, Generator[None, None, Any]], name: int) -> tuple[str, Any]:
    work = begun.get(name)
    if work is None:
        return "raised", "the work was given up: too much of it waits"
    try:
        next(work)
    except StopIteration as done:
        del begun[name]
        return "returned", done.value
    except Exception as error:
        del begun[name]
        return "raised", f"{type(error).__name__}: {error}"
    return "yielded", None
