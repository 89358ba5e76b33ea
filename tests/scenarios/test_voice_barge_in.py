"""A caller talks into an answer: counted in frames, from the caller's first word to our silence.

The embedded voice behind the desk as it is served: an engine one hop away, a frame in reserve.
Networks that need no weights; time is counted in ticks.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from tests.unit.voice_backend.desks import FakeLine, HopHost, Room
from tests.unit.voice_backend.models.doubles import Call
from voice_backend.frames import silence
from voice_backend.model import Cancelled, InText, OutText, SpeakingOn, StepIn, StepOut

IN_PLAYOUT = 2
"""Frames that are on their way when the voice falls silent: the hop's and the reserve's, 40 ms."""
MOST_SPOKEN = (200 + 60) // 20
"""Our audio stops 60 ms after 200 ms of the caller's speech, or sooner."""
LONG = "count from one to twenty"


class Story:
    """A call, tick by tick, and when the model said something."""

    def __init__(self) -> None:
        self.call = Call()
        model: Any = self.call.model
        model.close(self.call.slot)
        self.audible: list[bool] = []
        step = model.step

        def watched(batch: Sequence[StepIn]) -> list[StepOut]:
            outs = step(batch)
            self.audible += [out.pcm is not None and bool(out.pcm.any()) for out in outs]
            return list(outs)

        model.step = watched
        self.room = Room(model=model, hop=True, reserve=1)
        assert isinstance(self.room.host, HopHost)
        self.room.host.held = 1  # what is handed over comes back in the next tick
        _, self.line = self.room.join()

    def speak(self, text: str, milliseconds: int) -> None:
        for frame in self.call.ears.sound(text, milliseconds).reshape(-1, 320):
            self.line.fed.append(frame)
            self.room.run(1)

    def wait(self, ticks: int) -> None:
        self.line.fed += [silence(320)] * ticks
        self.room.run(ticks)

    def wait_for_answer(self) -> None:
        began = len(self.line.of(SpeakingOn))
        while len(self.line.of(SpeakingOn)) == began:
            self.wait(1)
            assert self.room.tick < 2_000


def sounding(line: FakeLine, begin: int, end: int | None = None) -> int:
    return sum(line.loud()[begin:end])


@pytest.mark.parametrize("phase", range(8))
def test_our_audio_stops_60_ms_after_200_ms_of_speech(phase: int) -> None:
    """Wherever the detector's windows lie."""
    story = Story()
    story.speak(LONG, 800)
    story.wait_for_answer()
    story.wait(25 + phase)
    begun = story.room.tick
    story.speak("stop", 400)
    loud = story.line.loud()
    assert all(loud[begun : begun + 5]), "it does not stop at the first sound"
    assert sounding(story.line, begun) <= MOST_SPOKEN
    assert not any(loud[begun + MOST_SPOKEN :])

    # the decision: the first silent frame of the model's; it was made out of what was heard by then
    decided = story.audible.index(False, begun)
    assert sounding(story.line, decided + 1) <= IN_PLAYOUT

    story.wait_for_answer()
    story.wait(60)
    (cut,) = story.line.of(Cancelled)
    assert cut.played_ms > 0
    assert story.line.flushed == 1, "what is queued behind us goes too"
    assert [one.delta for one in story.line.of(InText) if one.final] == [LONG, "stop"]
    assert "".join(one.delta for one in story.line.of(OutText)).endswith("Okay. ")


def test_an_acknowledgement_costs_no_frame_of_the_answer() -> None:
    """It may be held for a moment; then all of it is said."""
    heard = []
    for hums in (False, True):
        story = Story()
        story.speak("count from one to five", 800)
        story.wait_for_answer()
        story.wait(5)
        if hums:
            story.speak("mm-hm", 300)
        story.wait(120)
        assert story.line.of(Cancelled) == []
        heard.append(np.concatenate([pcm for pcm in story.line.given if pcm.any()]))
    plain, with_hum = heard
    # but for the frame that fades where it was held
    assert 0 <= len(with_hum) - len(plain) <= 480
