"""The processes of one port: who is asked, who may start again, and when it is given up."""

from __future__ import annotations

import pytest

from instant_connect.crew import MAX_WORKERS, Crew, CrewConfig, WorkerState
from instant_connect.router import Roster
from warp.errors import InvalidConfig


def crew(workers: int = 3, **config: float) -> Crew:
    return Crew(CrewConfig(workers=workers, first=5, **config))  # type: ignore[arg-type]


def serving(**config: float) -> Crew:
    made = crew(**config)
    for number in (5, 6, 7):
        made.ready(number)
    assert made.admit()
    return made


def test_whoever_is_ready_is_asked_once_all_others_have_noted_it() -> None:
    made = crew()
    assert made.roster == Roster.of()
    for number in (5, 6):
        made.ready(number)
    assert (made.joining, made.roster, made.all_have_noted) == ([5, 6], Roster.of(), True)
    assert made.admit()
    assert not made.admit()
    assert made.roster == Roster.of(5, 6)
    made.ready(7)
    assert not made.all_have_noted
    made.note(5, made.serial)
    made.note(6, made.serial - 1)
    assert not made.all_have_noted
    made.note(6, made.serial)
    assert made.all_have_noted
    assert made.to_json() == {
        "serial": made.serial, "alive": [5, 6], "draining": [], "joining": [7],
    }  # fmt: skip


def test_nobody_waits_for_one_that_is_gone() -> None:
    made = serving()
    made.end(5, 0.0)
    made.start(5)
    made.ready(5)
    made.note(6, made.serial)
    assert not made.all_have_noted
    made.end(7, 0.0)
    made.note(6, made.serial)
    assert made.all_have_noted


def test_one_that_is_not_starting_is_not_made_to_join() -> None:
    made = serving()
    made.drain([5])
    made.ready(5)
    assert made.state(5) is WorkerState.DRAINING


def test_draining_changes_those_who_serve() -> None:
    made = serving()
    made.end(7, 0.0)
    made.start(7)
    assert made.drain([6, 7, 99]) == [6]
    assert made.drain([6]) == []
    assert made.roster == Roster.of(5, 6, draining=[6])
    assert made.drain() == [5]
    assert made.roster.taking == frozenset()


def test_every_change_makes_another_roster() -> None:
    made = serving()
    seen = {made.serial}
    for change in (
        lambda: made.drain([6]),
        lambda: made.end(7, 0.0),
        lambda: made.start(7),
        lambda: made.ready(7),
        made.admit,
    ):
        change()
        assert made.serial not in seen
        seen.add(made.serial)


def test_the_dead_start_again_sooner_at_first() -> None:
    made = serving(max_restarts=8)
    waits = [made.end(5, float(second)) for second in range(8)]
    assert waits == [0.0, 0.2, 0.4, 0.8, 1.6, 3.2, 5.0, 5.0]
    assert made.end(5, 9.0) is None
    assert made.deaths == 9


def test_deaths_long_ago_do_not_count() -> None:
    made = serving(max_restarts=2, within_s=10.0)
    for minute in range(10):
        assert made.end(5, minute * 60.0) == 0.0
        made.start(5)
    assert made.end(6, 541.0) == 0.2
    assert made.end(7, 542.0) is None


def test_whoever_ends_because_it_is_told_to_has_not_died() -> None:
    made = serving(max_restarts=0)
    for _ in range(10):
        assert made.end(5, 0.0, in_order=True) == 0.0
    assert made.end(5, 0.0) is None


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"workers": 0}, "1 to 64, not 0"),
        ({"workers": MAX_WORKERS + 1}, "1 to 64"),
        ({"workers": 1000}, "not 1000"),
        ({"first": 65_535}, "smaller first"),
        ({"first": -1}, "0 to 65534"),
        ({"max_restarts": -1}, "max_restarts"),
    ],
)
def test_a_crew_that_cannot_be_is_refused(options: dict[str, int], text: str) -> None:
    with pytest.raises(InvalidConfig, match=text):
        CrewConfig(**options)  # type: ignore[arg-type]
