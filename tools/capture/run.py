"""One pass over a capture: reader, finder, facts. What `show`, `explain` and the tests call."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from warp_tools.capture.facts import Facts, measure
from warp_tools.capture.finder import Finder
from warp_tools.capture.order import in_order
from warp_tools.capture.reader import Reader, open_capture
from warp_tools.capture.session import MAX_EVENTS

if TYPE_CHECKING:
    from warp_tools.capture.opened import Opened


class Result(NamedTuple):
    """What a capture holds."""

    finder: Finder
    reader: Reader
    notes: list[str]
    opened: Opened | None = None

    def facts(self, wanted: set[int] | None = None) -> Iterator[Facts]:
        """Measure the sessions, or those of some numbers, one after another."""
        for session in self.finder.sessions:
            if wanted is None or session.number in wanted:
                yield measure(session, self.opened)


def read(
    path: str | Path,
    *,
    limit: int = MAX_EVENTS,
    fold: bool = True,
    opened: Opened | None = None,
) -> Result:
    """Read a capture once. `opened` is told of every datagram first.

    Raises `CaptureError` when the file cannot be read.
    """
    finder = Finder(limit=limit, fold=fold)
    with open_capture(path) as reader:
        for datagram in in_order(reader):
            if opened is not None:
                opened.receive(datagram)
            finder.receive(datagram)
    finder.finish()
    notes = reader.notes()
    if finder.overflow:
        notes.append(
            f"{finder.overflow} datagrams began sessions beyond the first {len(finder.sessions)}: "
            "split the capture"
        )
    return Result(finder, reader, notes, opened)
