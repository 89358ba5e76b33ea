"""An engine in a process of its own: sound goes through rings, what is small and rare by a pipe.

Batches and what is said about their slots keep their order. While a worker does not read its pipe,
orders wait here: the media thread never does.
"""

from __future__ import annotations

import atexit
import logging
import multiprocessing
import pickle
import select
import threading
from collections import deque
from collections.abc import Callable, Sequence
from multiprocessing.connection import Connection
from multiprocessing.shared_memory import SharedMemory
from typing import Any, Final

from voice_backend.batches import batch_bytes, pack_batch, unpack_outs
from voice_backend.engine import Opened
from voice_backend.model import ModelInfo, SessionConfig, StepIn, StepOut, VoiceModel
from voice_backend.rings import HEADER_BYTES, Ring
from voice_backend.spawning import deaf_to_interrupts
from voice_backend.worker.orders import BATCHES_IN_FLIGHT, STOP_S, Order, Orders, WorkerConfig
from voice_backend.worker.serving import BEGUN, COST_US, WAKE, ring_over, work
from warp.errors import InvalidState

_log = logging.getLogger(__name__)
MAX_WAITING: Final = 1_000
"""Orders that wait for a worker which does not read; what it is told beyond is lost."""


def _has_room(pipe: Connection, within_s: float) -> bool:
    """Tell whether a message can be written at once: a quarter of the buffer is full at most."""
    if not hasattr(select, "poll"):
        return True
    poll = select.poll()
    poll.register(pipe.fileno(), select.POLLOUT)
    return bool(poll.poll(within_s * 1000))


class ProcessHost(Orders):
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
        self._ending = threading.RLock()
        self._is_over = False
        self.info: ModelInfo

    @property
    def begun(self) -> int:
        """Number of the last batch that the engine has begun."""
        return self._rings[1].word(BEGUN) if self._rings else 0

    @property
    def cost_s(self) -> float:
        """What the last batch took."""
        return self._rings[1].word(COST_US) / 1e6 if self._rings else 0.0

    @property
    def pid(self) -> int | None:
        """The process, once it runs."""
        return None if self._process is None else self._process.pid

    def start(self) -> None:
        """Start the process and wait until its model is loaded. Raises what the model raised.

        `stop` may be called meanwhile, by another thread; then it raises InvalidState.
        """
        with self._ending:
            self._require_wanted()
            self._launch()
        kind, value = self._receive(self._config.load_timeout_s)
        if kind == "failed":
            self.stop()
            raise value
        with self._ending:
            self._require_wanted()
            self.info = value
            self._share_memory()
        self._receive(self._config.load_timeout_s)

    def _require_wanted(self) -> None:
        if self._is_over:
            raise InvalidState("the engine was stopped before it was ready")

    def _launch(self) -> None:
        context = multiprocessing.get_context("spawn")
        self._pipe, theirs = context.Pipe()
        # not a daemon: those may have no processes of their own
        self._process = context.Process(
            target=work, args=(theirs, self._model, self._config), name="voice"
        )
        with deaf_to_interrupts():
            self._process.start()
        atexit.register(self.stop)
        theirs.close()

    def _share_memory(self) -> None:
        size = BATCHES_IN_FLIGHT * batch_bytes(
            self.info.max_slots, self.info.frame_samples_in, self.info.frame_samples_out
        )
        self._memory = [SharedMemory(create=True, size=HEADER_BYTES + size) for _ in range(2)]
        self._rings = [ring_over(memory) for memory in self._memory]
        self._tell(("rings", *(memory.name for memory in self._memory)))

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
        """End the process, for sure, and free the memory. Harmless when repeated."""
        with self._ending:
            self._is_over = True
            self._stop()

    def _stop(self) -> None:
        atexit.unregister(self.stop)
        if self._process is not None:
            self._tell(("stop",))
            self._flush(STOP_S)
            # one that still loads does not listen
            listens = self.failure is None and bool(self._rings)
            self._process.join(STOP_S if listens else 0.1)
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
            self._tell(("open", self._ask(done), config))

    def submit(self, batch: Sequence[StepIn]) -> int:
        """Hand over a batch; one that does not fit into the ring is lost."""
        number = self._owe()
        # orders that wait come before it: what does not read them takes no batch either
        ready = self.failure is None and not self._waiting
        if ready and self._rings[0].write(pack_batch(number, batch)):
            self._write(WAKE)
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

    def _tell(self, order: Order) -> None:
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
