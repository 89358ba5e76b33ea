"""A client's connection: in order, bounded, and over when it is."""

from __future__ import annotations

import asyncio

from voice_backend.io.live_door import MAX_EVENTS, MAX_SOUND, Door


def test_events_and_sound_leave_in_order_and_the_last_is_waited_for() -> None:
    async def main() -> None:
        sent: list[str] = []

        async def write(text: str) -> None:
            await asyncio.sleep(0)
            sent.append(text)

        door = Door(write)
        door.send("a")
        door.sound("b")
        door.send("c")
        await door.close()
        await door.close()
        door.send("d")
        assert sent == ["a", "b", "c"]
        assert door.ended.done()

    asyncio.run(main())


def test_a_client_that_does_not_fetch_loses_sound_first_and_is_let_go_then() -> None:
    async def main() -> None:
        stuck = asyncio.Event()

        async def write(text: str) -> None:
            await stuck.wait()

        door = Door(write)
        for n in range(500):
            door.sound(str(n))
        assert door.dropped == 500 - MAX_SOUND
        assert not door.ended.done()
        for n in range(MAX_EVENTS + 1):
            door.send(str(n))
        assert door.ended.done()
        stuck.set()
        await door.close()

    asyncio.run(main())


def test_sound_that_was_taken_back_is_not_sent() -> None:
    async def main() -> None:
        sent: list[str] = []

        async def write(text: str) -> None:
            sent.append(text)

        door = Door(write)
        door.sound("a")
        door.send("b")
        door.flush_sound()
        door.sound("c")
        await door.close()
        assert sent == ["b", "c"]

    asyncio.run(main())


def test_a_broken_connection_is_over() -> None:
    async def main() -> None:
        async def write(text: str) -> None:
            raise ConnectionResetError

        door = Door(write)
        door.send("a")
        async with asyncio.timeout(5):
            await door.ended
        await door.close()

    asyncio.run(main())
