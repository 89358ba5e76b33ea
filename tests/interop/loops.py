"""Each test runs in an event loop of its own, and leaves nothing behind."""

from __future__ import annotations

import asyncio
import gc
import os
from collections.abc import Coroutine
from typing import Any

from warp.io import Session

END_S = 1.0
"""Every way of closing ends all tasks within this."""


def open_files() -> int:
    """Return how many file descriptors this process holds."""
    return len(os.listdir("/dev/fd"))


async def other_tasks_end() -> None:
    """Wait until only the calling task is left; fails when that takes too long."""
    others = asyncio.all_tasks() - {asyncio.current_task()}
    if others:
        _, others = await asyncio.wait(others, timeout=END_S)
    assert [task.get_coro() for task in others] == []


def run(test: Coroutine[Any, Any, None], *, seconds: float = 20.0) -> None:
    """Run a test; fails for errors nobody awaited, tasks that go on, and files left open."""
    complaints: list[dict[str, Any]] = []

    async def guarded() -> None:
        asyncio.get_running_loop().set_exception_handler(
            lambda loop, context: complaints.append(context)
        )
        async with asyncio.timeout(seconds):
            await test
        await other_tasks_end()

    gc.collect()
    before = open_files()
    asyncio.run(guarded())
    gc.collect()
    assert complaints == [], complaints
    assert open_files() == before


async def sound(session: Session) -> bytes:
    """Return the next payload that is heard: what was lost on its way comes before it as a gap."""
    while (payload := (await anext(session.audio_in)).payload) is None:
        pass
    return payload
