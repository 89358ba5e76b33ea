"""What clients want of a session whose voice is not open yet, and what they are told of it.

    wish ─▶ held ─┐
                  ├─ session.started ─▶ done, and told, in the order in which it came
    answer ───────┘

Owned by `session`; pure.
"""

from __future__ import annotations

from collections import deque
from typing import Final

from voice_backend.live.commands import Command
from voice_backend.live.server_events import ServerEvent

MAX_HELD: Final = 64
"""Wishes that wait for a voice to open, and twice as many answers."""


class Waiting:
    """Held until the voice is open; then it is empty for good."""

    __slots__ = ("_answers", "_commands")

    def __init__(self) -> None:
        self._commands: list[Command] = []
        self._answers: deque[ServerEvent] = deque(maxlen=2 * MAX_HELD)

    def hold(self, command: Command) -> bool:
        """Keep a wish; returns False when there are too many."""
        if len(self._commands) >= MAX_HELD:
            return False
        self._commands.append(command)
        return True

    def answer(self, event: ServerEvent) -> None:
        """Keep what a client is to be told: it learns first that the session runs."""
        self._answers.append(event)

    def release(self) -> tuple[list[Command], list[ServerEvent]]:
        """Return everything, and be empty."""
        found = self._commands, list(self._answers)
        self._commands = []
        self._answers.clear()
        return found
