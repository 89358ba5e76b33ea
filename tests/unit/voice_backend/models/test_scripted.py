"""The scripted voice: the same every time, and exact when it is handed over."""

from __future__ import annotations

import numpy as np
import pytest

from voice_backend.model import (
    Context,
    Delegate,
    Inject,
    InText,
    Message,
    NoCapacity,
    OutText,
    Progress,
    SessionConfig,
    Slot,
    Snapshot,
    SnapshotRefused,
    SpeakingOff,
    SpeakingOn,
    StepIn,
    StepOut,
    VoiceModel,
)
from voice_backend.models.scripted import (
    Ask,
    Fill,
    Hear,
    Recall,
    Reflect,
    Say,
    ScriptedModel,
)

SCRIPT = {
    "story": {
        2: [Say(frames=5, hz=300, text="well hello")],
        4: [Hear(text="hi", frames=3, final=False), Hear(text="hi there", frames=4)],
        9: [Ask(delegation_id="d1", target="search"), Reflect(delay=2)],
        15: [Say(frames=20, hz=700, text="more")],
        18: [Fill(usage_ratio=0.8)],
        39: [Recall()],
    }
}


def made(**config) -> tuple[ScriptedModel, Slot]:
    model = ScriptedModel(SCRIPT)
    model.load()
    return model, model.open(SessionConfig(voice="story", **config))


def sound(seq: int) -> np.ndarray:
    return np.random.default_rng(seq).integers(-500, 500, 320).astype(np.int16)


def run(model: ScriptedModel, slot: Slot, seqs: range) -> list[StepOut]:
    return [model.step([StepIn(slot, seq, sound(seq))])[0] for seq in seqs]


def same(one: list[StepOut], other: list[StepOut]) -> bool:
    return all(
        a.seq == b.seq and list(a.events) == list(b.events) and (a.pcm == b.pcm).all()
        for a, b in zip(one, other, strict=True)
    )


def test_it_is_a_voice_model() -> None:
    assert isinstance(ScriptedModel(), VoiceModel)


def test_it_follows_its_script() -> None:
    model, slot = made()
    outs = run(model, slot, range(40))
    events = [(out.seq, event) for out in outs for event in out.events]
    assert events[:3] == [
        (2, SpeakingOn(at_ms=40)),
        (2, OutText(delta="well hello", start_ms=40, end_ms=140)),
        (4, InText(delta="hi", start_ms=40, end_ms=100, final=False)),
    ]
    assert (9, Delegate(delegation_id="d1", offset_ms=180, target="search")) in events
    assert (6, SpeakingOff(at_ms=140)) in events
    assert [bool(out.pcm.any()) for out in outs[:8]] == [False] * 2 + [True] * 5 + [False]
    # what was heard two frames ago, at the rate it speaks at
    assert (outs[12].pcm[::3] == sound(10)[::2]).all()
    assert (outs[17].usage_ratio, outs[18].usage_ratio) == (None, 0.8)


def test_it_is_the_same_every_time() -> None:
    assert same(run(*made(), range(40)), run(*made(), range(40)))


@pytest.mark.parametrize("at", [1, 3, 4, 11, 16, 30])
def test_a_snapshot_goes_on_to_the_sample_in_another_place(at: int) -> None:
    model, slot = made(greeting="good day")
    model.inject(slot, Inject.THINKING, "the user is tall")
    run(model, slot, range(at))
    snapshot = model.snapshot(slot)
    assert snapshot.seq == at
    other = ScriptedModel(SCRIPT)
    places = [other.open(SessionConfig()) for _ in range(3)]
    run(other, places[1], range(3))
    other.restore(places[1], snapshot)
    # the first goes on after the copy was taken: they share nothing
    assert same(run(model, slot, range(at, 40)), run(other, places[1], range(at, 40)))


def test_what_was_heard_makes_a_difference() -> None:
    model, slot = made()
    outs = run(model, slot, range(39))
    out = model.step([StepIn(slot, 39, None)])[0]
    other = run(*made(), range(40))[39]
    assert len(outs) == 39
    assert list(out.events) != list(other.events)


def test_a_snapshot_of_anything_else_is_refused() -> None:
    model, slot = made()
    with pytest.raises(SnapshotRefused):
        model.snapshot(slot, kind="semantic")
    for wrong in (
        Snapshot(model="other", kind="exact", seq=0, state=b""),
        Snapshot(model="scripted", kind="semantic", seq=0, state=b""),
    ):
        with pytest.raises(SnapshotRefused):
            model.restore(slot, wrong)
    good = model.snapshot(slot)
    model.close(slot)
    with pytest.raises(SnapshotRefused):
        model.restore(slot, good)


def test_the_past_is_taken_in_unit_by_unit_and_remembered() -> None:
    context = Context(messages=tuple(Message(role="user", text=str(n)) for n in range(5)))
    model, slot = made()
    assert list(model.prefill(slot, context)) == [Progress(done=n, total=5) for n in range(1, 6)]
    other, fresh = made()
    assert not same(run(model, slot, range(40)), run(other, fresh, range(40)))


def test_closing_in_mid_prefill_ends_it() -> None:
    model, slot = made()
    context = Context(messages=tuple(Message(role="user", text=str(n)) for n in range(5)))
    units = model.prefill(slot, context)
    next(units)
    model.close(slot)
    assert list(units) == []


def test_compaction_keeps_the_newest_within_the_budget() -> None:
    model, _ = made()
    context = Context(
        messages=tuple(Message(role="user", text=f"word {n} here") for n in range(10))
    )
    *progress, result = model.compact(context, 7)
    assert all(isinstance(one, Progress) for one in progress)
    assert [one.text for one in result.messages] == [
        "8 earlier messages",
        "word 8 here",
        "word 9 here",
    ]
    [*_, whole] = model.compact(context, 100)
    assert whole == context


def test_slots_run_out_and_come_back_under_another_name() -> None:
    model = ScriptedModel()
    slots = [model.open(SessionConfig()) for _ in range(model.info.max_slots)]
    with pytest.raises(NoCapacity, match="64"):
        model.open(SessionConfig())
    model.close(slots[7])
    model.close(slots[7])
    again = model.open(SessionConfig())
    assert again.index == slots[7].index
    assert again != slots[7]
    assert model.step([StepIn(slots[7], 0, None)])[0].error
