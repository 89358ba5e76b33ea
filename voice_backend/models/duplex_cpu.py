"""The embedded voice: listens while it speaks, on a processor alone, for many callers at once.

    step ── every slot's 20 ms ─▶ Vad, one batch ─▶ Conversation ... ─▶ 20 ms of each slot
              ▲                                       │ submit
              └──── finished ◀── Runner (jobs) ◀──────┘ ears, turn model, mouth

A step costs the detector and a little bookkeeping and never waits: what the ears, the turn model
and the mouth find comes in at the beginning of a later frame. Weights come from the user's store.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from voice_backend.model import (
    Context,
    Inject,
    ModelInfo,
    NoCapacity,
    PlainVoice,
    Progress,
    SessionConfig,
    Slot,
    Snapshot,
    SnapshotKind,
    SnapshotRefused,
    StepIn,
    StepOut,
)
from voice_backend.models.conversation import FRAME_MS, Conversation, State
from voice_backend.models.ears import Ears
from voice_backend.models.jobs import Job, JobClass, Runner, Work, finish
from voice_backend.models.listener import Asked
from voice_backend.models.mouth import RATE as OUT_RATE
from voice_backend.models.mouth import Mouth
from voice_backend.models.slots import Slots
from voice_backend.models.speaker import Wanted
from voice_backend.models.store import Store
from voice_backend.models.talker import Talker
from voice_backend.models.turn_model import TurnModel
from voice_backend.models.vad import RATE as IN_RATE
from voice_backend.models.vad import WINDOW_MS, Vad
from voice_backend.turns.config import TurnConfig

_log = logging.getLogger(__name__)
MAX_SLOTS: Final = 32
EAGER_PAUSE_MS: Final = 96
"""Silence after which the turn model is asked: its word comes 60 ms later, when the silence is long
enough to be an end (`TurnConfig.settle_ms`), and speech that goes on meanwhile makes it void."""
EAGER_HOLD_MS: Final = 160
"""Speech over ours after which ours is held: five windows of the detector's. A window is judged
when it is whole, and what is in playout is still heard: so we are silent soon after 200 ms."""
MOST_MISSED: Final = 50
"""Frames that are made up for with silence when batches were lost."""
CAPABILITIES: Final = frozenset(
    {
        "cancel_output",
        "delegates",
        "inject_commentary",
        "inject_thinking",
        "input_transcript",
        "native_duplex",
        "output_transcript",
        "prefill_text",
        "snapshot_semantic",
    }
)
Clock = Callable[[], datetime]


@dataclass(slots=True)
class _Seat:
    """A slot that is taken."""

    conversation: Conversation
    next_seq: int = 0
    fed: int = 0
    """Frames that the detector has had."""


@dataclass(frozen=True, slots=True)
class Networks:
    """What is loaded once for all slots."""

    vad: Vad
    ears: Ears
    turns: TurnModel
    mouth: Mouth

    @classmethod
    def load(cls, store: Store, slots: int) -> Networks:
        """Load all of them. Raises ModelsMissing or ModelUnusable."""
        return cls(
            Vad.load(store, slots, IN_RATE * FRAME_MS // 1000),
            Ears.load(store),
            TurnModel.load(store),
            Mouth.load(store),
        )

    def warm_up(self) -> None:
        """Run each once: the first time takes ten times as long."""
        finish(self.mouth.say("Hello, I am here."))
        finish(self.ears.hear(np.zeros(IN_RATE, np.float32)))
        finish(self.turns.judge(np.zeros(IN_RATE, np.float32)))
        for _ in range(2):
            self.vad.receive_frames([0], np.zeros((1, IN_RATE * FRAME_MS // 1000), np.float32))
        self.vad.reset(0)


class DuplexCpu(PlainVoice):
    """Silero VAD, Smart-Turn, Moonshine, Hibari, and a talker by rules.

    `runner` does the jobs beside the frames; `clock` tells the wall time to who asks for it.
    """

    def __init__(
        self,
        runner: Runner,
        *,
        clock: Clock,
        store: Store | None = None,
        max_slots: int = MAX_SLOTS,
        turns: TurnConfig | None = None,
        networks: Networks | None = None,
    ) -> None:
        """`networks` are those to use; None: `load` takes them from the store."""
        self.info = ModelInfo(
            name="duplex-cpu",
            in_rate=IN_RATE,
            out_rate=OUT_RATE,
            max_slots=max_slots,
            caps=CAPABILITIES,
        )
        self._runner = runner
        self._clock = clock
        self._store = store or Store()
        self._turns = turns or TurnConfig(pause_ms=EAGER_PAUSE_MS, hold_ms=EAGER_HOLD_MS)
        self._slots: Slots[_Seat] = Slots(max_slots)
        self._networks = networks
        self._due = 0.0
        self._opened = 0
        self._faults: set[tuple[JobClass, str]] = set()

    def load(self) -> None:
        """Load the weights and run each network once. Raises ModelsMissing or ModelUnusable."""
        if self._networks is None:
            self._networks = Networks.load(self._store, self.info.max_slots)
            self._networks.warm_up()

    def open(self, config: SessionConfig) -> Slot:
        """Take a slot. Raises NoCapacity."""
        if self._slots.free == 0:
            raise NoCapacity(f"all {self.info.max_slots} conversations are taken")
        self._opened += 1
        senses = _Senses(self)
        talker = Talker(self._clock, delegates=config.delegates)
        conversation = Conversation(str(self._opened), config, talker, senses, self._turns)
        slot = senses.slot = self._slots.take(_Seat(conversation))
        self._loaded.vad.reset(slot.index)
        return slot

    def close(self, slot: Slot) -> None:
        """Free the slot and forget its jobs."""
        self._slots.give_back(slot)
        self._runner.drop(slot)

    def step(self, batch: Sequence[StepIn]) -> list[StepOut]:
        """Hear a frame of every slot and return one of each."""
        self._due = min((one.due for one in batch), default=0.0)
        for job in self._runner.finished():
            self._deliver(job)
        present = [(one, seat) for one in batch if (seat := self._slots.find(one.slot))]
        sounds = np.zeros((len(present), self.info.frame_samples_in), np.float32)
        for row, (one, _) in enumerate(present):
            if one.pcm is not None:
                np.multiply(one.pcm, 1 / 32768, out=sounds[row])
        likely = self._likely(present, sounds)
        outs = [
            self._step_one(one, seat, sound, likely.get(one.slot.index, []))
            for (one, seat), sound in zip(present, sounds, strict=True)
        ]
        known = {one.slot for one, _ in present}
        outs += [
            StepOut(one.slot, one.seq, one.epoch, error="no such conversation")
            for one in batch
            if one.slot not in known
        ]
        return outs

    def inject(self, slot: Slot, kind: Inject, text: str, delegation_id: str | None = None) -> None:
        """Say it when nobody speaks, or keep it in mind."""
        seat = self._slots.find(slot)
        if seat is not None:
            seat.conversation.inject(kind, text)

    def cancel(self, slot: Slot, epoch: int) -> None:
        """Say nothing more of what there is to say."""
        seat = self._slots.find(slot)
        if seat is not None:
            seat.conversation.cancel()

    def prefill(self, slot: Slot, context: Context) -> Iterator[Progress]:
        """Take in what was said before, a message a unit."""
        for done, message in enumerate(context.messages, 1):
            seat = self._slots.find(slot)
            if seat is None:
                return
            seat.conversation.talker.recall(message)
            yield Progress(done=done, total=len(context.messages))

    def snapshot(self, slot: Slot, *, kind: SnapshotKind = "exact") -> Snapshot:
        """Return what is known and what is being said. Raises SnapshotRefused for "exact"."""
        seat = self._slots.find(slot)
        if seat is None or kind != "semantic":
            raise SnapshotRefused(f"{self.info.name} gives semantic snapshots of taken slots")
        state = seat.conversation.state()
        return Snapshot(model=self.info.name, kind="semantic", seq=seat.next_seq, state=state)

    def restore(self, slot: Slot, snapshot: Snapshot) -> None:
        """Go on in a slot that was just opened, in the middle of a word if need be."""
        seat = self._slots.find(slot)
        if seat is None or not isinstance(snapshot.state, State):
            raise SnapshotRefused("the slot is free, or the snapshot is of another model")
        if seat.next_seq:
            raise SnapshotRefused("the slot has a past of its own: open another")
        seat.next_seq = snapshot.seq
        seat.conversation.go_on(snapshot.state)

    def stop(self) -> None:
        """Do no more jobs: the engine ends."""
        self._runner.close()

    @property
    def _loaded(self) -> Networks:
        if self._networks is None:
            self.load()
        if self._networks is None:
            raise NoCapacity("the models are not loaded")
        return self._networks

    def _likely(
        self, present: Sequence[tuple[StepIn, _Seat]], sounds: NDArray[np.float32]
    ) -> dict[int, list[tuple[int, int, float]]]:
        """Run the detector on all slots; returns windows by slot index."""
        windows: dict[int, list[tuple[int, int, float]]] = {}
        if not present:
            return windows
        shifts = {one.slot.index: (one.seq - seat.fed) * FRAME_MS for one, seat in present}
        for found in self._loaded.vad.receive_frames([o.slot.index for o, _ in present], sounds):
            start_ms = found.sample * 1000 // IN_RATE + shifts[found.index]
            windows.setdefault(found.index, []).append((start_ms, WINDOW_MS, found.value))
        for _, seat in present:
            seat.fed += 1
        return windows

    def _step_one(
        self,
        one: StepIn,
        seat: _Seat,
        sound: NDArray[np.float32],
        likely: list[tuple[int, int, float]],
    ) -> StepOut:
        at_ms = one.seq * FRAME_MS
        try:
            missed = min(one.seq - seat.next_seq, MOST_MISSED)
            for back in range(missed, 0, -1):
                seat.conversation.receive_frame(at_ms - back * FRAME_MS, np.zeros_like(sound), [])
            seat.next_seq = one.seq + 1
            seat.conversation.receive_frame(at_ms, sound, likely)
            frame, events = seat.conversation.next_frame(at_ms)
        except Exception as error:
            # a fault of one conversation is its own; the batch goes on for the others
            _log.exception("a conversation failed")
            return StepOut(
                one.slot, one.seq, one.epoch, error=f"the voice failed ({type(error).__name__})"
            )
        return StepOut(one.slot, one.seq, one.epoch, frame, events)

    # -- jobs -------------------------------------------------------------------------------------

    def submit(self, kind: JobClass, slot: Slot, work: Work, deliver: _Deliver) -> None:
        """Have work done beside the frames; `deliver` gets its result, None if it failed."""
        self._runner.submit(Job(kind, slot, work, due=self._due, token=deliver))

    def _deliver(self, job: Job) -> None:
        seat = self._slots.find(job.slot)
        if seat is None:
            return
        if job.error is not None:
            self._log_once(job.kind, job.error)
        if callable(job.token):
            job.token(seat.conversation, job.result)

    def _log_once(self, kind: JobClass, error: str) -> None:
        """A fault that comes again is in `JobCounts.failed`; its details would fill the log."""
        fault = (kind, error.partition(":")[0])
        if fault not in self._faults:
            self._faults.add(fault)
            _log.warning("a job of class %s failed, more will be counted: %s", kind.name, error)


_Deliver = Callable[[Conversation, Any], None]


class _Senses:
    """How one conversation has its work done."""

    __slots__ = ("_model", "slot")

    def __init__(self, model: DuplexCpu) -> None:
        self._model = model
        self.slot: Slot | None = None
        """Set when the slot is taken, before its first frame."""

    def idle(self) -> bool:
        """Tell whether nobody waits for an answer."""
        return self._model._runner.idle

    def hurry(self, kind: JobClass) -> None:
        """What was begun ahead is waited for."""
        if self.slot is not None:
            self._model._runner.hurry(self.slot, kind)

    def hear(self, kind: JobClass, asked: Asked, sound: NDArray[np.float32]) -> None:
        """Find the words."""
        work = self._model._loaded.ears.hear(sound)
        self._submit(kind, work, lambda talk, text: talk.receive_text(asked, text))

    def judge(self, asked: Asked, sound: NDArray[np.float32]) -> None:
        """Find out whether a turn is over."""
        work = self._model._loaded.turns.judge(sound)
        self._submit(JobClass.TURN, work, lambda talk, p: talk.receive_verdict(asked, p))

    def make(self, kind: JobClass, wanted: Wanted) -> None:
        """Speak a clause."""
        work = self._model._loaded.mouth.say(wanted.text, last=wanted.last)
        self._submit(kind, work, lambda talk, made: talk.receive_made(wanted, made))

    def _submit(self, kind: JobClass, work: Work, deliver: _Deliver) -> None:
        if self.slot is not None:
            self._model.submit(kind, self.slot, work, deliver)
