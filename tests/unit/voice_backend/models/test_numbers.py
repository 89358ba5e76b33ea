"""Numbers in words, there and back."""

from __future__ import annotations

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from voice_backend.models.numbers import MOST, read_number, split, spoken


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0, "zero"),
        (21, "twenty-one"),
        (105, "one hundred and five"),
        (1234, "one thousand two hundred and thirty-four"),
        (-4, "minus four"),
        (Fraction(314, 100), "three point one four"),
        (Fraction(1, 3), "about zero point three three three"),
        (Fraction(2, 1_000_000), "about zero"),
        (Fraction(29_999_999, 10_000_000), "about three"),
        (MOST, "a number too long to say"),
    ],
)
def test_a_number_is_spoken(value: Fraction | int, text: str) -> None:
    assert spoken(value) == text


@given(st.integers(-MOST + 1, MOST - 1))
def test_what_is_spoken_is_understood(value: int) -> None:
    words = split(spoken(value))
    number = read_number(words)
    assert number is not None
    assert (number.value, number.end) == (value, len(words))


@pytest.mark.parametrize(
    ("text", "value", "rest"),
    [
        ("1,250 people", 1250, "people"),
        ("3.5", Fraction(7, 2), ""),
        ("two hundred and five apples", 205, "apples"),
        ("five and six", 5, "and six"),
        ("a million things", 10**6, "things"),
        ("three point one four", Fraction(314, 100), ""),
        ("one two three", 1, "two three"),
        ("twenty thirty", 20, "thirty"),
        ("2 million", 2_000_000, ""),
    ],
)
def test_where_a_number_ends(text: str, value: Fraction | int, rest: str) -> None:
    words = split(text)
    number = read_number(words)
    assert number is not None
    assert number.value == value
    assert " ".join(words[number.end :]) == rest


@given(st.text(max_size=60))
def test_any_text_is_read_without_complaint(text: str) -> None:
    words = split(text)
    for at in range(len(words)):
        number = read_number(words, at)
        assert number is None or at < number.end <= len(words)
