from __future__ import annotations

import asyncio

import pytest

from tests.unit.io.support import play, turns
from warp.io.inbox import Inbox


async def collect(inbox: Inbox[int]) -> list[int]:
    return [item async for item in inbox]


def test_items_come_in_order_and_the_end_after_them() -> None:
    async def story() -> None:
        inbox: Inbox[int] = Inbox()
        inbox.put(1)
        task = asyncio.ensure_future(collect(inbox))
        await turns()
        inbox.put(2)
        inbox.put(3)
        inbox.close()
        inbox.close()
        inbox.put(4)
        assert await task == [1, 2, 3]
        assert await collect(inbox) == []

    play(story)


def test_every_reader_learns_of_the_end() -> None:
    async def story() -> None:
        inbox: Inbox[int] = Inbox()
        tasks = [asyncio.ensure_future(collect(inbox)) for _ in range(3)]
        await turns()
        inbox.put(1)
        inbox.close()
        assert sorted(await asyncio.gather(*tasks)) == [[], [], [1]]

    play(story)


def test_a_cancelled_reader_takes_nothing_with_it() -> None:
    async def story() -> None:
        inbox: Inbox[int] = Inbox()
        first = asyncio.ensure_future(anext(inbox))
        second = asyncio.ensure_future(anext(inbox))
        await turns()
        inbox.put(1)
        first.cancel()  # woken already, not yet run
        assert await asyncio.wait_for(second, 1) == 1
        with pytest.raises(asyncio.CancelledError):
            await first
        third = asyncio.ensure_future(anext(inbox))
        await turns()
        third.cancel()
        await asyncio.wait({third})
        assert len(inbox._waiters) == 0

    play(story)
