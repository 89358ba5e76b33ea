"""The talker answers to what was heard: each line is as the ears write it."""

from __future__ import annotations

from datetime import datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from voice_backend.models.heard import MOST_NOTES
from voice_backend.models.talker import MOST_TEXT, Talker

NOW = datetime(2026, 11, 30, 16, 7)


def talker(*, delegates: bool = False) -> Talker:
    return Talker(lambda: NOW, delegates=delegates)


@pytest.mark.parametrize(
    ("heard", "answer"),
    [
        ("What time is it?", "It is four oh seven in the afternoon."),
        ("What day is it tomorrow?", "Tomorrow is Tuesday, December first, twenty twenty-six."),
        ("Count from one to five, please.", "One, two, three, four, five."),
        ("Can you count backwards from 5 to 3?", "Five, four, three."),
        ("Count down from three.", "Three, two, one."),
        ("What is seven times eight?", "Seven times eight is fifty-six."),
        ("What's 12 plus 5 times 2?", "Twelve plus five times two is twenty-two."),
        ("What is 15% of 80?", "Fifteen percent of eighty is twelve."),
        ("The square root of 144.", "The square root of one hundred and forty-four is twelve."),
        ("Ten divided by zero", "Ten divided by zero? I am afraid nothing can be divided by zero."),
        ("Which is bigger, seven or nine?", "Nine is bigger."),
        ("Stop.", "Okay."),
        ("Hold on a second.", "Sure, take your time."),
        ("How do you spell rhythm?", "Rhythm is spelled R, H, Y, T, H, M."),
        ("Please repeat after me: the rain in Spain.", "The rain in Spain."),
        ("Hello.", "Hello. What can I do for you?"),
        ("Say that again.", "I have not said anything yet."),
        ("Tell me about the moon.", "You would like me to tell you about the moon."),
        ("What is the capital of France?", "You asked what the capital of France is."),
        ("How many people live in Oslo?", "You asked how many people live in Oslo."),
        ("Is it raining?", "You asked whether it is raining."),
        ("I want to fly to Paris on Friday.", "So you want to fly to Paris on Friday."),
        ("Okay, I found my keys.", "So you found your keys."),
    ],
)
def test_an_answer_to_what_was_said(heard: str, answer: str) -> None:
    assert talker().answer(heard).text.startswith(answer)


def test_it_remembers_names_and_notes() -> None:
    voice = talker()
    assert voice.answer("What is my name?").text == "You have not told me your name yet."
    assert voice.answer("My name is Ada.").text == "Nice to meet you, Ada."
    assert voice.answer("What's my name?").text == "You are Ada."
    voice.answer("Remember that my keys are under the mat.")
    recalled = voice.answer("What did I ask you to remember?").text
    assert recalled == "I remember that your keys are under the mat."
    for number in range(100):
        voice.answer(f"Remember that door {number} is open.")
    assert len(voice.memory.notes) == MOST_NOTES


def test_it_repeats_itself_and_the_user() -> None:
    voice = talker()
    said = voice.answer("What is two plus two?").text
    assert voice.answer("Sorry, could you repeat that?").text == said
    voice.answer("The garden is green.")
    assert voice.answer("What did I just say?").text == "You said: The garden is green."


def test_work_that_can_be_given_away_is() -> None:
    voice = talker(delegates=True)
    asked = voice.answer("What is the capital of France?")
    assert asked.delegate
    assert asked.text == "Let me find out what the capital of France is."
    assert voice.answer("Book a table for two.").delegate
    assert not voice.answer("What is two plus two?").delegate


@pytest.mark.parametrize("nothing", ["", " ", "...", "?!"])
def test_nothing_is_said_to_nothing(nothing: str) -> None:
    assert talker().answer(nothing).text == ""


@given(st.text(max_size=300))
def test_any_text_is_answered_within_bounds(text: str) -> None:
    voice = talker()
    assert len(voice.answer(text).text) < 2 * MOST_TEXT
    assert len(voice.answer(text * 3).text) < 2 * MOST_TEXT
