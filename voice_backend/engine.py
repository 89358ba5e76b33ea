"""A model, kept to its word: what it returns is checked, and what it raises stays where it belongs.

    batch ─▶ Engine.run ─▶ model.step ─▶ checked StepOuts     control: open, close, inject, cancel
                              │ raises                         between frames: work(), one unit of a
                              ▼                                prefill at a time
         the frame of the batch is lost; each of its slots is stepped alone next time,
         and whoever raises alone is the one at fault: closed, with its error
         a frame of the wrong type or shape is discarded; a slot that returns no other is closed

Called by a host (`loop`, `worker`), by one thread; pure.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, Protocol

from voice_backend.frames import fault_of
from voice_backend.model import Inject, ModelInfo, SessionConfig, Slot, StepIn, StepOut, VoiceModel
from warp.errors import WarpError

_log = logging.getLogger(__name__)
MAX_UNUSABLE: Final = 50
"""Frames of the wrong type or shape in a row, after which a slot has failed."""


@dataclass(slots=True)
class EngineCounts:
    """What an engine has done."""

    batches: int = 0
    steps: int = 0
    """StepIns that were answered."""
    faults: int = 0
    """Times that the model raised."""
    failed_slots: int = 0
    """Sessions that it ended for a fault of theirs."""
    unusable: int = 0
    """Frames of the wrong shape or type."""
    strays: int = 0
    """StepOuts that answer nothing which was asked."""


Opened = Callable[[Slot | Exception], None]
"""Is told the slot, or why there is none: NoCapacity, or a fault of the model's."""


class EngineHost(Protocol):
    """Where an engine runs: in the media loop's own thread, in another, or in a process."""

    @property
    def info(self) -> ModelInfo:
        """The model's."""

    @property
    def hop(self) -> bool:
        """Whether what is submitted in one tick is collected in a later one."""

    @property
    def begun(self) -> int:
        """Number of the last batch that the engine has begun."""

    @property
    def failure(self) -> str | None:
        """Why the engine is of no use any more; None while it is."""

    @property
    def cost_s(self) -> float:
        """What the last batch took."""

    def start(self) -> None:
        """Load the model; blocks. Raises WarpError naming the fault."""

    def stop(self) -> None:
        """End whatever runs; blocks for a moment. Harmless when repeated."""

    def open(self, config: SessionConfig, done: Opened) -> None:
        """Take a slot, and say so, now or at a later `collect`."""

    def submit(self, batch: Sequence[StepIn]) -> int:
        """Hand over a batch, without waiting; returns its number."""

    def collect(self) -> Sequence[StepOut]:
        """Return what has come out, without waiting."""

    def inject(self, slot: Slot, kind: Inject, text: str, delegation_id: str | None) -> None:
        """See `VoiceModel`."""

    def cancel(self, slot: Slot, epoch: int) -> None:
        """See `VoiceModel`."""

    def close(self, slot: Slot) -> None:
        """See `VoiceModel`."""


class Engine:
    """Runs one model for all of its slots."""

    __slots__ = (
        "_broken", "_model", "_suspects", "_unheard", "_unusable", "_work", "counts", "info",
    )  # fmt: skip

    def __init__(self, model: VoiceModel) -> None:
        self._model = model
        self._suspects: set[Slot] = set()
        self._broken: set[Slot] = set()
        self._unusable: dict[Slot, int] = {}
        self._unheard: set[Inject] = set()
        """What the model could not be told, and our log knows it."""
        self._work: deque[tuple[Slot, Iterator[Any]]] = deque()
        self.counts = EngineCounts()
        self.info = model.info

    def load(self) -> None:
        """Load the model; raises WarpError naming the fault."""
        self._model.load()
        self.info = self._model.info

    def stop(self) -> None:
        """Let the model end what it runs of its own, where it has such a door (`stop`)."""
        stop = getattr(self._model, "stop", None)
        if callable(stop):
            try:
                stop()
            except Exception:
                _log.exception("%s does not end well", self.info.name)

    def open(self, config: SessionConfig) -> Slot:
        """Take a slot; its context, if any, is taken in between frames. Raises NoCapacity."""
        slot = self._model.open(config)
        context = config.context
        if context.messages or context.audio is not None:
            try:
                self._work.append((slot, iter(self._model.prefill(slot, context))))
            except Exception:
                self._model.close(slot)
                raise
        return slot

    def close(self, slot: Slot) -> None:
        """Free a slot."""
        self._suspects.discard(slot)
        self._broken.discard(slot)
        self._unusable.pop(slot, None)
        self._work = deque(item for item in self._work if item[0] != slot)
        self._model.close(slot)

    def inject(self, slot: Slot, kind: Inject, text: str, delegation_id: str | None = None) -> None:
        """Tell a slot something; a model that cannot be told is left alone."""
        try:
            self._model.inject(slot, kind, text, delegation_id)
        except WarpError as error:
            # clients say how often
            if kind not in self._unheard:
                self._unheard.add(kind)
                _log.warning("%s: %s", self.info.name, error)

    def cancel(self, slot: Slot, epoch: int) -> None:
        """Drop what a slot has not said yet."""
        self._model.cancel(slot, epoch)

    def run(self, batch: Sequence[StepIn]) -> list[StepOut]:
        """Step every slot of a batch; never raises for what the model does."""
        self.counts.batches += 1
        together = [one for one in batch if one.slot not in self._suspects]
        alone = [one for one in batch if one.slot in self._suspects]
        size = max(self.info.batch_sizes, default=0) or len(together) or 1
        outs: list[StepOut] = []
        for at in range(0, len(together), size):
            outs += self._step(together[at : at + size])
        for one in alone:
            if one.slot in self._broken:
                outs.append(self._fail(one, "the voice could not take in what was said before"))
            else:
                outs += self._step([one])
        return outs

    def _step(self, batch: list[StepIn]) -> list[StepOut]:
        try:
            outs = self._model.step(batch)
            return self._checked(batch, outs)
        except Exception as error:
            self.counts.faults += 1
            # the text of a foreign error may hold anything: it is for our log only
            _log.exception("%s failed in a batch of %d", self.info.name, len(batch))
            if len(batch) > 1:
                self._suspects.update(one.slot for one in batch)
                return []
            return [self._fail(batch[0], f"the voice failed ({type(error).__name__})")]

    def _checked(self, batch: list[StepIn], outs: Sequence[StepOut]) -> list[StepOut]:
        asked = {one.slot: one for one in batch}
        samples, found = self.info.frame_samples_out, []
        for out in outs:
            one = asked.pop(out.slot, None)
            if one is None or out.seq != one.seq:
                self.counts.strays += 1
                continue
            self.counts.steps += 1
            self._suspects.discard(out.slot)
            if out.error is not None:
                out = self._fail(one, out.error)
            elif out.pcm is not None:
                fault = fault_of(out.pcm, samples)
                if fault is not None:
                    out = self._discard(one, out, fault)
                elif self._unusable.get(out.slot):
                    self._unusable[out.slot] = 0
            found.append(out)
        return found

    def _discard(self, one: StepIn, out: StepOut, fault: str) -> StepOut:
        """Drop a frame that nobody could play; a slot that goes on so has failed."""
        self.counts.unusable += 1
        if one.slot not in self._unusable:
            _log.warning("%s: %s; what is not so is discarded", self.info.name, fault)
        row = self._unusable[one.slot] = self._unusable.get(one.slot, 0) + 1
        if row >= MAX_UNUSABLE:
            failed = self._fail(one, f"{row} frames in a row could not be played: {fault}")
            return replace(failed, events=out.events)
        out.pcm = None
        return out

    def _fail(self, one: StepIn, reason: str) -> StepOut:
        self.counts.failed_slots += 1
        try:
            self.close(one.slot)
        except Exception:
            _log.exception("%s cannot free a slot", self.info.name)
        return StepOut(one.slot, one.seq, one.epoch, error=reason)

    def work(self) -> bool:
        """Do one unit of what may wait; returns whether there is more."""
        if not self._work:
            return False
        slot, units = self._work[0]
        try:
            next(units)
        except StopIteration:
            self._work.popleft()
        except Exception:
            self.counts.faults += 1
            _log.exception("%s failed to take in a context", self.info.name)
            # a voice without its past is not the voice that was asked for
            self._suspects.add(slot)
            self._broken.add(slot)
            self._work.popleft()
        else:
            self._work.rotate(-1)
        return bool(self._work)


class InlineHost:
    """An engine in the thread that calls it: for models that cost less than a hop does."""

    __slots__ = ("_engine", "_outs", "begun", "cost_s", "failure", "hop", "info")

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._outs: list[StepOut] = []
        self.hop = False
        self.begun = 0
        self.cost_s = 0.0
        """Always 0: it is part of what a tick costs."""
        self.failure: str | None = None
        self.info = engine.info

    @property
    def counts(self) -> EngineCounts:
        """What the engine has done."""
        return self._engine.counts

    def start(self) -> None:
        """Load the model."""
        self._engine.load()
        self.info = self._engine.info

    def stop(self) -> None:
        """End what the model runs of its own."""
        self._engine.stop()

    def open(self, config: SessionConfig, done: Opened) -> None:
        """Take a slot now."""
        try:
            done(self._engine.open(config))
        except Exception as error:
            done(error)

    def submit(self, batch: Sequence[StepIn]) -> int:
        """Step the batch now."""
        self.begun += 1
        self._outs += self._engine.run(batch)
        self._engine.work()
        return self.begun

    def collect(self) -> list[StepOut]:
        """Return what has come out."""
        outs, self._outs = self._outs, []
        return outs

    def inject(self, slot: Slot, kind: Inject, text: str, delegation_id: str | None) -> None:
        """See `VoiceModel`."""
        self._engine.inject(slot, kind, text, delegation_id)

    def cancel(self, slot: Slot, epoch: int) -> None:
        """See `VoiceModel`."""
        self._engine.cancel(slot, epoch)

    def close(self, slot: Slot) -> None:
        """See `VoiceModel`."""
        self._engine.close(slot)
