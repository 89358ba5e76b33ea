"""Frames and time, for dashboards: by engine and cause, by session if asked, for Prometheus.

    FrameCounts, LineCounts, LoopCounts ─▶ Family(name, kind, help, samples) ─▶ exposition ─▶ text

Sums over engines hide the bad one among them, so every figure bears its engine's name. Pure.
"""

from __future__ import annotations

import bisect
import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final, Literal, NamedTuple

from voice_backend.counts import FrameCounts, LineCounts

BOUNDS: Final = (0.001, 0.002, 0.004, 0.006, 0.008, 0.01, 0.012, 0.014, 0.016, 0.02, 0.04, 0.08)
"""Upper bounds of a tick's or step's seconds."""
PREFIX: Final = "voice_"
Kind = Literal["counter", "gauge", "histogram"]
Labels = tuple[tuple[str, str], ...]
Sample = tuple[str, Labels, float]
"""Suffix of the name, labels, value."""


class Histogram:
    """How often something took how long."""

    __slots__ = ("counts", "longest", "total")

    def __init__(self) -> None:
        self.counts = [0] * (len(BOUNDS) + 1)
        self.total = 0.0
        self.longest = 0.0

    def note(self, seconds: float) -> None:
        """Count one."""
        self.counts[bisect.bisect_left(BOUNDS, seconds)] += 1
        self.total += seconds
        if seconds > self.longest:
            self.longest = seconds

    @property
    def count(self) -> int:
        """How many were counted."""
        return sum(self.counts)

    def quantile(self, share: float) -> float:
        """Return the bound below which so large a share lies; 0 when nothing was counted."""
        wanted, seen = share * self.count, 0
        for at, count in enumerate(self.counts):
            seen += count
            if count and seen >= wanted:
                return min(BOUNDS[at], self.longest) if at < len(BOUNDS) else self.longest
        return 0.0

    def samples(self, labels: Labels) -> Iterator[Sample]:
        """Iterate over what Prometheus wants of a histogram."""
        seen = 0
        for bound, count in zip((*BOUNDS, math.inf), self.counts, strict=True):
            seen += count
            edge = "+Inf" if bound == math.inf else f"{bound:g}"
            yield "_bucket", (*labels, ("le", edge)), seen
        yield "_sum", labels, self.total
        yield "_count", labels, seen


@dataclass(frozen=True, slots=True, kw_only=True)
class Family:
    """All samples of one name."""

    name: str
    kind: Kind
    text: str
    samples: Sequence[Sample] = field(default=())


def exposition(families: Iterable[Family]) -> str:
    """Return the text that Prometheus scrapes (exposition format 0.0.4)."""
    lines = []
    for family in families:
        full = PREFIX + family.name + ("_total" if family.kind == "counter" else "")
        lines += [f"# HELP {full} {family.text}.", f"# TYPE {full} {family.kind}"]
        for suffix, labels, value in family.samples:
            inner = ",".join(f'{name}="{_escaped(text)}"' for name, text in labels)
            shown = f"{value:.6f}".rstrip("0").rstrip(".") if isinstance(value, float) else value
            lines.append(f"{full}{suffix}{{{inner}}} {shown}" if inner else f"{full} {shown}")
    return "\n".join(lines) + "\n"


def single(name: str, kind: Kind, text: str, value: int, *, labels: Labels) -> Family:
    """Return a family of one value."""
    return Family(name=name, kind=kind, text=text, samples=[("", labels, value)])


def histogram(name: str, text: str, times: Histogram, labels: Labels) -> Family:
    """Return the family of a histogram."""
    return Family(name=name, kind="histogram", text=text, samples=list(times.samples(labels)))


def frame_families(counts: Iterable[tuple[Labels, FrameCounts]]) -> list[Family]:
    """Return the families of frames: labels say whose they are."""
    pairs = list(counts)
    texts = {
        "frames": "Frames of 20 ms handed to the packetiser",
        "concealed": "Frames that another stood in for",
        "fenced": "Frames dropped because they were cancelled",
        "stale": "Frames dropped because they came after their turn",
        "unusable": "Frames of the wrong length, type or place",
        "lost_in": "Frame periods without any input",
    }
    found = [
        Family(
            name="late_frames",
            kind="counter",
            text="Frames that were late, by cause",
            samples=[
                ("", (*labels, ("cause", cause.value)), count)
                for labels, one in pairs
                for cause, count in one.late.items()
            ],
        )
    ]
    for name, text in texts.items():
        samples: list[Sample] = [("", labels, dict(one.totals())[name]) for labels, one in pairs]
        found.append(Family(name=name, kind="counter", text=text, samples=samples))
    return found


class LineState(NamedTuple):
    """How calls stand now; several are added up, as figures of several processes are."""

    calls: int
    expected_loss_ratio: float
    jitter_target_s: float


_LINE_COUNTERS: Final = {
    "concealed": ("heard_concealed_frames", "Frames heard that stand in for lost or late speech"),
    "recovered": ("heard_recovered_frames", "Frames heard by a later packet's redundancy"),
    "stretched": ("heard_stretched_frames", "Frames heard longer or shorter, to keep the delay"),
    "flooded": ("flooded_packets", "Packets dropped because more came at once than can be played"),
}
_LINE_GAUGES: Final = {
    "calls": ("calls", "Calls over RTP that talk"),
    "expected_loss_ratio": (
        "calls_expected_loss_ratio",
        "Share of loss that encoders make up for, 0 to 1 each, added up over voice_calls",
    ),
    "jitter_target_s": (
        "calls_jitter_target_seconds",
        "Delay that jitter buffers aim at, added up over voice_calls",
    ),
}


def line_families(lines: Iterable[tuple[Labels, LineCounts, LineState]]) -> list[Family]:
    """Return the families of what is heard over RTP: labels say whose they are."""
    rows = list(lines)
    found = []
    for field_name, (name, text) in _LINE_COUNTERS.items():
        samples: list[Sample] = [("", one, getattr(counts, field_name)) for one, counts, _ in rows]
        found.append(Family(name=name, kind="counter", text=text, samples=samples))
    for field_name, (name, text) in _LINE_GAUGES.items():
        samples = [("", one, getattr(state, field_name)) for one, _, state in rows]
        found.append(Family(name=name, kind="gauge", text=text, samples=samples))
    return found


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
