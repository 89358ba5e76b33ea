"""The RTP and RTCP sources of a session: when each was first heard, and what is missing of it.

An organ of `session`. SRTP leaves the header in the clear (RFC 3711 section 3.1), so sequence
numbers tell what was lost before it came to the place of the capture.
"""

from __future__ import annotations

from typing import Final

from warp_tools.capture.contents import Media
from warp_tools.capture.events import Event

MAX_SOURCES: Final = 64
MAX_TIMES: Final = 64
_HALF: Final = 1 << 15


class Source:
    """One SSRC of one side."""

    __slots__ = ("first", "kind", "last_ns", "late", "lost", "packets", "side", "ssrc", "top")

    def __init__(self, event: Event, media: Media) -> None:
        self.side = event.side
        self.ssrc = media.ssrc
        self.kind = media.kind
        self.first = event
        self.packets = 0
        self.lost = 0
        self.late = 0
        self.top: int | None = None
        self.last_ns = event.time_ns

    def hear(self, event: Event, media: Media) -> None:
        """Take one packet in."""
        self.packets += 1
        self.last_ns = event.time_ns
        if media.rtcp:
            return
        if self.top is None:
            self.top = media.sequence
            return
        ahead = (media.sequence - self.top + _HALF & 0xFFFF) - _HALF
        if ahead > 0:
            self.lost += ahead - 1
            self.top = media.sequence
        elif ahead < 0:
            # it was counted as lost, and is only late
            self.late += 1
            self.lost = max(0, self.lost - 1)


class Sources:
    """All sources of both sides."""

    def __init__(self) -> None:
        self.sources: Final[dict[tuple[int, bool, int], Source]] = {}
        self.packets: Final = [0, 0]
        self.reports: Final = [0, 0]
        self.first: Final[list[Event | None]] = [None, None]
        """The first RTP packet of each side."""
        self.early: Final[tuple[list[Event], list[Event]]] = ([], [])
        """The first packets of each side, RTP and RTCP."""

    def receive(self, event: Event, media: Media) -> None:
        """Take one packet in."""
        side = event.side
        if media.rtcp:
            self.reports[side] += 1
        else:
            self.packets[side] += 1
            self.first[side] = self.first[side] or event
        if len(self.early[side]) < MAX_TIMES:
            self.early[side].append(event)
        key = (side, media.rtcp, media.ssrc)
        source = self.sources.get(key)
        if source is None:
            if len(self.sources) >= MAX_SOURCES:
                return
            source = self.sources[key] = Source(event, media)
        source.hear(event, media)

    def lost(self, side: int) -> int:
        """Return how many RTP packets of a side are missing."""
        return sum(s.lost for (who, rtcp, _), s in self.sources.items() if who == side and not rtcp)
