"""A caller of `warp bench voice`: always sends, asks, listens, now and then talks into an answer.

Time of an answer: from the end of the last audible frame of the question to the first audible frame
of the answer, when it arrives. Time of a barge-in: from when 200 ms of speech have left to the last
audible frame of what was talked into, when it arrives.
"""

from __future__ import annotations

import asyncio
import contextlib
import random
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple

import numpy as np

from voice_backend.audio import OpusDecoder
from warp.io import Session
from warp_tools.bench.voice_stages import Reply
from warp_tools.conversation import AUDIBLE

FRAME_S: Final = 0.020
RATE: Final = 16_000
SPOKEN_S: Final = 0.2
"""A voice falls silent soon after so much of its caller's speech."""
_AHEAD_MS = 60
_PAUSE_S = 0.2
"""Quiet for so long, and what comes next is something new."""
_PATIENCE_S = 6.0
_LONGEST_ANSWER_S = 8.0
_DONE_S = 0.7
_INTO_S = (0.5, 1.2)
"""After so much of an answer it is talked into."""


class Question(NamedTuple):
    """Payloads of 20 ms, which of them is the first audible one, and how many until the last."""

    payloads: Sequence[bytes]
    first: int
    spoken: int


@dataclass(slots=True, kw_only=True)
class Plan:
    """How callers behave."""

    questions: Sequence[Question]
    long: Question
    """Its answer lasts long enough to be talked into."""
    silence: bytes
    overlap: float = 0.1
    """Share of answers that are talked into."""
    pause_s: float = 1.5
    """Mean silence between an answer and the next question."""


@dataclass(slots=True)
class Heard:
    """What a caller found."""

    replies: list[Reply] = field(default_factory=list)
    stops_ms: list[float] = field(default_factory=list)
    """From 200 ms of speech into an answer to its last sound; below 0: it stopped before."""
    unanswered: int = 0
    overlaps: int = 0


class Caller:
    """One call's."""

    def __init__(self, session: Session, plan: Plan, luck: random.Random) -> None:
        self._session = session
        self._luck = luck
        self._plan = plan
        self._pending: deque[bytes] = deque()
        self._decoder = OpusDecoder(RATE)
        self._loop = asyncio.get_running_loop()
        self._audible_at = 0.0
        self._onsets: deque[float] = deque(maxlen=64)
        self.heard = Heard()

    async def run(self, until: float) -> Heard:
        """Talk until a moment of the loop's clock."""
        tasks = [asyncio.ensure_future(one) for one in (self._send(), self._listen())]
        try:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout_at(until):
                    while not self._session.closed.done():
                        await self._ask(until)
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
        return self.heard

    async def _ask(self, until: float) -> None:
        plan = self._plan
        await asyncio.sleep(self._luck.expovariate(1 / plan.pause_s))
        interrupts = self._luck.random() < plan.overlap
        question = plan.long if interrupts else self._luck.choice(plan.questions)
        began = self._speak(question)
        answered = await self._await_answer(began, question, began + _PAUSE_S, until)
        if answered and interrupts:
            await asyncio.sleep(self._luck.uniform(*_INTO_S))
            answered = await self._interrupt(until)
        end = self._loop.time() + _LONGEST_ANSWER_S
        while answered and self._loop.time() < end and not self._quiet_for(_DONE_S):
            await asyncio.sleep(FRAME_S)

    def _speak(self, question: Question) -> float:
        """Queue a question; returns when its first frame leaves, behind what is queued already."""
        began = self._loop.time() + self._session.audio_out.queued_ms / 1000
        self._pending.extend(question.payloads)
        return began

    async def _interrupt(self, until: float) -> bool:
        """Talk into the answer; returns whether that was answered in turn."""
        if self._quiet_for(_PAUSE_S):
            return True  # it was over sooner than thought
        self.heard.overlaps += 1
        question = self._luck.choice(self._plan.questions)
        began = self._speak(question)
        spoken = began + question.first * FRAME_S + SPOKEN_S
        while self._loop.time() < spoken + _PATIENCE_S and not self._session.closed.done():
            await asyncio.sleep(FRAME_S / 2)
            if self._loop.time() > spoken and self._quiet_for(_PAUSE_S):
                break
        self.heard.stops_ms.append((self._audible_at - spoken) * 1000)
        over = began + question.spoken * FRAME_S
        return await self._await_answer(began, question, over - _PAUSE_S, until)

    async def _await_answer(
        self, began: float, question: Question, after: float, until: float
    ) -> bool:
        over = began + question.spoken * FRAME_S
        onset = await self._answer(after, over + _PATIENCE_S)
        if onset is not None:
            self.heard.replies.append(Reply(over, onset))
        elif over + _PATIENCE_S <= until:
            self.heard.unanswered += 1
        return onset is not None

    async def _answer(self, after: float, until: float) -> float | None:
        """Return when something new began to be heard."""
        while self._loop.time() < until and not self._session.closed.done():
            found = next((at for at in self._onsets if at > after), None)
            if found is not None and self._loop.time() > after:
                return found
            await asyncio.sleep(FRAME_S / 2)
        return None

    def _quiet_for(self, seconds: float) -> bool:
        return self._loop.time() - self._audible_at >= seconds

    async def _send(self) -> None:
        """Speak, or send silence: a microphone is never off."""
        out = self._session.audio_out
        while not self._session.closed.done():
            while out.queued_ms < _AHEAD_MS:
                out.send(self._pending.popleft() if self._pending else self._plan.silence)
            await asyncio.sleep(FRAME_S)

    async def _listen(self) -> None:
        async for frame in self._session.audio_in:
            if frame.payload is None:
                continue
            pcm = self._decoder.decode(frame.payload).astype(np.float32)
            if float(np.sqrt(np.mean(pcm * pcm))) < AUDIBLE:
                continue
            now = self._loop.time()
            if now - self._audible_at > _PAUSE_S:
                self._onsets.append(now)
            self._audible_at = now
