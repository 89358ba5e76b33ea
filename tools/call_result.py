"""How a call went, and how it ended: what `warp call` tells people, machines and its exit status.

    session ─▶ EndWatch ─ it ended before we hung up ─▶ Ended ─▶ CallResult

Called by `call`.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from warp.io import Session

ECHO_LIKENESS = 0.5
GONE: Final = "nothing came any more, no answer to a check either: is the server gone?"
_WAYS = {
    "instant": "the first datagram began the call, and no signalling was needed for it",
    "attached": "the first datagram began the call, and its offer joined it by signalling",
    "signalled": "the offer was answered by signalling before the first datagram left",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Ended:
    """An end that was not to be expected: the other side hung up, the path was lost, or Ctrl-C."""

    after_s: float
    """Seconds from when the call was connected."""
    error: str = ""
    """What broke it off; empty when somebody hung up."""
    unsaid_s: float = 0.0
    """Seconds of the speech that had not left."""
    interrupted: bool = False
    """It was whoever placed it that wanted no more."""

    @property
    def by(self) -> str:
        """Who ended it: server, caller, or error."""
        return "error" if self.error else "caller" if self.interrupted else "server"

    @property
    def reason(self) -> str:
        """Why, as far as it was told."""
        return self.error or ("interrupted" if self.interrupted else "it hung up")

    @property
    def is_failure(self) -> bool:
        """Whether the call has not come to what it was placed for."""
        return bool(self.error) or self.unsaid_s > 0

    def __str__(self) -> str:
        unsaid = f"; {self.unsaid_s:.1f} s of the speech were not sent" if self.unsaid_s else ""
        if self.interrupted:
            return f"interrupted after {self.after_s:.1f} s{unsaid}"
        who = "the call broke off" if self.error else "the server ended the call"
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
        pauses = f", {self.unsent_s:.1f} s of its silence left out" if self.unsent_s >= 0.05 else ""
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Patience:
    """How it is found out whether anybody is still there."""

    step_s: float = 0.2
    doubt_s: float = 1.0
    """Who has sent nothing for so long at the end is waited for: there may be nothing to say."""
    silence_s: float = 7.0
    """Whoever lives has answered a check by then: they are 6 s apart at most (RFC 7675 section 5.1)
    and repeated until they are answered."""


class EndWatch:
    """Watches for the end of a session that is not ours: told by the peer, or by its silence."""

    __slots__ = (
        "_at",
        "_heard",
        "_heard_at",
        "_loop",
        "_patience",
        "_session",
        "_speech_s",
        "_timer",
        "began",
    )

    def __init__(self, session: Session, speech_s: float, patience: Patience | None = None) -> None:
        """Watch a session that is connected, into which so many seconds will be spoken."""
        self._session = session
        self._speech_s = speech_s
        self._patience = patience or Patience()
        self._loop = asyncio.get_running_loop()
        self.began = self._heard_at = self._loop.time()
        self._heard = 0
        self._at: float | None = None
        session.closed.add_done_callback(self._note)
        self._timer = self._loop.call_soon(self._look)

    def _note(self, _: object) -> None:
        self._at = self._loop.time()
        self._timer.cancel()

    def _look(self) -> None:
        heard = self._session.stats()["datagrams_received"]
        if heard != self._heard:
            self._heard, self._heard_at = heard, self._loop.time()
        self._timer = self._loop.call_later(self._patience.step_s, self._look)

    @property
    def silent_s(self) -> float:
        """For how long no datagram has come."""
        return self._loop.time() - self._heard_at

    def interrupted(self) -> Ended:
        """Return the end that whoever placed the call has made."""
        self._timer.cancel()
        ended = self._ended(self._loop.time(), "")
        return replace(ended, interrupted=True)

    async def found(self) -> Ended | None:
        """Return how it ended, or None when it has not.

        Takes a while when nothing has come lately: until something comes, or is overdue.
        """
        closed, patience = self._session.closed, self._patience
        while not closed.done() and patience.doubt_s < self.silent_s < patience.silence_s:
            await asyncio.sleep(patience.step_s)
        self._timer.cancel()
        if closed.done():
            error = closed.result()
            told = "" if error is None else str(error) or type(error).__name__
            return self._ended(self._loop.time() if self._at is None else self._at, told)
        return self._ended(self._heard_at, GONE) if self.silent_s >= patience.silence_s else None

    def _ended(self, at: float, error: str) -> Ended:
        after_s = at - self.began
        unsaid_s = max(0.0, self._speech_s - after_s)
        return Ended(after_s=after_s, error=error, unsaid_s=unsaid_s)
