"""The table of deadlines: the earliest is always known, whatever is armed and cancelled."""

from __future__ import annotations

import enum

from hypothesis import given
from hypothesis import strategies as st

from warp.timers import TimerTable


class Why(enum.Enum):
    FIRST = 1
    SECOND = 2
    THIRD = 3


def test_a_deadline_that_is_put_off_gives_way_to_the_next():
    timers: TimerTable[Why] = TimerTable()
    timers.arm(Why.FIRST, 1.0)
    timers.arm(Why.SECOND, 2.0)
    timers.arm(Why.FIRST, 3.0)
    assert timers.due == 2.0
    timers.cancel(Why.SECOND)
    assert timers.due == 3.0
    timers.cancel(Why.SECOND)
    assert timers.pop_expired(2.9) == []
    assert timers.pop_expired(3.0) == [Why.FIRST]
    assert timers.due is None


@given(st.lists(st.tuples(st.sampled_from(Why), st.none() | st.integers(0, 5))))
def test_the_earliest_deadline_is_the_least_of_all(steps):
    timers: TimerTable[Why] = TimerTable()
    armed: dict[Why, float] = {}
    for reason, deadline in steps:
        if deadline is None:
            timers.cancel(reason)
            armed.pop(reason, None)
        else:
            timers.arm(reason, deadline)
            armed[reason] = deadline
        assert timers.due == min(armed.values(), default=None)
        assert timers.deadline(reason) == armed.get(reason)
    assert sorted(timers.pop_expired(5.0), key=list(Why).index) == [r for r in Why if r in armed]
