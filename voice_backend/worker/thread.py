"""An engine in a thread of this process."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Sequence

from voice_backend.engine import Engine, Opened
from voice_backend.model import SessionConfig, StepIn, StepOut, VoiceModel
from voice_backend.worker.orders import (
    BATCHES_IN_FLIGHT,
    IDLE_S,
    STOP_S,
    Order,
    Orders,
    WorkerConfig,
    guarded,
)


class ThreadHost(Orders):
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
            self._thread.join(STOP_S)
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

    def _tell(self, order: Order) -> None:
        self._todo.append(order)
        self._wake.set()

    def _run(self) -> None:
        engine, more = self._engine, False
        while not self._stopping:
            if not more:
                self._wake.wait(IDLE_S)
            self._wake.clear()
            while self._todo and not self._stopping:
                order = self._todo.popleft()
                if order[0] != "batch":
                    reply = guarded(engine, order)
                    if reply is not None:
                        self._done.append(reply)
                    continue
                self.begun, began = order[1], time.monotonic()
                self._done.append(("outs", order[1], engine.run(order[2])))
                self.cost_s = time.monotonic() - began
            more = engine.work()
        engine.stop()
