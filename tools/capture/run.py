"""One pass over a capture: reader, finder, facts. What `show`, `explain` and the tests call.

A file that was merged from two captures takes a second pass, with its places told apart.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

from warp_tools.capture.facts import Facts, measure
from warp_tools.capture.finder import Finder
from warp_tools.capture.order import in_order
from warp_tools.capture.places import Places
from warp_tools.capture.reader import Datagram, Reader, open_capture
from warp_tools.capture.session import MAX_EVENTS

MAX_READINGS: Final = 2
"""Once more to tell the places apart, once more where their clocks differ."""

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
    """Read a capture. `opened` is told of every datagram first; so are keys that the file carries.

    Raises `CaptureError` when the file cannot be read.
    """
    finder = Finder(limit=limit, fold=fold)
    with open_capture(path) as reader:
        opened = _fill(finder, in_order(reader), opened, reader)
    notes = reader.notes()
    places = Places()
    is_pipe = str(path) == "-" or not Path(path).is_file()
    for _ in range(0 if is_pipe else MAX_READINGS):
        if not places.learn(finder.sessions):
            break
        finder = Finder(limit=limit, fold=fold)
        with open_capture(path) as again:
            _fill(finder, places.tell(in_order(again)))
        places.mark(finder.sessions)
    if finder.overflow:
        notes.append(
            f"{finder.overflow} datagrams began sessions beyond the first {len(finder.sessions)}: "
            "split the capture"
        )
    return Result(finder, reader, notes, opened)


def _fill(
    finder: Finder,
    datagrams: Iterable[Datagram],
    opened: Opened | None = None,
    reader: Reader | None = None,
) -> Opened | None:
    """Tell the finder of every datagram; return what has opened them, if anything has."""
    known = 0
    for datagram in datagrams:
        if reader is not None and len(reader.frames.secrets) > known:
            opened = _with_secrets(opened, reader.frames.secrets[known:])
            known = len(reader.frames.secrets)
        if opened is not None:
            opened.receive(datagram)
        finder.receive(datagram)
    finder.finish()
    return opened


def _with_secrets(opened: Opened | None, secrets: bytes) -> Opened:
    """Return an opener that knows the secrets which a pcapng file carries."""
    from warp_tools.capture.opened import Opened
    from warp_tools.decrypt.keylog import KeyLog

    opened = Opened(KeyLog()) if opened is None else opened
    opened.learn(secrets)
    return opened
