"""How a call went, and how it ended: what `warp call` tells people, machines and its exit status.

    session ─▶ EndWatch ─ it ended before we hung up ─▶ Ended ─▶ CallResult

Called by `call`.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from warp.io import Session

ECHO_LIKENESS = 0.5
_WAYS = {
    "instant": "the first datagram began the call, and no signalling was needed for it",
    "attached": "the first datagram began the call, and its offer joined it by signalling",
    "signalled": "the offer was answered by signalling before the first datagram left",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Ended:
    """The end of a call that was not ours: the other side hung up, or the path was lost."""

    after_s: float
    """Seconds from when the call was connected."""
    error: str = ""
    """What broke it off; empty when the server hung up."""
    unsaid_s: float = 0.0
    """Seconds of the speech that had not left."""

    @property
    def by(self) -> str:
        """Who ended it: server, or error."""
        return "error" if self.error else "server"

    @property
    def reason(self) -> str:
        """Why, as far as it was told."""
        return self.error or "it hung up"

    @property
    def is_failure(self) -> bool:
        """Whether the call has not come to what it was placed for."""
        return bool(self.error) or self.unsaid_s > 0

    def __str__(self) -> str:
        who = "the call broke off" if self.error else "the server ended the call"
        unsaid = f"; {self.unsaid_s:.1f} s of the speech were not sent" if self.unsaid_s else ""
        return f"{who} after {self.after_s:.1f} s ({self.reason}){unsaid}"


@dataclass(frozen=True, slots=True, kw_only=True)
class CallResult:
    """How a call went."""

    seconds: float
    frames: int
    concealed: int
    """Frames that were lost and filled in."""
    correlation: float
    """How surely the reply holds the speech, as of an echo; 0 when it does not."""
    path: str = "signalled"
    """Which way the call came: instant, attached or signalled."""
    connected_ms: float = 0.0
    """From the intent to a peer that is proven."""
    ended: Ended | None = None
    """How it ended, unless we hung up when the other side had been quiet for a while."""
    unsent_s: float = 0.0
    """For how long nothing came as nothing was said (DTX): those frames are not lost."""

    @property
    def is_echo(self) -> bool:
        """Whether what came back is what was said; else likeness is chance, and says nothing."""
        return self.correlation >= ECHO_LIKENESS

    @property
    def way(self) -> str:
        """One line that says what the way of the call means."""
        return f"{self.path}: {_WAYS[self.path]}"

    def to_json(self) -> dict[str, Any]:
        """Return it for machines."""
        return {
            "path": self.path,
            "connected_ms": round(self.connected_ms, 1),
            "seconds": round(self.seconds, 2),
            "frames": self.frames,
            "concealed": self.concealed,
            "unsent_s": round(self.unsent_s, 2),
            "correlation": round(self.correlation, 3) if self.is_echo else None,
            "ended_by": "caller" if self.ended is None else self.ended.by,
            **({} if self.ended is None else _told(self.ended)),
        }

    def __str__(self) -> str:
        alike = f", likeness to the speech sent {self.correlation:.2f}" if self.is_echo else ""
        pauses = (
            f", {self.unsent_s:.1f} s not sent as nothing was said" if self.unsent_s >= 0.05 else ""
        )
        return (
            f"{self.seconds:.1f} s, {self.concealed} of {self.frames} frames concealed"
            f"{pauses}{alike}; "
            f"{self.path}, connected after {self.connected_ms:.0f} ms"
            + ("" if self.ended is None else f"; {self.ended}")
        )


def _told(ended: Ended) -> dict[str, Any]:
    return {
        "ended_after_s": round(ended.after_s, 2),
        "end_reason": ended.reason,
        "unsaid_s": round(ended.unsaid_s, 2),
    }


class EndWatch:
    """Watches for the end of a session that is not ours."""

    __slots__ = ("_at", "_began", "_loop", "_session", "_speech_s")

    def __init__(self, session: Session, speech_s: float) -> None:
        """Watch a session that is connected, into which so many seconds will be spoken."""
        self._session = session
        self._speech_s = speech_s
        self._loop = asyncio.get_running_loop()
        self._began = self._loop.time()
        self._at: float | None = None
        session.closed.add_done_callback(self._note)

    def _note(self, _: object) -> None:
        self._at = self._loop.time()

    def found(self) -> Ended | None:
        """Return how it ended, or None when it has not."""
        if not self._session.closed.done():
            return None
        after_s = (self._loop.time() if self._at is None else self._at) - self._began
        error = self._session.closed.result()
        return Ended(
            after_s=after_s,
            error="" if error is None else str(error) or type(error).__name__,
            unsaid_s=max(0.0, self._speech_s - after_s),
        )
