"""Real-time priority: taken where it is to be had, and no fault where it is not."""

from __future__ import annotations

import logging
import os
import threading

import pytest

from voice_backend.priority import STEP, leave_priority, take_priority


def in_a_thread(priority: int) -> list:
    found: list = []

    def work() -> None:
        found.append(take_priority(priority))
        inner = threading.Thread(target=lambda: found.append(os.sched_getscheduler(0)))
        inner.start()
        inner.join()

    outer = threading.Thread(target=work)
    outer.start()
    outer.join()
    return found


def test_a_thread_that_has_it_starts_threads_that_do_not() -> None:
    taken, scheduler = in_a_thread(1)
    assert taken in (True, False)
    if taken:
        assert scheduler == os.SCHED_OTHER


def test_what_cannot_be_had_is_logged_and_gone_without(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO):
        assert in_a_thread(100_000)[0] is False
    assert "priority" in caplog.text


def test_one_that_was_put_under_it_stands_higher_and_comes_down_again() -> None:
    found: list[int] = []

    def work() -> None:
        if not take_priority(3):
            return
        for change in (lambda: take_priority(3), leave_priority, leave_priority):
            change()
            found.append(os.sched_getparam(0).sched_priority)

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert found in ([], [3 + STEP, 3, 1])


def test_without_it_there_is_nothing_to_leave() -> None:
    before = os.sched_getscheduler(0)
    leave_priority()
    assert os.sched_getscheduler(0) == before
