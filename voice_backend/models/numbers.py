"""Numbers as they are spoken: words from numbers, and numbers from words."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Final

SMALL: Final = (
    "zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten",
    "eleven", "twelve", "thirteen", "fourteen", "fifteen", "sixteen", "seventeen", "eighteen",
    "nineteen",
)  # fmt: skip
TENS: Final = (
    "twenty", "thirty", "forty", "fifty", "sixty", "seventy", "eighty", "ninety",
)  # fmt: skip
SCALES: Final = ((10**12, "trillion"), (10**9, "billion"), (10**6, "million"), (1000, "thousand"))
MOST: Final = 10**15
"""Numbers from here on are not read out."""
PLACES: Final = 3
"""Digits after the point that are read out."""
_VALUES: Final = {word: value for value, word in enumerate(SMALL)} | {
    word: 20 + 10 * at for at, word in enumerate(TENS)
}
_SCALES: Final = {"hundred": 100} | {word: value for value, word in SCALES}
_DIGITS = re.compile(r"\d{1,3}(?:,\d{3})+(?:\.\d+)?|\d+(?:\.\d+)?")
MOST_DIGITS: Final = 15


@dataclass(frozen=True, slots=True)
class Number:
    """A number in a row of words: its value, and where it ends."""

    value: Fraction
    end: int


def spoken(value: Fraction | int) -> str:
    """Return a number in words; the places after the point are cut off after three."""
    value = Fraction(value)
    if value < 0:
        return f"minus {spoken(-value)}"
    if value >= MOST:
        return "a number too long to say"
    whole, rest = divmod(value, 1)
    text = _whole(int(whole))
    if not rest:
        return text
    scaled = round(rest * 10**PLACES)
    if scaled == 0:
        return f"about {text}"
    if scaled == 10**PLACES:
        return f"about {_whole(int(whole) + 1)}"
    digits = f"{scaled:0{PLACES}d}".rstrip("0")
    exact = rest * 10 ** len(digits) % 1 == 0
    return ("" if exact else "about ") + f"{text} point " + " ".join(SMALL[int(d)] for d in digits)


def _whole(value: int) -> str:
    for scale, name in SCALES:
        if value >= scale:
            many, rest = divmod(value, scale)
            joint = " and " if 0 < rest < 100 else " "
            return f"{_whole(many)} {name}" + (joint + _whole(rest) if rest else "")
    if value >= 100:
        many, rest = divmod(value, 100)
        return f"{SMALL[many]} hundred" + (f" and {_whole(rest)}" if rest else "")
    if value >= 20:
        tens, ones = divmod(value, 10)
        return TENS[tens - 2] + (f"-{SMALL[ones]}" if ones else "")
    return SMALL[value]


def read_number(words: Sequence[str], at: int = 0) -> Number | None:
    """Return the number that begins at `words[at]`, in digits or in words; None if none does.

    Words are lower case, without punctuation but the point and the comma inside of digits.
    """
    if at >= len(words):
        return None
    negative = words[at] in ("minus", "negative")
    begin = at + 1 if negative else at
    if tuple(words[begin : begin + 1]) == ("a",) and begin + 1 < len(words):
        number = (
            _read_words(("one", *words[begin + 1 :]), 0) if words[begin + 1] in _SCALES else None
        )
        if number is None:
            return None
        number = Number(number.value, number.end + begin)
    else:
        number = _read_digits(words, begin) or _read_words(words, begin)
    if number is None:
        return None
    return Number(-number.value if negative else number.value, number.end)


def _read_digits(words: Sequence[str], at: int) -> Number | None:
    if at >= len(words) or len(words[at]) > MOST_DIGITS or not _DIGITS.fullmatch(words[at]):
        return None
    value, end = Fraction(words[at].replace(",", "")), at + 1
    while end < len(words) and words[end] in _SCALES:
        value *= _SCALES[words[end]]
        end += 1
    return Number(value, end)


def _read_words(words: Sequence[str], at: int) -> Number | None:
    total, current, end, seen = 0, 0, at, False
    last = 100
    while end < len(words):
        word = words[end]
        if (
            word in _VALUES
            and not (seen and last < 20)
            and not (_VALUES[word] >= 20 and last < 100)
        ):
            last = _VALUES[word] or 1
            current += _VALUES[word]
        elif word in _SCALES and seen:
            if word == "hundred":
                current *= 100
            else:
                total, current = total + current * _SCALES[word], 0
            last = 100
        elif not (word == "and" and seen and last == 100 and _continues(words, end)):
            break
        seen, end = True, end + 1
    if not seen:
        return None
    value = Fraction(total + current)
    if end + 1 < len(words) and words[end] == "point" and _digit(words[end + 1]) is not None:
        end, place = end + 1, Fraction(1, 10)
        while end < len(words) and (digit := _digit(words[end])) is not None:
            value, place, end = value + digit * place, place / 10, end + 1
    return Number(value, end)


def _continues(words: Sequence[str], at: int) -> bool:
    """Tell whether "and" is inside of a number: "two hundred and five"."""
    return words[at - 1] in _SCALES and at + 1 < len(words) and words[at + 1] in _VALUES


def _digit(word: str) -> int | None:
    value = _VALUES.get("zero" if word == "oh" else word, 10)
    return value if value < 10 else None


def split(text: str) -> list[str]:
    """Return a text's words in lower case; a hyphen parts them, signs between digits are words."""
    text = re.sub(r"(?<=\d)\s*([+*/×÷=])\s*(?=\d)", r" \1 ", text.lower())
    text = re.sub(r"(?<=\d)\s+-\s*(?=\d)", " minus ", text)
    text = text.replace("’", "'").replace("%", " percent ")
    return re.findall(r"\d+(?:[.,]\d+)*|[^\W\d_]+(?:'[^\W\d_]+)*|[+*/×÷=]", text)
