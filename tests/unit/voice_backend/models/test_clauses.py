"""Clauses: short ones first, nothing lost."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from voice_backend.models.clauses import MOST_CHARACTERS, clauses


def test_a_reply_begins_with_its_first_sentence() -> None:
    assert clauses("Sure. Seven times eight is fifty-six, if that is what you meant.") == [
        "Sure.",
        "Seven times eight is fifty-six,",
        "if that is what you meant.",
    ]


def test_short_pieces_stay_together() -> None:
    assert clauses("Yes, of course, I can.") == ["Yes, of course, I can."]
    assert clauses("One, two, three, four, five.") == ["One, two, three, four, five."]


@given(st.text(alphabet="ab ,.;!?\n", max_size=400))
def test_nothing_is_lost_or_too_long(text: str) -> None:
    found = clauses(text)
    assert all(0 < len(clause) <= MOST_CHARACTERS for clause in found)
    assert "".join("".join(found).split()) == "".join(text.split())
