"""What the media thread tells the asyncio thread: collected in a tick, carried over in one step.

media thread: send(call, argument) ... carry() ── call_soon_threadsafe ─▶ call(argument) ...
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from typing import Any, Final

CARRY_AT: Final = 8
"""Payloads after which a tick that is not over lets go of what it has."""


class Crossing:
    """One direction, one event loop. `send` and `carry` are the media thread's."""

    __slots__ = ("_items", "_loop", "behind")

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._items: list[tuple[Callable[[Any], object], Any]] = []
        self.behind = 0
        """Payloads that were dropped over there, because others still waited to leave."""

    def send(self, call: Callable[[Any], object], argument: Any) -> None:
        """Have `call(argument)` called over there."""
        self._items.append((call, argument))
        if len(self._items) >= CARRY_AT:
            self.carry()

    def carry(self) -> None:
        """Carry over what there is."""
        if self._items:
            items, self._items = self._items, []
            # a loop that is closed has nobody left who could be told
            with contextlib.suppress(RuntimeError):
                self._loop.call_soon_threadsafe(self._deliver, items)

    def _deliver(self, items: list[tuple[Callable[[Any], object], Any]]) -> None:
        for call, argument in items:
            try:
                call(argument)
            except Exception as error:
                # what one session's application does is nothing to the others
                text = "a session's application failed"
                self._loop.call_exception_handler({"message": text, "exception": error})
