"""Sound that comes in a client's own rhythm, given out 20 ms at a time.

    pieces of any length ─▶ receive ─▶ [waiting] ─▶ take ─▶ 20 ms, or None while nothing comes

The first piece waits for a moment, so that the next may be a little late, and for longer when one
was too late all the same. What piles up is let go where it is quiet, and in the end where it is
not: never more than `MAX_BEHIND_S` waits. Time is counted in frames; pure.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from voice_backend.frames import MEDIA_FRAME_MS, Frame

MAX_BEHIND_S: Final = 10.0
CATCH_UP_FRAMES: Final = 15
"""With more than this beyond what the rhythm needs, quiet frames are skipped."""
MIN_GUARD_FRAMES: Final = 2
"""The first piece waits for so long: the next may be so late."""
MAX_GUARD_FRAMES: Final = 15
MAX_PIECE_FRAMES: Final = 15
QUIET: Final = 500
"""Peak below which a frame may be skipped."""
_SOON_FRAMES: Final = 15


class Rhythm:
    """One client's sound, at the client's rate."""

    __slots__ = (
        "_behind", "_flowing", "_guard", "_idle", "_limit", "_longest", "_rest", "_samples",
        "_waited", "dropped_ms",
    )  # fmt: skip

    def __init__(self, rate: int) -> None:
        self._samples = rate * MEDIA_FRAME_MS // 1000
        self._limit = int(MAX_BEHIND_S * 1000 / MEDIA_FRAME_MS) * self._samples
        self._rest = np.zeros(0, np.int16)
        self._guard = MIN_GUARD_FRAMES
        self._longest = 1
        self._flowing = False
        self._idle = _SOON_FRAMES  # frames since it last flowed
        self._waited = 0
        self._behind = False
        self.dropped_ms = 0
        """Sound that came so fast that it could not be heard in time."""

    @property
    def waiting_ms(self) -> int:
        """Sound that waits."""
        return len(self._rest) * MEDIA_FRAME_MS // self._samples

    def catch_up(self) -> None:
        """What waits now has waited before it came here: quiet is skipped until it is made up."""
        self._behind = True

    def receive(self, pieces: list[Frame]) -> None:
        """Take pieces, in order."""
        if not pieces:
            return
        longest = max(len(piece) for piece in pieces) // self._samples
        self._longest = max(self._longest, min(longest, MAX_PIECE_FRAMES))
        self._rest = np.concatenate([self._rest, *pieces])
        if len(self._rest) > self._limit:
            over = len(self._rest) - self._limit
            self.dropped_ms += over * MEDIA_FRAME_MS // self._samples
            self._rest = self._rest[-self._limit :]

    def take(self) -> Frame | None:
        """Return the next 20 ms; None while nothing comes. Called once every 20 ms."""
        if not self._flows():
            return None
        pcm = self._next()
        most = self._longest + self._guard + (0 if self._behind else CATCH_UP_FRAMES)
        while len(self._rest) // self._samples > most:
            if int(np.abs(pcm.astype(np.int32)).max()) >= QUIET:
                break
            self.dropped_ms += MEDIA_FRAME_MS
            pcm = self._next()
        else:
            self._behind = False
        return pcm

    def _flows(self) -> bool:
        """Whether a frame may be taken: after a gap the first piece waits for a moment."""
        waiting = len(self._rest) // self._samples
        self._idle += 1
        if self._flowing:
            if not waiting:
                self._flowing = False
                self._idle = self._waited = 0
            return waiting > 0
        if not waiting:
            return False
        if self._waited == 0 and self._idle <= _SOON_FRAMES:
            # it came only a little too late: the next ones shall not
            self._guard = min(self._guard + 1, MAX_GUARD_FRAMES)
        self._waited += 1
        self._flowing = self._waited > self._guard
        return self._flowing

    def _next(self) -> Frame:
        pcm, self._rest = self._rest[: self._samples], self._rest[self._samples :]
        return pcm
