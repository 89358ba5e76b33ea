"""Helpers at work: a task for each delegation, apart from every frame.

    DelegationDesk ─ Begin ─▶ task ─ helper.work() ─▶ parts ─▶ desk ─ Tell ─▶ tell(kind, text, id)
                     Stop  ─▶ cancelled

`tell` and `passed_on` are called in the event loop; they must not wait. The media loop is neither
awaited by anything here nor awaits it: a helper that hangs costs its own task, until its deadline.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable

from voice_backend.delegation import (
    Begin,
    DelegationConfig,
    DelegationDesk,
    Ended,
    Helper,
    Part,
    Request,
    Stop,
    Tell,
)
from voice_backend.model import Inject

_log = logging.getLogger(__name__)

TellModel = Callable[[Inject, str, str | None], None]
PassOn = Callable[[str, dict[str, object]], None]


class Delegates:
    """The delegations of one session, run in asyncio. Opened at its start, closed with it."""

    __slots__ = (
        "_config", "_helper", "_is_closed", "_opening", "_passed_on", "_tasks", "_tell", "_timer",
        "desk", "ended",
    )  # fmt: skip

    def __init__(
        self,
        helper: Helper,
        tell: TellModel,
        *,
        config: DelegationConfig | None = None,
        passed_on: PassOn | None = None,
    ) -> None:
        self._config = config or DelegationConfig()
        self._helper = helper
        self._tell = tell
        self._passed_on = passed_on
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._opening: asyncio.Task[None] | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._is_closed = False
        self.desk = DelegationDesk(self._config)
        self.ended: dict[str, int] = {}
        """How delegations ended: counts by `EndReason` value."""

    def open(self, context: str = "") -> None:
        """Let the helper get ready, beside everything else; a failure shows when it is needed."""
        if self._opening is None and not self._is_closed:
            self._opening = asyncio.get_running_loop().create_task(self._open(context))

    def delegate(self, request: Request) -> None:
        """Give work away; the same id is the same work."""
        self._act(lambda desk, now: desk.receive_delegation(request, now))

    def turn_ended(self) -> None:
        """The user has finished a turn."""
        self.desk.receive_turn()

    def cancel(self, delegation_id: str) -> None:
        """Nobody wants this answer any more."""
        self._act(lambda desk, _: desk.cancel(delegation_id))

    async def close(self) -> None:
        """Stop everything and wait until it has stopped. Harmless when repeated."""
        self._is_closed = True
        self.desk.close()
        self.desk.actions()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        tasks = [*self._tasks.values(), *([self._opening] if self._opening else [])]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        self._tasks.clear()
        try:
            async with asyncio.timeout(_CLOSE_S):
                await self._helper.close()
        except Exception as error:
            _log.warning("a helper did not close: %s", type(error).__name__)

    async def _open(self, context: str) -> None:
        try:
            async with asyncio.timeout(self._config.timeout_s):
                await self._helper.open(context)
        except Exception as error:
            _log.warning("a helper is not ready: %s", type(error).__name__)

    def _act(self, step: Callable[[DelegationDesk, float], None]) -> None:
        if self._is_closed:
            return
        now = asyncio.get_running_loop().time()
        step(self.desk, now)
        for action in self.desk.actions():
            if isinstance(action, Begin):
                self._begin(action.request)
            elif isinstance(action, Tell):
                self._tell(action.kind, action.text, action.delegation_id)
            elif isinstance(action, Stop):
                task = self._tasks.get(action.delegation_id)
                if task is not None:
                    task.cancel()
            elif isinstance(action, Ended):
                self.ended[action.reason.value] = self.ended.get(action.reason.value, 0) + 1
        self._arm()

    def _arm(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        moment = self.desk.get_timer()
        if moment is not None:
            loop = asyncio.get_running_loop()
            self._timer = loop.call_at(moment, self._act, DelegationDesk.handle_timer)

    def _begin(self, request: Request) -> None:
        task = asyncio.get_running_loop().create_task(self._work(request))
        self._tasks[request.delegation_id] = task
        task.add_done_callback(lambda _: self._tasks.pop(request.delegation_id, None))

    async def _work(self, request: Request) -> None:
        ident = request.delegation_id
        if self._opening is not None:
            await asyncio.wait([self._opening])
        try:
            async with contextlib.aclosing(self._helper.work(request)) as parts:
                async for part in parts:
                    self._receive(ident, part)
                    if part.done:
                        return
        except Exception as error:
            # what a helper's error says is for our log only: it may hold anything
            _log.warning("a helper failed: %s: %s", type(error).__name__, error)
            self._fail(ident, type(error).__name__)
            return
        self._fail(ident, "no answer")

    def _receive(self, ident: str, part: Part) -> None:
        if part.raw is not None and self._passed_on is not None and not self._is_closed:
            self._passed_on(ident, part.raw)
        if part.text or part.done:
            self._act(lambda desk, _: desk.receive_part(ident, part))

    def _fail(self, ident: str, reason: str) -> None:
        self._act(lambda desk, _: desk.receive_failure(ident, reason))


_CLOSE_S = 5.0
