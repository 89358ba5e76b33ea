"""A caller of `warp bench voice`: always sends, asks now and then, and times the answers.

Time of an answer: from the last audible frame of the question, when it leaves, to the first
audible frame of the answer, when it arrives.
"""

from __future__ import annotations

import asyncio
import random
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from voice_backend.audio import OpusDecoder
from warp.io import Session
from warp_tools.conversation import AUDIBLE

FRAME_S = 0.020
RATE = 16_000
_AHEAD_MS = 60
_PAUSE_S = 0.2
"""Quiet for so long, and what comes next is something new."""
_PATIENCE_S = 6.0
_LONGEST_ANSWER_S = 8.0
_DONE_S = 0.7


class Question(NamedTuple):
    """Payloads of 20 ms, and how many of them until the last word is over."""

    payloads: Sequence[bytes]
    spoken: int


@dataclass(slots=True, kw_only=True)
class Plan:
    """How callers behave."""

    overlap: float = 0.1
    """Share of answers that are talked into."""
    pause_s: float = 1.5
    """Mean silence between an answer and the next question."""


@dataclass(slots=True)
class Heard:
    """What a caller found."""

    reply_ms: list[float] = field(default_factory=list)
    unanswered: int = 0
    overlaps: int = 0


class Caller:
    """One session's."""

    def __init__(
        self, session: Session, questions: Sequence[Question], silence: bytes, seed: int, plan: Plan
    ) -> None:
        self._session = session
        self._questions = questions
        self._silence = silence
        self._luck = random.Random(seed)
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
            while self._loop.time() < until and not self._session.closed.done():
                await self._ask(until)
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
        return self.heard

    async def _ask(self, until: float) -> None:
        await asyncio.sleep(self._luck.expovariate(1 / self._plan.pause_s))
        question = self._luck.choice(self._questions)
        # it leaves behind what is queued already
        began = self._loop.time() + self._session.audio_out.queued_ms / 1000
        self._pending.extend(question.payloads)
        over = began + question.spoken * FRAME_S
        onset = await self._answer(began + _PAUSE_S, over + _PATIENCE_S)
        if over + _PATIENCE_S > until:
            return
        if onset is None:
            self.heard.unanswered += 1
            return
        self.heard.reply_ms.append(max(0.0, onset - over) * 1000)
        if self._luck.random() < self._plan.overlap:
            self.heard.overlaps += 1
            await asyncio.sleep(0.4)
            return
        end = self._loop.time() + _LONGEST_ANSWER_S
        while self._loop.time() < end and self._loop.time() - self._audible_at < _DONE_S:
            await asyncio.sleep(FRAME_S)

    async def _answer(self, after: float, until: float) -> float | None:
        """Return when something new began to be heard."""
        while self._loop.time() < until and not self._session.closed.done():
            found = next((at for at in self._onsets if at > after), None)
            if found is not None and self._loop.time() > after:
                return found
            await asyncio.sleep(FRAME_S / 2)
        return None

    async def _send(self) -> None:
        """Speak, or send silence: a microphone is never off."""
        out = self._session.audio_out
        while not self._session.closed.done():
            while out.queued_ms < _AHEAD_MS:
                out.send(self._pending.popleft() if self._pending else self._silence)
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
