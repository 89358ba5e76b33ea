"""A greeting that sounds already when a conversation begins, played by somebody else.

It is speech of ours: who talks into it takes the floor as from any other, and then it is cut. It
cannot be held and go on: nobody misses the rest of a greeting.
Called by `conversation`; pure.
"""

from __future__ import annotations


class Greeting:
    """One conversation's; `length_ms` of media time from its beginning, 0: there is none."""

    __slots__ = ("_until_ms", "pending")

    def __init__(self, length_ms: int) -> None:
        self._until_ms = length_ms
        self.pending = False
        """Whether it was cut, and why the user spoke is yet to be understood."""

    def sounds(self, at_ms: int) -> bool:
        """Tell whether it sounds in the frame that begins at `at_ms`."""
        return at_ms < self._until_ms

    def cut(self, at_ms: int, *, pending: bool = False) -> bool:
        """Have it end; returns whether anything of it was left."""
        sounded = self.sounds(at_ms)
        self.pending = pending and sounded
        if sounded:
            self._until_ms = at_ms
        return sounded
