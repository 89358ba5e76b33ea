"""A long conversation on a simulated clock: nothing grows with it."""

from __future__ import annotations

import gc
import sys

import numpy as np
import pytest

from tests.unit.voice_backend.desks import Room
from voice_backend.model import InText, OutText
from voice_backend.models.scripted import Ask, Hear, Say, Script

TURN = 500
LOUD = np.full(320, 8_000, np.int16)


def conversation(turns: int) -> Script:
    """Ten seconds a turn: something is understood, answered, and now and then given away."""
    script: dict = {}
    for at in range(0, turns * TURN, TURN):
        script[at + 100] = [Hear(text="how late is it", frames=80)]
        script[at + 110] = [Say(frames=200, text="it is ten past nine")]
        script[at + 400] = [Ask(delegation_id=f"d{at}")]
    return script


@pytest.mark.slow
def test_a_long_conversation_keeps_nothing_of_what_is_over() -> None:
    turns = 8
    room = Room({"": conversation(turns)}, hop=True, reserve=1, yield_after_frames=10)
    slot, line = room.join("")
    line.give = lambda pcm, now: None  # type: ignore[method-assign]
    told: list = []
    line.tell = told.extend  # type: ignore[method-assign]
    sizes = []
    for turn in range(turns):
        for n in range(TURN):
            if turn % 3 == 1 and 200 <= n < 215:
                line.fed = [LOUD]
            room.run(1)
        gc.collect()
        sizes.append(sys.getallocatedblocks())
        assert room.desk.seats[slot].playout.held <= 2
    texts = [event for event in told if isinstance(event, InText | OutText)]
    assert len(texts) == 2 * turns
    counts = room.desk.seats[slot].counts
    assert (counts.frames, counts.late_frames) == (turns * TURN, 0)
    # what was told is kept by this test alone
    assert sizes[-1] - sizes[2] < 100 * turns
