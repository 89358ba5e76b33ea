"""What engines elsewhere are asked for and owe, whoever runs them.

    submit ─▶ number, owed since ─▶ paid by its outs     open ─▶ asked since ─▶ opened
                  │ hang_s                                          │ open_timeout_s
                  └──────────────▶ failure ◀────────────────────────┘

Base of `thread` and `process`; `guarded` is their other end.
"""

from __future__ import annotations

import logging
import time
from collections import deque
from dataclasses import dataclass
from typing import Any, Final

from voice_backend.engine import Engine, Opened
from voice_backend.model import Inject, Slot
from warp.errors import InvalidState, UsageError

_log = logging.getLogger(__name__)
BATCHES_IN_FLIGHT: Final = 8
"""Batches that are under way at the most; what does not fit is lost, and counted as late."""
IDLE_S: Final = 1.0
STOP_S: Final = 2.0
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


class Orders:
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
        """Pass an order on, without waiting."""
        raise NotImplementedError

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


def obey(engine: Engine, order: Order) -> Order | None:
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


def guarded(engine: Engine, order: Order) -> Order | None:
    try:
        return obey(engine, order)
    except Exception:
        _log.exception("an order failed: %s", order[0])
        return None
