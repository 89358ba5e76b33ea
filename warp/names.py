"""Enums that are cheap as keys: states, inputs and timer reasons are looked up all the time.

`enum.Enum` hashes the member's name in Python at every look-up; members are unique, so that their
identity serves as well.
"""

from __future__ import annotations

import enum


class Name(enum.Enum):
    """An `enum.Enum` whose members hash by identity."""

    __hash__ = object.__hash__
