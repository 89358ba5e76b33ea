"""Two views of a conversation: by media time, by what was played, by who had the floor."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from voice_backend.transcript import (
    Committed,
    DraftChanged,
    DraftRemoved,
    Item,
    Transcript,
    TranscriptConfig,
)
from voice_backend.utterance import Speaker

REPLY = ("Okay.", "I", "found", "three", "flights", "to", "Rome.")


def say_reply(log: Transcript, start_ms: int, words: tuple[str, ...] = REPLY) -> int:
    """Announce a reply of 300 ms a word; returns where it ends."""
    for n, word in enumerate(words):
        log.receive_output(word, start_ms + 300 * n, start_ms + 300 * (n + 1))
    return start_ms + 300 * len(words)


def play(log: Transcript, until_ms: int) -> None:
    for now in range(log.now_ms - log.now_ms % 20, until_ms + 20, 20):
        log.receive_played(now)
        log.advance(now)


def texts(items: list[Item]) -> list[tuple[str, str]]:
    return [(item.speaker.value, item.text) for item in items]


class TestGap:
    def test_fragments_of_200_ms_make_one_message_until_800_ms_without_any(self) -> None:
        log = Transcript()
        for n, word in enumerate(["what", "is", "the", "time"]):
            log.receive_input(word, 200 * n, 200 * (n + 1))
        log.advance(1599)
        assert log.final() == []
        log.advance(1600)
        (item,) = log.final()
        assert (item.text, item.start_ms, item.end_ms) == ("what is the time", 0, 800)

    def test_the_gap_is_of_media_time_between_fragments_too(self) -> None:
        """All frames are there, whatever a clock says of when they came."""
        log = Transcript()
        log.receive_input("one", 0, 200)
        log.receive_input("two", 990, 1200)
        log.receive_input("three", 2000, 2200)
        log.advance(3000)
        assert texts(log.final()) == [("user", "one two"), ("user", "three")]

    def test_it_is_configurable(self) -> None:
        log = Transcript(TranscriptConfig(gap_ms=200))
        log.receive_input("one", 0, 100)
        log.receive_input("two", 300, 400)
        log.advance(600)
        assert [item.text for item in log.final()] == ["one", "two"]

    def test_a_guess_keeps_it_open_for_a_while_only(self) -> None:
        log = Transcript()
        log.receive_input("what time", 0, 500, final=False)
        log.advance(12_499)
        assert log.final() == []
        log.advance(12_500)
        assert texts(log.final()) == [("user", "what time")]

    def test_speech_that_outlasts_its_last_guess_is_one_message(self) -> None:
        """Under load nobody guesses, and the ears get as much at one go as they can hear."""
        log = Transcript()
        log.receive_input("what is", 0, 1000, final=False)
        for now in range(1000, 10_000, 20):
            log.advance(now)
        log.receive_input("what is the time in Lisbon", 0, 7500)
        log.receive_input("and in Rome", 7500, 9800)
        log.advance(10_600)
        assert texts(log.final()) == [("user", "what is the time in Lisbon and in Rome")]


class TestDraft:
    def test_a_guess_is_replaced_and_the_id_stays(self) -> None:
        log = Transcript()
        log.receive_input("what", 0, 300, final=False)
        (first,) = log.draft()
        log.receive_input("watt is", 0, 500, final=False)
        log.receive_input("what is the time", 0, 900)
        (second,) = log.draft()
        log.advance(1700)
        (final,) = log.final()
        assert first.id == second.id == final.id
        assert first.rev < second.rev < final.rev
        assert (second.text, final.text) == ("what is the time", "what is the time")
        assert final.final and not second.final

    def test_the_last_item_of_each_speaker_is_provisional(self) -> None:
        log = Transcript()
        log.receive_input("tell me more", 0, 900)
        say_reply(log, 1000)
        log.receive_played(1600)
        user, assistant = log.draft()
        assert (user.text, user.final) == ("tell me more", False)
        assert (assistant.text, assistant.ahead) == ("Okay. I", "found three flights to Rome.")
        assert assistant.played_ms == 600

    def test_the_owner_may_change(self) -> None:
        log = Transcript()
        log.receive_input("three flights", 0, 600, certain=False)
        (item,) = log.draft()
        log.receive_floor(Speaker.ASSISTANT, 700)
        assert log.final() == []  # nobody knows yet whose words they are
        log.receive_played(700)
        log.receive_owner(item.id, Speaker.ASSISTANT)
        (moved,) = log.draft()
        assert (moved.id, moved.speaker) == (item.id, Speaker.ASSISTANT)
        assert moved.rev > item.rev

    def test_words_that_were_ours_after_all_go_where_they_belong(self) -> None:
        log = Transcript()
        log.receive_output("I found three", 0, 900)
        log.receive_input("three", 600, 900, certain=False)
        log.receive_played(900)
        heard = next(item for item in log.draft() if item.speaker is Speaker.USER)
        log.receive_owner(heard.id, Speaker.ASSISTANT)
        assert [item.speaker for item in log.draft()] == [Speaker.ASSISTANT]
        assert DraftRemoved(heard.id) in log.events()

    def test_several_changes_are_told_as_one(self) -> None:
        log = Transcript()
        for n in range(50):
            log.receive_input("x" * n, 0, 20 * n, final=False)
        (changed,) = log.events()
        assert isinstance(changed, DraftChanged)
        assert changed.item.text == "x" * 49


class TestHeardNotGenerated:
    def test_a_reply_that_was_interrupted_holds_only_what_was_played(self) -> None:
        log = Transcript()
        say_reply(log, 1000)
        log.receive_played(2000)
        log.receive_cancelled(2000)
        (item,) = log.final()
        assert (item.text, item.ahead) == ("Okay. I found", "")
        assert (item.start_ms, item.end_ms, item.played_ms) == (1000, 1900, 900)

    def test_nothing_played_is_no_message(self) -> None:
        """An interruption before the first frame: deleted, not cut to zero."""
        log = Transcript()
        say_reply(log, 1000)
        (item,) = log.draft()
        log.receive_cancelled(1000)
        assert log.final() == log.draft() == []
        assert log.events() == [DraftRemoved(item.id)]

    def test_nothing_is_final_before_it_was_played(self) -> None:
        log = Transcript()
        end_ms = say_reply(log, 1000)
        log.advance(end_ms + 5000)  # playout starves
        assert log.final() == []
        play(log, end_ms + 5000)
        assert texts(log.final()) == [("assistant", " ".join(REPLY))]

    def test_text_of_an_epoch_that_is_over_is_discarded(self) -> None:
        log = Transcript()
        log.receive_output("Okay.", 0, 300, epoch=0)
        log.receive_played(300)
        log.receive_cancelled(300, epoch=1)
        log.receive_output("I found three flights.", 300, 1500, epoch=0)
        log.receive_output("Sorry?", 600, 900, epoch=1)
        play(log, 3000)
        assert [item.text for item in log.final()] == ["Okay.", "Sorry?"]
        assert log.discarded == 1

    def test_output_that_was_held_sounds_later(self) -> None:
        log = Transcript()
        say_reply(log, 0)
        log.receive_played(600)
        log.receive_held(600, 500)
        log.receive_played(1399)
        log.receive_cancelled(1399)
        assert [item.text for item in log.final()] == ["Okay. I"]

    def test_a_clause_is_divided_by_the_length_of_its_words(self) -> None:
        log = Transcript()
        log.receive_output("I found three flights", 0, 1800)
        log.receive_played(900)
        log.receive_cancelled(900)
        assert [item.text for item in log.final()] == ["I found"]


class TestFloor:
    def test_who_takes_the_floor_completes_what_the_other_said(self) -> None:
        log = Transcript()
        log.receive_input("what time is it", 0, 900)
        log.receive_floor(Speaker.ASSISTANT, 1100)
        assert texts(log.final()) == [("user", "what time is it")]

    def test_one_word_waits_for_the_gap(self) -> None:
        log = Transcript()
        log.receive_input("well", 0, 300)
        log.receive_floor(Speaker.ASSISTANT, 500)
        assert log.final() == []
        log.receive_input("what time is it", 600, 1400)
        log.advance(2200)
        assert texts(log.final()) == [("user", "well what time is it")]

    def test_a_guess_is_not_completed_by_it(self) -> None:
        log = Transcript()
        log.receive_input("what time is", 0, 900, final=False)
        log.receive_floor(Speaker.ASSISTANT, 1100)
        assert log.final() == []


class TestOverlap:
    def test_the_users_acknowledgement_is_a_note_in_our_message(self) -> None:
        log = Transcript()
        end_ms = say_reply(log, 0)
        play(log, 800)
        log.receive_input("mm-hm", 600, 900)
        play(log, end_ms + 1000)
        (item,) = log.final()
        assert item.text == " ".join(REPLY)
        (note,) = item.overlaps
        assert (note.speaker, note.text, note.start_ms) == (Speaker.USER, "mm-hm", 600)
        assert note.item_id is None

    def test_our_own_acknowledgement_is_a_note_in_the_users_message(self) -> None:
        log = Transcript()
        log.receive_input("first I went", 0, 1000)
        log.receive_output("I see.", 1000, 1600)
        log.receive_input("to the shop and", 1200, 2400)
        play(log, 2400)
        log.receive_input("then home", 2400, 3200)
        play(log, 5000)
        (item,) = log.final()
        assert item.text == "first I went to the shop and then home"
        (note,) = item.overlaps
        assert (note.speaker, note.text) == (Speaker.ASSISTANT, "I see.")

    def test_an_interjection_does_not_tear_our_message(self) -> None:
        log = Transcript()
        end_ms = say_reply(log, 0)
        play(log, 800)
        log.receive_input("that is rather expensive", 700, 1500)
        play(log, end_ms + 1000)
        ours, theirs = log.final()
        assert texts([ours, theirs]) == [
            ("assistant", " ".join(REPLY)),
            ("user", "that is rather expensive"),
        ]
        (note,) = ours.overlaps
        assert (note.item_id, note.text) == (theirs.id, "that is rather expensive")
        assert theirs.overlaps == ()

    def test_an_interruption_keeps_both_sides_words(self) -> None:
        log = Transcript()
        say_reply(log, 0)
        play(log, 1200)
        log.receive_input("stop wait", 900, 1500)
        log.receive_cancelled(1200)
        log.advance(3000)
        assert texts(log.final()) == [("assistant", "Okay. I found three"), ("user", "stop wait")]


def test_the_log_is_in_order_of_beginning() -> None:
    log = Transcript()
    end_ms = say_reply(log, 0)
    log.receive_input("are you sure about that", 300, 900)
    play(log, 1800)
    assert log.final() == []  # ours began first and is not over
    play(log, end_ms + 900)
    assert [item.start_ms for item in log.final()] == [0, 300]


def test_what_was_heard_at_the_end_of_a_session_is_final() -> None:
    log = Transcript()
    log.receive_input("what time", 0, 500, final=False)
    say_reply(log, 600)
    log.receive_played(1000)
    log.finish(1000)
    assert texts(log.final()) == [("user", "what time"), ("assistant", "Okay.")]
    assert log.draft() == log.final()


@pytest.mark.slow
def test_an_hour_of_talk_leaves_the_draft_bounded() -> None:
    log = Transcript(TranscriptConfig(final_items=64))
    largest = told = 0
    for start in range(0, 3_600_000, 4000):
        log.receive_input("what is", start, start + 500, final=False)
        log.receive_input("what is the time", start, start + 900)
        say_reply(log, start + 1200)
        if start % 12_000 == 0:
            log.receive_input("mm-hm", start + 1500, start + 1800)
        for now in range(start, start + 4000, 200):
            log.receive_played(now)
            log.advance(now)
        largest = max(largest, len(log.draft()))
        told += sum(isinstance(event, Committed) for event in log.events())
    log.finish(3_600_000)
    assert largest <= 32 + 4
    assert log.committed == 1800
    told += sum(isinstance(event, Committed) for event in log.events())
    assert told == 1800
    assert len(log.final()) == 64


@pytest.mark.slow
def test_talk_without_any_gap_or_playout_is_bounded_too() -> None:
    log = Transcript()
    for now in range(0, 300_000, 200):
        log.receive_input("and", now, now + 200)
        log.receive_output("well", now, now + 200)
        log.advance(now)
        log.events()
    assert len(log.draft()) <= 32 + 32 + 2
    assert sum(len(item.text) + len(item.ahead) for item in log.draft()) < 400_000


STEPS = st.lists(
    st.tuples(
        st.sampled_from(["in", "guess", "out", "play", "held", "cancel", "floor", "owner", "wait"]),
        st.integers(0, 3000),
        st.sampled_from(["", "yes", "mm-hm", "three flights to Rome", "x" * 50]),
    ),
    max_size=60,
)


@pytest.mark.slow
@settings(max_examples=120, deadline=None)
@given(STEPS)
def test_ids_are_stable_and_the_log_only_grows(steps: list[tuple[str, int, str]]) -> None:
    log = Transcript(TranscriptConfig(utterance_ms=5000, pending=6))
    now = 0
    before: list[Item] = []
    revs: dict[str, int] = {}
    gone: set[str] = set()
    for what, ms, text in steps:
        if what in ("in", "guess"):
            log.receive_input(text, now, now + ms, final=what == "in", certain=ms % 3 > 0)
        elif what == "out":
            log.receive_output(text, now + ms % 500, now + ms, epoch=ms % 2)
        elif what == "play":
            log.receive_played(now + ms)
        elif what == "held":
            log.receive_held(now, ms)
        elif what == "cancel":
            log.receive_cancelled(now, epoch=ms % 2)
        elif what == "floor":
            log.receive_floor(list(Speaker)[ms % 2], now)
        elif what == "owner" and log.draft():
            log.receive_owner(log.draft()[-1].id, list(Speaker)[ms % 2])
        else:
            now += ms
            log.advance(now)
        after = log.final()
        assert after[: len(before)] == before
        before = after
        draft = log.draft()
        assert len({item.id for item in draft}) == len(draft)
        assert len(draft) <= 32 + 8
        for event in log.events():
            if isinstance(event, DraftRemoved):
                gone.add(event.id)
                continue
            assert event.item.id not in gone
            assert event.item.rev > revs.get(event.item.id, 0)
            revs[event.item.id] = event.item.rev
            assert not (isinstance(event, Committed) and event.item.ahead)
            if isinstance(event, Committed):
                assert event.item.text
                gone.add(event.item.id)
    log.finish(now)
    assert all(item.final for item in log.draft())
