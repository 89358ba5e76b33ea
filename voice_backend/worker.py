"""An engine elsewhere: in a thread, or in a process of its own behind rings of shared memory.

    media thread                          worker process (or thread)
    submit ─▶ ring in ── wake (pipe) ──▶ Engine.run ─▶ ring out ─▶ collect
    open, inject, cancel, close ── pipe ─▶ between batches ── pipe ─▶ opened

Sound goes through the rings as it is; what is small and rare goes through the pipe. Batches and
what is said about their slots keep their order. A worker that ends, or that owes a batch for
`hang_s` or a slot for `open_timeout_s`, is a `failure`: whoever looks after the host stops it and
makes another. While a worker does not read its pipe, orders wait here: the media thread never does.
"""

from __future__ import annotations

import atexit
import contextlib
import gc
import logging
import multiprocessing
import os
import pickle
import select
import signal
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from multiprocessing.connection import Connection
from multiprocessing.shared_memory import SharedMemory
from typing import Any, Final

from voice_backend.batches import (
    Parts,
    batch_bytes,
    pack_batch,
    pack_outs,
    unpack_batch,
    unpack_outs,
)
from voice_backend.engine import Engine, Opened
from voice_backend.model import Inject, ModelInfo, SessionConfig, Slot, StepIn, StepOut, VoiceModel
from voice_backend.priority import take_priority
from voice_backend.rings import HEADER_BYTES, Ring
from warp.errors import InternalError, InvalidState, UsageError

_log = logging.getLogger(__name__)
BATCHES_IN_FLIGHT: Final = 8
"""Batches that lie in a ring at the most; what does not fit is lost, and counted as late."""
MAX_WAITING: Final = 1_000
"""Orders that wait for a worker which does not read; what it is told beyond is lost."""
_BEGUN, _COST_US = 0, 1
_STOP_S = 2.0
_IDLE_S = 1.0
_WAKE = b""
Order = tuple[Any, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerConfig:
    """How a worker is run."""

    hang_s: float = 5.0
    """A batch that is owed for so long is not coming."""
    open_timeout_s: float = 5.0
    """Nor is a slot that was asked for so long ago."""
    load_timeout_s: float = 120.0
    core: int | None = None
    """The core that the process keeps to; None: any."""
    niceness: int = 0
    """Added to the process's."""
    realtime_priority: int | None = None
    """SCHED_FIFO priority of the thread that steps, where the system lets us; None: as everybody.
    Threads that the model starts do not have it."""


class _Orders:
    """What both hosts do alike: numbers of batches, slots that were asked for, and time owed."""

    def __init__(self, config: WorkerConfig) -> None:
        self._config = config
        self._number = 0
        self._asked: dict[int, tuple[Opened, float]] = {}
        self._next_ask = 0
        self._owed: deque[tuple[int, float]] = deque()
        self.hop = True
        self.failure: str | None = None

    def _ask(self, done: Opened) -> int:
        self._next_ask += 1
        self._asked[self._next_ask] = done, time.monotonic()
        return self._next_ask

    def _opened(self, ask: int, result: Slot | Exception) -> None:
        asked = self._asked.pop(ask, None)
        if asked is not None:
            asked[0](result)

    def _owe(self) -> int:
        self._number += 1
        self._owed.append((self._number, time.monotonic()))
        return self._number

    def _paid(self, number: int) -> None:
        while self._owed and self._owed[0][0] <= number:
            self._owed.popleft()

    def _fail(self, reason: str) -> None:
        if self.failure is None:
            self.failure = reason
            self._owed.clear()
        asked, self._asked = self._asked, {}
        for done, _ in asked.values():
            done(InvalidState(reason))

    def _watch(self) -> None:
        now, hang_s, open_s = time.monotonic(), self._config.hang_s, self._config.open_timeout_s
        if self._owed and now - self._owed[0][1] > hang_s:
            self._fail(f"the engine has said nothing for {hang_s:g} s")
        elif self._asked and now - next(iter(self._asked.values()))[1] > open_s:
            self._fail(f"the engine has opened no session for {open_s:g} s")


def _has_room(pipe: Connection, within_s: float) -> bool:
    """Tell whether a message can be written at once: a quarter of the buffer is full at most."""
    if not hasattr(select, "poll"):
        return True
    poll = select.poll()
    poll.register(pipe.fileno(), select.POLLOUT)
    return bool(poll.poll(within_s * 1000))


def _ring(memory: SharedMemory) -> Ring:
    if memory.buf is None:
        raise InternalError("shared memory that is closed")
    return Ring(memory.buf)


def _obey(engine: Engine, order: Order) -> Order | None:
    """Do what the host has asked for between batches; returns what it is to be told."""
    match order:
        case ("open", ask, config):
            try:
                return ("opened", ask, engine.open(config))
            except UsageError as error:
                return ("opened", ask, type(error)(str(error)))
            except Exception as error:
                _log.exception("a session could not be opened")
                return ("opened", ask, RuntimeError(type(error).__name__))
        case ("close", slot):
            engine.close(slot)
        case ("cancel", slot, epoch):
            engine.cancel(slot, epoch)
        case ("inject", slot, kind, text, delegation_id):
            engine.inject(slot, kind, text, delegation_id)
    return None


def _guarded(engine: Engine, order: Order) -> Order | None:
    try:
        return _obey(engine, order)
    except Exception:
        _log.exception("an order failed: %s", order[0])
        return None


class ThreadHost(_Orders):
    """An engine in a thread of this process: for models that wait, or leave the interpreter."""

    def __init__(self, model: Callable[[], VoiceModel], config: WorkerConfig | None = None) -> None:
        super().__init__(config or WorkerConfig())
        self._engine = Engine(model())
        self._todo: deque[Order] = deque()
        self._done: deque[Order] = deque()
        self._wake = threading.Event()
        self._stopping = False
        self._thread: threading.Thread | None = None
        self.info = self._engine.info
        self.begun = 0
        self.cost_s = 0.0

    def start(self) -> None:
        """Load the model, then start the thread."""
        self._engine.load()
        self.info = self._engine.info
        self._thread = threading.Thread(target=self._run, name="engine", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """End the thread; one that hangs is left behind."""
        self._stopping = True
        self._wake.set()
        if self._thread is not None:
            self._thread.join(_STOP_S)
        self._fail("the engine has ended")

    def open(self, config: SessionConfig, done: Opened) -> None:
        """See `EngineHost`."""
        self._tell(("open", self._ask(done), config))

    def submit(self, batch: Sequence[StepIn]) -> int:
        """Hand over a batch; of those that wait, the oldest goes when there are too many."""
        number = self._owe()
        if len(self._owed) <= BATCHES_IN_FLIGHT:
            self._tell(("batch", number, list(batch)))
        return number

    def collect(self) -> list[StepOut]:
        """Return what has come out."""
        outs: list[StepOut] = []
        while self._done:
            order = self._done.popleft()
            if order[0] == "outs":
                self._paid(order[1])
                outs += order[2]
            else:
                self._opened(order[1], order[2])
        self._watch()
        return outs

    def inject(self, slot: Slot, kind: Inject, text: str, delegation_id: str | None) -> None:
        """See `VoiceModel`."""
        self._tell(("inject", slot, kind, text, delegation_id))

    def cancel(self, slot: Slot, epoch: int) -> None:
        """See `VoiceModel`."""
        self._tell(("cancel", slot, epoch))

    def close(self, slot: Slot) -> None:
        """See `VoiceModel`."""
        self._tell(("close", slot))

    def _tell(self, order: Order) -> None:
        self._todo.append(order)
        self._wake.set()

    def _run(self) -> None:
        engine, more = self._engine, False
        while not self._stopping:
            if not more:
                self._wake.wait(_IDLE_S)
            self._wake.clear()
            while self._todo and not self._stopping:
                order = self._todo.popleft()
                if order[0] != "batch":
                    reply = _guarded(engine, order)
                    if reply is not None:
                        self._done.append(reply)
                    continue
                self.begun, began = order[1], time.monotonic()
                self._done.append(("outs", order[1], engine.run(order[2])))
                self.cost_s = time.monotonic() - began
            more = engine.work()
        engine.stop()


class ProcessHost(_Orders):
    """An engine in a process: what hangs, crashes or holds the interpreter does so over there."""

    def __init__(self, model: Callable[[], VoiceModel], config: WorkerConfig | None = None) -> None:
        """`model` is called in the process; it has to be importable there (a class, a partial)."""
        super().__init__(config or WorkerConfig())
        self._model = model
        self._process: Any = None
        self._pipe: Connection | None = None
        self._memory: list[SharedMemory] = []
        self._rings: list[Ring] = []
        self._waiting: deque[Order] = deque()
        """Orders that the process has no room for yet."""
        self.info: ModelInfo

    @property
    def begun(self) -> int:
        """Number of the last batch that the engine has begun."""
        return self._rings[1].word(_BEGUN) if self._rings else 0

    @property
    def cost_s(self) -> float:
        """What the last batch took."""
        return self._rings[1].word(_COST_US) / 1e6 if self._rings else 0.0

    @property
    def pid(self) -> int | None:
        """The process, once it runs."""
        return None if self._process is None else self._process.pid

    def start(self) -> None:
        """Start the process and wait until its model is loaded. Raises what the model raised."""
        context = multiprocessing.get_context("spawn")
        self._pipe, theirs = context.Pipe()
        # not a daemon: those may have no processes of their own
        self._process = context.Process(
            target=_work, args=(theirs, self._model, self._config), name="voice"
        )
        self._process.start()
        atexit.register(self.stop)
        theirs.close()
        kind, value = self._receive(self._config.load_timeout_s)
        if kind == "failed":
            self.stop()
            raise value
        self.info = value
        size = BATCHES_IN_FLIGHT * batch_bytes(
            self.info.max_slots, self.info.frame_samples_in, self.info.frame_samples_out
        )
        self._memory = [SharedMemory(create=True, size=HEADER_BYTES + size) for _ in range(2)]
        self._rings = [_ring(memory) for memory in self._memory]
        self._send(("rings", *(memory.name for memory in self._memory)))
        self._receive(self._config.load_timeout_s)

    def _receive(self, timeout_s: float) -> tuple[str, Any]:
        pipe = self._pipe
        try:
            if pipe is None or not pipe.poll(timeout_s):
                raise InvalidState(f"the model was not loaded within {timeout_s:g} s")
            found: tuple[str, Any] = pickle.loads(pipe.recv_bytes())
        except (EOFError, OSError) as error:
            self.stop()
            raise InvalidState("the worker ended before its model was loaded") from error
        except InvalidState:
            self.stop()
            raise
        return found

    def stop(self) -> None:
        """End the process, for sure, and free the memory."""
        atexit.unregister(self.stop)
        if self._process is not None:
            self._send(("stop",))
            self._flush(_STOP_S)
            self._process.join(_STOP_S if self.failure is None else 0.1)
            if self._process.is_alive():
                self._process.kill()
                self._process.join()
            self._process.close()
            self._process = None
        self._fail("the engine has ended")
        if self._pipe is not None:
            self._pipe.close()
            self._pipe = None
        rings, self._rings = self._rings, []
        for ring in rings:
            ring.close()
        memory, self._memory = self._memory, []
        for one in memory:
            one.close()
            one.unlink()

    def open(self, config: SessionConfig, done: Opened) -> None:
        """See `EngineHost`."""
        if self.failure is not None:
            done(InvalidState(self.failure))
        else:
            self._send(("open", self._ask(done), config))

    def submit(self, batch: Sequence[StepIn]) -> int:
        """Hand over a batch; one that does not fit into the ring is lost."""
        number = self._owe()
        # orders that wait come before it: what does not read them takes no batch either
        ready = self.failure is None and not self._waiting
        if ready and self._rings[0].write(pack_batch(number, batch)):
            self._write(_WAKE)
        return number

    def collect(self) -> list[StepOut]:
        """Return what has come out."""
        outs: list[StepOut] = []
        if self.failure is not None:
            return outs
        try:
            while (record := self._rings[1].read()) is not None:
                number, found = unpack_outs(record, self.info.frame_samples_out)
                self._paid(number)
                outs += found
        except Exception:
            # memory that another process has spoilt may hold anything, tick after tick
            _log.exception("what the engine's process says cannot be read")
            self._fail("the engine's process cannot be understood")
        self._read_pipe()
        self._flush()
        self._watch()
        return outs

    def _read_pipe(self) -> None:
        pipe = self._pipe
        try:
            while pipe is not None and pipe.poll():
                _, ask, result = pickle.loads(pipe.recv_bytes())
                self._opened(ask, result)
        except (EOFError, OSError):
            self._fail("the engine's process has ended")

    def inject(self, slot: Slot, kind: Inject, text: str, delegation_id: str | None) -> None:
        """See `VoiceModel`."""
        self._send(("inject", slot, kind, text, delegation_id))

    def cancel(self, slot: Slot, epoch: int) -> None:
        """See `VoiceModel`."""
        self._send(("cancel", slot, epoch))

    def close(self, slot: Slot) -> None:
        """See `VoiceModel`."""
        self._send(("close", slot))

    def _send(self, order: Order) -> None:
        is_lost = order[0] == "inject" and len(self._waiting) >= MAX_WAITING
        if self.failure is None and not is_lost:
            self._waiting.append(order)
            self._flush()

    def _flush(self, within_s: float = 0.0) -> None:
        """Write the orders that wait, as far as the pipe has room, or comes to have it in time."""
        waiting, pipe = self._waiting, self._pipe
        while waiting and self.failure is None and pipe and _has_room(pipe, within_s):
            self._write(pickle.dumps(waiting.popleft()))

    def _write(self, message: bytes) -> None:
        if self._pipe is not None:
            try:
                self._pipe.send_bytes(message)
            except (OSError, ValueError):
                self._fail("the engine's process has ended")


# -- the worker's side -----------------------------------------------------------------------------


def _work(pipe: Connection, model: Callable[[], VoiceModel], config: WorkerConfig) -> None:
    """Load the model and serve until the parent says so, or is gone."""
    # Ctrl-C is for the parent, which ends us
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    _settle(config)
    try:
        engine = Engine(model())
        engine.load()
    except Exception as error:
        known = isinstance(error, UsageError)
        told = error if known else InvalidState(f"the model cannot be loaded: {error!r}")
        pipe.send_bytes(pickle.dumps(("failed", InvalidState(str(told)))))
        return
    pipe.send_bytes(pickle.dumps(("loaded", engine.info)))
    with contextlib.suppress(EOFError, OSError):
        _, *names = pickle.loads(pipe.recv_bytes())
        memory = [SharedMemory(name=name) for name in names]
        rings = [_ring(one) for one in memory]
        pipe.send_bytes(pickle.dumps(("ready", None)))
        gc.collect()
        gc.freeze()
        try:
            _serve(pipe, engine, rings[0], rings[1])
        finally:
            engine.stop()
            for ring, one in zip(rings, memory, strict=True):
                ring.close()
                one.close()


def _serve(pipe: Connection, engine: Engine, heard: Ring, said: Ring) -> None:
    more = False
    while True:
        if pipe.poll(0 if more else _IDLE_S):
            raw = pipe.recv_bytes()
            if raw:
                # orders are written before the batch that they are meant to come before
                order = pickle.loads(raw)
                if order[0] == "stop":
                    return
                reply = _guarded(engine, order)
                if reply is not None:
                    pipe.send_bytes(pickle.dumps(reply))
            else:
                record = heard.read()
                if record is not None:
                    _run(engine, record, said)
            more = True
        else:
            more = engine.work()


def _run(engine: Engine, record: bytes, said: Ring) -> None:
    number, batch = unpack_batch(record, engine.info.frame_samples_in)
    said.set_word(_BEGUN, number)
    began = time.monotonic()
    outs = engine.run(batch)
    said.set_word(_COST_US, int((time.monotonic() - began) * 1e6))
    parts: Parts = pack_outs(number, outs)
    if not said.write(parts):
        _log.warning("the media loop does not collect: a batch is lost")


def _settle(config: WorkerConfig) -> None:
    with contextlib.suppress(OSError, AttributeError):
        if config.core is not None:
            os.sched_setaffinity(0, {config.core})
        if config.niceness:
            os.nice(config.niceness)
    if config.realtime_priority is not None:
        take_priority(config.realtime_priority)
