"""The lines that `warp pcap live` prints: each datagram of a session when it is seen.

A line begins with its session, its number, which others refer to, and ms. Sides have no letters
yet: the first line of a session names both, `>` is from the first to the second. Media that goes
on is not printed again.
"""

from __future__ import annotations

from collections.abc import Iterator

from warp_tools.capture.events import Event
from warp_tools.capture.finder import Finder, Found
from warp_tools.capture.ladder import describe, notes
from warp_tools.capture.reader import Reader
from warp_tools.capture.session import Session


def live_lines(reader: Reader, finder: Finder) -> Iterator[str]:
    """Yield lines while datagrams come in."""
    known: set[int] = set()
    for datagram in reader:
        found = finder.receive(datagram)
        if found is None or found.event is None:
            continue
        session, event = found.session, found.event
        if session.number not in known:
            known.add(session.number)
            yield _title(session)
        if _is_new(found):
            yield _line(session, event)


def _is_new(found: Found) -> bool:
    """Tell whether a datagram has a line of its own, and was not folded into another one."""
    events = found.session.events
    return bool(events) and events[-1] is found.event


def _title(session: Session) -> str:
    ends = [f"{host}:{port}" for host, port in (side[0] for side in session.addresses if side)]
    return f"session {session.number}: {' and '.join(ends)}"


def _line(session: Session, event: Event) -> str:
    at = (event.time_ns - session.span[0]) / 1e6
    arrow = ">" if event.side == 0 else "<"
    said = "; ".join(notes(event))
    text = f"  {session.number:>3} {f'#{event.number}':>8} {at:>10.2f}  {arrow} {event.size:>6}  "
    return text + describe(event) + (f"  [{said}]" if said else "")
