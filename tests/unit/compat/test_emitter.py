"""Handlers by name: order, once, removal, and faults that end nothing."""

from __future__ import annotations

import asyncio

import pytest

from warp.compat.aiortc.emitter import Emitter


def test_handlers_are_called_in_order_with_the_arguments() -> None:
    emitter, heard = Emitter(), []

    @emitter.on("said")
    def first(word):
        heard.append(("first", word))

    emitter.on("said", lambda word: heard.append(("second", word)))
    assert emitter.emit("said", "hello")
    assert not emitter.emit("unsaid")
    assert heard == [("first", "hello"), ("second", "hello")]
    assert emitter.listeners("said")[0] is first


def test_once_is_once_and_removal_removes() -> None:
    emitter, heard = Emitter(), []
    emitter.once("a", lambda: heard.append("once"))
    kept = emitter.add_listener("a", lambda: heard.append("kept"))
    emitter.emit("a")
    emitter.emit("a")
    emitter.remove_listener("a", kept)
    emitter.emit("a")
    assert heard == ["once", "kept", "kept"]
    with pytest.raises(KeyError):
        emitter.remove_listener("a", kept)
    emitter.on("a", kept)
    emitter.on("b", kept)
    emitter.remove_all_listeners("a")
    assert not emitter.emit("a")
    emitter.remove_all_listeners()
    assert not emitter.emit("b")


def test_a_handler_may_be_a_coroutine_and_may_fail() -> None:
    reported: list[dict] = []
    heard: list[str] = []

    async def story() -> None:
        asyncio.get_running_loop().set_exception_handler(lambda _, c: reported.append(c))
        emitter = Emitter()

        @emitter.on("a")
        async def later():
            await asyncio.sleep(0)
            heard.append("later")
            raise ValueError("late")

        @emitter.on("a")
        def now():
            raise ValueError("now")

        emitter.on("a", lambda: heard.append("last"))
        assert emitter.emit("a")
        while len(reported) < 2:
            await asyncio.sleep(0)

    asyncio.run(story())
    assert heard == ["last", "later"]
    assert [str(context["exception"]) for context in reported] == ["now", "late"]
    assert all("'a'" in context["message"] for context in reported)


def test_a_fault_without_a_loop_is_raised() -> None:
    emitter = Emitter()

    @emitter.on("a")
    def fail():
        raise ValueError("no loop")

    with pytest.raises(ValueError, match="no loop"):
        emitter.emit("a")
