"""What a stack must be able to do to be measured; `ours.py` and `aiortc_party.py` do it."""

from __future__ import annotations

import abc
import struct
from typing import Any, Final

PAYLOAD = bytes([0x78]) + bytes(range(1, 80))
"""80 bytes, as Opus at 32 kbit/s: a valid TOC (CELT, 20 ms, mono), contents of no interest."""
FRAME_S = 0.020
CLOCK_RATE = 48_000
TICKS = 960
_SEEN: Final = struct.Struct("Qdd")
"""Of one frame: whose, when, and how far behind its timestamp, in seconds."""


class Arrivals:
    """When frames reached the application, session by session, against an ideal 20 ms grid.

    All in one row, as they come: a record of each session's own would be a tenth of what a packet
    costs, out of the cache, of a stack that is fast.
    """

    __slots__ = ("_numbers", "_seen", "measuring")

    def __init__(self) -> None:
        self._numbers: dict[str, int] = {}
        self._seen = bytearray()
        self.measuring = False

    def number(self, session: str) -> int:
        """Return the number by which a session's frames are noted."""
        return self._numbers.setdefault(session, len(self._numbers))

    def note(self, number: int, timestamp: int, now: float) -> None:
        """A frame with this RTP timestamp was handed over."""
        if self.measuring:
            self._seen += _SEEN.pack(number, now, now - timestamp / CLOCK_RATE)

    def begin(self) -> None:
        """Start afresh."""
        self._seen.clear()
        self.measuring = True

    def lateness(self) -> list[tuple[float, float]]:
        """Stop; return (moment, seconds behind that session's best case) of every frame."""
        self.measuring = False
        found = list(_SEEN.iter_unpack(self._seen))
        best: dict[int, float] = {}
        for number, _, behind in found:
            best[number] = min(behind, best.get(number, behind))
        self._seen.clear()
        return [(now, behind - best[number]) for number, now, behind in found]


class Party(abc.ABC):
    """One end of any number of sessions. `kind` is `channel`, `audio` or `both`."""

    def __init__(self) -> None:
        self.arrivals = Arrivals()
        self.packets = 0

    @abc.abstractmethod
    async def prepare(self, role: str) -> None:
        """Open what all sessions share."""

    @abc.abstractmethod
    async def offer(self, session: str, kind: str) -> str:
        """Begin a session and return its offer."""

    @abc.abstractmethod
    async def accept(self, session: str, answer: str) -> None:
        """Take the answer to an offer of ours."""

    @abc.abstractmethod
    async def answer(self, session: str, kind: str, offer: str) -> str:
        """Begin a session by an offer and return its answer."""

    @abc.abstractmethod
    async def opened(self, session: str) -> None:
        """Wait until the session is up at this end: authenticated, its channel open."""

    @abc.abstractmethod
    async def close(self, session: str) -> None:
        """End a session."""

    @abc.abstractmethod
    async def start_media(self) -> None:
        """Let every session send 50 packets a second, and note what arrives."""

    def collect(self) -> int:
        """Note what has arrived and was not looked at yet; returns how many frames that is."""
        return 0

    def figures(self) -> dict[str, Any]:
        """Return what the stack says of its own work."""
        return {}

    @abc.abstractmethod
    async def blast(self, session: str, size: int, seconds: float) -> None:
        """Send messages of `size` as fast as they go, and wait until they are under way."""

    @abc.abstractmethod
    def start_receiving(self, session: str) -> None:
        """Count what the session's channel receives from now on."""

    @abc.abstractmethod
    def received(self, session: str) -> tuple[int, float]:
        """Bytes received, and the seconds from the first to the last message."""
