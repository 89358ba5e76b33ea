"""Who has the floor, by media time alone."""

from __future__ import annotations

import pytest

from tests.unit.voice_backend.turns.conversation import Conversation
from voice_backend.turns import (
    BackChannel,
    Floor,
    Holder,
    OutputHeld,
    OutputResumed,
    PauseReached,
    TurnConfig,
    TurnContinued,
    TurnEnded,
    TurnEndReason,
    Yielded,
    YieldReason,
)


def talking(reply_ms: int = 5000, **config: int) -> Conversation:
    """We have been speaking for a second."""
    talk = Conversation(TurnConfig(**config))
    talk.reply(reply_ms)
    talk.pause(1000)
    assert talk.floor.holder is Holder.ASSISTANT
    return talk


class TestEndOfTurn:
    def test_silence_asks_and_the_models_word_ends_the_turn(self) -> None:
        talk = Conversation()
        talk.pause(100)
        talk.say(1000)
        talk.pause(400)
        (ended,) = talk.named(TurnEnded)
        assert isinstance(ended, TurnEnded)
        assert (ended.turn, ended.start_ms, ended.end_ms) == (1, 100, 1100)
        assert ended.reason is TurnEndReason.COMPLETE
        assert ended.noticed_ms == 1300  # the first frame that makes 192 ms of silence
        assert talk.floor.holder is Holder.NOBODY

    def test_a_turn_that_began_elsewhere_ends_here(self) -> None:
        talk = Conversation()
        talk.now_ms = 2_000
        talk.floor.go_on(100, 1_900, 2_000)
        assert talk.floor.holder is Holder.USER
        talk.pause(60)
        assert talk.named(PauseReached) == [], "the silence there counts, and is not enough"
        talk.pause(40)
        assert len(talk.named(PauseReached)) == 1
        (ended,) = talk.named(TurnEnded)
        assert isinstance(ended, TurnEnded)
        assert (ended.turn, ended.start_ms, ended.end_ms) == (1, 100, 1_900)
        talk.reply(100)
        talk.pause(2_500)
        talk.say(300)
        talk.pause(400)
        assert [e.turn for e in talk.named(TurnEnded) if isinstance(e, TurnEnded)] == [1, 2]

    def test_who_speaks_on_in_a_turn_that_began_elsewhere_ends_it(self) -> None:
        talk = Conversation()
        talk.now_ms = 2_000
        talk.floor.go_on(100, 2_000, 2_000)
        talk.say(500)
        talk.pause(400)
        (ended,) = talk.named(TurnEnded)
        assert isinstance(ended, TurnEnded)
        assert (ended.turn, ended.start_ms, ended.end_ms) == (1, 100, 2_500)

    def test_the_models_word_waits_for_as_much_silence_as_an_end_has(self) -> None:
        talk = Conversation(TurnConfig(pause_ms=60))
        talk.say(1000)
        talk.pause(100)
        assert len(talk.named(PauseReached)) == 1
        assert talk.named(TurnEnded) == []
        talk.say(300)  # it was said too early, and is void
        talk.pause(140)
        assert talk.named(TurnEnded) == []
        talk.pause(40)
        (ended,) = talk.named(TurnEnded)
        assert isinstance(ended, TurnEnded)
        assert (ended.start_ms, ended.end_ms, ended.noticed_ms) == (0, 1400, 1560)
        assert ended.reason is TurnEndReason.COMPLETE

    def test_a_pause_in_the_middle_is_not_the_end(self) -> None:
        talk = Conversation()
        talk.likelihood = 0.1
        talk.say(800)
        talk.pause(500)
        talk.likelihood = 0.9
        talk.say(800)
        talk.pause(400)
        (ended,) = talk.named(TurnEnded)
        assert isinstance(ended, TurnEnded)
        assert (ended.start_ms, ended.end_ms) == (0, 2100)

    def test_the_model_is_asked_again_and_patience_has_an_end(self) -> None:
        talk = Conversation()
        talk.likelihood = 0.1
        talk.say(800)
        talk.pause(3000)
        assert [e.question for e in talk.named(PauseReached)] == [1, 2, 3, 4]  # type: ignore[attr-defined]
        (ended,) = talk.named(TurnEnded)
        assert isinstance(ended, TurnEnded)
        assert ended.reason is TurnEndReason.SILENCE
        assert ended.noticed_ms - ended.end_ms == 1600

    def test_a_model_that_never_answers_does_not_hold_the_floor(self) -> None:
        floor = Floor()
        seen = []
        for at in range(0, 2000, 20):
            floor.receive_frame(at, 20, 0.9 if at < 500 else 0.0)
            seen += floor.events()
        (ended,) = [e for e in seen if isinstance(e, TurnEnded)]
        assert ended.reason is TurnEndReason.UNANSWERED
        assert ended.noticed_ms - ended.end_ms == 800

    def test_an_answer_to_an_older_question_is_discarded(self) -> None:
        floor = Floor()
        for at in range(0, 800, 20):
            floor.receive_frame(at, 20, 0.9 if at < 500 else 0.0)
        (asked,) = [e for e in floor.events() if isinstance(e, PauseReached)]
        for at in range(800, 1200, 20):
            floor.receive_frame(at, 20, 0.9)
        floor.receive_verdict(asked.question, 1.0)
        assert floor.events() == []

    def test_a_click_is_no_speech(self) -> None:
        talk = Conversation()
        for _ in range(20):
            talk.say(40)
            talk.pause(100)
        assert talk.seen == []

    def test_speaking_on_before_the_answer_sounds_continues_the_turn(self) -> None:
        """A false end and an instant interruption: the unplayed answer is deleted, and nobody is
        left "speaking" in silence."""
        talk = Conversation()
        talk.say(600)
        talk.pause(300)
        talk.say(600)
        talk.pause(300)
        first, second = talk.named(TurnEnded)
        (continued,) = talk.named(TurnContinued)
        assert isinstance(first, TurnEnded) and isinstance(second, TurnEnded)
        assert first.turn == second.turn == continued.turn == 1  # type: ignore[attr-defined]
        assert talk.floor.holder is Holder.NOBODY

    def test_speaking_after_the_answer_is_a_new_turn(self) -> None:
        talk = Conversation()
        talk.say(600)
        talk.pause(300)
        talk.reply(500)
        talk.pause(1500)
        talk.say(600)
        talk.pause(300)
        assert [e.turn for e in talk.named(TurnEnded)] == [1, 2]  # type: ignore[attr-defined]
        assert talk.named(TurnContinued) == []


class TestBargeIn:
    def test_our_output_falls_silent_after_200_ms_of_speech(self) -> None:
        talk = talking()
        talk.say(260)
        (held,) = talk.named(OutputHeld)
        assert isinstance(held, OutputHeld)
        assert (held.since_ms, held.at_ms) == (1000, 1200)
        # the frame after is silent already
        assert talk.audible[1200 // 20 :] == [False] * 3

    def test_speech_that_lasts_takes_the_floor(self) -> None:
        talk = talking()
        talk.say(1500)
        (yielded,) = talk.named(Yielded)
        assert isinstance(yielded, Yielded)
        assert yielded.reason is YieldReason.LASTED
        assert 1700 < yielded.at_ms <= 1720
        assert talk.floor.holder is Holder.USER
        talk.pause(300)
        (ended,) = talk.named(TurnEnded)
        assert isinstance(ended, TurnEnded)
        assert (ended.start_ms, ended.end_ms) == (1000, 2500)  # the interrupting words are kept

    def test_a_short_stop_is_no_back_channel(self) -> None:
        talk = talking()
        talk.words = "Stop."
        talk.say(400)
        talk.pause(500)
        (yielded,) = talk.named(Yielded)
        assert isinstance(yielded, Yielded)
        assert yielded.reason is YieldReason.WORDS
        assert talk.named(BackChannel) == []
        (ended,) = talk.named(TurnEnded)
        assert isinstance(ended, TurnEnded)
        assert (ended.start_ms, ended.end_ms) == (1000, 1400)

    def test_words_heard_meanwhile_decide_at_once(self) -> None:
        talk = talking()
        talk.say(300)
        talk.floor.receive_words("wait, what")
        talk.say(20)
        (yielded,) = talk.named(Yielded)
        assert isinstance(yielded, Yielded)
        assert yielded.at_ms == 1300


class TestBackChannel:
    @pytest.mark.parametrize("words", ["Mm-hm.", "yeah", "oh, okay", None])
    def test_an_acknowledgement_is_ignored(self, words: str | None) -> None:
        talk = talking()
        talk.words = words
        talk.say(500)
        talk.pause(5000)
        assert talk.named(Yielded) == talk.named(TurnEnded) == []
        (heard,) = talk.named(BackChannel)
        assert (heard.start_ms, heard.end_ms) == (1000, 1500)  # type: ignore[attr-defined]
        assert len(talk.named(OutputResumed)) == 1
        assert sum(talk.audible) * 20 == 5000  # nothing of the reply is lost

    def test_one_that_is_known_by_its_sound_costs_not_even_a_gap(self) -> None:
        talk = talking()
        talk.hint_at_ms = 1160
        talk.say(500)
        talk.pause(1000)
        assert talk.named(OutputHeld) == []
        assert all(talk.audible)
        assert len(talk.named(BackChannel)) == 1

    def test_one_that_goes_on_after_all_takes_the_floor(self) -> None:
        talk = talking()
        talk.hint_at_ms = 1160
        talk.say(1000)
        assert len(talk.named(Yielded)) == 1

    def test_speech_shorter_than_the_hold_is_not_noticed_by_anybody(self) -> None:
        talk = talking()
        talk.say(140)
        talk.pause(1000)
        assert talk.named(OutputHeld) == []
        assert all(talk.audible)

    def test_one_at_the_end_of_our_speech_may_be_a_turn(self) -> None:
        talk = talking(reply_ms=1100)
        talk.say(400)
        talk.pause(600)
        (ended,) = talk.named(TurnEnded)
        assert (ended.start_ms, ended.end_ms) == (1000, 1400)  # type: ignore[attr-defined]


class TestSpeaking:
    def test_it_is_derived_from_what_was_played(self) -> None:
        floor = Floor()
        floor.receive_output(0, 20, audible=False, more=True)
        assert not floor.speaking
        floor.receive_output(20, 20, audible=True, more=True)
        assert floor.speaking
        floor.receive_cancelled()
        assert not floor.speaking

    def test_output_that_is_promised_and_never_comes_is_not_speech(self) -> None:
        floor = Floor()
        floor.receive_output(0, 20, audible=True, more=True)
        for at in range(20, 2100, 20):
            floor.receive_output(at, 20, audible=False, more=True)
        assert not floor.speaking

    def test_a_short_gap_does_not_end_it(self) -> None:
        floor = Floor()
        floor.receive_output(0, 20, audible=True, more=False)
        for at in range(20, 140, 20):
            floor.receive_output(at, 20, audible=False, more=False)
        assert floor.speaking
        floor.receive_output(140, 20, audible=False, more=False)
        assert not floor.speaking
