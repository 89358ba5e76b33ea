"""Helpers at work, in simulated time."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator

from tests.unit.voice_backend.virtual import run_virtually
from voice_backend.delegation import DelegationConfig, Part, Request
from voice_backend.io.delegates import Delegates
from voice_backend.model import Inject

Told = list[tuple[float, Inject, str]]


class Helper:
    """Waits, then answers; notes what became of it."""

    def __init__(self, wait_s: float, error: Exception | None = None) -> None:
        self.wait_s = wait_s
        self.error = error
        self.seen: list[str] = []

    async def open(self, context: str) -> None:
        self.seen.append(f"open {context}")
        await asyncio.sleep(0.2)

    async def work(self, request: Request) -> AsyncGenerator[Part, None]:
        self.seen.append(f"work {request.delegation_id}")
        try:
            yield Part(text="searching", raw={"type": "response.created"})
            await asyncio.sleep(self.wait_s)
            if self.error is not None:
                raise self.error
            yield Part(text=f"answer to {request.ask}", done=True)
        except asyncio.CancelledError:
            self.seen.append(f"cancelled {request.delegation_id}")
            raise

    async def close(self) -> None:
        self.seen.append("close")


def run(helper: Helper, seconds: float, *ids: str, cancel: str = "") -> tuple[Told, Delegates]:
    told: Told = []

    async def main() -> Delegates:
        loop = asyncio.get_running_loop()
        passed: list[object] = []
        delegates = Delegates(
            helper,
            lambda kind, text, _: told.append((round(loop.time(), 3), kind, text)),
            config=DelegationConfig(acknowledge_after_s=None, timeout_s=30.0),
            passed_on=lambda ident, event: passed.append((ident, event)),
        )
        delegates.open("the caller is Ann")
        for ident in ids:
            delegates.delegate(Request(delegation_id=ident, ask=ident))
        if cancel:
            await asyncio.sleep(1.0)
            delegates.cancel(cancel)
        await asyncio.sleep(seconds)
        before = len(told)
        await delegates.close()
        await delegates.close()
        assert len(told) == before
        tasks = asyncio.all_tasks() - {asyncio.current_task()}
        assert not tasks, tasks
        return delegates

    return told, run_virtually(main())


def test_an_answer_comes_back() -> None:
    helper = Helper(2.0)
    told, delegates = run(helper, 5.0, "d1", "d1")
    assert told == [
        (0.2, Inject.THINKING, "searching"),
        (2.2, Inject.COMMENTARY, "answer to d1"),
    ]
    assert delegates.ended == {"answered": 1}
    assert helper.seen == ["open the caller is Ann", "work d1", "close", "close"]


def test_one_that_hangs_is_given_up_at_its_deadline() -> None:
    helper = Helper(1e6)
    told, delegates = run(helper, 100.0, "d1")
    assert [at for at, *_ in told] == [0.2, 30.0]
    assert delegates.ended == {"timed_out": 1}
    assert "cancelled d1" in helper.seen


def test_one_that_fails_says_so_without_details() -> None:
    told, delegates = run(Helper(1.0, RuntimeError("key sk-123 is wrong")), 5.0, "d1")
    assert told[-1][1] is Inject.COMMENTARY
    assert "sk-123" not in told[-1][2]
    assert delegates.ended == {"failed": 1}


def test_a_cancelled_one_is_stopped() -> None:
    helper = Helper(10.0)
    told, delegates = run(helper, 30.0, "d1", cancel="d1")
    assert [kind for _, kind, _ in told] == [Inject.THINKING]
    assert delegates.ended == {"cancelled": 1}
    assert "cancelled d1" in helper.seen


def test_a_session_that_ends_leaves_nothing() -> None:
    helper = Helper(1e6)
    run(helper, 1.0, "d1", "d2", "d3")
    assert [line for line in helper.seen if line.startswith("cancelled")] == [
        "cancelled d1",
        "cancelled d2",
        "cancelled d3",
    ]
