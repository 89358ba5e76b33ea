"""Slow work beside the talk: what is given away, what comes back, and what is too late.

    model ─ Delegate(id) ─▶ desk ─ Begin ─▶ helper (io/delegates: a task of its own, elsewhere)
                             │  ▲                 │
       commentary, thinking ◀┘  └─ progress, answer, failure

The desk never waits and is never waited for: it is told what happened and when, and says what to
begin, what to stop and what to tell the model. An answer is told as *commentary*, to be spoken in
the model's words; progress as *thinking*. An answer that comes too late for its topic is told as
thinking or dropped. Each delegation is begun once, however often its id is given. Pure.
"""

from __future__ import annotations

from collections import deque
from collections.abc import AsyncGenerator, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Protocol

from voice_backend.model import Inject
from voice_backend.transcript import Item
from voice_backend.utterance import Speaker


class Stale(Enum):
    """What becomes of an answer whose topic is no longer talked about."""

    THINKING = "thinking"
    DROP = "drop"
    SPEAK = "speak"


class EndReason(Enum):
    """How a delegation ended."""

    ANSWERED = "answered"
    FAILED = "failed"
    TIMED_OUT = "timed_out"
    CANCELLED = "cancelled"


@dataclass(frozen=True, slots=True, kw_only=True)
class DelegationConfig:
    """How much is given away at once, and how long it may take."""

    open_at_once: int = 4  # more are refused
    timeout_s: float = 60.0  # from the beginning to the answer
    acknowledge_after_s: float | None = 0.4  # of nothing told: say that it is being looked into
    acknowledgement: str = "One moment, I am looking into it."
    stale_turns: int = 2  # turns of the user since, after which the topic has moved on
    stale: Stale = Stale.THINKING  # what becomes of an answer then
    text_chars: int = 2000  # of one answer or piece of progress: about 500 tokens
    progress_texts: int = 16  # told of one delegation
    remembered: int = 64  # ids of ended delegations that are known again
    ask_chars: int = 8000  # of the transcript that makes up the task


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """What a helper is asked."""

    delegation_id: str
    ask: str
    """The talk since the last delegation, a line a message, the newest last."""
    target: str = ""
    acknowledged: bool = False
    """Whether the model has said by itself that it is being looked into."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """What a helper says: on its way, or in the end."""

    text: str = ""
    done: bool = False
    """Whether this is the answer, and the last part."""
    raw: dict[str, object] | None = field(default=None, repr=False)
    """The event of another service that it stems from, for whoever passes it on."""


class Helper(Protocol):
    """Who does the work. Lives in asyncio, never near a frame."""

    async def open(self, context: str) -> None:
        """Get ready at the session's start: connect, and take in what is known. May fail."""

    def work(self, request: Request) -> AsyncGenerator[Part, None]:
        """Do it; parts as they come, the last one `done`. Cancelled by closing the iterator."""

    async def close(self) -> None:
        """Let go of everything. Harmless when repeated."""


@dataclass(frozen=True, slots=True)
class Begin:
    """A helper is to begin."""

    request: Request


@dataclass(frozen=True, slots=True)
class Stop:
    """A helper is to stop: nobody waits for it any more."""

    delegation_id: str


@dataclass(frozen=True, slots=True)
class Tell:
    """The model is to be told."""

    kind: Inject
    text: str
    delegation_id: str | None


@dataclass(frozen=True, slots=True)
class Ended:
    """A delegation is over."""

    delegation_id: str
    reason: EndReason
    was_stale: bool


Action = Begin | Stop | Tell | Ended


def ask_of(items: Sequence[Item], since_ms: int, limit: int = 8000) -> str:
    """Return what was said since `since_ms`, pending words included: a line a message."""
    names = {Speaker.USER: "user", Speaker.ASSISTANT: "assistant"}
    lines = [
        f"{names[item.speaker]}: {item.text}"
        for item in items
        if item.text and item.end_ms > since_ms
    ]
    return "\n".join(lines)[-limit:]


class _Open:
    __slots__ = ("acknowledge_at", "deadline", "progress", "told", "turn")

    def __init__(self, turn: int, deadline: float, acknowledge_at: float | None) -> None:
        self.turn = turn
        self.deadline = deadline
        self.acknowledge_at = acknowledge_at
        self.progress = 0
        self.told = False


class DelegationDesk:
    """The delegations of one session. Clockless: `now` is monotonic seconds."""

    __slots__ = ("_actions", "_config", "_ended", "_newest", "_open", "_turn", "refused", "stale")

    def __init__(self, config: DelegationConfig | None = None) -> None:
        self._config = config or DelegationConfig()
        self._open: dict[str, _Open] = {}
        self._ended: deque[str] = deque(maxlen=self._config.remembered)
        self._actions: deque[Action] = deque(maxlen=256)
        self._turn = 0
        self._newest = ""
        self.refused = 0
        """Delegations that were more than may be open at once."""
        self.stale = 0
        """Answers that came too late for their topic."""

    @property
    def open_ids(self) -> tuple[str, ...]:
        """Ids of the delegations under way, oldest first."""
        return tuple(self._open)

    def knows(self, delegation_id: str) -> bool:
        """Whether a delegation of this id is under way, or has ended not long ago."""
        return delegation_id in self._open or delegation_id in self._ended

    def actions(self) -> list[Action]:
        """Drain what is to be done."""
        found = list(self._actions)
        self._actions.clear()
        return found

    def receive_delegation(self, request: Request, now: float) -> None:
        """The model gives work away; the same id is the same work."""
        ident = request.delegation_id
        if self.knows(ident):
            return
        if len(self._open) >= self._config.open_at_once:
            self.refused += 1
            self._tell(Inject.THINKING, "Too much is being looked into already.", ident)
            self._ended.append(ident)
            return
        after_s = self._config.acknowledge_after_s
        acknowledge_at = None if after_s is None or request.acknowledged else now + after_s
        self._open[ident] = _Open(self._turn, now + self._config.timeout_s, acknowledge_at)
        self._newest = ident
        self._actions.append(Begin(request))

    def receive_turn(self) -> None:
        """The user has finished a turn: topics of before are a turn older."""
        self._turn += 1

    def receive_part(self, delegation_id: str, part: Part) -> None:
        """A helper says something; what nobody waits for is dropped."""
        work = self._open.get(delegation_id)
        if work is None:
            return
        text = part.text.strip()[: self._config.text_chars]
        if not part.done:
            if text and work.progress < self._config.progress_texts:
                work.progress += 1
                self._tell(Inject.THINKING, text, delegation_id)
            return
        is_stale = self._is_stale(delegation_id, work)
        if text:
            self._answer(delegation_id, text, is_stale)
        self._end(delegation_id, EndReason.ANSWERED, is_stale)

    def receive_failure(self, delegation_id: str, reason: str) -> None:
        """A helper has failed; `reason` is told to the model, so no secrets."""
        work = self._open.get(delegation_id)
        if work is None:
            return
        is_stale = self._is_stale(delegation_id, work)
        told = f"This could not be found out: {reason}"[: self._config.text_chars]
        self._answer(delegation_id, told, is_stale)
        self._end(delegation_id, EndReason.FAILED, is_stale)

    def cancel(self, delegation_id: str) -> None:
        """Nobody wants the answer any more."""
        if delegation_id in self._open:
            self._actions.append(Stop(delegation_id))
            self._end(delegation_id, EndReason.CANCELLED, False)

    def close(self) -> None:
        """The session is over: everything stops, and nothing more is told."""
        for ident in list(self._open):
            self.cancel(ident)

    def get_timer(self) -> float | None:
        """When `handle_timer` has something to do."""
        moments = [work.deadline for work in self._open.values()]
        moments += [
            work.acknowledge_at for work in self._open.values() if work.acknowledge_at is not None
        ]
        return min(moments, default=None)

    def handle_timer(self, now: float) -> None:
        """What took too long is stopped; what was not acknowledged is, aloud and once."""
        for ident, work in list(self._open.items()):
            if work.deadline <= now:
                self._actions.append(Stop(ident))
                is_stale = self._is_stale(ident, work)
                self._answer(ident, "This took too long and was given up.", is_stale)
                self._end(ident, EndReason.TIMED_OUT, is_stale)
            elif work.acknowledge_at is not None and work.acknowledge_at <= now:
                work.acknowledge_at = None
                if not work.told:
                    self._tell(Inject.COMMENTARY, self._config.acknowledgement, ident)

    def _answer(self, delegation_id: str, text: str, is_stale: bool) -> None:
        if not is_stale or self._config.stale is Stale.SPEAK:
            self._tell(Inject.COMMENTARY, text, delegation_id)
            return
        self.stale += 1
        if self._config.stale is Stale.THINKING:
            self._tell(Inject.THINKING, text, delegation_id)

    def _is_stale(self, delegation_id: str, work: _Open) -> bool:
        moved_on = self._turn - work.turn >= self._config.stale_turns
        return moved_on or (delegation_id != self._newest and self._turn > work.turn)

    def _tell(self, kind: Inject, text: str, delegation_id: str) -> None:
        # whatever is told makes every acknowledgement that is pending superfluous
        for work in self._open.values():
            work.acknowledge_at = None
            work.told = True
        self._actions.append(Tell(kind, text, delegation_id))

    def _end(self, delegation_id: str, reason: EndReason, is_stale: bool) -> None:
        del self._open[delegation_id]
        self._ended.append(delegation_id)
        self._actions.append(Ended(delegation_id, reason, is_stale))
