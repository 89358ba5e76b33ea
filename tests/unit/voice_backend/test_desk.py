"""The media loop's core on a simulated clock: who is owed what, what is late, and whose fault."""

from __future__ import annotations

import numpy as np
import pytest

from tests.unit.voice_backend.desks import Room
from voice_backend.counts import Late
from voice_backend.engine import MAX_UNUSABLE
from voice_backend.model import (
    Cancelled,
    Inject,
    ModelInfo,
    OutText,
    SpeakingOff,
    SpeakingOn,
)
from voice_backend.models.echo import EchoModel
from voice_backend.models.scripted import (
    Fault,
    Raise,
    Reflect,
    Say,
    ScriptedModel,
    Short,
    Skip,
    Stray,
    Wait,
)
from voice_backend.seat import GIVE_UP_FRAMES, Failed


def ramp(value: int, samples: int = 960) -> np.ndarray:
    return np.full(samples, value, np.int16)


def test_one_frame_in_is_one_frame_out_in_the_same_tick_where_the_engine_is_here() -> None:
    room = Room(model=EchoModel())
    slot, line = room.join()
    line.fed = [ramp(n) for n in (1, 2, 3)]
    room.run(3)
    assert [int(pcm[0]) for pcm in line.given] == [1, 2, 3]
    assert room.desk.seats[slot].counts.late_frames == 0


def test_an_engine_elsewhere_answers_a_tick_later() -> None:
    room = Room(model=EchoModel(), hop=True)
    _, line = room.join()
    line.fed = [ramp(n) for n in (1, 2, 3)]
    room.run(4)
    assert [int(pcm[0]) for pcm in line.given] == [0, 1, 2, 3]


def test_a_reserve_hides_a_late_engine_at_the_price_of_its_length() -> None:
    room = Room(model=EchoModel(), hop=True, reserve=1)
    slot, line = room.join()
    line.fed = [ramp(n) for n in (1, 2, 3, 4, 5)]
    room.run(3)
    room.host.held = 1  # one batch stays with the engine for longer than a tick
    room.run(2)
    room.host.held = 0
    room.run(2)
    assert [int(pcm[0]) for pcm in line.given] == [0, 0, 1, 2, 3, 4, 5]
    assert room.desk.seats[slot].counts.late_frames == 0


def test_a_model_of_80_ms_is_fed_four_frames_and_answers_four() -> None:
    info = ModelInfo(name="slow", in_rate=16_000, out_rate=16_000, frame_ms=80)
    room = Room(model=ScriptedModel({"": {0: [Reflect()]}}, info=info), hop=True)
    slot, line = room.join()
    line.fed = [ramp(n, 320) for n in range(1, 13)]
    room.run(15)
    # three frames to gather, four for the engine
    assert [int(pcm[0]) for pcm in line.given] == [0] * 7 + list(range(1, 9))
    assert room.desk.seats[slot].counts.late_frames == 0


@pytest.mark.parametrize(
    ("cue", "late"),
    [(Skip(frames=2), 2), (Short(), 1), (Stray(), 0)],
)
def test_what_is_missing_is_concealed_and_counted_against_the_model(cue, late: int) -> None:
    room = Room({"bad": {0: [Say(frames=50)], 10: [cue]}})
    slot, line = room.join("bad")
    other, _ = room.join("")
    room.run(30)
    counts = room.desk.seats[slot].counts
    assert counts.late[Late.MODEL] == counts.late_frames == late
    assert counts.concealed == late
    assert counts.frames == 30
    assert line.loud()[:10] == [True] * 10
    assert room.desk.seats[other].counts.late_frames == 0


def test_a_frame_that_comes_late_is_dropped_and_the_next_is_in_time() -> None:
    room = Room({"": {0: [Say(frames=50)]}}, hop=True)
    slot, _ = room.join("")
    room.run(5)
    room.host.held = 2
    room.run(2)
    room.host.held = 0
    room.run(5)
    counts = room.desk.seats[slot].counts
    assert counts.late[Late.QUEUE] == 1
    assert counts.stale == 1
    assert counts.longest == 1


def test_a_slow_step_is_late_by_the_model() -> None:
    room = Room({"": {5: [Wait(seconds=0.03)]}})
    slot, _ = room.join("")
    room.run(20)
    counts = room.desk.seats[slot].counts
    assert counts.late[Late.MODEL] == 1
    # the tick behind it begins late, and is in time again
    assert counts.late_frames == 1


def test_a_loop_that_is_woken_late_is_late_by_the_pacer() -> None:
    room = Room(model=EchoModel())
    slot, _ = room.join()
    room.run(3)
    room.clock.now = room.tick * 0.02 + 0.025
    room.run(1)
    assert room.desk.seats[slot].counts.late[Late.PACER] == 1


def test_a_tick_that_is_made_up_for_hears_and_is_not_given_out() -> None:
    room = Room(model=EchoModel())
    slot, line = room.join()
    line.fed = [ramp(n) for n in (1, 2, 3, 4)]
    room.run(1)
    room.run(2, given=False)
    room.run(1)
    assert [int(pcm[0]) for pcm in line.given] == [1, 4]
    counts = room.desk.seats[slot].counts
    assert (counts.late[Late.PACER], counts.missing_ms, counts.frames) == (2, 40, 4)


def test_slow_encoding_is_late_by_encoding() -> None:
    room = Room(model=EchoModel())
    slot, line = room.join()
    give = line.give
    line.give = lambda pcm, now: (room.clock.pause(0.03), give(pcm, now))  # type: ignore[method-assign]
    room.run(1)
    assert room.desk.seats[slot].counts.late[Late.ENCODE] == 1


def test_whoever_raises_fails_alone() -> None:
    room = Room({"bad": {5: [Raise()]}})
    bad, line = room.join("bad")
    goods = [room.join("") for _ in range(3)]
    room.run(20)
    assert bad not in room.desk.seats
    [failed] = line.of(Failed)
    assert failed.reason == "the voice failed (RuntimeError)"
    assert room.model.taken == 3
    for slot, good in goods:
        # one frame was lost with the batch, none with the search for the culprit
        assert room.desk.seats[slot].counts.late[Late.MODEL] == 1
        assert not good.of(Failed)
    assert room.desk.past.frames == 7


def test_a_fault_that_the_model_reports_costs_the_others_nothing() -> None:
    room = Room({"bad": {5: [Fault(reason="out of ideas")]}})
    _, line = room.join("bad")
    slot, _ = room.join("")
    room.run(20)
    assert [failed.reason for failed in line.of(Failed)] == ["out of ideas"]
    assert room.desk.seats[slot].counts.late_frames == 0
    assert room.model.taken == 1


class Floats(EchoModel):
    """Returns float32 in [-1, 1] from frame `since` on, but for every `good`th."""

    def __init__(self, since: int = 0, good: int = 10_000) -> None:
        super().__init__()
        self.since, self.good = since, good

    def step(self, batch):  # type: ignore[no-untyped-def]
        outs = super().step(batch)
        for out in outs:
            if out.seq >= self.since and (out.seq + 1) % self.good:
                out.pcm = np.zeros(960, np.float32)
        return outs


def test_frames_of_the_wrong_type_are_named_once_and_fail_the_session(
    caplog: pytest.LogCaptureFixture,
) -> None:
    room = Room(model=Floats(since=5))
    _, line = room.join()
    room.run(5 + MAX_UNUSABLE - 1)
    assert not line.of(Failed)
    assert [record.getMessage() for record in caplog.records] == [
        "echo: a frame is int16, not float32; what is not so is discarded"
    ]
    room.run(1)
    [failed] = line.of(Failed)
    assert failed.reason == "50 frames in a row could not be played: a frame is int16, not float32"
    assert not room.desk.seats
    assert room.host.counts.unusable == MAX_UNUSABLE


def test_a_good_frame_between_forgives_the_others(caplog: pytest.LogCaptureFixture) -> None:
    room = Room(model=Floats(good=MAX_UNUSABLE))
    slot, line = room.join()
    room.run(3 * MAX_UNUSABLE)
    assert slot in room.desk.seats
    assert not line.of(Failed)
    assert len(caplog.records) == 1


def test_what_a_model_cannot_be_told_is_in_the_log_once(caplog: pytest.LogCaptureFixture) -> None:
    """How often is for clients to say."""
    room = Room(model=EchoModel(rate=48_000))
    slot, line = room.join()
    for _ in range(5):
        room.desk.inject(slot, Inject.THINKING, "do you hear", None)
        room.desk.inject(slot, Inject.COMMENTARY, "or this", None)
        room.run(1)
    assert not line.of(Failed)
    assert [record.getMessage() for record in caplog.records] == [
        "echo: this model takes no thinking",
        "echo: this model takes no commentary",
    ]


def test_one_that_raises_once_is_forgiven() -> None:
    room = Room({"bad": {5: [Raise(always=False)]}})
    slot, line = room.join("bad")
    room.join("")
    room.run(20)
    assert slot in room.desk.seats
    assert not line.of(Failed)


def test_a_voice_that_says_nothing_for_long_has_failed() -> None:
    room = Room({"": {3: [Skip(frames=10_000)]}})
    _, line = room.join("")
    room.run(GIVE_UP_FRAMES + 10)
    assert len(line.of(Failed)) == 1
    assert not room.desk.seats
    assert room.model.taken == 0


def test_cancel_silences_within_the_tick_and_old_frames_never_come_back() -> None:
    room = Room({"": {0: [Say(frames=500, text="and so on")]}}, hop=True, reserve=2)
    slot, line = room.join("")
    room.run(20)
    assert line.loud()[-1]
    room.desk.cancel(slot)
    given = len(line.given)
    room.run(20)
    assert line.flushed == 2  # when it is told, and when the model has heard of it
    # the first frame after it ends without a click, within 5 ms
    assert not any(line.loud()[given + 1 :])
    assert line.of(Cancelled)
    counts = room.desk.seats[slot].counts
    assert counts.fenced >= 3
    assert counts.late_frames == 0


def test_a_model_that_yields_takes_back_what_lies_in_reserve() -> None:
    room = Room({"": {0: [Say(frames=500)]}}, hop=True, reserve=2, yield_after_frames=10)
    slot, line = room.join("")
    room.run(20)
    line.fed = [ramp(8000, 320) for _ in range(30)]
    room.run(30)
    loud = line.loud()
    # ten frames for the model to make sure, one to come back to us; none of the reserve
    assert sum(loud[20:]) <= 12
    [cancelled] = line.of(Cancelled)
    # the last frame with anything in it is the end of the cut
    counts = room.desk.seats[slot].counts
    assert cancelled.played_ms == 20 * (sum(loud) - 1)
    assert counts.fenced >= 1
    assert counts.late_frames == 0
    # and what had been given out and waited to leave
    assert line.flushed == 1


def test_what_is_injected_is_said() -> None:
    room = Room({})
    slot, line = room.join("")
    room.run(2)
    room.desk.inject(slot, Inject.COMMENTARY, "there it is", "d1")
    room.run(60)
    assert [type(event) for event in line.events] == [SpeakingOn, OutText, SpeakingOff]
    assert line.of(OutText)[0].delta == "there it is"
    assert sum(line.loud()) == 45


def test_an_engine_that_is_gone_fails_every_session() -> None:
    room = Room(model=EchoModel())
    lines = [room.join()[1] for _ in range(3)]
    room.run(2)
    room.host.failure = "the engine has ended"
    room.run(1)
    assert not room.desk.seats
    assert [line.of(Failed)[0].reason for line in lines] == ["the engine has ended"] * 3


def test_a_line_that_breaks_ends_its_own_session_only() -> None:
    room = Room(model=EchoModel())
    _, broken = room.join()
    slot, line = room.join()
    broken.broken = True
    room.run(3)
    assert list(room.desk.seats) == [slot]
    assert len(line.given) == 3
    assert broken.of(Failed)


def test_leaving_frees_the_slot_and_may_be_repeated() -> None:
    room = Room({})
    slot, _ = room.join("")
    room.desk.leave(slot)
    room.desk.leave(slot)
    room.desk.cancel(slot)
    room.desk.inject(slot, Inject.THINKING, "x", None)
    assert room.model.taken == 0
