"""A session's place in the media loop: 20 ms in, 20 ms out, and the model's cadence between them.

    hear(pcm) ─▶ gathered to the model's frame ─▶ StepIn ─▶ engine ─▶ StepOut ─▶ receive
    take()    ◀─ playout ◀─ sliced to 20 ms ◀──────────────────────────────────────┘ └─▶ events

Output is owed one model's frame after its input was complete where the engine is elsewhere, and at
once where it is called in place; `reserve` frames later if asked for. Called by `desk`; pure.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from typing import Final

from voice_backend.counts import FrameCounts, Late
from voice_backend.frames import MEDIA_FRAME_MS, Frame, Gatherer, Slicer, fault_of
from voice_backend.model import Cancelled, ModelEvent, ModelInfo, Slot, StepIn, StepOut
from voice_backend.playout import MAX_RESERVE, Playout
from warp.errors import InvalidConfig

MAX_EVENTS: Final = 1_000
"""Events that wait for the application between two ticks; what a model says beyond is dropped."""
GIVE_UP_FRAMES: Final = 250
"""Frames in a row without any sound from the model, 5 s, after which the session has failed."""
_RECENT: Final = 16


@dataclass(frozen=True, slots=True, kw_only=True)
class Failed:
    """The voice of this session has failed; its slot is free, and the others go on."""

    reason: str
    at_ms: int


VoiceEvent = ModelEvent | Failed


class Seat:
    """What the media loop knows of one session."""

    __slots__ = (
        "_events",
        "_gatherer",
        "_handed",
        "_info",
        "_lag_until",
        "_silent",
        "_slicer",
        "counts",
        "dropped_events",
        "failed",
        "playout",
        "seq",
        "slot",
        "usage_ratio",
    )

    def __init__(self, slot: Slot, info: ModelInfo, *, hop: bool, reserve: int = 0) -> None:
        if not 0 <= reserve <= MAX_RESERVE:
            raise InvalidConfig(f"0 to {MAX_RESERVE} frames lie in reserve, not {reserve}")
        self.slot = slot
        self._info = info
        self._gatherer = Gatherer(info.in_rate, info.frame_ms)
        self._slicer = Slicer(info.out_rate, info.frame_ms)
        ratio = self._slicer.ratio
        delay = ratio - 1 + (ratio if hop else 0) + reserve
        self.counts = FrameCounts()
        self.playout = Playout(
            self._info.frame_samples_out // ratio,
            delay=delay,
            room=delay + 2 * ratio,
            counts=self.counts,
        )
        self._lag_until = info.lag_frames * ratio
        self._handed: deque[tuple[int, int]] = deque(maxlen=_RECENT)
        self._events: list[VoiceEvent] = []
        self._silent = 0
        self.seq = 0
        """Number of the next StepIn."""
        self.failed = False
        self.dropped_events = 0
        self.usage_ratio: float | None = None

    @property
    def heard_ms(self) -> int:
        """Media time of what the model was handed."""
        return self.seq * self._info.frame_ms

    def hear(self, pcm: Frame | None, due: float) -> StepIn | None:
        """Take in 20 ms; returns what the model is owed when its frame is complete."""
        if pcm is None:
            self.counts.lost_in += 1
        full, whole = self._gatherer.add(pcm)
        if not full:
            return None
        seq = self.seq
        self.seq = seq + 1
        return StepIn(self.slot, seq, whole, self.playout.epoch, due)

    def handed(self, seq: int, batch: int) -> None:
        """Note in which batch a StepIn was handed to the engine."""
        self._handed.append((seq, batch))

    def receive(self, out: StepOut) -> bool:
        """Take in what the model says; returns whether it took back what it was saying."""
        if self.failed:
            return False
        if out.usage_ratio is not None:
            self.usage_ratio = out.usage_ratio
        ratio, yielded = self._slicer.ratio, False
        for event in out.events:
            if isinstance(event, Cancelled):
                event = self._yielded(event, out.seq * ratio)
                yielded = True
            self._say(event)
        if out.error is not None:
            self.fail(out.error)
        elif out.pcm is None:
            pass
        elif fault_of(out.pcm, self._info.frame_samples_out) is not None:
            self.counts.unusable += ratio
        else:
            for part, pcm in enumerate(self._slicer.cut(out.pcm)):
                self.playout.receive(out.seq * ratio + part, pcm, out.epoch)
        return yielded

    def _yielded(self, event: Cancelled, index: int) -> Cancelled:
        """Drop what the model has taken back; returns the event with what was played in truth."""
        unplayed = self.playout.cut(index) * MEDIA_FRAME_MS
        return Cancelled(
            at_ms=min(event.at_ms, self.playout.position_ms),
            played_ms=max(0, event.played_ms - unplayed),
        )

    def take(self, begun: int) -> tuple[Frame, Late | None]:
        """Return the 20 ms whose turn it is, and why it is not the model's where it should be.

        `begun` is the number of the last batch that the engine has begun.
        """
        pcm, missing = self.playout.take()
        if not missing or self.playout.next_index <= self._lag_until:
            self._silent = 0
            return pcm, None
        self.counts.concealed += 1
        self._silent += 1
        if self._silent >= GIVE_UP_FRAMES:
            self.fail("the voice has said nothing for 5 s")
        return pcm, self._cause(begun)

    def _cause(self, begun: int) -> Late:
        seq = (self.playout.next_index - 1) // self._slicer.ratio
        for handed, batch in self._handed:
            if handed == seq:
                return Late.MODEL if batch <= begun else Late.QUEUE
        return Late.INPUT_WAIT if seq >= self.seq else Late.MODEL

    def cancel(self) -> int:
        """Begin an epoch at the next StepIn; returns it, for the model to be told."""
        return self.playout.cancel(self.seq * self._slicer.ratio)

    def fail(self, reason: str) -> None:
        """End the model's part in this session; said once."""
        if not self.failed:
            self.failed = True
            self._events.append(Failed(reason=reason, at_ms=self.heard_ms))

    def _say(self, event: ModelEvent) -> None:
        if len(self._events) < MAX_EVENTS:
            self._events.append(event)
        else:
            self.dropped_events += 1

    def events(self) -> list[VoiceEvent]:
        """Drain what there is to tell."""
        found, self._events = self._events, []
        return found
