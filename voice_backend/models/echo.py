"""A voice that says what it hears, a little later: what shows that sound goes both ways.

One frame in, one frame out; no weights, no state but the frames that are under way.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import Final

from voice_backend.frames import Frame, silence
from voice_backend.model import (
    ModelInfo,
    NoCapacity,
    PlainVoice,
    SessionConfig,
    Slot,
    StepIn,
    StepOut,
)
from voice_backend.models.slots import Slots

MAX_SLOTS: Final = 1_000


class EchoModel(PlainVoice):
    """Says what it hears `delay_frames` frames later (20 ms each)."""

    __slots__ = ("_delay", "_silence", "_slots", "info")

    def __init__(
        self, *, rate: int = 48_000, delay_frames: int = 0, max_slots: int = MAX_SLOTS
    ) -> None:
        self.info = ModelInfo(
            name="echo",
            in_rate=rate,
            out_rate=rate,
            max_slots=max_slots,
            caps=frozenset({"native_duplex", "lockstep", "cancel_output"}),
        )
        self._delay = delay_frames
        self._slots: Slots[deque[Frame]] = Slots(max_slots)
        self._silence = silence(self.info.frame_samples_out)

    def load(self) -> None:
        """There is nothing to load."""

    def open(self, config: SessionConfig) -> Slot:
        """Take a slot. Raises NoCapacity."""
        if self._slots.free == 0:
            raise NoCapacity(f"all {self.info.max_slots} echoes are taken")
        return self._slots.take(deque([self._silence] * self._delay))

    def step(self, batch: Sequence[StepIn]) -> list[StepOut]:
        """Hear a frame, say the one of `delay_frames` ago."""
        outs = []
        for one in batch:
            waiting = self._slots.find(one.slot)
            if waiting is None:
                outs.append(StepOut(one.slot, one.seq, one.epoch, error="no such session"))
                continue
            waiting.append(self._silence if one.pcm is None else one.pcm)
            outs.append(StepOut(one.slot, one.seq, one.epoch, waiting.popleft()))
        return outs

    def cancel(self, slot: Slot, epoch: int) -> None:
        """Forget what is under way."""
        waiting = self._slots.find(slot)
        if waiting is not None:
            waiting.extend([self._silence] * len(waiting))
            for _ in range(self._delay):
                waiting.popleft()

    def close(self, slot: Slot) -> None:
        """Free the slot."""
        self._slots.give_back(slot)
