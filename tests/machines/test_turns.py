"""Any run of frames, words and answers: the floor keeps its promises."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from voice_backend.turns import (
    Floor,
    Holder,
    OutputHeld,
    OutputResumed,
    PauseReached,
    TurnEnded,
    TurnEvent,
    Yielded,
)

STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("user"), st.integers(1, 60), st.sampled_from([0.0, 0.4, 0.95])),
        st.tuples(st.just("reply"), st.integers(1, 100), st.just(0.0)),
        st.tuples(st.just("cancel"), st.just(1), st.just(0.0)),
        st.tuples(st.just("hint"), st.just(1), st.just(0.0)),
        st.tuples(st.just("words"), st.integers(0, 3), st.just(0.0)),
        st.tuples(st.just("verdict"), st.integers(0, 5), st.sampled_from([0.0, 1.0])),
    ),
    max_size=40,
)
WORDS = ("", "mm-hm", "stop it", "yeah yeah yeah yeah yeah")


class Run:
    def __init__(self) -> None:
        self.floor = Floor()
        self.at_ms = 0
        self.queue = 0
        self.seen: list[TurnEvent] = []

    def frames(self, count: int, likelihood: float) -> None:
        for _ in range(count):
            sounds = self.queue > 0 and not self.floor.held
            self.queue -= sounds
            self.floor.receive_output(self.at_ms, 20, sounds, self.queue > 0)
            self.floor.receive_frame(self.at_ms, 20, likelihood)
            self.at_ms += 20
            assert self.floor.speaking or not self.floor.held
            self.drain()

    def drain(self) -> None:
        for event in self.floor.events():
            self.seen.append(event)
            if isinstance(event, Yielded):
                self.queue = 0
                self.floor.receive_cancelled()

    def take(self, what: str, count: int, value: float) -> None:
        if what == "user":
            self.frames(count, value)
        elif what == "reply":
            self.queue += count
        elif what == "cancel":
            self.queue = 0
            self.floor.receive_cancelled()
        elif what == "hint":
            self.floor.receive_hint()
        elif what == "words":
            self.floor.receive_words(WORDS[count])
        else:
            self.floor.receive_verdict(count, value)
        self.drain()


@pytest.mark.slow
@settings(max_examples=60, deadline=None)
@given(STEPS)
def test_the_floor_keeps_its_promises(steps: list[tuple[str, int, float]]) -> None:
    run = Run()
    for step in steps:
        run.take(*step)
    # whatever happened, silence brings everything to rest
    run.queue = 0
    run.frames(150, 0.0)
    assert run.floor.holder is Holder.NOBODY
    assert not run.floor.held

    held = False
    for event in run.seen:
        if isinstance(event, OutputHeld):
            held = True
        elif isinstance(event, OutputResumed):
            assert held
            held = False
        elif isinstance(event, Yielded):
            held = False
    questions = [e.question for e in run.seen if isinstance(e, PauseReached)]
    assert questions == sorted(set(questions))
    turns = [e for e in run.seen if isinstance(e, TurnEnded)]
    assert [t.turn for t in turns] == sorted(t.turn for t in turns)
    assert all(a.noticed_ms <= b.noticed_ms for a, b in itertools.pairwise(turns))
    assert all(t.start_ms < t.end_ms <= t.noticed_ms for t in turns)
