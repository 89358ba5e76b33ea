"""What clients want of a session whose voice is not open yet, and what they are told of it.

    wish ─▶ held ─┐
                  ├─ session.started ─▶ done, and told, in the order in which it came
    answer ───────┤
    sound ────────┘                     then heard: as much of it as is not too old

Owned by `session`; pure.
"""

from __future__ import annotations

from collections import deque
from typing import Final

from voice_backend.live.commands import Command, Hear, Mute
from voice_backend.live.server_events import ServerEvent
from voice_backend.live.shapes import AudioFormat
from voice_backend.live.sound import octets_per_s

MAX_HELD: Final = 64
"""Wishes that wait for a voice to open, and twice as many answers."""


class Waiting:
    """Held until the voice is open; then it is empty for good."""

    __slots__ = (
        "_answers", "_commands", "_most_s", "_muted", "_octets", "_sounds", "dropped_ms",
    )  # fmt: skip

    def __init__(self, most_s: float) -> None:
        """Keep `most_s` seconds of sound."""
        self._commands: list[Command] = []
        self._answers: deque[ServerEvent] = deque(maxlen=2 * MAX_HELD)
        self._sounds: deque[bytes] = deque()
        self._octets = 0
        self._most_s = most_s
        self._muted = False
        self.dropped_ms = 0.0
        """Sound that has become too old."""

    def hold(self, command: Command) -> bool:
        """Keep a wish; returns False when there are too many."""
        if len(self._commands) >= MAX_HELD:
            return False
        self._commands.append(command)
        if isinstance(command, Mute):
            self._muted = command.muted
        return True

    def hear(self, sound: bytes, given: AudioFormat | None) -> None:
        """Keep a piece of sound of a format, and of all pieces what came last."""
        if self._muted or not sound:
            return
        rate = octets_per_s(given)
        self._sounds.append(sound)
        self._octets += len(sound)
        # both bytes of a sample stay together
        over = self._octets - int(self._most_s * rate) // 2 * 2
        self._octets -= max(over, 0)
        self.dropped_ms += max(over, 0) * 1000 / rate
        while over > 0:
            first = self._sounds.popleft()
            if len(first) > over:
                self._sounds.appendleft(first[over:])
            over -= len(first)

    def answer(self, event: ServerEvent) -> None:
        """Keep what a client is to be told: it learns first that the session runs."""
        self._answers.append(event)

    def release(self) -> tuple[list[Command], list[ServerEvent]]:
        """Return everything, and be empty."""
        heard = [Hear(sound, early=True) for sound in self._sounds]
        found = [*self._commands, *heard], list(self._answers)
        self._commands, self._octets = [], 0
        self._answers.clear()
        self._sounds.clear()
        return found
