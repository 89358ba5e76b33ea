"""Real-time priority: taken where it is to be had, and no fault where it is not."""

from __future__ import annotations

import logging
import os
import threading

import pytest

from voice_backend.priority import take_priority


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
