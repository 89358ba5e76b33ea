"""What is counted of frames, for one session and for one engine.

Late is a frame that was not handed to the packetiser within its own 20 ms, or that another stood
in for. Each has one cause, the first that applies; sums over engines hide bad ones, so none are
made here. Written by `seat`, `desk` and the lines of calls, read by `metrics`; pure.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, fields
from enum import StrEnum
from typing import Any

from voice_backend.frames import MEDIA_FRAME_MS


class Late(StrEnum):
    """Whose fault a late frame is."""

    INPUT_WAIT = "input_wait"
    """What the model should have heard was not there."""
    QUEUE = "queue"
    """It was handed over, and the engine had not begun with it."""
    MODEL = "model"
    """The engine had begun, and had nothing, or nothing usable, to show."""
    ENCODE = "encode"
    """Decoding and encoding took the time."""
    PACER = "pacer"
    """The loop itself was woken late."""


def _none_late() -> dict[Late, int]:
    return dict.fromkeys(Late, 0)


@dataclass(slots=True)
class FrameCounts:
    """Frames of 20 ms, by what became of them."""

    frames: int = 0
    """Handed to the packetiser."""
    late: dict[Late, int] = field(default_factory=_none_late)
    concealed: int = 0
    """Another frame stood in for: what the listener misses."""
    fenced: int = 0
    """Dropped because what they belong to was cancelled: nobody misses them."""
    stale: int = 0
    """Came when another had stood in for them, and were dropped."""
    unusable: int = 0
    """Of the wrong length, type or place."""
    lost_in: int = 0
    """Heard nothing of for lack of any input."""
    longest: int = 0
    """The most late frames in a row."""
    run: int = 0
    """Late frames in a row, up to now."""

    @property
    def late_frames(self) -> int:
        """All that were late."""
        return sum(self.late.values())

    @property
    def missing_ms(self) -> int:
        """Sound that the listener misses."""
        return self.concealed * MEDIA_FRAME_MS

    def note(self, cause: Late | None) -> None:
        """Count a frame that was handed over; None: in time."""
        self.frames += 1
        if cause is None:
            self.run = 0
            return
        self.late[cause] += 1
        self.run += 1
        if self.run > self.longest:
            self.longest = self.run

    def add(self, other: FrameCounts) -> None:
        """Take in what another has counted."""
        for name, value in other.totals():
            setattr(self, name, getattr(self, name) + value)
        for cause, count in other.late.items():
            self.late[cause] += count
        self.longest = max(self.longest, other.longest)

    def totals(self) -> Iterator[tuple[str, int]]:
        """Iterate over the counts that add up, by name."""
        for one in fields(self):
            if one.name not in ("late", "longest", "run"):
                yield one.name, getattr(self, one.name)

    def to_json(self) -> dict[str, Any]:
        """Return the counts for machines."""
        return {
            **dict(self.totals()),
            "late": {cause.value: count for cause, count in self.late.items()},
            "longest_late_run": self.longest,
            "missing_ms": self.missing_ms,
        }


@dataclass(slots=True)
class LineCounts:
    """What became of what was heard over RTP."""

    concealed: int = 0
    """Frames of which a part stands in for speech that was lost or came late."""
    recovered: int = 0
    """Frames of which a part comes from a later packet's redundancy."""
    stretched: int = 0
    """Frames made longer or shorter to keep the delay."""
    flooded: int = 0
    """Packets dropped because more came between two ticks than anybody could play."""

    def add(self, other: LineCounts) -> None:
        """Take in what another has counted."""
        for one in fields(self):
            setattr(self, one.name, getattr(self, one.name) + getattr(other, one.name))
