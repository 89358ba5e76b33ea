"""What we own of the output: each frame in its place, an epoch fence, and what was played of it.

    StepOut ─▶ receive(index, pcm, epoch) ─┬─ older epoch ─▶ fenced
                                           ├─ its turn is over ─▶ stale
                                           └─ held ─▶ take() once a tick ─▶ encoder
                                                      nothing there: conceal, then silence

Frame `index` has its turn in tick `index + delay` and no other: what comes late is dropped, never
queued, so that what a listener hears is never further behind than `delay`. `cancel` and `cut` drop
what is held; no more of it is played than what `take` has returned.
Called by `seat`; pure.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from voice_backend.counts import FrameCounts
from voice_backend.frames import MEDIA_FRAME_MS, Frame, silence

MAX_RESERVE: Final = 2
"""Frames that may lie ready ahead of their turn: 40 ms."""
_FADE_PARTS: Final = 4


class Playout:
    """The output of one session between its model and its encoder."""

    __slots__ = (
        "_counts",
        "_fence",
        "_held",
        "_last",
        "_ramp_down",
        "_room",
        "_silence",
        "epoch",
        "next_index",
        "played",
    )

    def __init__(self, samples: int, *, delay: int, room: int, counts: FrameCounts) -> None:
        self._counts = counts
        self._room = room
        self._held: dict[int, Frame] = {}
        self._fence = 0
        self._silence = silence(samples)
        self._silence.flags.writeable = False
        self._last: Frame | None = None
        self._ramp_down = np.linspace(1.0, 0.0, samples, endpoint=False, dtype=np.float32)
        self.epoch = 0
        self.next_index = -delay
        """Index of the frame whose turn is next; below 0 nothing is owed yet."""
        self.played = 0
        """Frames of the model's that were taken."""

    @property
    def held(self) -> int:
        """Frames that wait for their turn."""
        return len(self._held)

    @property
    def position_ms(self) -> int:
        """Media time of the model's output up to which turns are over."""
        return max(0, self.next_index) * MEDIA_FRAME_MS

    def receive(self, index: int, pcm: Frame, epoch: int) -> None:
        """Take in the frame of one turn."""
        if epoch < self.epoch or index < self._fence:
            self._counts.fenced += 1
        elif index < self.next_index:
            self._counts.stale += 1
        elif index >= self.next_index + self._room:
            self._counts.unusable += 1
        else:
            self._held[index] = pcm

    def take(self) -> tuple[Frame, bool]:
        """Return the frame whose turn it is, and whether one that was owed is missing."""
        index = self.next_index
        self.next_index = index + 1
        pcm = self._held.pop(index, None)
        if pcm is not None:
            self._last = pcm
            self.played += 1
            return pcm, False
        missing = index >= self._fence and index >= 0
        return self._stand_in(missing), missing

    def cancel(self, fence: int) -> int:
        """Begin an epoch: what is held, and what comes of frames before `fence`, is dropped.

        Returns the new epoch.
        """
        self.epoch += 1
        self.cut(fence)
        return self.epoch

    def cut(self, fence: int) -> int:
        """Drop frames before `fence` that have not had their turn; returns how many were held."""
        self._fence = max(self._fence, fence)
        dropped = [index for index in self._held if index < self._fence]
        for index in dropped:
            del self._held[index]
        self._counts.fenced += len(dropped)
        return len(dropped)

    def _stand_in(self, missing: bool) -> Frame:
        """Return the last frame again, fading; silence behind it; without a click either way."""
        last, self._last = self._last, None
        if last is None:
            return self._silence
        if missing:
            return np.asarray(last * self._ramp_down, np.int16)
        # cut on purpose: from the last sample to nothing, in 5 ms
        out = np.zeros(len(last), np.int16)
        short = self._ramp_down[::_FADE_PARTS]
        out[: len(short)] = int(last[-1]) * short
        return out
