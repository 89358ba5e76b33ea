"""Sums that were said aloud: "what is seven times eight", "half of ninety", "12 plus 5 minus 3"."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import isqrt
from typing import Final

from voice_backend.models.numbers import MOST, read_number, spoken

_OPERATORS: Final = {
    ("plus",): "plus", ("and",): "plus", ("+",): "plus", ("added", "to"): "plus",
    ("minus",): "minus", ("less",): "minus", ("take", "away"): "minus",
    ("times",): "times", ("multiplied", "by"): "times", ("*",): "times", ("×",): "times",
    ("x",): "times",
    ("divided", "by"): "divided by", ("over",): "divided by", ("/",): "divided by",
    ("÷",): "divided by",
    ("to", "the", "power", "of"): "to the power of",
}  # fmt: skip
_BEFORE: Final = {
    ("half", "of"): Fraction(1, 2), ("a", "third", "of"): Fraction(1, 3),
    ("a", "quarter", "of"): Fraction(1, 4), ("double",): Fraction(2), ("twice",): Fraction(2),
}  # fmt: skip
MOST_POWER: Final = 40


@dataclass(frozen=True, slots=True)
class Sum:
    """What was asked, in words, and what it comes to; None where that cannot be said."""

    asked: str
    value: Fraction | None
    trouble: str = ""


def find_sum(words: Sequence[str]) -> Sum | None:
    """Return the first sum in the words of `numbers.split`; None if there is none."""
    for at in range(len(words)):
        found = _special(words, at) or _chain(words, at)
        if found is not None:
            return found
    return None


def _special(words: Sequence[str], at: int) -> Sum | None:
    for phrase, factor in _BEFORE.items():
        if _says(words, at, phrase) and (of := read_number(words, at + len(phrase))):
            return Sum(f"{' '.join(phrase)} {spoken(of.value)}", of.value * factor)
    if _says(words, at, ("square", "root", "of")) and (of := read_number(words, at + 3)):
        return _root(of.value)
    number = read_number(words, at)
    if number is None:
        return None
    if _says(words, number.end, ("percent", "of")) and (of := read_number(words, number.end + 2)):
        asked = f"{spoken(number.value)} percent of {spoken(of.value)}"
        return Sum(asked, number.value * of.value / 100)
    for word, power in (("squared", 2), ("cubed", 3)):
        if _says(words, number.end, (word,)):
            return Sum(f"{spoken(number.value)} {word}", _bounded(number.value**power))
    return None


def _root(value: Fraction) -> Sum:
    asked = f"the square root of {spoken(value)}"
    if value < 0:
        return Sum(asked, None, "there is no such number, below zero there are no square roots")
    # as exact as the places that are read out, and exact for squares
    scale = 10**6
    return Sum(asked, Fraction(isqrt(int(value * scale * scale)), scale))


def _chain(words: Sequence[str], at: int) -> Sum | None:
    """Read number, operator, number, operator ...: products first, as everybody learns."""
    number = read_number(words, at)
    if number is None:
        return None
    values, operators, end = [number.value], [], number.end
    while (found := _operator(words, end)) is not None:
        operator, after = found
        number = read_number(words, after)
        if number is None:
            break
        operators.append(operator)
        values.append(number.value)
        end = number.end
    if not operators or (operators == ["plus"] and "and" in words[at:end] and "plus" not in words):
        return None  # "two and three" is a list
    asked = spoken(values[0])
    for operator, value in zip(operators, values[1:], strict=True):
        asked += f" {operator} {spoken(value)}"
    return _reckon(asked, values, operators)


def _operator(words: Sequence[str], at: int) -> tuple[str, int] | None:
    for phrase, operator in _OPERATORS.items():
        if _says(words, at, phrase):
            return operator, at + len(phrase)
    return None


def _reckon(asked: str, values: list[Fraction], operators: list[str]) -> Sum:
    terms, signs = [values[0]], [1]
    for operator, value in zip(operators, values[1:], strict=True):
        if operator in ("plus", "minus"):
            terms.append(value)
            signs.append(1 if operator == "plus" else -1)
        elif operator == "times":
            terms[-1] *= value
        elif operator == "divided by":
            if value == 0:
                return Sum(asked, None, "nothing can be divided by zero")
            terms[-1] /= value
        elif value.denominator != 1 or not 0 <= value <= MOST_POWER:
            return Sum(asked, None, "that power is beyond me")
        else:
            terms[-1] **= int(value)
    return Sum(asked, _bounded(sum((t * s for t, s in zip(terms, signs, strict=True)), Fraction())))


def _bounded(value: Fraction) -> Fraction:
    return max(Fraction(-MOST), min(value, Fraction(MOST)))


def _says(words: Sequence[str], at: int, phrase: tuple[str, ...]) -> bool:
    return tuple(words[at : at + len(phrase)]) == phrase
