"""The last seconds of a sound, by the number of its samples since the beginning."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray


class Recent:
    """A ring of samples; what is older than `capacity` is forgotten."""

    __slots__ = ("_ring", "end")

    def __init__(self, capacity: int) -> None:
        self._ring = np.zeros(capacity, np.float32)
        self.end = 0
        """Samples that have been appended."""

    @property
    def begin(self) -> int:
        """The oldest sample that is still there."""
        return max(0, self.end - len(self._ring))

    def append(self, sound: NDArray[np.float32]) -> None:
        """Take the next samples, fewer than the capacity."""
        at, size = self.end % len(self._ring), len(sound)
        first = min(size, len(self._ring) - at)
        self._ring[at : at + first] = sound[:first]
        self._ring[: size - first] = sound[first:]
        self.end += size

    def between(self, start: int, end: int) -> NDArray[np.float32]:
        """Return a copy of samples `start` to `end`, as far as they are there."""
        start, end = max(start, self.begin), min(end, self.end)
        if start >= end:
            return np.zeros(0, np.float32)
        at, size = start % len(self._ring), end - start
        if at + size <= len(self._ring):
            return self._ring[at : at + size].copy()
        return np.concatenate([self._ring[at:], self._ring[: at + size - len(self._ring)]])
