"""One line of a session's ladder: a datagram, or a run of datagrams of one kind.

Made by `session`, marked by its organs, drawn by `warp_tools.capture.ladder`, measured by `start`.
"""

from __future__ import annotations

import enum
from typing import Final, NamedTuple

from warp_tools.capture.contents import Contents, Dtls
from warp_tools.capture.ip import Address


class Mark(enum.Enum):
    """What is special about a datagram; each may name the number of another one."""

    AGAIN = "sent again"
    """The same handshake messages in new records: a retransmission."""
    COPY = "same bytes as"
    """The same DTLS datagram once more: carried in a check and sent directly, or repeated."""
    DUPLICATE = "duplicate of"
    """The very same datagram on the same flow."""
    LOST = "lost"
    """It did not show at the second place where this capture looks."""
    UNANSWERED = "unanswered"
    ANSWERS = "answers"
    ACKNOWLEDGES = "acks"
    UNMATCHED = "acknowledges nothing that was seen"


class Marked(NamedTuple):
    """A mark and the number that it refers to, 0 for none."""

    mark: Mark
    number: int


MAX_MARKS: Final = 8


class Event:
    """A datagram of a session. `side` is 0 or 1: who sent it."""

    __slots__ = (
        "again_ns",
        "contents",
        "count",
        "cut",
        "destination",
        "interface",
        "marks",
        "number",
        "says",
        "side",
        "size",
        "source",
        "time_ns",
        "transport",
        "until_ns",
    )

    def __init__(
        self,
        number: int,
        time_ns: int,
        side: int,
        ends: tuple[Address, Address, str],
        size: int,
        contents: Contents,
        cut: bool,
    ) -> None:
        self.number = number
        self.time_ns = time_ns
        self.again_ns: int | None = None
        """When the capture saw it a second time, at another place on its way."""
        self.side = side
        self.source, self.destination, self.transport = ends
        self.interface = 0
        """Of the capture that saw it first."""
        self.size = size
        self.contents = contents
        self.cut = cut
        self.marks: tuple[Marked, ...] = ()
        self.says = ""
        """What a hello that it completes offers or chooses."""
        self.count = 1
        """Datagrams that this line stands for."""
        self.until_ns = time_ns

    @property
    def last_ns(self) -> int:
        """When it was seen last on its way."""
        return self.time_ns if self.again_ns is None else self.again_ns

    @property
    def dtls(self) -> Dtls | None:
        """The DTLS in it, direct or carried."""
        return self.contents.dtls

    @property
    def embedded(self) -> bool:
        """Whether its DTLS rides in a check."""
        return self.contents.stun is not None and self.contents.dtls is not None

    @property
    def lost(self) -> bool:
        """Whether it did not show at the second place of the capture."""
        return self.marked(Mark.LOST)

    def mark(self, mark: Mark, number: int = 0) -> None:
        """Note something special about it."""
        if len(self.marks) < MAX_MARKS:
            self.marks = (*self.marks, Marked(mark, number))

    def marked(self, mark: Mark) -> bool:
        """Tell whether it carries a mark."""
        return any(marked.mark is mark for marked in self.marks)

    def __repr__(self) -> str:
        return f"<Event {self.number} side {self.side} {self.contents.kind} {self.size} bytes>"
