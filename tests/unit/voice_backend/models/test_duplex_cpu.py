"""The embedded voice's behaviour, with networks that need no weights; time is counted in frames."""

from __future__ import annotations

import pickle
from collections.abc import Generator

import numpy as np
import pytest

from tests.unit.voice_backend.models.doubles import WORD_MS, Call, finals
from voice_backend.model import (
    Cancelled,
    Context,
    Delegate,
    Inject,
    InText,
    Message,
    NoCapacity,
    OutText,
    SessionConfig,
    Slot,
    SnapshotRefused,
    SpeakingOff,
    SpeakingOn,
    StepIn,
    VoiceModel,
)
from voice_backend.models.conversation import NOT_CAUGHT
from voice_backend.models.jobs import JobClass
from voice_backend.transcript import Transcript

LONG = "count from one to twenty"


def test_it_is_a_voice_model() -> None:
    assert isinstance(Call().model, VoiceModel)


def test_a_question_is_answered_soon_and_told_word_by_word() -> None:
    call = Call()
    call.wait(400)
    call.speak("what is seven times eight")
    ended_ms = call.now_ms
    call.wait_for(SpeakingOn)
    assert call.now_ms - ended_ms <= 300, "192 ms of silence, a window, and two frames"
    call.wait_for(SpeakingOff)

    assert finals(call) == ["what is seven times eight"]
    assert call.text() == "Seven times eight is fifty-six."
    (heard,) = [e for e in call.of(InText) if e.final]
    assert abs(heard.start_ms - 400) <= 64
    assert abs(heard.end_ms - ended_ms) <= 64
    for event in call.of(OutText):
        assert call.loud_ms(event.start_ms, event.end_ms) >= WORD_MS * 0.9
    on, off = call.of(SpeakingOn)[0], call.of(SpeakingOff)[0]
    assert call.loud_ms(0, on.at_ms) == 0
    assert call.loud_ms(on.at_ms, off.at_ms) >= 5 * WORD_MS * 0.9
    assert call.loud_ms(off.at_ms, call.now_ms) == 0


def test_the_answer_is_ready_when_the_turn_is_over() -> None:
    """What was guessed when speech halted is answered ahead; it is said when that was all."""
    call = Call()
    call.speak("what is seven times eight")
    call.wait_for(SpeakingOn)
    (on,) = call.of(SpeakingOn)
    course = on.course
    assert course is not None
    assert abs(course.speech_end_ms - 800) <= 32
    assert course.asked_ms - course.speech_end_ms <= 120
    assert 160 <= course.ended_ms - course.speech_end_ms <= 200
    assert course.ended_ms == course.heard_ms == course.made_ms == on.at_ms + 20
    assert call.mouth.said == ["Seven times eight is fifty-six."]
    call.wait_for(SpeakingOff)
    assert call.text() == "Seven times eight is fifty-six."


def test_what_was_prepared_for_half_a_sentence_is_not_said() -> None:
    call = Call()
    call.speak("my name is Ada", 600)
    call.wait(100)
    assert call.mouth.said == ["Nice to meet you, Ada."]
    call.speak("what is my name", 600)
    call.wait_for(SpeakingOff)
    assert call.text() == "You have not told me your name yet."
    assert finals(call) == ["my name is Ada what is my name"]


def test_an_answer_that_is_rehearsed_is_not_remembered() -> None:
    call = Call()
    call.turns.complete = 0.1
    call.speak("my name is Ada")
    call.wait(300)
    call.speak("no matter", 600)
    seat = call.model._slots.find(call.slot)
    assert seat is not None
    assert seat.conversation.talker.memory.user_name == ""
    assert call.of(SpeakingOn) == []


def test_guesses_come_while_the_user_speaks() -> None:
    call = Call()
    call.speak("what time is it", 2000)
    guesses = [event for event in call.of(InText) if not event.final]
    assert len(guesses) >= 2
    assert {guess.delta for guess in guesses} == {"what time is it"}


def test_it_yields_to_the_user_within_60_ms_of_200_ms_of_speech() -> None:
    call = Call()
    call.speak(LONG)
    call.wait_for(SpeakingOn)
    call.wait(500)
    begun_ms = call.now_ms
    call.speak("stop", 1000)
    assert call.loud_ms(begun_ms, begun_ms + 120) > 110, "not at the first sound"
    assert call.loud_ms(begun_ms + 220, call.now_ms) == 0
    (cut,) = call.of(Cancelled)
    (on,) = call.of(SpeakingOn)
    assert 120 <= on.at_ms + cut.played_ms - begun_ms <= 200, "what is in playout comes behind it"
    last = call.of(OutText)[-1]
    assert last.start_ms <= on.at_ms + cut.played_ms, "no word is told that never began"

    call.wait_for(SpeakingOff)
    assert call.text().endswith("Okay."), "and what the user said is answered"


@pytest.mark.parametrize("units", [None, 1, 2])
@pytest.mark.parametrize("milliseconds", [300, 420, 640])
def test_a_short_word_over_ours_is_a_turn(milliseconds: int, units: int | None) -> None:
    """However slowly the ears work, and whatever guesses were under way."""
    call = Call(units=units)
    call.speak(LONG)
    call.wait_for(SpeakingOn)
    call.wait(500)
    call.speak("stop", milliseconds)
    call.wait(4000)
    assert len(call.of(Cancelled)) == 1
    assert call.text().endswith("Okay.")
    assert finals(call) == [LONG, "stop"]


def test_an_acknowledgement_costs_no_sentence() -> None:
    call = Call()
    call.speak("count from one to five")
    call.wait_for(SpeakingOn)
    call.wait(100)
    call.speak("mm-hm", 400)
    call.wait_for(SpeakingOff)
    call.wait(2000)

    assert call.of(Cancelled) == []
    assert call.text() == "One, two, three, four, five."
    assert len(call.of(SpeakingOn)) == 1, "it is no turn, and not answered"
    assert finals(call) == ["count from one to five", "mm-hm"]


@pytest.mark.parametrize("delay", [2, 10, 30])
def test_it_never_hears_itself(delay: int) -> None:
    """What we say comes back at -20 dB; the detector takes it for speech, we do not."""
    call = Call()
    call.speak(LONG)
    call.wait_for(SpeakingOn)
    at = len(call.sound) // 480
    for frame in range(at, at + 120):
        ours = call.sound[max(0, frame - delay) * 480 : max(0, frame - delay) * 480 + 480]
        back = np.interp(np.arange(320) * 1.5, np.arange(480), ours) * 0.1
        call.feed(np.asarray(back * 4, np.int16))  # noise loses most of itself in the filters
    call.wait(1000)
    assert call.of(Cancelled) == []
    assert finals(call) == [LONG]
    assert call.text().endswith("twenty.")


def test_who_speaks_on_continues_the_turn() -> None:
    call = Call(units=0)  # answers take their time
    call.speak("my name is Ada", 600)
    call.wait(240)
    while call.runner.queue.run_unit():  # the turn model: complete
        pass
    call.wait(40)
    call.speak("what is my name", 400)
    call.runner._units = None
    call.speak("what is my name", 400)
    call.wait_for(SpeakingOff)
    assert call.of(Cancelled) == []
    assert finals(call) == ["my name is Ada", "what is my name"]
    assert len(call.of(SpeakingOn)) == 1, "one answer, to all of it"


def test_who_speaks_on_while_the_ears_are_late_loses_no_word_and_is_not_heard_twice() -> None:
    call = Call(units=3)
    call.speak("my name is Ada")
    hear, until_ms = call.ears.hear, call.now_ms + 1000

    def late(sound: object) -> Generator[None, None, str]:
        while call.now_ms < until_ms:
            yield
        return (yield from hear(sound))

    call.ears.hear = late  # type: ignore[method-assign]
    call.wait(260)  # the turn is over, and the guess at its words is waited for
    call.speak("what is my name", 400)  # which is guessed at as well
    call.wait_for(SpeakingOff)
    first, second = [event for event in call.of(InText) if event.final]
    assert (first.delta, second.delta) == ("my name is Ada", "what is my name")
    assert first.end_ms <= 832
    assert second.start_ms >= 1000
    assert len(call.of(SpeakingOn)) == 1


def test_a_turn_that_does_not_sound_finished_is_waited_for() -> None:
    call = Call()
    call.turns.complete = 0.1
    call.speak("what time")
    call.wait(1000)
    assert call.of(SpeakingOn) == []
    assert call.turns.asked >= 2
    call.wait_for(SpeakingOn)  # patience has an end


def test_noise_without_words_is_not_answered() -> None:
    call = Call()
    for _ in range(40):
        call.feed(np.full(320, 20_000, np.int16))
    call.wait(2000)
    assert call.of(SpeakingOn) == []
    assert finals(call) == []


def test_a_guess_that_turns_out_to_be_no_words_is_taken_back() -> None:
    call = Call()

    def hear(sound: np.ndarray) -> Generator[None, None, str]:
        yield
        return "uh" if len(sound) < 900 * 16 else ""

    call.ears.hear = hear  # type: ignore[method-assign]
    call.speak("cough", 1000)
    call.wait(1000)
    assert [(event.delta, event.final) for event in call.of(InText)] == [("uh", False), ("", True)]
    transcript = Transcript()
    for event in call.of(InText):
        transcript.receive_input(event.delta, event.start_ms, event.end_ms, final=event.final)
    assert transcript.draft() == [], "it would hold up the messages that follow"


def test_it_greets_and_says_what_it_is_told() -> None:
    call = Call(SessionConfig(greeting="Good day."))
    call.wait_for(SpeakingOff)
    call.model.inject(call.slot, Inject.THINKING, "the user is in a hurry")
    call.model.inject(call.slot, Inject.COMMENTARY, "Your taxi is here.")
    call.wait_for(SpeakingOff)
    assert call.text() == "Good day. Your taxi is here."


def test_who_talks_into_a_greeting_is_heard_and_answered() -> None:
    """It is played by others for 1.5 s: nothing of ours sounds meanwhile, and nothing is lost."""
    call = Call(SessionConfig(greeting_ms=1500))
    call.wait(200)
    call.speak("what is seven times eight", 1000)
    (cut,) = call.of(Cancelled)
    assert 340 <= cut.at_ms <= 400, "160 ms of speech, and a window"
    call.wait_for(SpeakingOff)
    assert finals(call) == ["what is seven times eight"]
    assert call.text() == "Seven times eight is fifty-six."
    assert call.loud_ms(0, 1200) == 0


def test_a_short_word_ends_a_greeting_and_a_hum_is_not_answered() -> None:
    for words, answer in (("stop", "Okay."), ("mm-hm", "")):
        call = Call(SessionConfig(greeting_ms=1500))
        call.wait(200)
        call.speak(words, 400)
        call.wait(3000)
        assert finals(call) == [words]
        assert call.text() == answer


def test_a_greeting_that_nobody_talks_into_is_said_to_its_end() -> None:
    call = Call(SessionConfig(greeting_ms=600, greeting="What can I do for you?"))
    call.speak("mm-hm", 120)
    call.wait_for(SpeakingOff, 8000)
    assert call.of(Cancelled) == []
    assert call.of(SpeakingOn)[0].at_ms >= 600
    assert call.text() == "What can I do for you?"


def test_who_begins_at_the_end_of_our_words_does_not_silence_us() -> None:
    """The hold comes when there is nothing left to hold."""
    for after_ms in range(100, 300, 20):
        call = Call()
        call.speak("count from one to three")
        call.wait_for(SpeakingOn)
        call.wait(after_ms)
        call.speak("what time is it", 900)
        call.wait_for(SpeakingOn)
        call.wait_for(SpeakingOff)
        assert "It is four" in call.text(), after_ms


def test_what_it_is_told_waits_for_the_user() -> None:
    call = Call()
    call.speak("count from one to three", 400)
    call.model.inject(call.slot, Inject.COMMENTARY, "Your taxi is here.")
    call.speak("count from one to three", 400)
    call.wait(4000)
    assert call.text() == "One, two, three. Your taxi is here."


def test_cancel_drops_what_is_not_said() -> None:
    call = Call()
    call.speak(LONG)
    call.wait_for(SpeakingOn)
    call.wait(200)
    call.model.cancel(call.slot, 1)
    at_ms = call.now_ms
    call.wait(2000)
    assert call.loud_ms(at_ms, call.now_ms) == 0
    assert len(call.of(Cancelled)) == 1
    call.model.cancel(call.slot, 2)
    call.wait(40)
    assert len(call.of(Cancelled)) == 1, "there was nothing to drop"


def test_questions_are_given_away_by_an_id() -> None:
    call = Call(SessionConfig(delegates=True))
    for question in ("what is the capital of France", "where is my parcel"):
        call.speak(question)
        call.wait_for(SpeakingOff)
        assert call.of(Delegate)[-1].acknowledged
    assert call.text() == (
        "Let me find out what the capital of France is. Let me find out where your parcel is."
    )
    names = [event.delegation_id for event in call.of(Delegate)]
    assert len(set(names)) == 2


def test_ears_that_fail_cost_their_answer_alone(caplog: pytest.LogCaptureFixture) -> None:
    call = Call()
    call.ears.broken = True
    for _ in range(2):
        call.speak("what time is it")
        call.wait_for(SpeakingOff)
        call.wait(800)
    assert call.text() == " ".join([NOT_CAUGHT] * 2)
    assert call.runner.queue.counts.failed[JobClass.FINAL_TEXT] == 2
    assert sum("FINAL_TEXT failed" in line for line in caplog.messages) == 1
    call.ears.broken = False
    call.speak("what time is it")
    call.wait_for(SpeakingOff)
    assert "It is four" in call.text()


def test_half_of_what_was_said_is_not_answered() -> None:
    call = Call()
    call.speak("what time is it", 7000)
    call.ears.broken = True
    call.speak("what time is it", 6500)
    call.ears.broken = False
    call.speak("thank you", 800)
    call.wait_for(SpeakingOff)
    assert call.text() == NOT_CAUGHT


def test_speech_without_a_pause_is_heard_in_parts_and_answered_as_a_whole() -> None:
    call = Call()
    call.speak("what time is it", 400)
    call.wait_for(SpeakingOff)
    call.wait(800)
    begun_ms = call.now_ms
    call.speak("what is seven times eight", 4500)
    call.speak("my dear", 3500)
    call.speak("please", 4200)
    ended_ms = call.now_ms
    call.wait_for(SpeakingOff)
    first, second, third = [event for event in call.of(InText) if event.final][1:]
    assert first.delta == "what is seven times eight"
    assert second.delta == "what is seven times eight my dear"
    assert third.delta == "please"
    assert abs(first.start_ms - begun_ms) <= 64
    assert (first.end_ms, second.end_ms) == (second.start_ms, third.start_ms)
    assert abs(third.end_ms - ended_ms) <= 64
    assert call.text().endswith("Seven times eight is fifty-six.")


def test_lost_frames_are_silence_and_time_goes_on() -> None:
    call = Call()
    for _ in range(20):
        call.feed(None)
    call.seq += 25  # a batch that never came
    call.speak("what time is it")
    call.wait_for(SpeakingOff)
    (heard,) = [event for event in call.of(InText) if event.final]
    assert abs(heard.start_ms - 900) <= 64


def test_a_long_speech_is_understood_in_parts_and_answered_once() -> None:
    call = Call()
    call.turns.complete = 0.1
    for part in ("one part", "another part", "a third part"):
        call.speak(part, 7200)
        call.wait(260)
    call.turns.complete = 0.99
    call.speak("what did I just say", 600)
    call.wait_for(SpeakingOff, 8000)
    assert finals(call) == ["one part", "another part", "a third part", "what did I just say"]
    assert len(call.of(SpeakingOn)) == 1


def test_slots_are_freed_even_with_work_under_way() -> None:
    call = Call(units=0)
    others = [call.model.open(SessionConfig()) for _ in range(3)]
    with pytest.raises(NoCapacity):
        call.model.open(SessionConfig())
    call.speak("what time is it")
    call.wait(400)
    assert call.runner.queue.waiting > 0
    call.model.close(call.slot)
    call.model.close(call.slot)
    assert call.runner.queue.waiting == 0
    (out,) = call.model.step([StepIn(call.slot, call.seq, None)])
    assert out.error is not None
    call.slot, call.seq = call.model.open(SessionConfig()), 0
    call.runner._units = None
    call.speak("what time is it")
    call.wait_for(SpeakingOff)
    assert len({slot.serial for slot in (*others, call.slot)}) == 4


def test_one_slots_fault_is_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    call = Call()
    other: Slot = call.model.open(SessionConfig())
    seat = call.model._slots.find(other)
    assert seat is not None
    monkeypatch.setattr(type(seat.conversation.speaker), "events", lambda self: 1 / 0)
    outs = call.model.step([StepIn(other, 0, None)])
    assert outs[0].error == "the voice failed (ZeroDivisionError)"


def test_the_past_is_taken_in() -> None:
    call = Call()
    past = (
        Message(role="user", text="My name is Ada."),
        Message(role="assistant", text="Nice to meet you, Ada."),
        Message(role="system", text="Be brief."),
    )
    steps = list(call.model.prefill(call.slot, Context(messages=past)))
    assert [step.done for step in steps] == [1, 2, 3]
    call.speak("what is my name")
    call.wait_for(SpeakingOff)
    assert call.text() == "You are Ada."


def test_another_slot_goes_on_in_the_middle_of_a_word() -> None:
    call = Call()
    call.speak("my name is Ada")
    call.wait_for(SpeakingOff)
    call.speak(LONG)
    call.wait_for(SpeakingOn)
    call.wait(450)
    snapshot = call.model.snapshot(call.slot, kind="semantic")
    assert snapshot.seq == call.seq

    went_on = call.seq
    call.wait(5000)
    expected = call.sound[went_on * 480 :]
    heard_first = call.text()

    other = Call()
    other.model.restore(other.slot, snapshot)
    other.seq = snapshot.seq
    other.wait(5000)
    first = int(np.flatnonzero(other.sound)[0])
    late = first - int(np.flatnonzero(expected)[0])
    assert 0 <= late <= 2 * 480, "a frame to make the clause again"
    same = min(len(expected), len(other.sound) - late) - 480
    assert (other.sound[late : late + same] == expected[:same]).all()
    assert heard_first.endswith(other.text())
    assert other.of(SpeakingOn) == [], "it was speaking all the time"
    other.speak("what is my name")
    other.wait_for(SpeakingOff)
    assert other.text().endswith("You are Ada.")


def test_who_is_handed_over_twice_within_a_frame_says_nothing_again() -> None:
    call = Call(units=1)
    call.speak(LONG)
    call.wait_for(SpeakingOn)
    call.wait(450)
    for _ in range(3):
        snapshot = call.model.snapshot(call.slot, kind="semantic")
        call.model.close(call.slot)
        call.slot = call.model.open(SessionConfig())
        call.model.restore(call.slot, snapshot)
        call.wait(20)
    call.wait_for(SpeakingOff)
    words = call.text().split()
    assert len(words) == len(set(words))
    assert abs(call.loud_ms(0, call.now_ms) - len(words) * WORD_MS) <= 2


@pytest.mark.parametrize("handovers", [1, 2])
@pytest.mark.parametrize("answered", [True, False])
def test_another_slot_answers_what_is_asked_there_alone(answered: bool, handovers: int) -> None:
    call = Call()
    if answered:
        call.speak("what is seven times eight")
        call.wait_for(SpeakingOff)
    else:
        call.turns.complete = 0.1
        call.speak("my name is Ada", 6200)
        call.wait(200)  # heard for good, and not over
        call.turns.complete = 0.99
    for _ in range(handovers):
        snapshot = call.model.snapshot(call.slot, kind="semantic")
        call.model.close(call.slot)
        call.slot = call.model.open(SessionConfig())
        call.model.restore(call.slot, snapshot)
    said = len(call.text())
    call.speak("spell cat", 600)
    call.wait(300)
    call.wait_for(SpeakingOff)
    seat = call.model._slots.find(call.slot)
    assert seat is not None
    heard = seat.conversation.talker.memory.last_heard
    assert heard == ("spell cat" if answered else "my name is Ada spell cat")
    assert "fifty-six" not in call.text()[said:]


def hand_over(call: Call) -> None:
    """Go on in another slot, which is all that is left."""
    snapshot = call.model.snapshot(call.slot, kind="semantic")
    call.model.close(call.slot)
    call.slot = call.model.open(SessionConfig())
    call.model.restore(call.slot, snapshot)


QUESTION, ANSWER = "what is seven times eight", "Seven times eight is fifty-six."


@pytest.mark.parametrize("times", [1, 2])
@pytest.mark.parametrize("units", [None, 1])
@pytest.mark.parametrize("at_ms", range(100, 1200, 60))
def test_a_turn_is_answered_whenever_it_is_handed_over(at_ms: int, units: int, times: int) -> None:
    """In mid-speech, in the pause behind it, and between its end and its words."""
    call = Call(units=units)
    for n, frame in enumerate(call.ears.sound(QUESTION, 800).reshape(-1, 320)):
        call.feed(frame)
        if n == at_ms // 20:
            for _ in range(times):
                hand_over(call)
    if at_ms >= 800:
        call.wait(at_ms - 800)
        for _ in range(times):
            hand_over(call)
    call.wait(5000)
    assert call.text() == ANSWER
    assert finals(call) == [QUESTION]
    call.speak("what did I just say")
    call.wait_for(SpeakingOff, 5000)
    seat = call.model._slots.find(call.slot)
    assert seat is not None
    assert seat.conversation.talker.memory.last_heard == "what did I just say"


def test_a_turn_that_is_over_and_whose_words_are_not_there_is_answered_by_another_slot() -> None:
    call = Call(units=0)
    call.speak(QUESTION)
    call.wait(6000)  # nobody judges it: it is over for lack of a word, and nobody has heard it
    assert call.of(InText) == []
    hand_over(call)
    call.runner._units = None
    call.wait_for(SpeakingOff, 6000)
    assert call.text() == ANSWER
    assert finals(call) == [QUESTION]


def test_who_speaks_on_before_the_words_are_there_is_answered_as_a_whole() -> None:
    call = Call(units=0)
    call.speak("my name is Ada")
    call.wait(6000)
    hand_over(call)
    call.speak("spell cat", 600)
    call.runner._units = None
    call.wait_for(SpeakingOff, 6000)
    seat = call.model._slots.find(call.slot)
    assert seat is not None
    assert seat.conversation.talker.memory.last_heard == "my name is Ada spell cat"


def test_parts_that_are_being_heard_go_along() -> None:
    """The turn is not over: one part is final, another is asked for, a third is being spoken."""
    call = Call()
    call.turns.complete = 0.1
    call.speak("one part", 6200)
    call.wait(260)
    call.runner._units = 0
    call.speak("another part", 6200)
    call.wait(100)
    call.speak("a third part", 600)
    hand_over(call)
    call.runner._units, call.turns.complete = None, 0.99
    call.speak("spell cat", 600)
    call.wait_for(SpeakingOff, 8000)
    assert finals(call)[0] == "one part"
    assert " ".join(finals(call)) == "one part another part a third part spell cat"


def test_ears_that_failed_are_said_to_have_failed_elsewhere() -> None:
    call = Call()
    call.turns.complete = 0.1
    call.ears.broken = True
    call.speak("one part", 6200)
    call.wait(260)
    call.ears.broken, call.turns.complete = False, 0.99
    hand_over(call)
    call.speak("spell cat", 600)
    call.wait_for(SpeakingOff, 8000)
    assert call.text() == NOT_CAUGHT


def test_what_another_slot_needs_is_small_where_nothing_is_left_to_hear() -> None:
    call = Call()
    call.speak(QUESTION)
    call.wait_for(SpeakingOff)
    call.wait(200)
    state = call.model.snapshot(call.slot, kind="semantic").state
    assert len(pickle.dumps(state)) < 1000
    call.speak(QUESTION, 6000)
    state = call.model.snapshot(call.slot, kind="semantic").state
    assert len(pickle.dumps(state)) < 2 * 16_000 * 7


def test_snapshots_that_are_not_ours_are_refused() -> None:
    call = Call()
    with pytest.raises(SnapshotRefused):
        call.model.snapshot(call.slot, kind="exact")
    snapshot = call.model.snapshot(call.slot, kind="semantic")
    call.wait(100)
    with pytest.raises(SnapshotRefused, match="past of its own"):
        call.model.restore(call.slot, snapshot)
    with pytest.raises(SnapshotRefused):
        call.model.restore(Slot(0, 99), snapshot)
