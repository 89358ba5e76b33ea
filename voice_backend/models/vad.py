"""How likely it is that somebody speaks: Silero VAD, every slot of an engine in one batch.

    320 samples (20 ms) a slot and frame ──▶ 512 samples (32 ms) ──▶ likelihood 0..1

Frames and windows do not line up: a slot is judged three times in five frames, and a likelihood
says where its window begins. The network keeps a state and the last 64 samples of each slot.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from voice_backend.models.catalogue import TURNS
from voice_backend.models.inference import open_session
from voice_backend.models.store import Store

RATE: Final = 16_000
WINDOW: Final = 512
"""Samples of a window, 32 ms."""
WINDOW_MS: Final = WINDOW * 1000 // RATE
CONTEXT: Final = 64
"""Samples before a window that the network sees again."""
STATE: Final = 128
MEMBER: Final = "pipecat/audio/vad/data/silero_vad.onnx"


@dataclass(frozen=True, slots=True)
class Likelihood:
    """A window's verdict."""

    index: int
    """The slot's."""
    sample: int
    """Where the window begins, in samples since the slot was reset."""
    value: float


class Vad:
    """The detector of `slots` slots, told of every frame of each."""

    def __init__(self, session: Any, slots: int, frame_samples: int) -> None:
        self._session = session
        self._rate = np.array(RATE, np.int64)
        self._frame = frame_samples
        self._state = np.zeros((2, slots, STATE), np.float32)
        # context, then what waits for its window to be full
        self._sound = np.zeros((slots, CONTEXT + WINDOW + frame_samples), np.float32)
        self._waiting = np.zeros(slots, np.int64)
        self._start = np.zeros(slots, np.int64)

    @classmethod
    def load(cls, store: Store, slots: int, frame_samples: int) -> Vad:
        """Load the network. Raises ModelsMissing or ModelUnusable."""
        return cls(open_session(path_in(store)), slots, frame_samples)

    def reset(self, index: int) -> None:
        """Forget a slot: somebody else sits there now."""
        self._state[:, index] = 0
        self._sound[index] = 0
        self._waiting[index] = 0
        self._start[index] = 0

    def receive_frames(
        self, indices: Sequence[int], frames: NDArray[np.float32]
    ) -> list[Likelihood]:
        """Take a frame of each slot, shape (slots, frame_samples), -1 to 1."""
        where = np.asarray(indices, np.int64)
        if where.size == 0:
            return []
        at = CONTEXT + self._waiting[where]
        columns = at[:, None] + np.arange(self._frame)
        self._sound[where[:, None], columns] = frames
        self._waiting[where] += self._frame
        full = where[self._waiting[where] >= WINDOW]
        return self._judge(full) if full.size else []

    def _judge(self, full: NDArray[np.int64]) -> list[Likelihood]:
        seen = self._sound[full, : CONTEXT + WINDOW]
        values, state = self._session.run(
            None, {"input": seen, "state": self._state[:, full], "sr": self._rate}
        )
        self._state[:, full] = state
        starts = self._start[full]
        self._sound[full, : CONTEXT + self._frame] = self._sound[full, WINDOW:]
        self._waiting[full] -= WINDOW
        self._start[full] += WINDOW
        return [
            Likelihood(int(index), int(start), float(value))
            for index, start, value in zip(full, starts, values[:, 0], strict=True)
        ]


def path_in(store: Store) -> Path:
    """Return the network's file."""
    return store.path(TURNS) / MEMBER
