"""The small language model as a helper: delegations that stay on this machine.

Delegates ─▶ BrainHelper (one a session) ─▶ SharedBrain (one a process, one question at a time)
                                              its own thread; never the engine's
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncGenerator
from concurrent.futures import ThreadPoolExecutor

from voice_backend.delegation import Part, Request
from voice_backend.models.brain import Brain
from voice_backend.models.store import Store


class SharedBrain:
    """The process's one brain, loaded when the first session is opened."""

    def __init__(self, store: Store | None = None) -> None:
        self._store = store or Store()
        self._threads = ThreadPoolExecutor(1, thread_name_prefix="voice-brain")
        self._brain: Brain | None = None

    async def load(self) -> None:
        """Load it, once. Raises ModelsMissing or ModelUnusable."""
        await asyncio.get_running_loop().run_in_executor(self._threads, self._load)

    async def answer(self, ask: str) -> str:
        """Return an answer; a caller that is cancelled stops the work that is under way."""
        stopped = threading.Event()
        try:
            return await asyncio.get_running_loop().run_in_executor(
                self._threads, lambda: self._load().answer(ask, stopped.is_set)
            )
        finally:
            stopped.set()

    def close(self) -> None:
        """End its thread, and let go of the model. Harmless when repeated."""
        self._threads.shutdown(wait=True, cancel_futures=True)
        brain, self._brain = self._brain, None
        if brain is not None:
            brain.close()

    def _load(self) -> Brain:
        if self._brain is None:
            self._brain = Brain.load(self._store)
        return self._brain


class BrainHelper:
    """A session's helper (`delegation.Helper`)."""

    def __init__(self, brain: SharedBrain) -> None:
        self._brain = brain

    async def open(self, context: str) -> None:
        """Have the model loaded by the time that it is needed."""
        await self._brain.load()

    async def work(self, request: Request) -> AsyncGenerator[Part, None]:
        """Answer; the one part is the last."""
        yield Part(text=await self._brain.answer(request.ask), done=True)

    async def close(self) -> None:
        """The brain is the process's, and stays."""
