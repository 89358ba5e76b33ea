"""The lines of all calls: collected from at each tick, and counted together.

    Voices ─ add, remove, collect ─▶ CallLines ─ families ─▶ /metrics

All of it is the asyncio thread's. What a line has counted stays when its call has ended.
"""

from __future__ import annotations

from collections.abc import Iterable

from voice_backend.counts import LineCounts
from voice_backend.io.rtp_line import RtpLine
from voice_backend.metrics import Family, Labels, LineState, line_families


class CallLines:
    """Lines by the number of their voice."""

    __slots__ = ("_lines", "_past")

    def __init__(self) -> None:
        self._lines: dict[int, RtpLine] = {}
        self._past = LineCounts()

    @property
    def live(self) -> list[RtpLine]:
        """Those whose calls go on."""
        return list(self._lines.values())

    def add(self, number: int, line: RtpLine) -> None:
        """Collect from a line from now on."""
        self._lines[number] = line

    def remove(self, number: int) -> None:
        """Let go of a line, and keep what it has counted. Harmless when there is none."""
        line = self._lines.pop(number, None)
        if line is not None:
            self._past.add(line.counts())

    def collect(self) -> None:
        """Fetch what all of them have heard."""
        for line in self._lines.values():
            line.collect()

    def families(self, engine: Labels, *, sessions: bool = False) -> list[Family]:
        """Return the figures: added up, or with `sessions` of each live call by its number."""
        if sessions:
            return line_families(
                ((*engine, ("session", str(number))), line.counts(), _state([line]))
                for number, line in self._lines.items()
            )
        total = LineCounts()
        for counts in (self._past, *(line.counts() for line in self.live)):
            total.add(counts)
        return line_families([(engine, total, _state(self.live))])


def _state(lines: Iterable[RtpLine]) -> LineState:
    found = [(line.expected_loss / 100, line.target_ms / 1000) for line in lines]
    return LineState(len(found), sum(loss for loss, _ in found), sum(delay for _, delay in found))
