"""Text cut into what is spoken at one go: a reply begins with a short clause, to begin soon.

"Sure. Seven times eight is fifty-six, if that is what you meant."
──▶ "Sure."  "Seven times eight is fifty-six,"  "if that is what you meant."
"""

from __future__ import annotations

import re
from typing import Final

MOST_CHARACTERS: Final = 90
"""A longer clause is cut at a space: it would take the mouth too long at one go."""
FEWEST_CHARACTERS: Final = 14
"""A shorter piece of a sentence goes along with its neighbour."""
_SENTENCE = re.compile(r"(?<=[.!?…])[\"')\]]*\s+")
_BREAK = re.compile(r"(?<=[,;:—])\s+")


def clauses(text: str) -> list[str]:
    """Return the clauses of a text in order; whitespace between them is one space."""
    found: list[str] = []
    for sentence in _SENTENCE.split(" ".join(text.split())):
        if sentence:
            found += _pieces(sentence)
    return found


def _pieces(sentence: str) -> list[str]:
    pieces: list[str] = []
    for part in _BREAK.split(sentence):
        if pieces and min(len(part), len(pieces[-1])) < FEWEST_CHARACTERS:
            pieces[-1] = f"{pieces[-1]} {part}"
        else:
            pieces.append(part)
    return [cut for piece in pieces for cut in _cut(piece)]


def _cut(piece: str) -> list[str]:
    cuts = []
    while len(piece) > MOST_CHARACTERS:
        at = piece.rfind(" ", 0, MOST_CHARACTERS)
        at = at if at > 0 else MOST_CHARACTERS
        cuts.append(piece[:at])
        piece = piece[at:].lstrip()
    if piece:
        cuts.append(piece)
    return cuts
