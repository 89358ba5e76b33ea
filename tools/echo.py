"""The answering party: a spoken greeting, then everything that is said, decoded and encoded again.

What is said while the greeting plays waits behind it; silence before the first word does not, so
that a caller who lets the greeting end hears the echo without delay.
"""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING

import numpy as np

from voice_backend.audio import OpusEncoder
from warp_tools.audio import packaged_sound
from warp_tools.hearing import Hearing
from warp_tools.opus import FRAME_SAMPLES, Samples, encoded

if TYPE_CHECKING:
    from warp.io import Session

MAX_BEHIND_MS = 30_000
"""What is said further behind than this is not echoed."""
_AUDIBLE = 150
"""Peak of a frame (int16) that counts as a word; silence after Opus stays below."""
_CAUGHT_UP_MS = 40


def greeting(sound: str = "greeting") -> tuple[bytes, ...]:
    """A packaged sound as Opus payloads, encoded once a process."""
    return _payloads(sound)


@functools.cache  # behind a default argument: with it and without are two keys
def _payloads(sound: str) -> tuple[bytes, ...]:
    return tuple(encoded(packaged_sound(sound)))


def greet(session: Session, sound: str = "greeting") -> None:
    """Say a packaged sound, the same to everybody: it may leave before the caller is known."""
    for payload in greeting(sound):
        session.audio_out.send(payload, non_personal=True)


class Echo:
    """Answers one session. Somebody calls `handle_tick` every 20 ms."""

    __slots__ = ("_encoder", "_hearing", "_rest", "_session", "_spoken", "dropped", "echoed")

    def __init__(self, session: Session) -> None:
        self._session = session
        self._hearing = Hearing()
        self._encoder = OpusEncoder()
        self._rest = np.zeros(0, np.int16)
        self._spoken = False
        self.echoed = 0
        self.dropped = 0

    def handle_tick(self, now: float) -> None:
        """Echo what has come in since the last tick."""
        for frame in self._session.audio_in.take():
            samples = self._hearing.hear(frame)
            if len(samples):
                self._say(np.concatenate([self._rest, samples]))

    def _say(self, samples: Samples) -> None:
        whole = len(samples) // FRAME_SAMPLES * FRAME_SAMPLES
        self._rest = samples[whole:]
        out = self._session.audio_out
        for at in range(0, whole, FRAME_SAMPLES):
            frame = samples[at : at + FRAME_SAMPLES]
            # one word is enough: from then on pauses belong to what is said
            self._spoken = self._spoken or int(np.abs(frame).max()) > _AUDIBLE
            behind = out.queued_ms
            if behind > MAX_BEHIND_MS or (not self._spoken and behind > _CAUGHT_UP_MS):
                self.dropped += 1
                continue
            out.send(self._encoder.encode(frame))
            self.echoed += 1
