"""Enums that are cheap as keys, and the table that counts by them.

`enum.Enum` hashes the member's name in Python at every look-up; states, inputs and timer reasons
are looked up all the time. Members are unique, so that their identity serves as well.
"""

from __future__ import annotations

import enum
from typing import TypeVar

_Reason = TypeVar("_Reason", bound=enum.Enum)


class Name(enum.Enum):
    """An `enum.Enum` of texts whose members hash by identity."""

    __hash__ = object.__hash__

    def __init__(self, text: str) -> None:
        # a plain attribute: `value` goes through two functions written in Python
        self.text = text


class Counts(dict[_Reason, int]):
    """How often each reason occurred; 0 for those that never did.

    `collections.Counter` does more and takes ten times as long to make; every session has several.
    """

    __slots__ = ()

    def __missing__(self, reason: _Reason) -> int:
        return 0
